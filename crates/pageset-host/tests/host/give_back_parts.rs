//! Returning parts of 2 MiB blocks to the system, where runs in use keep the rest of the block.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, GiveBackParts, HugePages, Order, PAGE_BYTES, PagePool};

use crate::common::{MIB, order};

const PAGE: u64 = PAGE_BYTES as u64;
const STRONGEST: GiveBack = GiveBack { interval: Duration::from_millis(1), after_scans: 1, bytes_per_scan: u64::MAX };

fn pool(bytes: u64, policy: GiveBack, parts: GiveBackParts) -> PagePool {
    let builder = PagePool::builder(bytes).give_back(policy).give_back_parts(parts);
    builder.huge_pages(HugePages::None).build().expect("a pool")
}

fn resident(pool: &PagePool) -> u64 {
    pool.memory().resident_bytes().expect("a count")
}

/// Fills a page with a number.
fn mark(page: NonNull<u8>, mark: u64) {
    // SAFETY: the callers own the page, and it is aligned.
    unsafe { page.cast::<[u64; PAGE_BYTES / 8]>().write([mark; PAGE_BYTES / 8]) };
}

fn has_mark(page: NonNull<u8>, mark: u64) -> bool {
    // SAFETY: the callers own the page, which has this mark or zeros, and it is aligned.
    unsafe { page.cast::<[u64; PAGE_BYTES / 8]>().as_ref() }.iter().all(|&word| word == mark)
}

fn free(pool: &PagePool, page: NonNull<u8>) {
    // SAFETY: the callers own the page, and nothing refers to it any more.
    unsafe { pool.free(page, Order::ZERO).expect("an allocated page") };
}

/// Allocates and marks `bytes` in single pages, and frees those for which `keeps` is false. `keeps` takes the number of the
/// page in the address space. Returns the kept pages with their marks. Then empties the caches.
fn fragment(pool: &PagePool, bytes: u64, keeps: impl Fn(usize) -> bool) -> Vec<(NonNull<u8>, u64)> {
    let start = pool.memory().address_space().cast::<u8>().addr().get();
    let pages: Vec<_> = (0..bytes / PAGE).map(|_| pool.alloc(Order::ZERO).expect("memory").cast::<u8>()).collect();
    let marked: Vec<_> = pages.into_iter().zip(1_u64..).inspect(|&(page, number)| mark(page, number)).collect();
    let (kept, others): (Vec<_>, Vec<_>) =
        marked.into_iter().partition(|(page, _)| keeps((page.addr().get() - start) / PAGE_BYTES));
    others.into_iter().for_each(|(page, _)| free(pool, page));
    pool.drain();
    kept
}

/// Checks the counters of a pool whose callers allocated and touched `touched` bytes, each page once.
fn assert_adds_up(pool: &PagePool, touched: u64) {
    let (stats, resident) = (pool.stats(), resident(pool));
    assert_eq!(stats.free_bytes + stats.cached_bytes + stats.in_use_bytes, stats.size_bytes);
    let counted = (stats.alloc_bytes, stats.free_total_bytes);
    assert_eq!(counted, (touched, touched - stats.in_use_bytes), "scans counted as allocations");
    assert_eq!(stats.given_back_bytes + resident, touched, "given back, and still resident");
}

/// One page in 1,024 stays in use, so half of the 2 MiB blocks contain a run in use.
#[test]
fn a_ticker_gives_fragmented_memory_back() {
    for huge_pages in [HugePages::None, HugePages::Transparent] {
        let builder = PagePool::builder(400 * MIB).give_back(STRONGEST).huge_pages(huge_pages);
        let mut pool = Arc::new(builder.build().expect("a pool"));
        let kept = fragment(&pool, 400 * MIB, |page| page % 1024 == 0);
        assert_eq!(kept.len(), 100);
        assert!(resident(&pool) >= 200 * MIB, "the pages were touched");
        let ticker = pool.start_ticker(Duration::from_millis(5), |_| ()).expect("a thread");
        let end = Instant::now() + Duration::from_secs(20);
        while resident(&pool) >= MIB && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        drop(ticker);
        println!("{huge_pages:?}: {:.1} MiB stay resident", resident(&pool) as f64 / MIB as f64);
        assert!(resident(&pool) < 10 * MIB, "{huge_pages:?}: {} MiB stay resident", resident(&pool) / MIB);
        assert!(kept.iter().all(|&(page, mark)| has_mark(page, mark)), "memory in use went back");
        if huge_pages == HugePages::None {
            assert_adds_up(&pool, 400 * MIB);
        }
        kept.into_iter().for_each(|(page, _)| free(&pool, page));
        assert_eq!(pool.stats().in_use_bytes, 0);
        Arc::get_mut(&mut pool).expect("the ticker has ended").audit().expect("a consistent pool");
    }
}

