//! A recording as a workload: who allocated and freed which block, and how long after what.

use std::collections::HashMap;
use std::path::Path;

use pageset::{MigrateType, Order, Pfn};
use pageset_sim::time::Time;
use pageset_sim::workload::{Call, Recording, Step, Workload};
use pageset_trace::{Kind, Trace, TraceError};

/// Reads a recording of any form.
pub(super) fn workload(file: &Path) -> Result<Workload, TraceError> {
    let trace = Trace::open(file)?;
    let mut spread = Spread::default();
    for event in trace.events()? {
        let event = event?;
        match event.kind {
            Kind::Alloc { pfn: Some(pfn), order, migratetype, .. } => {
                spread.alloc(event.time_ns, event.pid, pfn, order, migratetype);
            }
            Kind::Free { pfn, order } => spread.free(event.time_ns, event.pid, pfn, order),
            _ => {}
        }
    }
    Ok(Workload::recorded(spread.recording))
}

#[derive(Default)]
struct Spread {
    recording: Recording,
    /// A process's place and the time of its last call.
    processes: HashMap<u32, (usize, u64)>,
    /// The blocks in use, by their first pages.
    in_use: HashMap<Pfn, u32>,
}

impl Spread {
    fn alloc(&mut self, time_ns: u64, pid: u32, pfn: Pfn, order: Order, migratetype: u8) {
        let block = self.new_block();
        self.in_use.insert(pfn, block);
        let migratetype = match migratetype {
            0 => MigrateType::Unmovable,
            2 => MigrateType::Reclaimable,
            _ => MigrateType::Movable,
        };
        self.step(time_ns, pid, block, Call::Alloc { order, migratetype });
    }

    fn free(&mut self, time_ns: u64, pid: u32, pfn: Pfn, order: Order) {
        let block = self.in_use.remove(&pfn).unwrap_or_else(|| {
            let block = self.new_block();
            self.recording.in_use.push((block, order));
            block
        });
        self.step(time_ns, pid, block, Call::Free);
    }

    fn new_block(&mut self) -> u32 {
        self.recording.blocks += 1;
        self.recording.blocks - 1
    }

    fn step(&mut self, time_ns: u64, pid: u32, block: u32, call: Call) {
        let processes = &mut self.recording.processes;
        let (place, last_ns) = self.processes.entry(pid).or_insert_with(|| {
            processes.push(Vec::new());
            (processes.len() - 1, time_ns)
        });
        let after = Time::from_ns(time_ns.saturating_sub(*last_ns) as f64);
        *last_ns = time_ns;
        processes[*place].push(Step { after, block, call });
    }
}
