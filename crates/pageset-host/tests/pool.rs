//! The pool as its callers see it: what they get, what they are refused, and that the books add up.

use std::collections::HashSet;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pageset_host::{AllocError, FreeReason, HugePages, MigrateType, NodeId, Order, PAGE_BYTES, PagePool, PoolError};
use pageset_host::{Pages, order_for};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const MIB: u64 = 1 << 20;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

fn at_address(address: NonZero<usize>) -> NonNull<u8> {
    NonNull::dangling().map_addr(|_| address)
}

fn pool(bytes: u64) -> PagePool {
    PagePool::builder(bytes).build().expect("a pool")
}

#[test]
fn orders_for_sizes() {
    for (bytes, expected) in [
        (0, Some(0)),
        (1, Some(0)),
        (4096, Some(0)),
        (4097, Some(1)),
        (8192, Some(1)),
        (8193, Some(2)),
        (4 << 20, Some(10)),
        ((4 << 20) + 1, None),
        (usize::MAX, None),
    ] {
        assert_eq!(order_for(bytes).map(Order::get), expected, "{bytes} bytes");
    }
}

#[test]
fn a_run_is_aligned_writable_and_its_own() {
    let pool = pool(32 * MIB);
    let mut held = vec![];
    for n in 0..=10 {
        let mut pages = pool.pages(order(n)).expect("memory");
        assert_eq!(pages.len(), PAGE_BYTES << n);
        assert_eq!(pages.as_ptr() as usize % pages.len(), 0, "order {n}");
        pages.fill(n);
        held.push(pages);
    }
    assert_eq!(pool.stats().in_use_bytes, held.iter().map(|pages| pages.len() as u64).sum());
    for (n, pages) in held.iter().enumerate() {
        assert!(pages.iter().all(|&byte| byte == n as u8), "order {n} was written to by another");
    }
    drop(held);
    assert_eq!(pool.stats().in_use_bytes, 0);
    assert!(pool.pages(Order::ZERO).expect("memory").zeroed().iter().all(|&byte| byte == 0));
}

#[test]
fn all_of_a_pool_can_be_had_and_not_a_page_more() {
    let mut pool = pool(8 * MIB);
    let total = 8 * MIB as usize / PAGE_BYTES;
    let mut seen = HashSet::new();
    while let Ok(page) = pool.alloc(Order::ZERO) {
        assert!(seen.insert(page.addr()), "{page:?} twice");
    }
    assert_eq!(seen.len(), total);
    assert_eq!(pool.alloc(Order::ZERO), Err(AllocError::OutOfMemory { order: Order::ZERO, free_bytes: 0 }));
    assert_eq!(pool.stats().failed_allocs, 2);
    let base = seen.iter().min().copied().expect("pages");
    for address in seen {
        let page = at_address(address);
        // SAFETY: never referred to.
        unsafe { pool.free(page, Order::ZERO).expect("was allocated") };
    }
    // What the caches hold is had by orders that they do not: they are emptied first.
    let large: Vec<_> = (0..2).map(|_| pool.alloc(Order::MAX).expect("all pages are free again")).collect();
    assert!(large.iter().any(|run| run.addr() == base));
    let books = pool.audit().expect("the books add up");
    assert_eq!(books[0].in_use, total as u64);
}

#[test]
fn bulk_calls_take_what_there_is_and_check_before_they_free() {
    let mut pool = pool(4 * MIB);
    let mut pages = vec![NonNull::<u8>::dangling(); 2000];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(1024), "all pages, and no more");
    assert!(matches!(pool.alloc_bulk(&mut pages[1024..]), Err(AllocError::OutOfMemory { .. })));
    assert_eq!(pool.alloc_bulk(&mut []), Ok(0));
    pages.truncate(1024);
    let distinct: HashSet<_> = pages.iter().map(|page| page.addr()).collect();
    assert_eq!(distinct.len(), 1024);

    // The page at 300 twice.
    let twice = [&pages[..310], &pages[300..301], &pages[310..]].concat();
    // SAFETY: not referred to.
    let error = unsafe { pool.free_bulk(&twice) }.expect_err("one is there twice");
    assert_eq!(error.address, pages[300].addr().get());
    assert!(error.to_string().ends_with("it is free already"), "{error}");
    let askew = [&pages[..500], &[pages[0].map_addr(|page| page.saturating_add(8))]].concat();
    // SAFETY: not referred to.
    let error = unsafe { pool.free_bulk(&askew) }.expect_err("one is not a page");
    assert_eq!((error.address, error.reason), (pages[0].addr().get() + 8, FreeReason::NotAPage));
    assert_eq!(pool.stats().in_use_bytes, 4 * MIB, "nothing has been freed");
    // SAFETY: not referred to.
    unsafe { pool.free_bulk(&pages).expect("were allocated") };
    assert_eq!(pool.stats().in_use_bytes, 0);
    pool.audit().expect("the books add up");
}