/// By the default policy, at its rate of a scan each second, 30 seconds give all but the pages in use back.
#[test]
fn thirty_scans_of_the_default_policy_give_fragmented_memory_back() {
    let policy = GiveBack { interval: Duration::from_millis(1), ..GiveBack::default() };
    assert_eq!(GiveBack::default().interval, Duration::from_secs(1));
    let pool = self::pool(400 * MIB, policy, GiveBackParts::default());
    let kept = fragment(&pool, 400 * MIB, |page| page % 1024 == 0);
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(2));
        pool.tick().expect("a scan");
    }
    println!("{:.1} MiB stay resident", resident(&pool) as f64 / MIB as f64);
    assert!(resident(&pool) < 10 * MIB, "{} MiB stay resident", resident(&pool) / MIB);
    kept.into_iter().for_each(|(page, _)| free(&pool, page));
}

#[test]
fn a_call_gives_whole_blocks_back_first_and_parts_once() {
    let mut pool = pool(8 * MIB, GiveBack::OFF, GiveBackParts::default());
    let kept = fragment(&pool, 8 * MIB, |page| page % 1024 < 4);
    let per_kept_block = 2 * MIB - 4 * PAGE;
    assert_eq!(pool.give_back(4 * MIB).expect("given back"), 4 * MIB);
    assert_eq!(pool.give_back(1).expect("given back"), per_kept_block, "a part of one block");
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), per_kept_block, "the rest");
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "memory went back twice");
    assert_eq!(resident(&pool), 8 * PAGE);
    assert!(kept.iter().all(|&(page, mark)| has_mark(page, mark)));
    assert_adds_up(&pool, 8 * MIB);
    // Memory that was used again goes back again.
    let again: Vec<_> = (0..100).map(|_| pool.alloc(Order::ZERO).expect("memory").cast::<u8>()).collect();
    again.iter().for_each(|&page| mark(page, 1));
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0, "memory in use went back");
    again.into_iter().for_each(|page| free(&pool, page));
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 100 * PAGE);
    kept.into_iter().for_each(|(page, _)| free(&pool, page));
    pool.audit().expect("a consistent pool");
}

/// A scan finds out with one system call that the free pages of a block went back before.
#[test]
fn parts_that_went_back_cost_no_further_calls() {
    let pool = pool(2 * MIB, GiveBack::OFF, GiveBackParts::default());
    fragment(&pool, 2 * MIB, |page| page % 2 == 0);
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), MIB);
    let locks = || pool.stats().lock_acquisitions;
    let before = locks();
    assert_eq!(pool.give_back(u64::MAX).expect("given back"), 0);
    assert!(locks() - before < 256, "the scan took blocks that had nothing to give");
}

#[test]
fn parts_go_back_after_more_scans_than_whole_blocks() {
    let policy = GiveBack { after_scans: 2, ..STRONGEST };
    let parts = GiveBackParts { after_scans_factor: 3, ..GiveBackParts::default() };
    let pool = pool(8 * MIB, policy, parts);
    fragment(&pool, 8 * MIB, |page| page % 1024 == 0);
    let ticks = |count| {
        for _ in 0..count {
            thread::sleep(Duration::from_millis(2));
            pool.tick().expect("a tick");
        }
        resident(&pool)
    };
    assert_eq!(ticks(1), 8 * MIB);
    assert_eq!(ticks(1), 4 * MIB, "whole blocks have been free for two scans");
    assert_eq!(ticks(3), 4 * MIB, "parts have been free for five scans");
    // Looks at a block are two scans apart, so the last of four comes with scan 7 or 8.
    assert_eq!(ticks(3), 2 * PAGE);
}

