//! Contiguous runs: where the pool finds them, their effect on other threads, and refused requests.

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use pageset_host::{
    AllocError, ContigPages, ContigSpec, FreeReason, GiveBack, HugePages, NodeId, Order, PAGE_BYTES, PagePool,
};

const MIB: usize = crate::common::MIB as usize;

fn pool(mib: usize) -> PagePool {
    let builder = PagePool::builder((mib * MIB) as u64).give_back(GiveBack::OFF);
    builder.huge_pages(HugePages::None).build().expect("a pool")
}

#[test]
fn runs_of_any_size_are_whole_writable_and_distinct() {
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
        assert!(pages.iter().all(|&byte| byte == i as u8), "another run overlaps that of {} bytes", pages.len());
    }
    drop(held);
    let stats = pool.stats();
    assert_eq!((stats.in_use_bytes, stats.alloc_bytes), (0, stats.free_total_bytes));
    pool.audit().expect("a consistent pool");
    // All freed runs have merged.
    assert_eq!(pool.contig_pages(64 * MIB).expect("the whole pool").len(), 64 * MIB);
}

#[test]
fn a_run_fits_between_runs_in_use() {
    let pool = pool(32);
    let all: Vec<_> = (0..16).map(|_| pool.pages(Order::PAGEBLOCK).expect("memory")).collect();
    let mut by_address: Vec<_> = all.into_iter().map(Some).collect();
    by_address.sort_by_key(|pages| pages.as_ref().map(|pages| pages.as_ptr() as usize));
    let start = pool.memory().address_space().addr().get();
    // Frees 2 MiB at 2 MiB, 4 MiB at 10 MiB, and 6 MiB at 20 MiB.
    for index in [1, 5, 6, 10, 11, 12] {
        by_address[index] = None;
    }
    let six = pool.contig_pages(6 * MIB).expect("one range fits");
    assert_eq!(six.as_ptr() as usize - start, 20 * MIB);
    assert_eq!(
        pool.contig_pages(6 * MIB).expect_err("no other range fits").to_string(),
        "cannot allocate a contiguous run of 6291456 bytes: no free range of that size starts at a multiple of 2 MiB, and \
         6291456 bytes are free in all; try a smaller run, or up to 4 MiB one of 2^order pages"
    );
    let four = pool.contig_pages(3 * MIB).expect("the first range fits");
    assert_eq!(four.as_ptr() as usize - start, 10 * MIB);
    let rest = pool.contig_pages(MIB).expect("two ranges fit");
    assert_eq!(rest.as_ptr() as usize - start, 2 * MIB);
    let failed = pool.stats().failed_allocs;
    assert_eq!(failed, 1);
}

#[test]
fn cached_pages_count_as_free() {
    let pool = pool(8);
    crate::common::fill_caches(&pool, 2048);
    assert_eq!(pool.contig_pages(8 * MIB).expect("the whole pool").len(), 8 * MIB);
}

#[test]
fn wrong_sizes_nodes_and_frees_are_refused() {
    let pool = pool(16);
    for bytes in [0, 16 * MIB + 1, usize::MAX] {
        let error = pool.alloc_contig(bytes).expect_err("no such size");
        let text = format!(
            "cannot allocate a contiguous run of {bytes} bytes: the size is out of range; try 1 to 16777216, the size of \
             a node"
        );
        assert_eq!(error.to_string(), text);
    }
    let node = pool.zones().next().expect("a zone").node;
    assert_eq!(pool.alloc_contig(ContigSpec::new(MIB).node(NodeId(77))), Err(AllocError::UnknownNode(NodeId(77))));
    let run = pool.alloc_contig(ContigSpec::new(5 * MIB).node(node)).expect("memory");

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
    assert!(wrong(PAGE_BYTES, MIB).to_string().contains("inside the contiguous run of 5242880 bytes at 0x"));
    for mib in [1, 4, 6, 64] {
        assert!(wrong(0, mib * MIB).to_string().ends_with("the run there has 5242880 bytes; try that size"), "{mib}");
    }
    assert_eq!(pool.stats(), before, "a wrong free changed the counters");
    // SAFETY: (1) nothing refers to the run; (2) the test owns all of it.
    unsafe { pool.free_contig(run).expect("an allocated run") };
    let second = wrong(0, 5 * MIB).to_string();
    assert_eq!(second, format!("cannot free {:#x} as a contiguous run: the run is already free", start.addr()));
    assert!(
        wrong(64 * MIB, MIB).to_string().ends_with("the address is not in this pool; try the pool that allocated it")
    );
}

