//! Returning memory to the system: when, how much, and the counters.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, HugePages, Order, PagePool, Pages};

use crate::common::{MIB, order};

fn pool(bytes: u64, policy: GiveBack, huge_pages: HugePages) -> PagePool {
    PagePool::builder(bytes).give_back(policy).huge_pages(huge_pages).build().expect("a pool")
}

/// Allocates and touches `mib` MiB in runs of 1 MiB.
fn touch(pool: &PagePool, mib: u64) -> Vec<Pages<&PagePool>> {
    (0..mib)
        .map(|_| pool.pages(order(8)).expect("memory"))
        .map(|mut pages| {
            pages.fill(1);
            pages
        })
        .collect()
}

/// Keeps the thread on one CPU. Scans do not give back blocks that the cache of another CPU holds, and a thread that
/// moves takes its runs from other pageblocks, where a transparent huge page may surround one of them.
fn pin_to_first_cpu() {
    crate::common::pin(crate::common::allowed_cpus()[0]).expect("an allowed CPU");
}

fn resident(pool: &PagePool) -> u64 {
    pool.memory().resident_bytes().expect("a count")
}

#[test]
fn memory_goes_back_at_once_and_counts_once() {
    pin_to_first_cpu();
    for huge_pages in [HugePages::None, HugePages::Transparent] {
        let mut pool = pool(64 * MIB, GiveBack::OFF, huge_pages);
        assert_eq!(resident(&pool), 0, "building the pool touched it");
        let held = touch(&pool, 32);
        assert_eq!(resident(&pool), 32 * MIB);
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "memory in use went back");
        drop(held);
        assert_eq!(pool.give_back(4 * MIB).expect("given back"), 4 * MIB, "the limit was exceeded");
        assert_eq!(resident(&pool), 28 * MIB);
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 28 * MIB);
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "memory went back twice");
        assert_eq!(resident(&pool), 0);
        let stats = pool.stats();
        assert_eq!((stats.given_back_bytes, stats.free_bytes + stats.cached_bytes), (32 * MIB, 64 * MIB));
        assert_eq!((stats.alloc_bytes, stats.free_total_bytes), (32 * MIB, 32 * MIB), "scans counted as allocations");
        drop(touch(&pool, 8));
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), 8 * MIB);
        assert_eq!(pool.stats().given_back_bytes, 40 * MIB);
        pool.audit().expect("a consistent pool");
    }
}

#[test]
fn given_back_memory_is_zero_and_used_memory_stays() {
    let pool = pool(16 * MIB, GiveBack::OFF, HugePages::None);
    let held = touch(&pool, 3);
    drop(touch(&pool, 8));
    pool.give_back(u64::MAX).expect("given back");
    assert!(held.iter().all(|pages| pages.iter().all(|&byte| byte == 1)), "memory in use went back");
    // Only whole free blocks have gone back. Those that contain runs of `held` have not.
    let fresh: Vec<_> = (0..2).map(|_| pool.pages(Order::MAX).expect("memory")).collect();
    assert!(fresh.iter().all(|pages| pages.iter().all(|&byte| byte == 0)));
}

#[test]
fn memory_goes_back_after_the_scans_and_at_the_rate_of_the_policy() {
    pin_to_first_cpu();
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
fn memory_stays_before_the_interval_and_with_give_back_off() {
    let slow = GiveBack { interval: Duration::from_secs(3600), after_scans: 1, bytes_per_scan: u64::MAX };
    for policy in [slow, GiveBack::OFF] {
        let pool = pool(16 * MIB, policy, HugePages::None);
        pool.tick().expect("a first scan, of an untouched pool");
        drop(touch(&pool, 6));
        pool.drain();
        for _ in 0..3 {
            pool.tick().expect("a tick");
        }
        assert_eq!(resident(&pool) / MIB, 6, "{policy:?}");
    }
}

#[test]
fn reused_memory_goes_back_again() {
    pin_to_first_cpu();
    let policy = GiveBack { interval: Duration::from_millis(1), after_scans: 1, bytes_per_scan: u64::MAX };
    let pool = pool(16 * MIB, policy, HugePages::None);
    for _ in 0..3 {
        drop(touch(&pool, 8));
        pool.drain();
        let end = Instant::now() + Duration::from_secs(20);
        while resident(&pool) > 0 {
            assert!(Instant::now() < end, "{} bytes stay resident", resident(&pool));
            thread::sleep(Duration::from_millis(1));
            pool.tick().expect("a tick");
        }
    }
    assert_eq!(pool.stats().given_back_bytes, 24 * MIB);
}

/// Scans that give back the whole pool do not make allocations fail.
#[test]
fn allocations_wait_for_a_scan() {
    let pool = pool(32 * MIB, GiveBack::OFF, HugePages::None);
    thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..300 {
                        // All threads together need less than the pool has.
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
fn a_ticker_gives_back_memory_of_all_cpus_and_ends_with_the_pool() {
    let policy = GiveBack { interval: Duration::from_millis(1), after_scans: 2, bytes_per_scan: u64::MAX };
    let pool = Arc::new(pool(64 * MIB, policy, HugePages::None));
    let ticker = pool.start_ticker(Duration::from_millis(5), |_| ()).expect("a thread");
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
    let ticker = pool.start_ticker(Duration::from_millis(1), |_| ()).expect("a thread");
    drop(pool);
    let end = Instant::now() + Duration::from_secs(20);
    while weak.strong_count() > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(weak.strong_count(), 0, "a ticker kept the pool alive");
    drop(ticker);
}
