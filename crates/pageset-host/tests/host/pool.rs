//! Allocation and free: results, refusals, and the counters.

use std::collections::HashSet;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pageset_host::{
    AllocError, FreeReason, HugePages, MigrateType, NodeId, Order, PAGE_BYTES, PagePool, PoolError, RunSpec,
};
use pageset_host::{Pages, order_for};

use pageset::policy::presets::{PCP_BUDDY, PCP_BUDDY_LIST, PCP_BUDDY_TRY};

use crate::common::{MIB, allowed_cpus, order, pin, pointer_to};

fn first_node() -> NodeId {
    pageset_host::topology::Topology::of_this_machine().nodes[0]
}

fn pool(bytes: u64) -> PagePool {
    PagePool::builder(bytes).build().expect("a pool")
}

#[test]
fn order_for_returns_the_smallest_order() {
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
fn runs_are_aligned_writable_and_distinct() {
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
        assert!(pages.iter().all(|&byte| byte == n as u8), "another run overlaps that of order {n}");
    }
    drop(held);
    assert_eq!(pool.stats().in_use_bytes, 0);
    assert!(pool.pages(Order::ZERO).expect("memory").zeroed().iter().all(|&byte| byte == 0));
}

#[test]
fn a_pool_hands_out_each_page_once() {
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
        let page = pointer_to(address);
        // SAFETY: the page is allocated, and nothing refers to it.
        unsafe { pool.free(page, Order::ZERO).expect("an allocated page") };
    }
    // Caches hold no blocks of the largest order, so the allocations drain them first.
    let large: Vec<_> = (0..2).map(|_| pool.alloc(Order::MAX).expect("all pages are free")).collect();
    assert!(large.iter().any(|run| run.addr() == base));
    let sums = pool.audit().expect("a consistent pool");
    assert_eq!(sums[0].in_use, total as u64);
}

#[test]
fn bulk_calls_allocate_all_free_pages_and_check_before_they_free() {
    let mut pool = pool(4 * MIB);
    let mut pages = vec![NonNull::<u8>::dangling(); 2000];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(1024), "all pages");
    assert!(matches!(pool.alloc_bulk(&mut pages[1024..]), Err(AllocError::OutOfMemory { .. })));
    assert_eq!(pool.alloc_bulk(&mut []), Ok(0));
    pages.truncate(1024);
    let distinct: HashSet<_> = pages.iter().map(|page| page.addr()).collect();
    assert_eq!(distinct.len(), 1024);

    let twice = [&pages[..310], &pages[300..301], &pages[310..]].concat();
    // SAFETY: nothing refers to the pages.
    let error = unsafe { pool.free_bulk(Order::ZERO, &twice) }.expect_err("one page is in the list twice");
    assert_eq!(error.address, pages[300].addr().get());
    assert!(error.to_string().ends_with("the run is already free"), "{error}");
    let misaligned = [&pages[..500], &[pages[0].map_addr(|page| page.saturating_add(8))]].concat();
    // SAFETY: nothing refers to the pages.
    let error = unsafe { pool.free_bulk(Order::ZERO, &misaligned) }.expect_err("one address is inside a page");
    assert_eq!((error.address, error.reason), (pages[0].addr().get() + 8, FreeReason::NotAPage));
    assert_eq!(pool.stats().in_use_bytes, 4 * MIB, "a wrong bulk free freed pages");
    // SAFETY: nothing refers to the pages.
    unsafe { pool.free_bulk(Order::ZERO, &pages).expect("allocated pages") };
    assert_eq!(pool.stats().in_use_bytes, 0);
    pool.audit().expect("a consistent pool");
}

#[test]
fn handles_keep_or_borrow_the_pool() {
    let pool = Arc::new(pool(4 * MIB));
    let mut pages = Pages::new(Arc::clone(&pool), order(3)).expect("memory");
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
    assert!(weak.upgrade().is_none(), "the pool outlived its last handle");

    let pool = PagePool::builder(4 * MIB).build().expect("a pool");
    let raw = pool.pages(order(1)).expect("memory").into_raw();
    assert_eq!(pool.stats().in_use_bytes, 8192);
    // SAFETY: (1) the run is allocated from this pool with order 1; (2) the test owns it.
    drop(unsafe { Pages::from_raw(&pool, raw.cast(), order(1)) });
    assert_eq!(pool.stats().in_use_bytes, 0);
}

#[test]
fn a_panic_frees_the_runs_of_its_handles() {
    let pool = Arc::new(pool(4 * MIB));
    let pool_of_thread = Arc::clone(&pool);
    let result = std::thread::spawn(move || {
        let _pages = pool_of_thread.pages(order(4)).expect("memory");
        panic!("on purpose");
    })
    .join();
    assert!(result.is_err());
    assert_eq!(pool.stats().in_use_bytes, 0);
}

