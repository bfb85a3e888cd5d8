//! Contiguous runs: where they are found, what they cost others, and what is refused.

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use pageset_host::{AllocError, ContigPages, FreeReason, GiveBack, HugePages, NodeId, Order, PAGE_BYTES, PagePool};

const MIB: usize = 1 << 20;

fn pool(mib: usize) -> PagePool {
    let builder = PagePool::builder((mib * MIB) as u64).give_back(GiveBack::OFF);
    builder.huge_pages(HugePages::None).build().expect("a pool")
}

#[test]
fn runs_of_any_size_are_whole_writable_and_their_own() {
    let mut pool = pool(64);
    let sizes = [1, PAGE_BYTES, PAGE_BYTES + 1, 3 * MIB, 4 * MIB + 1, 10 * MIB, 21 * MIB];
    let mut held: Vec<_> = sizes.iter().map(|&bytes| pool.contig_pages(bytes).expect("memory")).collect();
    for (i, (pages, bytes)) in held.iter_mut().zip(sizes).enumerate() {
        assert_eq!(pages.len(), bytes.next_multiple_of(PAGE_BYTES));
        assert_eq!(pages.as_ptr() as usize % (2 * MIB), 0, "{bytes} bytes");
        pages.fill(i as u8);
    }
    let in_use: usize = held.iter().map(|pages| pages.len()).sum();
    assert_eq!(pool.stats().in_use_bytes, in_use as u64);
    for (i, pages) in held.iter().enumerate() {
        assert!(pages.iter().all(|&byte| byte == i as u8), "{} bytes were written to by another", pages.len());
    }
    drop(held);
    let stats = pool.stats();
    assert_eq!((stats.in_use_bytes, stats.alloc_bytes), (0, stats.free_total_bytes));
    pool.audit().expect("the books add up");
    // Nothing is lost between them: all of the pool is one run again.
    assert_eq!(pool.contig_pages(64 * MIB).expect("all of it").len(), 64 * MIB);
}

#[test]
fn a_run_is_found_between_those_in_use() {
    let pool = pool(32);
    let all: Vec<_> = (0..16).map(|_| pool.pages(Order::PAGEBLOCK).expect("memory")).collect();
    let mut by_place: Vec<_> = all.into_iter().map(Some).collect();
    by_place.sort_by_key(|pages| pages.as_ref().map(|pages| pages.as_ptr() as usize));
    let start = pool.address_space().addr().get();
    // Free: 2 MiB at 2, 4 MiB at 10, 6 MiB at 20.
    for place in [1, 5, 6, 10, 11, 12] {
        by_place[place] = None;
    }
    let six = pool.contig_pages(6 * MIB).expect("one place fits");
    assert_eq!(six.as_ptr() as usize - start, 20 * MIB);
    assert_eq!(
        pool.contig_pages(6 * MIB).expect_err("no other").to_string(),
        "no 6291456 bytes in a row are free; 6291456 bytes are in all"
    );
    let four = pool.contig_pages(3 * MIB).expect("the first that fits");
    assert_eq!(four.as_ptr() as usize - start, 10 * MIB);
    // The rest of it is not lost.
    let rest = pool.contig_pages(MIB).expect("two places");
    assert_eq!(rest.as_ptr() as usize - start, 2 * MIB);
    let failed = pool.stats().failed_allocs;
    assert_eq!(failed, 1);
}

/// Single pages that only caches hold are in nobody's way.
#[test]
fn what_caches_hold_counts_as_free() {
    let pool = pool(8);
    let mut pages = vec![NonNull::dangling(); 2048];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(2048));
    // One by one: the caches keep some.
    for page in pages {
        // SAFETY: it was handed out and is not referred to.
        unsafe { pool.free(page, Order::ZERO).expect("ours") };
    }
    assert!(pool.stats().cached_bytes > 0);
    assert_eq!(pool.contig_pages(8 * MIB).expect("all of it").len(), 8 * MIB);
}

