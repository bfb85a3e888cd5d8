//! What the kernel counts, as root.

use super::*;

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

/// As root: the pages that this test allocates are counted.
#[test]
fn pages_that_come_and_go_are_counted() {
    let mut counters = match Counters::start(Detail::Movers, 0) {
        Ok(counters) => counters,
        Err(error) => return println!("SKIPPED pages_that_come_and_go_are_counted: {error}"),
    };
    let sum = |all: &[Traffic]| all.iter().map(|t| t.refill_pages).sum::<u64>();
    let before = sum(&counters.read().unwrap());
    // Pagesets may hold an eighth of the memory, and give it without a refill. So what was touched is kept.
    let (mut kept, mut came) = (vec![], 0);
    while came <= 10_000 && kept.len() < 16 {
        kept.push(std::hint::black_box(vec![1_u8; 1 << 28]));
        came = sum(&counters.read().unwrap()) - before;
    }
    assert!(came > 10_000, "{came} pages of {} that were touched", kept.len() << 16);
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
    let mut counters = match Counters::start(Detail::Movers, 0) {
        Ok(counters) => counters,
        Err(error) => return skipped(&error.to_string()),
    };
    let cpus = counters.read().unwrap();
    if cpus.len() < 2 || cpus[0].waits.is_none() {
        return skipped(&format!("{} CPUs, {:?}", cpus.len(), counters.missing()));
    }
    let begin = std::time::Instant::now();
    let first = cpus.iter().flat_map(|cpu| cpu.waits.unwrap().paths()).map(|(_, wait)| wait.ns).sum::<u64>();
    let (mut of_processes, mut of_sites) = (0, 0);
    let mut waited = |counters: &mut Counters, of: [&str; 2]| {
        let read = counters.read();
        of_sites += counters.sites().map_or(0, |now| now.all.iter().filter_map(|s| s.wait).map(|wait| wait.ns).sum());
        of_processes += counters.processes().map_or(0, |now| now.all.iter().filter_map(|p| p.wait_ns).sum());
        let all: Vec<_> = read.unwrap().iter().flat_map(|cpu| cpu.waits.unwrap().paths()).collect();
        let wanted = || all.iter().filter(|(name, _)| of.contains(name)).map(|(_, wait)| wait);
        let of_cpus = all.iter().map(|(_, wait)| wait.ns).sum::<u64>();
        // Waits that ended before the first look belong to no look of processes and call sites here.
        for all in [of_processes, of_sites] {
            assert!(all <= of_cpus + of_cpus / 100 + 1_000_000, "{all} of {of_cpus} ns");
            assert!(10 * all >= 9 * of_cpus.saturating_sub(first), "{all} of {of_cpus} ns");
        }
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
