//! Code of callers that the pool calls: it panics, or calls the pool again.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::panic;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use pageset_host::{ContigPages, Order, PAGE_BYTES, PagePool, Pages, PagesFuture, RunSpec};

use crate::common::MIB;
use crate::owned::{self, Owned};
use crate::{COUNTS, Counts, children, count};

/// The payload of the test's own panics.
pub(crate) struct Hostile;

/// How deep callbacks call the pool that calls callbacks.
const MAX_DEPTH: u32 = 3;
/// Pages for which `alloc_bulk_as` calls its closure after one allocation. A panic may lose all but the first.
const BULK_RUN: u64 = 64;

/// Whether the closure of `alloc_bulk_as` may panic in this round. Such a panic loses pages, so in other rounds no page may
/// get lost.
pub(crate) static BULK_PANICS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static RANDOM: Cell<u64> = const { Cell::new(1) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether callbacks of this thread may panic and fork.
    static MAY_PANIC: Cell<bool> = const { Cell::new(false) };
    /// Runs and futures that callbacks leave to later callbacks.
    static RUNS: RefCell<Vec<Owned<'static>>> = const { RefCell::new(vec![]) };
    static FUTURES: RefCell<Vec<PagesFuture<Arc<PagePool>>>> = const { RefCell::new(vec![]) };
}

/// Starts this thread's sequence of random numbers.
pub(crate) fn seed_random(seed: u64) {
    RANDOM.set(seed | 1);
}

/// A random number from 0 to `n - 1`.
pub(crate) fn below(n: u64) -> u64 {
    let mut state = RANDOM.get();
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    RANDOM.set(state);
    (state >> 20) % n
}

/// A random order, mostly a small one.
pub(crate) fn random_order() -> Order {
    Order::new([0, 0, 0, 0, 0, 1, 2, 3, 4, 7, 9, 10][below(12) as usize]).unwrap_or(Order::ZERO)
}

/// Sets whether callbacks of this thread may panic and fork.
pub(crate) fn allow_panics(on: bool) {
    MAY_PANIC.set(on);
}

/// Panics, and counts it, unless this thread must not panic now.
pub(crate) fn panic_now(as_what: fn(&Counts) -> &AtomicU64) {
    if MAY_PANIC.get() && !thread::panicking() {
        count(as_what);
        panic::resume_unwind(Box::new(Hostile));
    }
}

/// Frees what callbacks of this thread left. Callbacks do nothing meanwhile, so that they leave nothing more.
pub(crate) fn clear() {
    let depth = DEPTH.replace(MAX_DEPTH);
    while let Some(run) = take_one(&RUNS) {
        run.free();
    }
    while let Some(future) = take_one(&FUTURES) {
        drop(future);
    }
    DEPTH.set(depth);
}

/// Takes the last element out. Its drop may call back, so the cell must not be borrowed then.
fn take_one<T>(of: &'static thread::LocalKey<RefCell<Vec<T>>>) -> Option<T> {
    of.with_borrow_mut(Vec::pop)
}

/// The depth of callbacks on this thread, counted until the drop.
struct Deeper;