/// Drains leave parts in bitmaps, where they are on no list. Ticks empty no bitmap while refills take from bitmaps. Scans give the parts back
/// all the same.
#[test]
fn parts_in_bitmaps_go_back() {
    let bytes = 64 * MIB;
    let parts = GiveBackParts { after_scans_factor: 1, ..GiveBackParts::default() };
    let pool = pool(bytes, STRONGEST, parts);
    let alloc = |pages: u64| (0..pages).map(|_| pool.alloc(Order::ZERO).expect("memory").cast::<u8>());
    let pages: Vec<_> = alloc(bytes / PAGE).inspect(|&page| mark(page, 1)).collect();
    pages.into_iter().step_by(2).for_each(|page| free(&pool, page));
    for _ in 0..8 {
        alloc(1000).collect::<Vec<_>>().into_iter().for_each(|page| free(&pool, page));
        thread::sleep(Duration::from_millis(2));
        pool.tick().expect("a tick");
    }
    assert!(resident(&pool) < bytes - 4 * MIB, "{} MiB are resident", resident(&pool) / MIB);
}

/// What stays resident of 8 MiB in which each second page of the even blocks, and one page of the odd ones, is in use.
#[test]
fn settings_limit_what_goes_back() {
    let (half, one) = (MIB, 2 * MIB - PAGE);
    let all = GiveBackParts { min_free_bytes: 0, ..GiveBackParts::default() };
    for (parts, expected) in [
        (all, 2 * half + 2 * one),
        (GiveBackParts::default(), 2 * half + 2 * one),
        (GiveBackParts { min_free_bytes: (MIB + PAGE) as u32, ..all }, 2 * one),
        (GiveBackParts { min_order: order(1), ..all }, 2 * (one - PAGE)),
        (GiveBackParts { min_order: order(8), ..all }, 2 * MIB),
        (GiveBackParts { min_order: Order::MAX, ..all }, 0),
        (GiveBackParts::OFF, 0),
    ] {
        let pool = pool(8 * MIB, GiveBack::OFF, parts);
        fragment(&pool, 8 * MIB, |page| if page % 1024 < 512 { page % 2 == 0 } else { page % 512 == 0 });
        assert_eq!(pool.give_back(u64::MAX).expect("given back"), expected, "{parts:?}");
        assert_eq!(resident(&pool), 8 * MIB - expected, "{parts:?}");
    }
}

#[test]
fn a_scan_makes_a_limited_number_of_calls() {
    let parts = GiveBackParts { after_scans_factor: 1, calls_per_scan: 10, ..GiveBackParts::default() };
    let pool = pool(2 * MIB, STRONGEST, parts);
    fragment(&pool, 2 * MIB, |page| page % 2 == 0);
    for scans in 1..=4 {
        thread::sleep(Duration::from_millis(2));
        pool.tick().expect("a tick");
        assert_eq!(resident(&pool), 2 * MIB - scans * 10 * PAGE);
    }
    let limited = GiveBack { bytes_per_scan: 1, ..STRONGEST };
    let pool = self::pool(8 * MIB, limited, GiveBackParts { after_scans_factor: 1, ..parts });
    fragment(&pool, 8 * MIB, |page| page % 512 == 0);
    for scans in 1..=3 {
        thread::sleep(Duration::from_millis(2));
        pool.tick().expect("a tick");
        assert_eq!(resident(&pool), 8 * MIB - scans * (2 * MIB - PAGE));
    }
}

#[test]
fn parts_stay_with_give_back_off() {
    let now = GiveBackParts { after_scans_factor: 1, min_free_bytes: 0, ..GiveBackParts::default() };
    for (policy, parts) in [(GiveBack::OFF, now), (STRONGEST, GiveBackParts::OFF)] {
        let pool = pool(8 * MIB, policy, parts);
        fragment(&pool, 8 * MIB, |page| page % 512 == 0);
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(2));
            pool.tick().expect("a tick");
        }
        assert_eq!(resident(&pool), 8 * MIB, "{policy:?}");
    }
}

