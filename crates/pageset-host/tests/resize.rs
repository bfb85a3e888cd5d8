//! A pool that shrinks and grows: what goes back, what is in the way, and that nobody's memory is touched.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use pageset_host::{GiveBack, HugePages, Order, PAGE_BYTES, PagePool, PoolError};

const MIB: u64 = 1 << 20;

fn pool(mib: u64) -> PagePool {
    let builder = PagePool::builder(mib * MIB).reserve(2 * mib * MIB).give_back(GiveBack::OFF);
    builder.huge_pages(HugePages::None).build().expect("a pool")
}

fn at(pool: &PagePool, bytes: u64) -> NonNull<u8> {
    pool.address_space().cast::<u8>().map_addr(|address| address.saturating_add(bytes as usize))
}

#[test]
fn what_shrinks_away_goes_back_and_can_be_had_again() {
    let mut pool = pool(32);
    let mut all: Vec<_> = (0..8).map(|_| pool.pages(Order::MAX).expect("memory")).collect();
    all.iter_mut().for_each(|pages| pages.fill(1));
    all.sort_by_key(|pages| pages.as_ptr() as usize);
    drop(all.split_off(4));
    assert_eq!(pool.resident_bytes().expect("a count"), 32 * MIB);
    assert_eq!(pool.shrink(10 * MIB - 5).expect("free"), 22 * MIB, "rounded up");
    let stats = pool.stats();
    assert_eq!((stats.size_bytes, stats.free_bytes + stats.cached_bytes), (22 * MIB, 6 * MIB));
    assert_eq!((pool.resident_bytes().expect("a count"), stats.given_back_bytes), (22 * MIB, 10 * MIB));
    assert!(all.iter().all(|pages| pages.iter().all(|&byte| byte == 1)), "memory in use was given back");
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(at(&pool, 30 * MIB), Order::ZERO) }.expect_err("it is gone");
    assert!(error.to_string().ends_with("the pool does not reach that far now"), "{error}");
    assert_eq!(std::iter::from_fn(|| pool.alloc(Order::ZERO).ok()).count() as u64, 6 * MIB / PAGE_BYTES as u64);

    assert_eq!(pool.grow(42 * MIB).expect("room"), 64 * MIB, "what has gone, and the reserve");
    let run = pool.contig_pages(42 << 20).expect("all that came");
    assert!(run.iter().all(|&byte| byte == 0), "what was given back is zero");
    drop((run, all));
    pool.audit().expect("the books add up");
}

#[test]
fn a_run_in_the_way_is_named_and_nothing_changes() {
    let mut pool = pool(16);
    let all: Vec<_> = (0..8).map(|_| pool.pages(Order::PAGEBLOCK).expect("memory")).collect();
    let end = |pages: &pageset_host::Pages<&PagePool>| pages.as_ptr() as usize - pool.address_space().addr().get();
    // All but the one at 8 MiB.
    let kept: Vec<_> = all.into_iter().filter(|pages| end(pages) == 8 << 20).collect();
    let before = pool.stats();
    let error = pool.shrink(12 * MIB).expect_err("one is in the way");
    assert!(
        matches!(error, PoolError::InUse { bytes, address, max_bytes }
        if bytes == 12 * MIB && address == kept[0].as_ptr() as usize && max_bytes == 6 * MIB),
        "{error}"
    );
    let text = format!(
        "the pool cannot shrink by 12582912 bytes: the run at {:p} is in use; 6291456 bytes at its end are free",
        kept[0].as_ptr()
    );
    assert_eq!(error.to_string(), text);
    let after = pool.stats();
    assert_eq!((after.size_bytes, after.in_use_bytes), (before.size_bytes, before.in_use_bytes));
    assert_eq!(pool.shrink(6 * MIB).expect("as it said"), 10 * MIB);
    let error = pool.shrink(MIB).expect_err("the run is at the end");
    assert!(error.to_string().ends_with("; 0 bytes at its end are free"), "{error}");
    drop(kept);
    assert_eq!(pool.shrink(8 * MIB).expect("free"), 2 * MIB);
    pool.audit().expect("the books add up");
}