#[test]
fn a_pool_grows_into_its_reserve() {
    let mut pool = PagePool::builder(2 * MIB).reserve(8 * MIB).build().expect("a pool");
    let allocate_all = || std::iter::from_fn(|| pool.alloc(order(9)).ok()).count();
    assert_eq!((allocate_all(), pool.stats().size_bytes), (1, 2 * MIB));
    let start = pool.memory().address_space().addr().get();
    let reserved = pointer_to(NonZero::new(start + (4 << 20)).expect("an address"));
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free(reserved, Order::ZERO) }.expect_err("a free in the reserve");
    assert!(error.to_string().ends_with("the address is beyond the current size of the pool"), "{error}");
    assert_eq!(pool.grow(1).expect("room"), 4 * MIB, "rounded up to 2 MiB");
    assert_eq!(allocate_all(), 1);
    let error = pool.grow(8 * MIB).expect_err("more than the reserve");
    assert!(matches!(error, PoolError::GrowSize { max_bytes, .. } if max_bytes == 4 * MIB), "{error}");
    assert_eq!(pool.grow(4 * MIB).expect("room"), 8 * MIB);
    assert_eq!((allocate_all(), pool.stats().size_bytes), (2, 8 * MIB));
    assert!(pool.grow(1).is_err(), "no reserve is left");
    pool.audit().expect("a consistent pool");
}

#[test]
fn allocations_by_node_and_by_type() {
    let pool = pool(16 * MIB);
    let node = pool.zones().next().expect("a zone").node;
    let run = pool.alloc_with(&RunSpec::new(Order::ZERO).node(node)).expect("memory of this node");
    assert_eq!(pool.alloc_with(&RunSpec::new(Order::ZERO).node(NodeId(77))), Err(AllocError::UnknownNode(NodeId(77))));
    let unmovable = pool.alloc_with(&RunSpec::new(Order::ZERO).migratetype(MigrateType::Unmovable)).expect("memory");
    assert_ne!(unmovable.addr().get() >> 21, run.addr().get() >> 21, "runs of two types share a 2 MiB block");
    assert_eq!(
        pool.alloc_with(&RunSpec::new(Order::ZERO).migratetype(MigrateType::Cma)),
        Err(AllocError::UnsupportedType(MigrateType::Cma))
    );
}

/// As on a machine that has the nodes: each has its share, and gives its pages to those who ask for it.
#[test]
fn nodes_can_be_pretended() {
    let pool = PagePool::builder(48 << 20).pretended_nodes(3).build().expect("memory");
    let in_use = || -> Vec<u64> {
        let zones = pool.zones();
        zones.map(|zone| zone.managed - zone.nr_free_pages - zone.cached_pages()).collect()
    };
    let mut expected = in_use();
    for node in [2, 0, 1, 2] {
        pool.alloc_with(&RunSpec::new(Order::ZERO).node(NodeId(node))).expect("memory");
        expected[node as usize] += 1;
        assert_eq!(in_use(), expected);
    }
    assert!(matches!(PagePool::builder(48 << 20).pretended_nodes(0).build(), Err(PoolError::Setting { .. })));
}

/// A free takes no other CPU's lock: the blocks of another CPU's pageblocks are left for it, and none is lost.
#[test]
fn pageblocks_may_have_owners() {
    for tuning in [PCP_BUDDY, PCP_BUDDY_TRY, PCP_BUDDY_LIST] {
        let mut pool = PagePool::builder(64 << 20).tuning(tuning).build().expect("memory");
        for cpu in allowed_cpus().into_iter().cycle().take(20) {
            let pages: Vec<_> = (0..500).map(|_| pool.alloc(Order::ZERO).expect("memory").addr()).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pin(cpu).expect("an allowed CPU");
                    for &page in &pages {
                        // SAFETY: the page is allocated, and nothing refers to it.
                        unsafe { pool.free(pointer_to(page), Order::ZERO).expect("an allocated page") };
                    }
                });
            });
        }
        let books = pool.audit().expect("a consistent pool");
        assert!(books.iter().all(|zone| zone.in_use == 0), "{books:?}");
    }
}

/// Skipped on machines without explicit huge pages.
#[test]
fn a_pool_of_explicit_huge_pages() {
    let pool = match PagePool::builder(8 * MIB).huge_pages(HugePages::Explicit).build() {
        Ok(pool) => pool,
        Err(error) => return println!("SKIPPED a_pool_of_explicit_huge_pages: {error}"),
    };
    let mut pages = pool.pages(Order::MAX).expect("memory");
    pages.fill(1);
    assert_eq!(pool.memory().resident_bytes().expect("a count"), 4 * MIB);
    drop(pages);
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 4 * MIB);
    assert_eq!(pool.memory().resident_bytes().expect("a count"), 0);
}

