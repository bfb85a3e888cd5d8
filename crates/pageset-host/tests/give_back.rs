//! Memory that goes back to the system: when, how much, and that it counts once.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, HugePages, Order, PagePool, Pages};

const MIB: u64 = 1 << 20;

fn pool(bytes: u64, policy: GiveBack, huge_pages: HugePages) -> PagePool {
    PagePool::builder(bytes).give_back(policy).huge_pages(huge_pages).build().expect("a pool")
}

/// Takes and touches that many MiB in runs of 1 MiB.
fn touch(pool: &PagePool, mib: u64) -> Vec<Pages<&PagePool>> {
    let order = Order::new(8).expect("an order");
    (0..mib)
        .map(|_| pool.pages(order).expect("memory"))
        .map(|mut pages| {
            pages.fill(1);
            pages
        })
        .collect()
}

/// Stays on one CPU: blocks in the cache of another are not given back before it is emptied.
fn pin() {
    let allowed = rustix::thread::sched_getaffinity(None).expect("own affinity");
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).expect("a CPU");
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).expect("an allowed CPU");
}

fn resident(pool: &PagePool) -> u64 {
    pool.resident_bytes().expect("a count")
}

#[test]
fn at_once_and_counted_once() {
    for huge_pages in [HugePages::None, HugePages::Transparent] {
        let mut pool = pool(64 * MIB, GiveBack::OFF, huge_pages);
        assert_eq!(resident(&pool), 0, "nothing is touched by building it");
        let held = touch(&pool, 32);
        assert_eq!(resident(&pool), 32 * MIB);
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "all that is resident is in use");
        drop(held);
        assert_eq!(pool.give_back(4 * MIB).expect("given back"), 4 * MIB, "no more than was asked for");
        assert_eq!(resident(&pool), 28 * MIB);
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 28 * MIB);
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "it has gone already");
        assert_eq!(resident(&pool), 0);
        let stats = pool.stats();
        assert_eq!((stats.given_back_bytes, stats.free_bytes + stats.cached_bytes), (32 * MIB, 64 * MIB));
        assert_eq!((stats.alloc_bytes, stats.free_total_bytes), (32 * MIB, 32 * MIB), "scans do not count");
        drop(touch(&pool, 8));
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 8 * MIB);
        assert_eq!(pool.stats().given_back_bytes, 40 * MIB);
        pool.audit().expect("the books add up");
    }
}

#[test]
fn memory_that_was_given_back_is_zero_and_the_rest_is_kept() {
    let pool = pool(16 * MIB, GiveBack::OFF, HugePages::None);
    let held = touch(&pool, 3);
    drop(touch(&pool, 8));
    pool.give_back(u64::MAX).expect("given back");
    assert!(held.iter().all(|pages| pages.iter().all(|&byte| byte == 1)), "memory in use was given back");
    // Whole blocks of 4 MiB have gone; those that some of `held` lies in have not.
    let fresh: Vec<_> = (0..2).map(|_| pool.pages(Order::MAX).expect("memory")).collect();
    assert!(fresh.iter().all(|pages| pages.iter().all(|&byte| byte == 0)));
}

#[test]
fn only_after_the_scans_that_the_policy_says_and_not_faster() {
    pin();
    let policy = GiveBack { interval: Duration::from_millis(1), after_scans: 3, bytes_per_scan: 8 * MIB };
    let pool = pool(64 * MIB, policy, HugePages::None);
    drop(touch(&pool, 20));
    pool.drain();
    let mut after = vec![];
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(2));
        pool.tick().expect("a tick");
        after.push(resident(&pool) / MIB);
    }
    assert_eq!(after, [20, 20, 12, 4, 0, 0, 0, 0]);
    assert_eq!(pool.stats().given_back_bytes, 20 * MIB);
}

#[test]
fn not_before_the_interval_and_not_when_it_is_off() {
    let slow = GiveBack { interval: Duration::from_secs(3600), after_scans: 1, bytes_per_scan: u64::MAX };
    for (policy, left) in [(slow, 6), (GiveBack::OFF, 6)] {
        let pool = pool(16 * MIB, policy, HugePages::None);
        pool.tick().expect("the first scan, of a pool that nothing was touched in");
        drop(touch(&pool, 6));
        pool.drain();
        for _ in 0..3 {
            pool.tick().expect("a tick");
        }
        assert_eq!(resident(&pool) / MIB, left, "{policy:?}");
    }
}

#[test]
fn memory_that_is_used_again_and_again_is_found_in_the_end() {
    pin();
    let policy = GiveBack { interval: Duration::from_millis(1), after_scans: 1, bytes_per_scan: u64::MAX };
    let pool = pool(16 * MIB, policy, HugePages::None);
    for _ in 0..3 {
        drop(touch(&pool, 8));
        pool.drain();
        let end = Instant::now() + Duration::from_secs(20);
        while resident(&pool) > 0 {
            assert!(Instant::now() < end, "{} bytes stay", resident(&pool));
            thread::sleep(Duration::from_millis(1));
            pool.tick().expect("a tick");
        }
    }
    assert_eq!(pool.stats().given_back_bytes, 24 * MIB);
}

/// A pool of which scans take everything serves its callers all the same.
#[test]
fn callers_wait_for_a_scan_instead_of_failing() {
    let pool = pool(32 * MIB, GiveBack::OFF, HugePages::None);
    thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..300 {
                        // All users together need less than the pool has.
                        let mut runs: Vec<_> = (0..2).map(|_| pool.pages(Order::MAX).expect("memory")).collect();
                        runs.iter_mut().for_each(|run| run[0] = 1);
                    }
                })
            })
            .collect();
        while users.iter().any(|user| !user.is_finished()) {
            pool.give_back(u64::MAX).expect("given back");
        }
    });
    assert_eq!((pool.stats().failed_allocs, pool.stats().in_use_bytes), (0, 0));
}

#[test]
fn a_ticker_shrinks_caches_and_gives_memory_back_on_all_cpus() {
    let policy = GiveBack { interval: Duration::from_millis(1), after_scans: 2, bytes_per_scan: u64::MAX };
    let pool = Arc::new(pool(64 * MIB, policy, HugePages::None));
    let ticker = pool.start_ticker(Duration::from_millis(5)).expect("a thread");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| drop(touch(&pool, 8)));
        }
    });
    let end = Instant::now() + Duration::from_secs(20);
    while resident(&pool) > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(resident(&pool), 0);
    drop(ticker);
    let weak = Arc::downgrade(&pool);
    let ticker = pool.start_ticker(Duration::from_millis(1)).expect("a thread");
    drop(pool);
    let end = Instant::now() + Duration::from_secs(20);
    while weak.strong_count() > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(weak.strong_count(), 0, "a ticker does not keep the pool");
    drop(ticker);
}