#[test]
fn sizes_nodes_and_frees_that_are_refused() {
    let pool = pool(16);
    for bytes in [0, 16 * MIB + 1, usize::MAX] {
        let error = pool.alloc_contig(bytes).expect_err("no such size");
        let text = format!("a contiguous run of {bytes} bytes cannot be had; allowed: 1 to 16777216, a node's part");
        assert_eq!(error.to_string(), text);
    }
    let node = pool.zones().next().expect("a zone").node;
    assert_eq!(pool.alloc_contig_on(NodeId(77), MIB), Err(AllocError::UnknownNode(NodeId(77))));
    let run = pool.alloc_contig_on(node, 5 * MIB).expect("memory");

    let before = pool.stats();
    let start = run.cast::<u8>();
    let part = |from: usize, bytes: usize| {
        NonNull::slice_from_raw_parts(start.map_addr(|address| address.saturating_add(from)), bytes)
    };
    // SAFETY: nothing is freed.
    let wrong = |from, bytes| unsafe { pool.free_contig(part(from, bytes)) }.expect_err("a wrong free");
    for (from, bytes, address) in [(8, PAGE_BYTES, 8), (0, 100, 100)] {
        let error = wrong(from, bytes);
        assert_eq!(
            (error.reason, error.address),
            (FreeReason::NotAPage, start.addr().get() + address),
            "{from} {bytes}"
        );
    }
    // The first 4 MiB are one block.
    assert!(wrong(PAGE_BYTES, MIB).to_string().contains("is inside the run of order 10"));
    assert!(wrong(0, MIB).to_string().ends_with("the run there has order 10"));
    assert!(wrong(0, 6 * MIB).to_string().contains("is free"), "{}", wrong(0, 6 * MIB));
    assert!(wrong(0, 64 * MIB).to_string().ends_with("it is not in this pool"));
    assert_eq!(pool.stats(), before, "nothing has changed");
    // SAFETY: ours, and not referred to.
    unsafe { pool.free_contig(run).expect("was taken") };
    assert!(wrong(0, 5 * MIB).to_string().contains("free"), "a second free");
}

#[test]
fn handles_keep_the_pool_and_go_raw_and_back() {
    let pool = Arc::new(pool(16));
    let mut pages = pool.shared_contig_pages(6 * MIB).expect("memory");
    pages[6 * MIB - 1] = 9;
    let weak = Arc::downgrade(&pool);
    drop(pool);
    let raw = ContigPages::into_raw(pages);
    assert!(weak.upgrade().is_none(), "a raw run does not keep the pool");
    assert_eq!(raw.len(), 6 * MIB);

    let pool = self::pool(16);
    let raw = pool.alloc_contig(6 * MIB).expect("memory");
    // SAFETY: just taken, and from this pool.
    let mut pages = unsafe { ContigPages::from_raw(&pool, raw) };
    pages.fill(1);
    drop(pages);
    assert_eq!(pool.stats().in_use_bytes, 0);
}

/// Threads that need little find memory all the while, though whole pageblocks are set apart again and again.
#[test]
fn others_wait_for_a_range_instead_of_failing() {
    let mut pool = pool(32);
    thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for round in 0..400_u32 {
                        // At most 4 MiB of each: there always is room for them and for one range.
                        let mut runs: Vec<_> =
                            (0..4).map(|_| pool.pages(Order::new(8).expect("8")).expect("memory")).collect();
                        runs.iter_mut().for_each(|run| run[..4].copy_from_slice(&round.to_ne_bytes()));
                        assert!(runs.iter().all(|run| run[..4] == round.to_ne_bytes()));
                    }
                })
            })
            .collect();
        let mut found = 0;
        while users.iter().any(|user| !user.is_finished()) {
            if let Ok(mut pages) = pool.contig_pages(12 * MIB) {
                found += 1;
                pages.fill(0xff);
                assert!(pages.iter().all(|&byte| byte == 0xff));
            }
        }
        assert!(found > 0);
    });
    assert_eq!(pool.stats().in_use_bytes, 0);
    pool.audit().expect("the books add up");
}

/// Two that each need a little more than a third: there always is a place for both.
#[test]
fn two_ranges_do_not_stand_in_each_others_way() {
    let mut pool = pool(16);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    drop(pool.contig_pages(6 * MIB).expect("a place"));
                }
            });
        }
    });
    assert_eq!((pool.stats().in_use_bytes, pool.stats().failed_allocs), (0, 0));
    pool.audit().expect("the books add up");
}
