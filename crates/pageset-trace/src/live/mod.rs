//! Counts the pageset traffic of a live kernel without a recording.
//!
//! | module | contents |
//! | --- | --- |
//! | `bpf` | counts by BPF programs at the kernel's tracepoints, and times of waits for the zone lock |
//! | `perf` | counts by `perf_event_open`, where BPF programs are not allowed |
//! | `kallsyms` | addresses of kernel functions |
//! | [`times`] | classes of duration, and percentiles |
//!
//! Neither way writes to a ring buffer or changes the machine. The kernel ends the counting when this process ends, in
//! any way.

mod bpf;
mod kallsyms;
mod perf;
pub mod times;

pub use self::times::WaitTimes;
use crate::record::RecordError;
pub use crate::record::machine::cpu_nodes;

/// The traffic of one CPU since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The CPU.
    pub cpu: u32,
    /// Pages taken from the free lists for requests of cached orders: `mm_page_alloc_zone_locked` of orders 0 to 3 and
    /// of pageblocks. Pages from pageblocks of other migratetypes are not included.
    pub refill_pages: u64,
    /// Pages that this CPU drained from pagesets: `mm_page_pcpu_drain`.
    pub drain_pages: u64,
    /// Drained blocks of orders 1 to 3.
    pub high_order_drains: u64,
    /// Blocks taken from another migratetype's pageblocks: `mm_page_alloc_extfrag`.
    pub fallbacks: u64,
    /// Waits for zone locks, if measured.
    pub waits: Option<Waits>,
}

/// Waits for zone locks, by the purpose of the lock. Uncontended acquisitions are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits to refill a pageset.
    pub refill: Wait,
    /// Waits to drain a pageset.
    pub drain: Wait,
    /// Waits to allocate a block directly from the buddy.
    pub direct_alloc: Wait,
    /// Waits to free a block directly to the buddy.
    pub direct_free: Wait,
}

impl Waits {
    /// All waits with their names in outputs.
    #[must_use]
    pub fn paths(&self) -> [(&'static str, Wait); 4] {
        [
            ("refill", self.refill),
            ("drain", self.drain),
            ("direct_alloc", self.direct_alloc),
            ("direct_free", self.direct_free),
        ]
    }
}

/// Waits for one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The number of waits.
    pub times: u64,
    /// The total duration. Unit: nanoseconds.
    pub ns: u64,
}

/// The orders that pagesets cache, on x86-64 with huge pages. Specification: `linux-page-allocator.md` 9.
pub const ORDERS: [u32; 5] = [0, 1, 2, 3, 9];

impl Traffic {
    /// Adds blocks that were taken from the free lists. The order is one of [`ORDERS`].
    pub fn refilled(&mut self, order: u32, blocks: u64) {
        self.refill_pages += blocks << order;
    }

    /// Adds blocks that were drained. The order is one of [`ORDERS`].
    pub fn drained(&mut self, order: u32, blocks: u64) {
        self.drain_pages += blocks << order;
        self.high_order_drains += if (1..=3).contains(&order) { blocks } else { 0 };
    }
}

/// The way in which the kernel counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By BPF programs.
    Bpf,
    /// By `perf_event_open`.
    Perf,
}

impl Way {
    /// The name in options and outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::Bpf => "bpf",
            Way::Perf => "perf",
        }
    }
}

enum Kind {
    Bpf(bpf::Counters),
    Perf(perf::Counters),
}

/// The kernel's counters of every CPU. Dropping it ends the counting.
pub struct Counters {
    kind: Kind,
    /// The counts that are missing, with their reasons.
    missing: Vec<String>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").field("way", &self.way()).field("missing", &self.missing).finish()
    }
}

impl Counters {
    /// Begins to count on all CPUs in the given way. Without a way, it tries BPF programs first and then
    /// `perf_event_open`; [`Self::missing`] then has the reason.
    ///
    /// # Errors
    /// If a privilege or a kernel feature is missing; the error has the remedy.
    pub fn start(way: Option<Way>) -> Result<Counters, RecordError> {
        let by_perf = |refused: Option<RecordError>| {
            let counters = perf::Counters::start()?;
            let why = refused.map_or_else(|| "counting is by perf".to_owned(), |error| error.to_string());
            let mut missing = vec![format!("waits for zone locks are not measured: {why}")];
            missing.extend(counters.missing().iter().cloned());
            Ok(Counters { kind: Kind::Perf(counters), missing })
        };
        if way == Some(Way::Perf) {
            return by_perf(None);
        }
        match bpf::Counters::start() {
            Ok((counters, missing)) => Ok(Counters { kind: Kind::Bpf(counters), missing }),
            Err(error) if way == Some(Way::Bpf) => Err(error),
            Err(error) => by_perf(Some(error)),
        }
    }