/// A length that ends inside the run or in the next run is refused, and the error names the size of the run.
#[test]
fn a_wrong_length_frees_nothing() {
    let mut pool = PagePool::builder(32 * MIB as u64).reserve(64 * MIB as u64).build().expect("a pool");
    let run = pool.alloc_contig(3 * MIB).expect("memory");
    let next = pool.alloc_contig(2 * MIB).expect("memory");
    let start = run.cast::<u8>();
    assert_eq!(next.cast::<u8>().addr().get(), start.addr().get() + 4 * MIB, "the runs are neighbours");
    let before = pool.stats();
    // SAFETY: nothing is freed.
    let wrong = |start: NonNull<u8>, bytes| {
        unsafe { pool.free_contig(NonNull::slice_from_raw_parts(start, bytes)) }.expect_err("a wrong free")
    };
    for bytes in [0, PAGE_BYTES, 2 * MIB, 4 * MIB, 6 * MIB] {
        assert_eq!(wrong(start, bytes).reason, FreeReason::ContigSize { bytes, actual: 3 * MIB });
    }
    assert_eq!(
        wrong(start, 2 * MIB).to_string(),
        format!(
            "cannot free {:#x} as a contiguous run of 2097152 bytes: the run there has 3145728 bytes; try that size",
            start.addr()
        )
    );
    let inside = start.map_addr(|address| address.saturating_add(2 * MIB));
    assert_eq!(wrong(inside, MIB).reason, FreeReason::InsideContig { start: start.addr().get(), bytes: 3 * MIB });
    let beyond = start.map_addr(|address| address.saturating_add(40 * MIB));
    assert!(wrong(beyond, MIB).to_string().ends_with("the address is beyond the current size of the pool"));
    let single = pool.alloc(Order::PAGEBLOCK).expect("memory");
    assert_eq!(wrong(single.cast(), 2 * MIB).reason, FreeReason::NotContig);
    // SAFETY: each run is allocated, and nothing refers to it.
    unsafe {
        pool.free(single.cast(), Order::PAGEBLOCK).expect("an allocated run");
        assert_eq!(pool.stats().in_use_bytes, before.in_use_bytes);
        pool.free_contig(next).expect("an allocated run");
        pool.free_contig(run).expect("an allocated run");
    }
    assert_eq!(pool.stats().in_use_bytes, 0);
    pool.audit().expect("a consistent pool");
}