#[test]
fn handles_keep_the_pool_or_borrow_it() {
    let pool = Arc::new(pool(4 * MIB));
    let mut pages = pool.shared_pages(order(3)).expect("memory");
    pages[7] = 7;
    let weak = Arc::downgrade(&pool);
    drop(pool);
    let pages = std::thread::spawn(move || {
        assert_eq!(pages[7], 7);
        pages
    })
    .join()
    .expect("no panic");
    assert_eq!(pages.pool().stats().in_use_bytes, 8 * PAGE_BYTES as u64);
    drop(pages);
    assert!(weak.upgrade().is_none(), "the last handle took the pool with it");

    let pool = PagePool::builder(4 * MIB).build().expect("a pool");
    let raw = pool.pages(order(1)).expect("memory").into_raw();
    assert_eq!(pool.stats().in_use_bytes, 8192);
    // SAFETY: just taken out of its handle.
    drop(unsafe { Pages::from_raw(&pool, raw.cast(), order(1)) });
    assert_eq!(pool.stats().in_use_bytes, 0);
}

#[test]
fn a_panic_frees_what_its_handles_have() {
    let pool = Arc::new(pool(4 * MIB));
    let theirs = Arc::clone(&pool);
    let result = std::thread::spawn(move || {
        let _pages = theirs.pages(order(4)).expect("memory");
        panic!("on purpose");
    })
    .join();
    assert!(result.is_err());
    assert_eq!(pool.stats().in_use_bytes, 0);
}

#[test]
fn a_pool_grows_into_its_reserve() {
    let mut pool = PagePool::builder(2 * MIB).reserve(8 * MIB).build().expect("a pool");
    let take_all = || std::iter::from_fn(|| pool.alloc(order(9)).ok()).count();
    assert_eq!((take_all(), pool.stats().size_bytes), (1, 2 * MIB));
    let start = pool.address_space().addr().get();
    let reserved = at_address(NonZero::new(start + (4 << 20)).expect("an address"));
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(reserved, Order::ZERO) }.expect_err("not there yet");
    assert!(error.to_string().ends_with("the pool does not reach that far now"), "{error}");
    assert_eq!(pool.grow(1).expect("room"), 4 * MIB, "rounded up");
    assert_eq!(take_all(), 1);
    let error = pool.grow(8 * MIB).expect_err("more than was reserved");
    assert!(matches!(error, PoolError::GrowSize { max_bytes, .. } if max_bytes == 4 * MIB), "{error}");
    assert_eq!(pool.grow(4 * MIB).expect("room"), 8 * MIB);
    assert_eq!((take_all(), pool.stats().size_bytes), (2, 8 * MIB));
    assert!(pool.grow(1).is_err(), "full");
    pool.audit().expect("the books add up");
}

#[test]
fn nodes_and_types() {
    let pool = pool(16 * MIB);
    let node = pool.zones().next().expect("a zone").node;
    let run = pool.alloc_on(node, Order::ZERO).expect("memory of a node that is there");
    assert_eq!(pool.alloc_on(NodeId(77), Order::ZERO), Err(AllocError::UnknownNode(NodeId(77))));
    let long = pool.alloc_typed(Order::ZERO, MigrateType::Unmovable).expect("memory");
    assert_ne!(long.addr().get() >> 21, run.addr().get() >> 21, "types have 2 MiB blocks of their own");
    assert_eq!(pool.alloc_typed(Order::ZERO, MigrateType::Cma), Err(AllocError::UnsupportedType(MigrateType::Cma)));
}

/// With huge pages set apart, a pool of them works like any other.
#[test]
fn explicit_huge_pages() {
    let pool = match PagePool::builder(8 * MIB).huge_pages(HugePages::Explicit).build() {
        Ok(pool) => pool,
        Err(error) => return println!("SKIPPED explicit_huge_pages: {error}"),
    };
    let mut pages = pool.pages(Order::MAX).expect("memory");
    pages.fill(1);
    assert_eq!(pool.resident_bytes().expect("a count"), 4 * MIB);
    drop(pages);
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 4 * MIB);
    assert_eq!(pool.resident_bytes().expect("a count"), 0);
}

