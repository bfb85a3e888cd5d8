//! Pages and waits by process.

/// The most processes between two reads. What further ones move is [`Processes::lost_pages`]. A guess: the kernel needs
/// about a megabyte for them.
pub const PROCESSES_MAX: u32 = 8192;

/// What the threads of one name moved in one process, between two reads.
///
/// A CPU adds pages in batches: of the last pages that a CPU moved, up to 63 in and 63 out count at a later read.
///
/// The process is the one that the CPU ran. An interrupt works for others, but its pages belong to the process that it
/// interrupts, and on an idle CPU to process 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The process's number in the first PID namespace; 0 for an idle CPU.
    pub pid: u32,
    /// The threads' name, at most 15 bytes: the program's name unless threads have their own.
    pub name: String,
    /// Pages taken from the free lists for requests of cached orders: see [`super::Traffic::refill_pages`].
    pub refill_pages: u64,
    /// Pages drained from pagesets: see [`super::Traffic::drain_pages`].
    pub drain_pages: u64,
    /// The duration of waits for zone locks, if measured. Unit: nanoseconds.
    pub wait_ns: Option<u64>,
}

/// What processes moved between two reads, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// The processes that moved pages or waited.
    pub all: Vec<Process>,
    /// Pages of processes beyond [`PROCESSES_MAX`].
    pub lost_pages: u64,
    /// Waits of processes beyond [`PROCESSES_MAX`]. Unit: nanoseconds.
    pub lost_wait_ns: u64,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::id;

    use super::super::{Counters, Detail, Traffic};
    /// The name of the thread that touches pages.
    const NAME: &str = "page toucher";
    /// 256 MiB at a time.
    const BYTES: usize = 1 << 28;

    /// Pages that the machine has allocated since it started.
    fn allocated() -> u64 {
        let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap();
        let of = |line: &str| line.strip_prefix("pgalloc_")?.split(' ').nth(1)?.parse::<u64>().ok();
        vmstat.lines().filter_map(of).sum()
    }

    /// As root: the pages that a thread touches appear under its process and name, and all processes together moved what
    /// the CPUs moved.
    #[test]
    fn touched_pages_belong_to_the_process() {
        let mut counters = match Counters::start(Detail::Movers, 0) {
            Ok(counters) => counters,
            Err(error) => return println!("SKIPPED touched_pages_belong_to_the_process: {error}"),
        };
        let (before, allocated_before) = (counters.read().unwrap(), allocated());
        let Some(first) = counters.processes().cloned() else {
            return println!("SKIPPED touched_pages_belong_to_the_process: {:?}", counters.missing());
        };
        let (mut touched, mut mine) = (0, 0);
        let mut sums = BTreeMap::new();
        let mut kept = Vec::new();
        // Pagesets may hold an eighth of the memory, and give it without a refill. So what was touched is kept.
        while mine < 50_000 && kept.len() < 8 {
            let touch = || std::hint::black_box(vec![1_u8; BYTES]);
            kept.push(std::thread::Builder::new().name(NAME.to_owned()).spawn(touch).unwrap().join().unwrap());
            touched += BYTES as u64 >> 12;
            let after = counters.read().unwrap();
            let processes = counters.processes().unwrap();
            assert_eq!(processes.lost_pages, 0);
            mine +=
                processes.all.iter().filter(|p| p.pid == id() && p.name == NAME).map(|p| p.refill_pages).sum::<u64>();
            for process in &processes.all {
                *sums.entry("refills").or_insert(0) += process.refill_pages;
                *sums.entry("drains").or_insert(0) += process.drain_pages;
            }
            let grown =
                |of: fn(&Traffic) -> u64| after.iter().map(of).sum::<u64>() - before.iter().map(of).sum::<u64>();
            sums.insert("refills by CPU", grown(|t| t.refill_pages));
            sums.insert("drains by CPU", grown(|t| t.drain_pages));
        }
        // A neighbour may take pages for which the thread refilled its CPU's pageset: then there is no upper bound.
        let of_others = (allocated() - allocated_before).saturating_sub(touched);
        println!("{first:?}\n{sums:?}: {mine} of {touched}, and {of_others} of others");
        // Page tables, what the thread itself needs, and interrupts.
        assert!(mine >= 50_000, "{mine} of {touched} pages");
        if of_others > touched / 20 {
            println!("SKIPPED the upper bound: others allocated {of_others} pages meanwhile");
        } else {
            assert!(mine <= touched + touched / 10, "{mine} of {touched} pages, and {of_others} of others");
        }
        // The CPUs are read before the processes.
        for (by_process, by_cpu) in [("refills", "refills by CPU"), ("drains", "drains by CPU")] {
            let (by_process, by_cpu) = (sums[by_process], sums[by_cpu]);
            assert!(by_process.abs_diff(by_cpu) <= 1000 + by_cpu / 100, "{sums:?}");
        }
    }
}
