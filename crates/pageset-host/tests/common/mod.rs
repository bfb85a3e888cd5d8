//! Helpers that several tests share.
#![allow(dead_code, reason = "each test uses some of the helpers")]

use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use pageset_host::{Order, PagePool};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// A pointer to any address. Tests pass it to frees that fail.
pub(crate) fn pointer_to(address: NonZero<usize>) -> NonNull<u8> {
    NonNull::dangling().map_addr(|_| address)
}

/// The CPUs that this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("own affinity");
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Moves the thread to `cpu` and keeps it there.
pub(crate) fn pin(cpu: usize) -> rustix::io::Result<()> {
    let mut one_cpu = CpuSet::new();
    one_cpu.set(cpu);
    sched_setaffinity(None, &one_cpu)
}

/// Allocates all of a pool of `pages` pages, and frees the pages one by one, so that caches hold some of them.
pub(crate) fn fill_caches(pool: &PagePool, pages: usize) {
    let mut all = vec![NonNull::dangling(); pages];
    assert_eq!(pool.alloc_bulk(&mut all), Ok(pages));
    for page in all {
        // SAFETY: the page is allocated, and nothing refers to it.
        unsafe { pool.free(page, Order::ZERO).expect("an allocated page") };
    }
    assert!(pool.stats().cached_bytes > 0);
}

/// Runs `operation` until it has succeeded 10 times. Meanwhile, three threads allocate runs of `orders`, check that no
/// other run overlaps them, and free them.
pub(crate) fn during_allocations(pool: &PagePool, orders: &[u8], mut operation: impl FnMut() -> bool) {
    /// Stops the threads, even after a panic of `operation`.
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(stop);
        let allocate = || {
            for round in (0_u32..).take_while(|_| !stop.load(Relaxed)) {
                let mut runs: Vec<_> = orders.iter().map(|&n| pool.pages(order(n)).expect("memory")).collect();
                runs.iter_mut().for_each(|run| run[..4].copy_from_slice(&round.to_ne_bytes()));
                assert!(runs.iter().all(|run| run[..4] == round.to_ne_bytes()), "another run overlaps");
            }
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(allocate)).collect();
        let mut successes = 0;
        // A thread that has finished has panicked, and the scope reports it.
        while successes < 10 && !threads.iter().any(|thread| thread.is_finished()) {
            successes += u32::from(operation());
        }
    });
}