#[test]
fn something_is_left_of_each_node() {
    let pool = pool(8);
    let nodes = pool.zones().count() as u64;
    for bytes in [0, 8 * MIB, u64::MAX] {
        let error = pool.shrink(bytes).expect_err("refused").to_string();
        let max_bytes = pool.stats().size_bytes - 2 * MIB * nodes;
        let text =
            format!("the pool cannot shrink by {bytes} bytes; allowed: 1 to {max_bytes}, for 2097152 bytes stay");
        assert!(error.starts_with(&text), "{error}");
    }
    pool.shrink(pool.stats().size_bytes - 2 * MIB * nodes).expect("free");
    assert!(pool.shrink(1).expect_err("refused").to_string().contains("allowed: none"));
}

/// What only caches hold is not in the way, and goes back.
#[test]
fn what_caches_hold_shrinks_away() {
    let pool = pool(8);
    let mut pages = vec![NonNull::dangling(); 2048];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(2048));
    for page in pages {
        // SAFETY: it was handed out and is not referred to.
        unsafe { pool.free(page, Order::ZERO).expect("ours") };
    }
    assert!(pool.stats().cached_bytes > 0);
    assert_eq!(pool.shrink(6 * MIB).expect("free"), 2 * MIB);
}

/// Memory that is locked does not go back: that is said, and the pool is as it was.
#[test]
fn locked_memory_stays() {
    let mut pool = pool(8);
    let end = at(&pool, 4 * MIB);
    // SAFETY: the pool's own memory, which locking does not change.
    if unsafe { libc::mlock(end.as_ptr().cast(), 4 << 20) } != 0 {
        return println!("SKIPPED locked_memory_stays: {}", std::io::Error::last_os_error());
    }
    let error = pool.shrink(4 * MIB).expect_err("it is locked").to_string();
    assert!(error.starts_with("giving memory back of 4194304 bytes failed: Invalid argument"), "{error}");
    assert!(error.contains("mlockall"), "{error}");
    assert_eq!(pool.stats().size_bytes, 8 * MIB);
    let error = pool.give_back(u64::MAX).expect_err("half of it is locked").to_string();
    assert!(error.contains("mlockall") && error.contains("Invalid argument"), "{error}");
    assert_eq!(pool.contig_pages(8 << 20).expect("all of it").len(), 8 << 20);
    pool.audit().expect("the books add up");
    // SAFETY: as above.
    unsafe { libc::munlock(end.as_ptr().cast(), 4 << 20) };
    assert_eq!(pool.shrink(4 * MIB).expect("unlocked"), 4 * MIB);
}

/// Threads that need little find memory all the while.
#[test]
fn others_go_on_while_the_pool_shrinks_and_grows() {
    let mut pool = pool(32);
    thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for round in 0..500_u32 {
                        let mut runs: Vec<_> =
                            (0..16).map(|n| pool.pages(Order::new(n % 5).expect("5")).expect("memory")).collect();
                        runs.iter_mut().for_each(|run| run[..4].copy_from_slice(&round.to_ne_bytes()));
                        assert!(runs.iter().all(|run| run[..4] == round.to_ne_bytes()));
                    }
                })
            })
            .collect();
        let mut shrunk = 0;
        while users.iter().any(|user| !user.is_finished()) {
            if pool.shrink(16 * MIB).is_ok() {
                shrunk += 1;
                pool.grow(16 * MIB).expect("room");
            }
        }
        assert!(shrunk > 0);
    });
    assert_eq!((pool.stats().in_use_bytes, pool.stats().size_bytes), (0, 32 * MIB));
    pool.audit().expect("the books add up");
}

/// A pool that can never shrink, for a run at its end is in use, sets nearly all of itself apart before it sees that.
#[test]
fn others_wait_for_an_attempt_instead_of_failing() {
    let pool = pool(4096);
    let all: Vec<_> = (0..2048).map(|_| pool.pages(Order::PAGEBLOCK).expect("memory")).collect();
    let last = all.into_iter().max_by_key(|pages| pages.as_ptr() as usize);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    drop(pool.pages(Order::PAGEBLOCK));
                }
            });
        }
        for _ in 0..100 {
            assert!(matches!(pool.shrink(4094 * MIB), Err(PoolError::InUse { .. })));
        }
        stop.store(true, Relaxed);
    });
    drop(last);
    assert_eq!((pool.stats().in_use_bytes, pool.stats().failed_allocs), (0, 0));
}
