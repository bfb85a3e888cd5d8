//! What a live kernel does with its pagesets, counted and not recorded.
//!
//! | module | what it does |
//! | --- | --- |
//! | `bpf` | counts by programs of ours at the kernel's tracepoints, and times waits for the zone lock |
//! | `perf` | counts by `perf_event_open`, where such programs may not run |
//! | `kallsyms` | where the kernel's functions lie |
//!
//! Either way nothing is written to a ring buffer and nothing of the machine is changed: the kernel ends the counting when
//! this process ends, however it does.

mod bpf;
mod kallsyms;
mod perf;

use crate::record::RecordError;

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
    /// How long it waited for zone locks, where that is measured.
    pub waits: Option<Waits>,
}

/// Waits for zone locks, by what the lock was wanted for. Locks got at once are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// To refill a pageset.
    pub refill: Wait,
    /// To drain a pageset.
    pub drain: Wait,
    /// To take a block past the pagesets.
    pub direct_alloc: Wait,
    /// To give a block back past the pagesets.
    pub direct_free: Wait,
}

impl Waits {
    /// All of them with their names, as outputs have them.
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

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// How often.
    pub times: u64,
    /// How long, all together. Unit: nanoseconds.
    pub ns: u64,
}

/// The orders that pagesets cache, on x86-64 with huge pages. Specification: `linux-page-allocator.md` 9.
const ORDERS: [u32; 5] = [0, 1, 2, 3, 9];

impl Traffic {
    /// So many blocks of an order that pagesets cache were taken from the free lists.
    fn refilled(&mut self, order: u32, blocks: u64) {
        self.refill_pages += blocks << order;
    }

    /// So many blocks of an order that pagesets cache were given back.
    fn drained(&mut self, order: u32, blocks: u64) {
        self.drain_pages += blocks << order;
        self.high_order_drains += if (1..=3).contains(&order) { blocks } else { 0 };
    }
}

/// How the kernel counts for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By programs of ours.
    Bpf,
    /// By `perf_event_open`.
    Perf,
}

impl Way {
    /// As it is chosen and shown.
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
    /// What is not counted, and why.
    missing: Vec<String>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").field("way", &self.way()).field("missing", &self.missing).finish()
    }
}

impl Counters {
    /// Begins to count on all CPUs: the way that is asked for, else by programs, and where those may not run by
    /// `perf_event_open`, which is said in [`Self::missing`].
    ///
    /// # Errors
    /// A privilege or a kernel feature that is missing, with what mends it.
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

    /// How it counts.
    #[must_use]
    pub fn way(&self) -> Way {
        match self.kind {
            Kind::Bpf(_) => Way::Bpf,
            Kind::Perf(_) => Way::Perf,
        }
    }

    /// What this kernel cannot count.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// What each CPU that is on line has done since its counting began, in the order of their numbers. A CPU that came on
    /// line since the last call counts from now on.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn read(&mut self) -> Result<Vec<Traffic>, RecordError> {
        match &mut self.kind {
            Kind::Bpf(counters) => counters.read(),
            Kind::Perf(counters) => counters.read(),
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
    fn blocks_are_pages_by_their_order() {
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
    fn waits_stand_under_the_names_of_their_paths() {
        let wait = |times| Wait { times, ns: 0 };
        let waits = Waits { refill: wait(1), drain: wait(2), direct_alloc: wait(3), direct_free: wait(4) };
        let named = waits.paths().map(|(name, wait)| (name, wait.times));
        assert_eq!(named, [("refill", 1), ("drain", 2), ("direct_alloc", 3), ("direct_free", 4)]);
    }

    /// As root: what is allocated and freed here is counted somewhere, in either way.
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
            // Far more than any list holds.
            touch(1 << 30);
            let after = sum(&counters.read().unwrap());
            assert!(after - before > 10_000, "{}: {} pages", way.name(), after - before);
        }
    }

    /// As root: both ways see the same events. Each look at the programs' counters is between two at those of perf, so
    /// what they say lies between.
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
                assert!((least..=most).contains(&grown), "CPU {cpu}, {name}: {grown}, by perf {least} to {most}");
            }
        }
    }

    /// Streams between CPUs, which refill on one and drain on the other.
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

    /// Asks for a list in a buffer of 64 KiB, for which the kernel takes a block of order 4 and gives it back at once: both
    /// pass the pagesets by, so each takes the zone lock.
    fn pass_pagesets_by(end: std::time::Instant) {
        let mut list = vec![0_u8; 1 << 16];
        while std::time::Instant::now() < end {
            for _ in 0..1000 {
                // Where the file system has no such lists the block is taken all the same.
                let _ = rustix::fs::listxattr(".", &mut list);
            }
        }
    }

    /// As root, on a kernel that tells of waits: processors that want zone locks at the same time wait, and not for longer
    /// than there was time.
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
            [(pass_pagesets_by, ["direct_alloc", "direct_free"]), (stream, ["refill", "drain"])];
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
            assert!(ns < most && (ns == 0) == (times == 0), "{of:?}: {times} waits of {ns} ns in {most}");
            // Blocks that pass the pagesets by take the lock some hundred thousand times a second on each CPU. A stream
            // takes it a few thousand times, which on a machine with nothing else to do may never meet.
            assert!(times > 0 || of[0] == "refill", "{of:?}: nothing waited in {rounds} s");
            if times == 0 {
                skipped(&format!("no stream waited for a zone lock in {rounds} s, so waits of {of:?} were not seen"));
            }
        }
    }
}