#[test]
fn prefaulted_memory_is_resident_from_the_start() {
    let pool = PagePool::builder(8 * MIB).reserve(16 * MIB).prefault(true).build().expect("a pool");
    assert_eq!(pool.memory().resident_bytes().expect("a count"), 8 * MIB);
    pool.grow(2 * MIB).expect("room");
    assert_eq!(pool.memory().resident_bytes().expect("a count"), 10 * MIB);
}

#[test]
fn an_unknown_node_drains_no_caches() {
    let pool = pool(1024 * MIB);
    let mut pages = [NonNull::dangling(); 200];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(200));
    // SAFETY: the pages are allocated, and nothing refers to them.
    unsafe { pool.free_bulk(Order::ZERO, &pages).expect("an allocated page") };
    let before = pool.stats().cached_bytes;
    assert!(before > 0);
    assert_eq!(pool.alloc_with(&RunSpec::new(Order::ZERO).node(NodeId(77))), Err(AllocError::UnknownNode(NodeId(77))));
    assert_eq!(pool.stats().cached_bytes, before);
}

#[test]
fn a_partial_bulk_allocation_is_not_a_failure() {
    let pool = pool(4 * MIB);
    let mut pages = vec![NonNull::dangling(); 2000];
    assert_eq!((pool.alloc_bulk(&mut pages), pool.stats().failed_allocs), (Ok(1024), 0));
}

/// One page is free, in a cache that other threads drain all the time. Each allocation finds it.
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
            let page = pages.pop().expect("1024 pages");
            // SAFETY: the page is allocated, and nothing refers to it.
            unsafe { pool.free(page, Order::ZERO).expect("an allocated page") };
            std::thread::yield_now();
            let got = pool.alloc(Order::ZERO);
            stop.store(got.is_err(), Relaxed);
            pages.push(got.expect("a page is free").cast());
        }
        stop.store(true, Relaxed);
    });
}

/// The tags of 64 neighbouring pages share a cache line. CPUs that reuse their first page must not share that line.
#[test]
fn the_first_pages_of_two_cpus_do_not_share_a_line_of_tags() {
    let pool = pool(1024 * MIB);
    std::thread::scope(|scope| {
        let lines = scope.spawn(|| {
            let cpus: Vec<usize> = allowed_cpus().into_iter().take(16).collect();
            let line_of_first = |&cpu: &usize| {
                pin(cpu).expect("an allowed CPU");
                pool.pages(Order::ZERO).expect("memory").as_ptr() as usize / PAGE_BYTES / 64
            };
            let lines: HashSet<usize> = cpus.iter().map(line_of_first).collect();
            assert_eq!(lines.len(), cpus.len());
        });
        lines.join().expect("no panic");
    });
}

/// Threads allocate and free with both kinds of cache locks while another thread ticks and drains.
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
                                assert_eq!(gone[0], thread, "two threads own the run");
                            }
                        }
                    })
                })
                .collect();
            let remote = scope.spawn(|| {
                while !done.load(Relaxed) {
                    pool.tick().expect("a tick");
                    pool.drain();
                }
            });
            workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
            done.store(true, Relaxed);
            remote.join().expect("no panic");
        });
        pool.drain();
        assert_eq!(pool.stats().in_use_bytes, 0, "{on}");
        pool.audit().expect("a consistent pool");
    }
}

/// All memory is free, but no call has completed a deferred free.
#[test]
fn deferred_frees_keep_no_memory_from_later_requests() {
    for wanted in [PAGE_BYTES << Order::MAX.get(), 8 * MIB as usize] {
        let pool = PagePool::builder(8 * MIB).nodes(&[first_node()]).build().expect("a pool");
        let mut pages = vec![NonNull::dangling(); 8 * MIB as usize / PAGE_BYTES];
        assert_eq!(pool.alloc_bulk(&mut pages), Ok(pages.len()));
        // SAFETY: the pages are allocated, and nothing refers to them.
        pages.into_iter().for_each(|page| unsafe { pool.free_deferred(page, Order::ZERO).expect("in use") });
        assert_eq!((pool.stats().in_use_bytes, pool.stats().free_bytes), (0, 0), "freed, and on no list");
        match order_for(wanted) {
            Some(order) => drop(pool.pages(order).expect("all memory is free")),
            None => drop(pool.contig_pages(wanted).expect("all memory is free")),
        }
        assert_eq!(pool.stats().in_use_bytes, 0);
    }
}