/// Explicit huge pages never go back in parts. Skipped on machines without them.
#[test]
fn parts_of_explicit_huge_pages_stay() {
    let builder = PagePool::builder(8 * MIB).huge_pages(HugePages::Explicit).give_back(STRONGEST);
    let now = GiveBackParts { after_scans_factor: 1, min_free_bytes: 0, ..GiveBackParts::default() };
    let pool = match builder.give_back_parts(now).build() {
        Ok(pool) => pool,
        Err(error) => return println!("SKIPPED parts_of_explicit_huge_pages_stay: {error}"),
    };
    let kept = fragment(&pool, 8 * MIB, |page| page % 512 == 100);
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(2));
        pool.tick().expect("a tick");
    }
    assert_eq!((resident(&pool), pool.give_back(u64::MAX).expect("given back")), (8 * MIB, 0));
    assert!(kept.iter().all(|&(page, mark)| has_mark(page, mark)));
    kept.into_iter().for_each(|(page, _)| free(&pool, page));
}

/// Allocates, marks, checks and frees single pages at random until `stop`. Returns how many pages were checked.
fn churn(pool: &PagePool, thread: u64, stop: &AtomicBool) -> u64 {
    /// Three threads use a bit less than half of 32 MiB in the mean.
    const SLOTS: u64 = 2300;
    let mut random = thread + 1;
    let mut slots: Vec<Option<(NonNull<u8>, u64)>> = vec![None; SLOTS as usize];
    let mut checks = 0;
    for number in (1_u64..).take_while(|_| !stop.load(Relaxed)) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let slot = &mut slots[(random % SLOTS) as usize];
        if let Some((page, mark)) = slot.take() {
            assert!(has_mark(page, mark), "memory in use went back");
            free(pool, page);
            checks += 1;
        } else {
            let page = pool.alloc(Order::ZERO).expect("memory").cast();
            mark(page, number << 2 | thread);
            *slot = Some((page, number << 2 | thread));
        }
    }
    for (page, mark) in slots.into_iter().flatten() {
        assert!(has_mark(page, mark), "memory in use went back");
        free(pool, page);
    }
    checks
}

/// Threads use single pages, while scans give back all that they find free.
#[test]
fn memory_in_use_stays_while_scans_give_parts_back() {
    let seconds = std::env::var("PAGESET_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let parts = GiveBackParts { after_scans_factor: 1, min_free_bytes: 0, ..GiveBackParts::default() };
    for huge_pages in [HugePages::None, HugePages::Transparent] {
        let builder = PagePool::builder(32 * MIB).give_back(STRONGEST).give_back_parts(parts).huge_pages(huge_pages);
        let mut pool = builder.build().expect("a pool");
        let stop = AtomicBool::new(false);
        let checks: u64 = thread::scope(|scope| {
            let (pool, stop) = (&pool, &stop);
            let users: Vec<_> = (0..3).map(|thread| scope.spawn(move || churn(pool, thread, stop))).collect();
            let end = Instant::now() + Duration::from_secs(seconds);
            // A thread that has finished has panicked, and the join reports it.
            while Instant::now() < end && !users.iter().any(|user| user.is_finished()) {
                pool.tick().expect("a tick");
                pool.give_back(u64::MAX).expect("given back");
            }
            stop.store(true, Relaxed);
            users.into_iter().map(|user| user.join().expect("each page has its mark")).sum()
        });
        let stats = pool.stats();
        println!("{huge_pages:?}: {checks} checks, {} MiB given back", stats.given_back_bytes / MIB);
        assert!(checks > 1000 && stats.given_back_bytes > MIB, "{checks} checks, {stats:?}");
        assert_eq!((stats.failed_allocs, stats.in_use_bytes), (0, 0));
        assert_eq!(stats.alloc_bytes, stats.free_total_bytes);
        pool.audit().expect("a consistent pool");
    }
}

/// The smallest free blocks of a pool that is nearly empty are in the hands of scans most of the time.
#[test]
fn allocations_wait_for_a_scan_of_parts() {
    let parts = GiveBackParts { min_free_bytes: 0, ..GiveBackParts::default() };
    let pool = pool(2 * MIB, GiveBack::OFF, parts);
    let kept = fragment(&pool, 2 * MIB, |page| page % 8 != 0);
    let end = Instant::now() + Duration::from_secs(20);
    crate::common::during_allocations(&pool, &[0, 0, 0, 0], || {
        assert!(Instant::now() < end, "no scan gave memory back");
        pool.give_back(u64::MAX).expect("given back") > 0
    });
    assert_eq!(pool.stats().failed_allocs, 0);
    kept.into_iter().for_each(|(page, _)| free(&pool, page));
}