/// The blocks of a contiguous run can be freed one by one. The run is then no longer whole.
#[test]
fn a_run_with_a_free_block_is_refused() {
    let mut pool = pool(16);
    let run = pool.alloc_contig(6 * MIB).expect("memory");
    let at = |bytes: usize| run.cast::<u8>().map_addr(|address| address.saturating_add(bytes));
    // 6 MiB are a block of order 10 and one of order 9.
    // SAFETY: (1) the block is in use, and nothing refers to it; (2) the call that fails frees nothing.
    let refused = unsafe {
        pool.free(at(4 * MIB), Order::PAGEBLOCK).expect("a block in use");
        pool.free_contig(run).expect_err("a free block")
    };
    assert_eq!((refused.address, pool.stats().in_use_bytes), (at(4 * MIB).addr().get(), 4 * MIB as u64));
    assert!(refused.to_string().ends_with("as a contiguous run: the run is already free"), "{refused}");
    // SAFETY: the block is in use, and nothing refers to it.
    unsafe { pool.free(at(0), crate::common::order(10)).expect("a block in use") };
    // New runs take the place of the old one, whose size no longer counts.
    let held: Vec<_> = (0..4).map(|_| pool.contig_pages(4 * MIB).expect("a free range")).collect();
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free_contig(run) }.expect_err("another size");
    assert_eq!(error.reason, FreeReason::ContigSize { bytes: 6 * MIB, actual: 4 * MIB });
    drop(held);
    assert_eq!(pool.stats().in_use_bytes, 0);

    // Also where a new run starts inside the old one.
    let run = pool.alloc_contig(6 * MIB).expect("memory");
    // SAFETY: the blocks are in use, and nothing refers to them.
    unsafe {
        pool.free(run.cast(), crate::common::order(10)).expect("a block in use");
        pool.free(at(4 * MIB), Order::PAGEBLOCK).expect("a block in use");
    }
    let pages: Vec<_> = (0..16 * MIB / PAGE_BYTES).map(|_| pool.pages(Order::ZERO).expect("memory")).collect();
    let first = pages.into_iter().find(|page| page.as_ptr() == run.cast::<u8>().as_ptr()).expect("all pages");
    // Pages in caches would keep the first range in parts.
    pool.drain();
    let inside = pool.contig_pages(4 * MIB).expect("a free range");
    assert_eq!(inside.as_ptr(), at(2 * MIB).as_ptr());
    // SAFETY: nothing is freed.
    let error = unsafe { pool.free_contig(run) }.expect_err("an old run");
    assert_eq!(error.reason, FreeReason::NotContig);
    drop((first, inside));
    assert_eq!(pool.stats().in_use_bytes, 0);
    pool.audit().expect("a consistent pool");
}

#[test]
fn handles_keep_the_pool_and_convert_to_raw_runs() {
    let pool = Arc::new(pool(16));
    let mut pages = ContigPages::new(Arc::clone(&pool), 6 * MIB).expect("memory");
    pages[6 * MIB - 1] = 9;
    let weak = Arc::downgrade(&pool);
    drop(pool);
    let raw = ContigPages::into_raw(pages);
    assert!(weak.upgrade().is_none(), "a raw run kept the pool alive");
    assert_eq!(raw.len(), 6 * MIB);

    let pool = self::pool(16);
    let raw = pool.alloc_contig(6 * MIB).expect("memory");
    // SAFETY: (1) the run is a whole allocation from this pool; (2) the test owns it.
    let mut pages = unsafe { ContigPages::from_raw(&pool, raw) };
    pages.fill(1);
    drop(pages);
    assert_eq!(pool.stats().in_use_bytes, 0);
}

/// Threads that need little always find memory, although the allocation of ranges isolates whole pageblocks.
#[test]
fn allocations_succeed_while_ranges_are_allocated() {
    let mut pool = pool(32);
    // Each of the three threads owns at most 4 MiB, so the pool has room for all of them and for one range.
    crate::common::during_allocations(&pool, &[8; 4], || {
        let Ok(mut pages) = pool.contig_pages(12 * MIB) else { return false };
        pages.fill(0xff);
        assert!(pages.iter().all(|&byte| byte == 0xff));
        true
    });
    assert_eq!(pool.stats().in_use_bytes, 0);
    pool.audit().expect("a consistent pool");
}

/// Two threads each allocate a little more than a third of the pool, so both ranges always fit.
#[test]
fn ranges_are_found_while_another_thread_allocates_ranges() {
    let mut pool = pool(16);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    drop(pool.contig_pages(6 * MIB).expect("a range fits"));
                }
            });
        }
    });
    assert_eq!((pool.stats().in_use_bytes, pool.stats().failed_allocs), (0, 0));
    pool.audit().expect("a consistent pool");
}