#[test]
fn prefaulted_memory_is_there_from_the_start() {
    let pool = PagePool::builder(8 * MIB).reserve(16 * MIB).prefault(true).build().expect("a pool");
    assert_eq!(pool.resident_bytes().expect("a count"), 8 * MIB);
    pool.grow(2 * MIB).expect("room");
    assert_eq!(pool.resident_bytes().expect("a count"), 10 * MIB);
}

/// What can never be had is refused at once: nobody's cache is emptied for it.
#[test]
fn a_node_that_is_not_there_costs_nobody_their_cache() {
    let pool = pool(1024 * MIB);
    let mut pages = [NonNull::dangling(); 200];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(200));
    // SAFETY: they were just handed out.
    unsafe { pool.free_bulk(&pages).expect("ours") };
    let before = pool.stats().cached_bytes;
    assert!(before > 0);
    assert_eq!(pool.alloc_on(NodeId(77), Order::ZERO), Err(AllocError::UnknownNode(NodeId(77))));
    assert_eq!(pool.stats().cached_bytes, before);
}

#[test]
fn a_bulk_call_that_gets_some_is_no_failure() {
    let pool = pool(4 * MIB);
    let mut pages = vec![NonNull::dangling(); 2000];
    assert_eq!((pool.alloc_bulk(&mut pages), pool.stats().failed_allocs), (Ok(1024), 0));
}

/// One page is free, in a cache that others empty all the time: whoever asks for it gets it.
#[test]
fn the_last_page_is_found_while_others_drain() {
    let pool = pool(4 * MIB);
    let mut pages = vec![NonNull::dangling(); 1024];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(1024));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    pool.drain()
                }
            });
        }
        for _ in 0..2000 {
            let page = pages.pop().expect("one");
            // SAFETY: it was handed out, and is not used again.
            unsafe { pool.free(page, Order::ZERO).expect("ours") };
            std::thread::yield_now();
            let got = pool.alloc(Order::ZERO);
            stop.store(got.is_err(), Relaxed);
            pages.push(got.expect("a page is free").cast());
        }
        stop.store(true, Relaxed);
    });
}

/// The tags of 64 neighbouring pages are one cache line, which CPUs that use the same page again and again must not share.
#[test]
fn the_first_pages_of_each_cpu_are_on_lines_of_their_own() {
    let pool = pool(1024 * MIB);
    std::thread::scope(|scope| {
        let lines = scope.spawn(|| {
            let allowed = sched_getaffinity(None).expect("own affinity");
            let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(16).collect();
            let line_of_first = |cpu: &usize| {
                let mut one = CpuSet::new();
                one.set(*cpu);
                sched_setaffinity(None, &one).expect("an allowed CPU");
                pool.pages(Order::ZERO).expect("memory").as_ptr() as usize / PAGE_BYTES / 64
            };
            let lines: HashSet<usize> = cpus.iter().map(line_of_first).collect();
            assert_eq!(lines.len(), cpus.len());
        });
        lines.join().expect("no panic");
    });
}

/// Both kinds of locks: threads that allocate and free in all ways, while another ticks and drains.
#[test]
fn caches_with_and_without_restartable_sequences() {
    for on in [true, false] {
        let mut pool = PagePool::builder(256 * MIB).restartable_sequences(on).build().expect("a pool");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|thread| {
                    let pool = &pool;
                    scope.spawn(move || {
                        let mut held = vec![];
                        for round in 0..20_000_usize {
                            let mut pages = pool.pages(order([0, 0, 0, 1, 3, 9][round % 6])).expect("memory");
                            pages[0] = thread;
                            held.push(pages);
                            if held.len() > 20 {
                                let gone = held.swap_remove(round * 7 % 20);
                                assert_eq!(gone[0], thread, "another has it, too");
                            }
                        }
                    })
                })
                .collect();
            let from_afar = scope.spawn(|| {
                while !done.load(Relaxed) {
                    pool.tick().expect("the pool is this process's");
                    pool.drain();
                }
            });
            workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
            done.store(true, Relaxed);
            from_afar.join().expect("no panic");
        });
        pool.drain();
        assert_eq!(pool.stats().in_use_bytes, 0, "{on}");
        pool.audit().expect("the books add up");
    }
}
