//! Shrinking and growing: what goes back, which runs prevent it, and that memory in use stays.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use pageset_host::{GiveBack, HugePages, Order, PAGE_BYTES, PagePool, PoolError};

use crate::common::MIB;

fn pool(mib: u64) -> PagePool {
    let builder = PagePool::builder(mib * MIB).reserve(2 * mib * MIB).give_back(GiveBack::OFF);
    builder.huge_pages(HugePages::None).build().expect("a pool")
}

fn at(pool: &PagePool, bytes: u64) -> NonNull<u8> {
    pool.memory().address_space().cast::<u8>().map_addr(|address| address.saturating_add(bytes as usize))
}

#[test]
fn shrinking_gives_memory_back_and_growing_restores_it() {
    let mut pool = pool(32);
    let mut all: Vec<_> = (0..8).map(|_| pool.pages(Order::MAX).expect("memory")).collect();
    all.iter_mut().for_each(|pages| pages.fill(1));
    all.sort_by_key(|pages| pages.as_ptr() as usize);
    drop(all.split_off(4));
    assert_eq!(pool.memory().resident_bytes().expect("a count"), 32 * MIB);
    assert_eq!(pool.shrink(10 * MIB - 5).expect("free"), 22 * MIB, "rounded up to 2 MiB");
    let stats = pool.stats();
    assert_eq!((stats.size_bytes, stats.free_bytes + stats.cached_bytes), (22 * MIB, 6 * MIB));
    assert_eq!((pool.memory().resident_bytes().expect("a count"), stats.given_back_bytes), (22 * MIB, 10 * MIB));
    assert!(all.iter().all(|pages| pages.iter().all(|&byte| byte == 1)), "memory in use went back");
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(at(&pool, 30 * MIB), Order::ZERO) }.expect_err("a free beyond the size");
    assert!(error.to_string().ends_with("the address is beyond the current size of the pool"), "{error}");
    assert_eq!(std::iter::from_fn(|| pool.alloc(Order::ZERO).ok()).count() as u64, 6 * MIB / PAGE_BYTES as u64);

    assert_eq!(pool.grow(42 * MIB).expect("room"), 64 * MIB, "the removed memory and the reserve");
    let run = pool.contig_pages(42 << 20).expect("the new memory");
    assert!(run.iter().all(|&byte| byte == 0), "memory that went back is not zero");
    drop((run, all));
    pool.audit().expect("a consistent pool");
}

#[test]
fn a_run_in_use_prevents_shrinking_and_is_named() {
    let mut pool = pool(16);
    let all: Vec<_> = (0..8).map(|_| pool.pages(Order::PAGEBLOCK).expect("memory")).collect();
    let offset =
        |pages: &pageset_host::Pages<&PagePool>| pages.as_ptr() as usize - pool.memory().address_space().addr().get();
    // Frees all runs but the one at 8 MiB.
    let kept: Vec<_> = all.into_iter().filter(|pages| offset(pages) == 8 << 20).collect();
    let before = pool.stats();
    let error = pool.shrink(12 * MIB).expect_err("a run is in use");
    assert!(
        matches!(error, PoolError::InUse { bytes, address, max_bytes }
        if bytes == 12 * MIB && address == kept[0].as_ptr() as usize && max_bytes == 6 * MIB),
        "{error}"
    );
    let text = format!(
        "cannot shrink the pool by 12582912 bytes: the run at {:p} is in use; try 1 to 6291456",
        kept[0].as_ptr()
    );
    assert_eq!(error.to_string(), text);
    let after = pool.stats();
    assert_eq!((after.size_bytes, after.in_use_bytes), (before.size_bytes, before.in_use_bytes));
    assert_eq!(pool.shrink(6 * MIB).expect("free"), 10 * MIB);
    let error = pool.shrink(MIB).expect_err("a run at the end is in use");
    assert!(error.to_string().ends_with("; try again after its owner frees it"), "{error}");
    drop(kept);
    assert_eq!(pool.shrink(8 * MIB).expect("free"), 2 * MIB);
    pool.audit().expect("a consistent pool");
}

#[test]
fn each_node_keeps_2_mib() {
    let pool = pool(8);
    let nodes = pool.zones().count() as u64;
    for bytes in [0, 8 * MIB, u64::MAX] {
        let error = pool.shrink(bytes).expect_err("refused").to_string();
        let max_bytes = pool.stats().size_bytes - 2 * MIB * nodes;
        let text =
            format!("cannot shrink the pool by {bytes} bytes: 2097152 bytes of each node stay; try 1 to {max_bytes}");
        assert_eq!(error, text);
    }
    pool.shrink(pool.stats().size_bytes - 2 * MIB * nodes).expect("free");
    assert!(pool.shrink(1).expect_err("refused").to_string().ends_with("; try to drop the pool"));
}

#[test]
fn cached_pages_do_not_prevent_shrinking() {
    let pool = pool(8);
    crate::common::fill_caches(&pool, 2048);
    assert_eq!(pool.shrink(6 * MIB).expect("free"), 2 * MIB);
}

/// The system does not take locked memory back. The error says so, and the pool is unchanged.
#[test]
fn locked_memory_stays() {
    let mut pool = pool(8);
    let end = at(&pool, 4 * MIB);
    // SAFETY: the memory is mapped, and locking does not change its contents.
    if unsafe { libc::mlock(end.as_ptr().cast(), 4 << 20) } != 0 {
        return println!("SKIPPED locked_memory_stays: {}", std::io::Error::last_os_error());
    }
    let error = pool.shrink(4 * MIB).expect_err("all of it is locked").to_string();
    assert!(error.starts_with("cannot give memory back (4194304 bytes): Invalid argument"), "{error}");
    assert!(error.contains("mlockall"), "{error}");
    assert_eq!(pool.stats().size_bytes, 8 * MIB);
    let error = pool.give_back(u64::MAX).expect_err("half of it is locked").to_string();
    assert!(error.contains("mlockall") && error.contains("Invalid argument"), "{error}");
    assert_eq!(pool.contig_pages(8 << 20).expect("the whole pool").len(), 8 << 20);
    pool.audit().expect("a consistent pool");
    // SAFETY: the memory is mapped, and unlocking does not change its contents.
    unsafe { libc::munlock(end.as_ptr().cast(), 4 << 20) };
    assert_eq!(pool.shrink(4 * MIB).expect("unlocked"), 4 * MIB);
}

/// Threads that need little always find memory.
#[test]
fn allocations_succeed_while_the_pool_shrinks_and_grows() {
    let mut pool = pool(32);
    let orders: Vec<u8> = (0..16).map(|n| n % 5).collect();
    crate::common::during_allocations(&pool, &orders, || {
        let shrunk = pool.shrink(16 * MIB).is_ok();
        if shrunk {
            pool.grow(16 * MIB).expect("room");
        }
        shrunk
    });
    assert_eq!((pool.stats().in_use_bytes, pool.stats().size_bytes), (0, 32 * MIB));
    pool.audit().expect("a consistent pool");
}

/// A failed attempt to shrink isolates nearly all of the pool before it finds the run in use. Other threads wait for it.
#[test]
fn allocations_succeed_while_shrinking_fails() {
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
