//! Counts tracepoints by `perf_event_open`, with one counter per CPU, event and order. It serves kernels that allow no
//! BPF programs. The counters of all orders see each event, so this costs five times as much as a program.

use std::ffi::CString;
use std::fs;
use std::io;

use perf_event_open::config::{Cpu, Opts, Proc};
use perf_event_open::count::Counter;
use perf_event_open::event::tp::Tracepoint;

use super::{ORDERS, Traffic};
use crate::error::RecordError;
use crate::tracefs::Tracefs;

/// The count to which a counter adds.
#[derive(Clone, Copy, Debug)]
enum Sum {
    Refill(u32),
    Drain(u32),
    Fallback,
}

/// A tracepoint, and the counts of its counters: one for each order, or one for all.
struct Source {
    name: &'static str,
    sums: &'static [Sum],
}

const SOURCES: [Source; 3] = [
    Source {
        name: "mm_page_alloc_zone_locked",
        sums: &[Sum::Refill(0), Sum::Refill(1), Sum::Refill(2), Sum::Refill(3), Sum::Refill(9)],
    },
    Source {
        name: "mm_page_pcpu_drain",
        sums: &[Sum::Drain(0), Sum::Drain(1), Sum::Drain(2), Sum::Drain(3), Sum::Drain(9)],
    },
    Source { name: "mm_page_alloc_extfrag", sums: &[Sum::Fallback] },
];

/// The kernel's counters of every CPU. Dropping it ends the counting.
pub(super) struct Counters {
    /// The numbers of the tracepoints that this kernel has, with their counts.
    ids: Vec<(u64, &'static [Sum])>,
    cpus: Vec<(u32, Vec<(Sum, Counter)>)>,
    /// The tracepoints that this kernel lacks.
    missing: Vec<String>,
}

impl Counters {
    /// Begins to count on all on-line CPUs.
    pub(super) fn start() -> Result<Counters, RecordError> {
        let tracefs = Tracefs::find()?;
        let (mut ids, mut missing) = (Vec::new(), Vec::new());
        for source in &SOURCES {
            let path = tracefs.event("kmem", source.name).join("id");
            match fs::read_to_string(&path).ok().and_then(|id| id.trim().parse().ok()) {
                Some(id) => ids.push((id, source.sums)),
                None => missing.push(format!("the kernel has no event kmem:{}", source.name)),
            }
        }
        let mut counters = Counters { ids, cpus: Vec::new(), missing };
        counters.follow_cpus()?;
        Ok(counters)
    }

    /// The tracepoints that this kernel lacks.
    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Begins to count on new on-line CPUs, and drops the counters of off-line ones.
    fn follow_cpus(&mut self) -> Result<(), RecordError> {
        let online = crate::machine::online_cpus();
        self.cpus.retain(|(cpu, _)| online.contains(cpu));
        for cpu in online {
            if self.cpus.iter().any(|(known, _)| *known == cpu) {
                continue;
            }
            match open(cpu, &self.ids) {
                Ok(counters) => self.cpus.push((cpu, counters)),
                // The CPU went off-line in the meantime.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
                Err(error) => return Err(cannot_count(cpu, error)),
            }
        }
        self.cpus.sort_by_key(|(cpu, _)| *cpu);
        Ok(())
    }

    /// See [`super::Counters::read`].
    pub(super) fn read(&mut self) -> Result<Vec<Traffic>, RecordError> {
        self.follow_cpus()?;
        let mut all = Vec::with_capacity(self.cpus.len());
        for (cpu, counters) in &self.cpus {
            let mut traffic = Traffic { cpu: *cpu, ..Traffic::default() };
            for (sum, counter) in counters {
                let count = counter.stat().map_err(|error| cannot_count(*cpu, error))?.count;
                match *sum {
                    Sum::Refill(order) => traffic.refilled(order, count),
                    Sum::Drain(order) => traffic.drained(order, count),
                    Sum::Fallback => traffic.fallbacks += count,
                }
            }
            all.push(traffic);
        }
        Ok(all)
    }
}

/// Opens and enables the counters of one CPU.
fn open(cpu: u32, ids: &[(u64, &'static [Sum])]) -> io::Result<Vec<(Sum, Counter)>> {
    let mut counters = Vec::new();
    for (id, sums) in ids {
        for sum in *sums {
            let counter = Counter::new(Tracepoint { id: *id }, (Proc::ALL, Cpu(cpu)), Opts::default())?;
            if let Sum::Refill(order) | Sum::Drain(order) = sum {
                debug_assert!(ORDERS.contains(order), "an order that no pageset caches");
                let filter = CString::new(format!("order == {order}"))?;
                counter.with_ftrace_filter(&filter)?;
            }
            counter.enable()?;
            counters.push((*sum, counter));
        }
    }
    Ok(counters)
}

fn cannot_count(cpu: u32, error: io::Error) -> RecordError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => RecordError::Missing {
            what: "no permission to count the kernel's events".to_owned(),
            help: "run as root, or with CAP_PERFMON and tracefs readable".to_owned(),
        },
        _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => RecordError::Missing {
            what: "too many open files: counting takes 11 for each CPU".to_owned(),
            help: "raise the limit: ulimit -n 65536".to_owned(),
        },
        _ => RecordError::Io { what: format!("count events of CPU {cpu}"), source: error, help: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_counted_once_a_source() {
        for source in &SOURCES[..2] {
            let orders: Vec<u32> = source
                .sums
                .iter()
                .map(|sum| match sum {
                    Sum::Refill(order) | Sum::Drain(order) => *order,
                    Sum::Fallback => panic!("a fallback has no order"),
                })
                .collect();
            assert_eq!(orders, ORDERS, "{}", source.name);
        }
    }
}
