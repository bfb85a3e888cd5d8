//! What a live kernel does with its pagesets, counted and not recorded.
//!
//! The kernel counts tracepoints for us, one counter a CPU and order (`perf_event_open`); nothing is written to a ring
//! buffer and nothing of the machine is changed, so there is nothing to put back however this process ends.

use std::ffi::CString;
use std::fs;
use std::io;

use perf_event_open::config::{Cpu, Opts, Proc};
use perf_event_open::count::Counter;
use perf_event_open::event::tp::Tracepoint;

use crate::record::RecordError;
use crate::record::tracefs::Tracefs;

/// What one CPU has done since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The CPU.
    pub cpu: u32,
    /// Pages taken from the free lists for requests of the orders that pagesets cache: `mm_page_alloc_zone_locked` of
    /// orders 0 to 3 and of pageblocks. Pages got from another migratetype's pageblocks are not among them.
    pub refill_pages: u64,
    /// Pages that this CPU gave back from pagesets: `mm_page_pcpu_drain`.
    pub drain_pages: u64,
    /// Blocks of orders 1 to 3 among those drained.
    pub high_order_drains: u64,
    /// Blocks taken from another migratetype's pageblocks: `mm_page_alloc_extfrag`.
    pub fallbacks: u64,
}

/// The orders that pagesets cache, on x86-64 with huge pages. Specification: `linux-page-allocator.md` 9.
const ORDERS: [u32; 5] = [0, 1, 2, 3, 9];

/// Where a counter's events are added.
#[derive(Clone, Copy, Debug)]
enum Sum {
    Refill(u32),
    Drain(u32),
    Fallback,
}

/// A tracepoint of the kernel's, its number, and whether counting by order was asked for.
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
pub struct Counters {
    /// Names and numbers of the tracepoints that this kernel has.
    ids: Vec<(u64, &'static [Sum])>,
    cpus: Vec<(u32, Vec<(Sum, Counter)>)>,
    /// What this kernel cannot count, and why that matters.
    missing: Vec<String>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").field("cpus", &self.cpus.len()).field("missing", &self.missing).finish()
    }
}

impl Counters {
    /// Begins to count on all CPUs that are online.
    ///
    /// # Errors
    /// A privilege or a kernel feature that is missing, with what mends it.
    pub fn start() -> Result<Counters, RecordError> {
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

    /// What this kernel cannot count.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Begins to count on CPUs that came on line, and forgets those that went.
    fn follow_cpus(&mut self) -> Result<(), RecordError> {
        let online = crate::record::machine::online_cpus();
        self.cpus.retain(|(cpu, _)| online.contains(cpu));
        for cpu in online {
            if self.cpus.iter().any(|(known, _)| *known == cpu) {
                continue;
            }
            match open(cpu, &self.ids) {
                Ok(counters) => self.cpus.push((cpu, counters)),
                // It went off line again at this moment.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
                Err(error) => return Err(cannot_count(cpu, error)),
            }
        }
        self.cpus.sort_by_key(|(cpu, _)| *cpu);
        Ok(())
    }

    /// What each CPU has done since its counting began, in the order of their numbers. A CPU that came on line since
    /// the last call counts from now on.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn read(&mut self) -> Result<Vec<Traffic>, RecordError> {
        self.follow_cpus()?;
        let mut all = Vec::with_capacity(self.cpus.len());
        for (cpu, counters) in &self.cpus {
            let mut traffic = Traffic { cpu: *cpu, ..Traffic::default() };
            for (sum, counter) in counters {
                let count = counter.stat().map_err(|error| cannot_count(*cpu, error))?.count;
                match *sum {
                    Sum::Refill(order) => traffic.refill_pages += count << order,
                    Sum::Drain(order) => {
                        traffic.drain_pages += count << order;
                        traffic.high_order_drains += if (1..=3).contains(&order) { count } else { 0 };
                    }
                    Sum::Fallback => traffic.fallbacks += count,
                }
            }
            all.push(traffic);
        }
        Ok(all)
    }
}

/// The counters of one CPU, counting.
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

    /// As root: what is allocated and freed here is counted somewhere.
    #[test]
    fn pages_that_come_and_go_are_counted() {
        let mut counters = match Counters::start() {
            Ok(counters) => counters,
            Err(error) => return println!("SKIPPED pages_that_come_and_go_are_counted: {error}"),
        };
        let sum = |all: &[Traffic]| all.iter().map(|t| t.refill_pages).sum::<u64>();
        let before = sum(&counters.read().unwrap());
        // Far more than any list holds: 1 GiB, touched and kept.
        let memory = vec![1_u8; 1 << 30];
        assert_eq!(std::hint::black_box(&memory).len(), 1 << 30);
        let after = sum(&counters.read().unwrap());
        assert!(after - before > 10_000, "{} pages", after - before);
    }
}