impl Deeper {
    fn new() -> Option<Deeper> {
        let depth = DEPTH.get();
        (depth < MAX_DEPTH).then(|| {
            DEPTH.set(depth + 1);
            Deeper
        })
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// What a callback does.
pub(crate) fn call(pool: &Weak<PagePool>) {
    let Some((_deeper, pool)) = Deeper::new().zip(pool.upgrade()) else { return };
    count(|counts| &counts.callbacks);
    match below(24) {
        0..3 => panic_now(|counts| &counts.panics),
        3..6 => {
            if let Ok(run) = Pages::new(Arc::clone(&pool), random_order()) {
                Owned::new(run).free();
            }
        }
        6..9 => {
            if let Some(run) = take_one(&RUNS) {
                run.free();
            }
        }
        9..12 => {
            if let Ok(run) = Pages::new(Arc::clone(&pool), random_order()) {
                let run = Owned::new(run);
                RUNS.with_borrow_mut(|runs| runs.push(run));
            }
        }
        12 => pool.drain(),
        13 => drop(pool.tick()),
        14 => drop(pool.give_back(2 * MIB)),
        15 => drop(pool.grow(1 + below(2 * MIB))),
        16 => drop(pool.shrink(1 + below(2 * MIB))),
        17 => limit(&pool),
        18 => bulk(&pool),
        19 => {
            if let Ok(run) = ContigPages::new(Arc::clone(&pool), 1 + below(3 * MIB) as usize) {
                Owned::new(run).free();
            }
        }
        20 => {
            let mut future = PagesFuture::new(Arc::clone(&pool), random_order());
            match Pin::new(&mut future).poll(&mut Context::from_waker(&waker(&pool))) {
                Poll::Ready(Ok(run)) => Owned::new(run).free(),
                Poll::Ready(Err(_)) => {}
                Poll::Pending => FUTURES.with_borrow_mut(|futures| futures.push(future)),
            }
        }
        21 => drop(take_one(&FUTURES)),
        22 if MAY_PANIC.get() => children::fork(&pool, || ()),
        _ => {
            if let Ok(run) = pool.pages_with(&RunSpec::new(random_order()).timeout(Duration::from_micros(below(500)))) {
                Owned::new(run).free();
            }
        }
    }
}

/// Sets a random limit, or removes it.
pub(crate) fn limit(pool: &PagePool) {
    let size = pool.stats().size_bytes;
    let _ = pool.set_limit((below(2) == 0).then(|| size - below(size / 2)));
}

/// A waker that calls back.
struct Caller(Weak<PagePool>);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        call(&self.0);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if below(4) == 0 {
            call(&self.0);
        }
    }
}

pub(crate) fn waker(pool: &Arc<PagePool>) -> Waker {
    Waker::from(Arc::new(Caller(Arc::downgrade(pool))))
}

/// A writer that calls back, and sometimes fails.
pub(crate) struct Writer<'p>(pub(crate) &'p Arc<PagePool>);

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, _text: &str) -> fmt::Result {
        match below(64) {
            0 => Err(fmt::Error),
            1 => {
                call(&Arc::downgrade(self.0));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The pages of a bulk allocation that its closure has seen. The drop checks and frees them.
struct Bulk<'p> {
    pool: &'p PagePool,
    /// Each page with its stamp.
    pages: RefCell<Vec<(NonNull<u8>, u64)>>,
    has_ended: Cell<bool>,
}

fn page_bytes<'b>(page: NonNull<u8>) -> &'b mut [u8] {
    // SAFETY: only the bulk allocation that owns the page calls this, for one use.
    unsafe { NonNull::slice_from_raw_parts(page, PAGE_BYTES).as_mut() }
}

impl Drop for Bulk<'_> {
    fn drop(&mut self) {
        if !self.has_ended.get() {
            COUNTS.lost.fetch_add(BULK_RUN - 1, Relaxed);
        }
        let pages = self.pages.take();
        pages.iter().for_each(|&(page, stamp)| owned::check(page_bytes(page), stamp));
        let pages: Vec<_> = pages.into_iter().map(|(page, _)| page).collect();
        // SAFETY: this value owns the pages, and nothing refers to them.
        unsafe { self.pool.free_bulk(Order::ZERO, &pages) }.unwrap_or_else(|error| crate::fail(&error.to_string()));
    }
}

/// Allocates and frees pages in bulk, with a closure that calls back.
pub(crate) fn bulk(pool: &Arc<PagePool>) {
    let bulk = Bulk { pool, pages: RefCell::default(), has_ended: Cell::new(false) };
    let weak = Arc::downgrade(pool);
    let mut slots = vec![(); below(300) as usize];
    let got = pool.alloc_bulk_as(Order::ZERO, &mut slots, |page| {
        let stamp = owned::stamp(page_bytes(page));
        bulk.pages.borrow_mut().push((page, stamp));
        if below(200) == 0 {
            let may_panic = MAY_PANIC.replace(MAY_PANIC.get() && BULK_PANICS.load(Relaxed));
            call(&weak);
            MAY_PANIC.set(may_panic);
        }
    });
    bulk.has_ended.set(true);
    if got.is_ok_and(|got| got != bulk.pages.borrow().len()) {
        crate::fail("a bulk allocation called its closure for another number of pages");
    }
}
