//! Zeroed allocations, and pools that fill freed runs with zeros: the tests read the memory after each kind of free.

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use pageset_host::{ContigSpec, GiveBack, HugePages, Order, PAGE_BYTES, PagePool, Pages, RunSpec};

use crate::common::{MIB, order};

/// What the tests write.
const SECRET: u8 = 0xa5;

fn pool(zero_on_free: bool) -> PagePool {
    let builder = PagePool::builder(16 * MIB).give_back(GiveBack::OFF).huge_pages(HugePages::None);
    builder.zero_on_free(zero_on_free).build().expect("a pool")
}

/// Writes to all bytes of a run.
fn fill(run: NonNull<u8>, bytes: usize) {
    // SAFETY: the test owns the run.
    unsafe { run.write_bytes(SECRET, bytes) };
}

/// Whether memory of a pool contains what a test wrote. No thread writes it meanwhile.
fn has_secret(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the memory is mapped, and no thread writes it.
    unsafe { NonNull::slice_from_raw_parts(start, bytes).as_ref() }.contains(&SECRET)
}

/// Whether any memory of the pool contains what a test wrote.
fn any_secret(pool: &PagePool) -> bool {
    let all = pool.memory().address_space();
    has_secret(all.cast(), all.len())
}

#[test]
fn every_kind_of_free_leaves_zeros() {
    let page = Order::ZERO;
    for zero_on_free in [true, false] {
        let mut pool = pool(zero_on_free);
        let check = |name: &str| assert_eq!(any_secret(&pool), !zero_on_free, "{name}");
        for n in 0..=10 {
            let run = pool.alloc(order(n)).expect("memory");
            fill(run.cast(), run.len());
            // SAFETY: the test owns the run.
            unsafe { pool.free(run.cast(), order(n)).expect("in use") };
            check(&format!("a free of order {n}"));
        }
        for n in [0, 5] {
            let run = pool.alloc(order(n)).expect("memory");
            fill(run.cast(), run.len());
            // SAFETY: the test owns the run.
            unsafe { pool.free_deferred(run.cast(), order(n)).expect("in use") };
            check(&format!("a deferred free of order {n}"));
        }
        let mut pages = [NonNull::dangling(); 300];
        assert_eq!(pool.alloc_bulk(&mut pages), Ok(300));
        pages.iter().for_each(|&page| fill(page, PAGE_BYTES));
        // SAFETY: the test owns the pages.
        unsafe { pool.free_bulk(Order::ZERO, &pages).expect("in use") };
        check("a bulk free");
        let run = pool.alloc_contig(5 << 20).expect("memory");
        fill(run.cast(), run.len());
        // SAFETY: the test owns the run.
        unsafe { pool.free_contig(run).expect("in use") };
        check("a free of a contiguous run");
        let mut handle = pool.pages(order(3)).expect("memory");
        handle.fill(SECRET);
        drop(handle);
        check("a dropped handle");
        let run = thread::scope(|scope| scope.spawn(|| pool.alloc(page).expect("memory").cast::<u8>().addr()).join());
        let run = crate::common::pointer_to(run.expect("no panic"));
        let run = pool.memory().address_space().cast::<u8>().map_addr(|_| run.addr());
        fill(run, PAGE_BYTES);
        // SAFETY: the test owns the page.
        unsafe { pool.free(run, page).expect("in use") };
        pool.drain();
        check("a drained page of another thread");
        assert_eq!(pool.stats().in_use_bytes, 0);
        pool.audit().expect("a consistent pool");
    }
}

/// A free that fails has changed nothing: the owner's bytes are there.
#[test]
fn a_wrong_free_clears_nothing() {
    let pool = pool(true);
    let run = pool.alloc(order(2)).expect("memory").cast::<u8>();
    let page = pool.alloc(Order::ZERO).expect("memory").cast::<u8>();
    fill(run, 4 * PAGE_BYTES);
    fill(page, PAGE_BYTES);
    let second = run.map_addr(|address| address.saturating_add(PAGE_BYTES));
    let contig = NonNull::slice_from_raw_parts(run, 4 * PAGE_BYTES);
    // SAFETY: nothing is freed, because each call fails.
    unsafe {
        pool.free(run, order(1)).expect_err("another order");
        pool.free(second, Order::ZERO).expect_err("inside a run");
        pool.free_deferred(run, order(3)).expect_err("another order");
        pool.free_bulk(Order::ZERO, &[page, second]).expect_err("a wrong page");
        pool.free_bulk(Order::ZERO, &[page, page]).expect_err("a page twice");
        pool.free_contig(contig).expect_err("not a contiguous run");
    }
    for (start, bytes) in [(run, 4 * PAGE_BYTES), (page, PAGE_BYTES)] {
        // SAFETY: the test owns the memory.
        let all = unsafe { NonNull::slice_from_raw_parts(start, bytes).as_ref() };
        assert!(all.iter().all(|&byte| byte == SECRET), "a free that failed cleared memory in use");
    }
    // SAFETY: the test owns the runs.
    unsafe {
        pool.free(run, order(2)).expect("in use");
        pool.free(page, Order::ZERO).expect("in use");
        pool.free(page, Order::ZERO).expect_err("a second free");
    }
}

#[test]
fn zeroed_allocations_contain_zeros() {
    for zero_on_free in [true, false] {
        let pool = std::sync::Arc::new(pool(zero_on_free));
        let all: Vec<_> = (0..4).map(|_| pool.pages(Order::MAX).expect("memory")).collect();
        all.into_iter().for_each(|mut run| run.fill(SECRET));
        for n in 0..=10 {
            let mut run = pool.pages_with(&RunSpec::new(order(n)).zeroed()).expect("memory");
            assert!(run.iter().all(|&byte| byte == 0), "order {n}, zero on free: {zero_on_free}");
            run.fill(SECRET);
        }
        let mut run = Pages::with(Arc::clone(&pool), &RunSpec::new(order(4)).zeroed()).expect("memory");
        assert!(run.iter().all(|&byte| byte == 0));
        run.fill(SECRET);
        drop(run);
        let run = pool.alloc_contig(ContigSpec::new(6 << 20).zeroed()).expect("memory");
        assert!(!has_secret(run.cast(), run.len()));
        // SAFETY: the test owns the run.
        unsafe { pool.free_contig(run).expect("in use") };
        let pages = (16 * MIB) as usize / PAGE_BYTES;
        let all: Vec<_> =
            (0..pages).map(|_| pool.pages_with(&RunSpec::new(Order::ZERO).zeroed()).expect("memory")).collect();
        assert!(all.iter().all(|page| page.iter().all(|&byte| byte == 0)), "a whole pool of pages");
        pool.alloc_with(&RunSpec::new(Order::ZERO).zeroed()).expect_err("the pool is full");
    }
}

/// Threads that write and free at the same time never see another owner's bytes, nor lose their own.
#[test]
fn threads_find_zeros_only() {
    let mut pool = pool(true);
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..300_u32 {
                    let n = (round % 4) as u8;
                    let mut run = pool.pages_with(&RunSpec::new(order(n)).zeroed()).expect("memory");
                    assert!(run.iter().all(|&byte| byte == 0), "a run is not zero");
                    run.fill(thread + 1);
                    if round % 16 == 0 {
                        thread::yield_now();
                    }
                    assert!(run.iter().all(|&byte| byte == thread + 1), "another thread wrote the run");
                }
            });
        }
    });
    pool.audit().expect("a consistent pool");
}