    /// The way of counting.
    #[must_use]
    pub fn way(&self) -> Way {
        match self.kind {
            Kind::Bpf(_) => Way::Bpf,
            Kind::Perf(_) => Way::Perf,
        }
    }

    /// The counts that are missing, with their reasons.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The traffic of each on-line CPU since its counting began, sorted by CPU number. A CPU that came on-line since
    /// the last call counts from now on.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn read(&mut self) -> Result<Vec<Traffic>, RecordError> {
        match &mut self.kind {
            Kind::Bpf(counters) => counters.read(),
            Kind::Perf(counters) => counters.read(),
        }
    }

    /// The durations of all waits for zone locks until the last [`Self::read`]; `None` if waits are not measured.
    #[must_use]
    pub fn wait_times(&self) -> Option<&WaitTimes> {
        match &self.kind {
            Kind::Bpf(counters) => counters.wait_times(),
            Kind::Perf(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(bytes: usize) {
        let memory = vec![1_u8; bytes];
        assert_eq!(std::hint::black_box(&memory).len(), bytes);
    }

    #[test]
    fn blocks_count_as_pages_of_their_order() {
        let mut traffic = Traffic::default();
        for order in ORDERS {
            traffic.refilled(order, 1);
            traffic.drained(order, 10);
        }
        let pages = 1 + 2 + 4 + 8 + 512;
        assert_eq!((traffic.refill_pages, traffic.drain_pages), (pages, 10 * pages));
        assert_eq!(traffic.high_order_drains, 30, "neither single pages nor pageblocks are of high orders");
    }

    #[test]
    fn waits_have_the_names_of_their_paths() {
        let wait = |times| Wait { times, ns: 0 };
        let waits = Waits { refill: wait(1), drain: wait(2), direct_alloc: wait(3), direct_free: wait(4) };
        let named = waits.paths().map(|(name, wait)| (name, wait.times));
        assert_eq!(named, [("refill", 1), ("drain", 2), ("direct_alloc", 3), ("direct_free", 4)]);
    }

    /// As root: both ways count the pages that this test allocates.
    #[test]
    fn pages_that_come_and_go_are_counted() {
        for way in [Way::Bpf, Way::Perf] {
            let mut counters = match Counters::start(Some(way)) {
                Ok(counters) => counters,
                Err(error) => {
                    println!("SKIPPED pages_that_come_and_go_are_counted by {}: {error}", way.name());
                    continue;
                }
            };
            assert_eq!(counters.way(), way);
            let sum = |all: &[Traffic]| all.iter().map(|t| t.refill_pages).sum::<u64>();
            let before = sum(&counters.read().unwrap());
            // Pagesets may hold an eighth of the memory, and give it without a refill. So what was touched is kept.
            let (mut kept, mut came) = (vec![], 0);
            while came <= 10_000 && kept.len() < 16 {
                kept.push(std::hint::black_box(vec![1_u8; 1 << 28]));
                came = sum(&counters.read().unwrap()) - before;
            }
            assert!(came > 10_000, "{}: {came} pages of {} that were touched", way.name(), kept.len() << 16);
        }
    }

    /// As root: both ways count the same events. Each read of the BPF counters is between two reads of the perf
    /// counters, so its counts lie between theirs. The kernel does not run a program for an event that interrupts another
    /// program on the same CPU: of 455,174 drained pages, 63 were missing on a busy machine.
    #[test]
    fn both_ways_agree() {
        let (mut perf, mut bpf) = match (Counters::start(Some(Way::Perf)), Counters::start(Some(Way::Bpf))) {
            (Ok(perf), Ok(bpf)) => (perf, bpf),
            (Err(error), _) | (_, Err(error)) => return println!("SKIPPED both_ways_agree: {error}"),
        };
        type Of = (&'static str, fn(&Traffic) -> u64);
        const OF: [Of; 3] = [
            ("refill pages", |t| t.refill_pages),
            ("drain pages", |t| t.drain_pages),
            ("high-order drains", |t| t.high_order_drains),
        ];
        let mut looks = || [perf.read().unwrap(), bpf.read().unwrap(), perf.read().unwrap()];
        let before = looks();
        touch(1 << 30);
        let after = looks();
        for (place, cpu) in after[1].iter().map(|traffic| traffic.cpu).enumerate() {
            for (name, of) in OF {
                let at = |look: &[Traffic]| look.get(place).filter(|t| t.cpu == cpu).map_or(0, of);
                let grown = at(&after[1]) - at(&before[1]);
                let (least, most) = (at(&after[0]) - at(&before[2]), at(&after[2]) - at(&before[0]));
                let seen = least - least / 1000;
                assert!((seen..=most).contains(&grown), "CPU {cpu}, {name}: {grown}, by perf {least} to {most}");
            }
        }
    }

    /// A stream between CPUs, which refills on one and drains on the other.
    fn stream(end: std::time::Instant) {
        use std::io::{Read as _, Write as _};
        let (mut to, mut from) = std::os::unix::net::UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            let block = vec![1_u8; 1 << 16];
            while std::time::Instant::now() < end && to.write_all(&block).is_ok() {}
        });
        let mut block = vec![0_u8; 1 << 16];
        while from.read(&mut block).unwrap() > 0 {}
        writer.join().unwrap();
    }

    /// Requests a list into a buffer of 64 KiB. The kernel allocates a block of order 4 for it and frees it at once.
    /// Both bypass the pagesets and take the zone lock.
    fn bypass_pagesets(end: std::time::Instant) {
        let mut list = vec![0_u8; 1 << 16];
        while std::time::Instant::now() < end {
            for _ in 0..1000 {
                // The kernel allocates the block even if the file system has no such lists.
                let _ = rustix::fs::listxattr(".", &mut list);
            }
        }
    }

    /// As root, on a kernel with events of waits: CPUs that contend for zone locks wait, and not longer than the test
    /// runs.
    #[test]
    fn waits_for_zone_locks_are_measured() {
        let skipped = |why: &str| println!("SKIPPED waits_for_zone_locks_are_measured: {why}");
        let mut counters = match Counters::start(Some(Way::Bpf)) {
            Ok(counters) => counters,
            Err(error) => return skipped(&error.to_string()),
        };
        let cpus = counters.read().unwrap();
        if cpus.len() < 2 || cpus[0].waits.is_none() {
            return skipped(&format!("{} CPUs, {:?}", cpus.len(), counters.missing()));
        }
        let begin = std::time::Instant::now();
        let waited = |counters: &mut Counters, of: [&str; 2]| {
            let all: Vec<_> = counters.read().unwrap().iter().flat_map(|cpu| cpu.waits.unwrap().paths()).collect();
            let wanted = || all.iter().filter(|(name, _)| of.contains(name)).map(|(_, wait)| wait);
            (wanted().map(|wait| wait.times).sum::<u64>(), wanted().map(|wait| wait.ns).sum::<u64>())
        };
        type Load = fn(std::time::Instant);
        const LOADS: [(Load, [&str; 2]); 2] =
            [(bypass_pagesets, ["direct_alloc", "direct_free"]), (stream, ["refill", "drain"])];
        for (load, of) in LOADS {
            let (mut times, mut ns, mut rounds) = (0, 0, 0);
            while times == 0 && rounds < 30 {
                rounds += 1;
                let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
                let loads: Vec<_> = (0..3).map(|_| std::thread::spawn(move || load(end))).collect();
                loads.into_iter().for_each(|load| load.join().unwrap());
                (times, ns) = waited(&mut counters, of);
            }
            let most = begin.elapsed().as_nanos() as u64 * cpus.len() as u64;
            let all: u64 =
                counters.read().unwrap().iter().flat_map(|cpu| cpu.waits.unwrap().paths()).map(|w| w.1.times).sum();
            let timed: u64 = counters.wait_times().unwrap().0.iter().flatten().sum();
            assert!(timed.abs_diff(all) <= cpus.len() as u64, "{timed} waits have a duration, of {all}");
            assert!(ns < most && (ns == 0) == (times == 0), "{of:?}: {times} waits of {ns} ns in {most}");
            // Blocks that bypass the pagesets take the lock some hundred thousand times a second on each CPU. A stream
            // takes it a few thousand times, which may never collide on an idle machine.
            assert!(times > 0 || of[0] == "refill", "{of:?}: nothing waited in {rounds} s");
            if times == 0 {
                skipped(&format!("no stream waited for a zone lock in {rounds} s, so waits of {of:?} were not seen"));
            }
        }
    }
}
