//! A limit below the pool's size: how much can be in use, what the errors say, and that a change does nothing half.

use pageset_host::{AllocError, GiveBack, HugePages, Order, PAGE_BYTES, PagePool, PoolError, RunSpec};

use crate::common::{MIB, order};

fn pool(mib: u64, limit: Option<u64>) -> PagePool {
    let builder = PagePool::builder(mib * MIB).huge_pages(HugePages::None).give_back(GiveBack::OFF);
    limit.map_or(builder.clone(), |limit| builder.limit(limit)).build().expect("a pool")
}

/// The bytes that single pages can take.
fn capacity(pool: &PagePool) -> u64 {
    let all: Vec<_> = std::iter::from_fn(|| pool.pages(Order::ZERO).ok()).collect();
    (all.len() * PAGE_BYTES) as u64
}

#[test]
fn a_limit_is_exact_to_the_page() {
    for limit in [1, 4096, 4097, 3 * MIB + 4096, 8 * MIB, 15 * MIB + 1, 16 * MIB] {
        let mut pool = pool(16, Some(limit));
        let pages = limit.div_ceil(4096) * 4096;
        assert_eq!(pool.limit(), Some(limit));
        for _ in 0..2 {
            assert_eq!(capacity(&pool), pages, "limit {limit}");
        }
        let stats = pool.stats();
        assert_eq!((stats.withheld_bytes, stats.in_use_bytes, stats.size_bytes), (16 * MIB - pages, 0, 16 * MIB));
        assert_eq!(stats.free_bytes + stats.cached_bytes, pages);
        assert_eq!((stats.alloc_bytes, stats.free_total_bytes), (2 * pages, 2 * pages), "withheld memory counts");
        pool.set_limit(None).expect("no limit");
        assert_eq!((pool.limit(), capacity(&pool), pool.stats().withheld_bytes), (None, 16 * MIB, 0));
        pool.audit().expect("a consistent pool");
    }
}

#[test]
fn a_limit_changes_at_run_time() {
    let mut pool = pool(32, None);
    for limit in [20 * MIB, 5 * MIB + 4096, 5 * MIB, 31 * MIB, MIB, 17 * MIB + 12288] {
        pool.set_limit(Some(limit)).expect("nothing is in use");
        assert_eq!(capacity(&pool), limit);
    }
    pool.set_limit(None).expect("no limit");
    assert_eq!(pool.contig_pages(32 << 20).expect("one free range").len(), 32 << 20);
    pool.audit().expect("a consistent pool");
}

#[test]
fn errors_name_the_limit() {
    let pool = pool(16, Some(2 * MIB));
    let held: Vec<_> = std::iter::from_fn(|| pool.pages(Order::ZERO).ok()).collect();
    let error = pool.alloc(order(1)).expect_err("the limit");
    assert_eq!(error, AllocError::Limit { bytes: 8192, limit_bytes: 2 * MIB, free_bytes: 0 });
    let text = "cannot allocate 8192 bytes: the pool is limited to 2097152 bytes, and 0 bytes are free in smaller runs; try \
                a higher limit";
    assert_eq!(error.to_string(), text);
    let error = pool.alloc_contig(4 << 20).expect_err("the limit");
    assert!(matches!(error, AllocError::Limit { bytes: 0x40_0000, limit_bytes: 0x20_0000, .. }), "{error}");
    let error = pool.set_limit(Some(MIB)).expect_err("more is in use").to_string();
    let text = "cannot limit the pool to 1048576 bytes: 2097152 bytes are in use; try 2097152 or more";
    assert_eq!(error, text);
    assert_eq!(
        (pool.limit(), pool.stats().withheld_bytes),
        (Some(2 * MIB), 14 * MIB),
        "a refused limit changed the pool"
    );
    let half = held.len() / 2;
    let mut held = held;
    held.truncate(half);
    let error = pool.set_limit(Some(4096)).expect_err("half of the limit is in use");
    assert!(matches!(error, PoolError::LimitInUse { bytes: 4096, least_bytes: 0x10_0000 }), "{error}");
    assert_eq!(pool.stats().withheld_bytes, 14 * MIB, "a refused limit keeps what it found");
    for bytes in [0, 16 * MIB + 1, u64::MAX] {
        let error = pool.set_limit(Some(bytes)).expect_err("out of range");
        assert!(matches!(error, PoolError::LimitSize { max_bytes: 0x100_0000, .. }), "{error}");
    }
    drop(held);
    let error = pool.shrink(2 * MIB).expect_err("a limit").to_string();
    assert_eq!(error, "cannot resize the pool: it has a limit of 2097152 bytes; try to remove the limit first");
    assert!(matches!(pool.grow(2 * MIB), Err(PoolError::Limited { .. })));
    let error = PagePool::builder(MIB).limit(0).build().expect_err("no limit");
    let text = "cannot limit the pool to 0 bytes: the limit is out of range; try 1 to 2097152, the size of the pool";
    assert_eq!(error.to_string(), text);
}

/// A lower limit gives the withheld memory back to the system, where the pool may do that.
#[test]
fn withheld_memory_goes_back() {
    for (policy, resident) in [(GiveBack::default(), 4 * MIB), (GiveBack::OFF, 16 * MIB)] {
        let builder = PagePool::builder(16 * MIB).huge_pages(HugePages::None).give_back(policy);
        let pool = builder.build().expect("a pool");
        let all: Vec<_> = (0..4).map(|_| pool.pages(Order::MAX).expect("memory")).collect();
        all.into_iter().for_each(|mut run| run.fill(1));
        pool.set_limit(Some(4 * MIB)).expect("nothing is in use");
        assert_eq!(pool.memory().resident_bytes().expect("a count"), resident);
    }
}

/// Threads that need less than the limit always find memory while it changes.
#[test]
fn allocations_succeed_while_the_limit_changes() {
    let mut pool = pool(32, None);
    let orders: Vec<u8> = (0..16).map(|n| n % 5).collect();
    crate::common::during_allocations(&pool, &orders, || {
        let lowered = pool.set_limit(Some(16 * MIB)).is_ok();
        pool.set_limit(None).expect("no limit");
        lowered
    });
    assert_eq!((pool.stats().in_use_bytes, pool.stats().withheld_bytes), (0, 0));
    pool.audit().expect("a consistent pool");
}

/// A caller that waits gets memory when the limit rises.
#[test]
fn a_higher_limit_ends_a_wait() {
    let pool = pool(16, Some(2 * MIB));
    let _held: Vec<_> = std::iter::from_fn(|| pool.pages(Order::ZERO).ok()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            pool.set_limit(Some(4 * MIB)).expect("a higher limit");
        });
        drop(
            pool.pages_with(&RunSpec::new(order(3)).timeout(std::time::Duration::from_secs(60)))
                .expect("the limit rises"),
        );
    });
}
