//! A signal handler that frees runs, on any thread that uses the pool and at any point of its calls.
//!
//! The pool has no allocation for signal handlers, so the handler only frees.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::thread;
use std::time::Duration;

use pageset_host::{Order, PAGE_BYTES, PagePool, Pages};

use crate::{COUNTS, fail, owned};

/// The pool of this round; null between rounds.
static POOL: AtomicPtr<PagePool> = AtomicPtr::new(ptr::null_mut());
/// Handlers that may use the pool. A thread that ends, or a ticker that nobody waits for, may still run one.
static HANDLERS: AtomicU64 = AtomicU64::new(0);

/// A run that the next signal frees.
struct Gift {
    /// The run; null for none.
    run: AtomicPtr<u8>,
    /// The stamp of the run times 16, plus its order; 0 while the slot is empty.
    stamp_and_order: AtomicU64,
}

static GIFTS: [Gift; 16] =
    [const { Gift { run: AtomicPtr::new(ptr::null_mut()), stamp_and_order: AtomicU64::new(0) } }; 16];

/// The bits of a gift's order.
const ORDER_BITS: u32 = 4;

/// Sets the pool whose runs the handler frees.
pub(crate) fn begin(pool: &Arc<PagePool>) {
    POOL.store(Arc::as_ptr(pool).cast_mut(), Release);
}

/// Waits until no handler uses the pool, and frees the gifts that no signal has freed. Later handlers do nothing.
pub(crate) fn end(pool: &PagePool) {
    // SeqCst, here and in the handler: a handler that is not counted yet does not see the pool.
    POOL.store(ptr::null_mut(), SeqCst);
    while HANDLERS.load(SeqCst) > 0 {
        thread::yield_now();
    }
    for gift in GIFTS.iter().filter_map(take) {
        free(pool, gift).unwrap_or_else(|text| fail(text));
    }
}

/// Gives a run to the handler. Without an empty slot, the run is freed here.
pub(crate) fn give(mut pages: Pages<&PagePool>) {
    let word = owned::stamp(&mut pages) << ORDER_BITS | u64::from(pages.order().get());
    for gift in &GIFTS {
        // Acquire: pairs with the release in take.
        if gift.stamp_and_order.compare_exchange(0, word, Acquire, Relaxed).is_ok() {
            // Release: the handler that takes the run sees its stamps.
            gift.run.store(pages.into_raw().cast().as_ptr(), Release);
            return;
        }
    }
}

/// Takes a gift out of its slot.
fn take(gift: &Gift) -> Option<(NonNull<u8>, Order, u64)> {
    // Acquire: pairs with the release in give.
    let run = NonNull::new(gift.run.swap(ptr::null_mut(), Acquire))?;
    // Release: pairs with the acquire in give.
    let word = gift.stamp_and_order.swap(0, Release);
    Some((run, Order::new((word & 0xf) as u8)?, word >> ORDER_BITS))
}

/// Checks the stamps of a gift, and frees it.
fn free(pool: &PagePool, (run, order, stamp): (NonNull<u8>, Order, u64)) -> Result<(), &'static str> {
    // SAFETY: the giver gave the run away, and nothing else refers to it.
    let is_ours =
        owned::has_stamp(unsafe { NonNull::slice_from_raw_parts(run, PAGE_BYTES << order.get()).as_ref() }, stamp);
    if !is_ours {
        return Err("error: a run that a signal handler frees has two owners\n");
    }
    // SAFETY: as above.
    let freed = unsafe { pool.free_deferred(run, order) };
    freed.map_err(|_| "error: a deferred free was refused\n")
}

extern "C" fn handler(_signal: libc::c_int) {
    COUNTS.signals.fetch_add(1, Relaxed);
    HANDLERS.fetch_add(1, SeqCst);
    // SAFETY: the pool exists until `end` returns, which waits for this handler.
    if let Some(pool) = unsafe { POOL.load(SeqCst).as_ref() } {
        free_some_gifts(pool);
        // Another call that a handler may make.
        let _ = pool.limit();
    }
    HANDLERS.fetch_sub(1, SeqCst);
}

fn free_some_gifts(pool: &PagePool) {
    let first = COUNTS.signals.load(Relaxed) as usize;
    // Some of the gifts, so that others wait for other threads.
    for nth in first..first + 4 {
        let Some(gift) = take(&GIFTS[nth % GIFTS.len()]) else { continue };
        match free(pool, gift) {
            Ok(()) => drop(COUNTS.freed_by_signals.fetch_add(1, Relaxed)),
            // SAFETY: both calls are allowed in a handler.
            Err(text) => unsafe {
                libc::write(2, text.as_ptr().cast(), text.len());
                libc::abort();
            },
        }
    }
}

/// Installs the handler, and blocks the signal for this thread and for the threads that it starts.
pub(crate) fn set_up() {
    let handler: extern "C" fn(libc::c_int) = handler;
    // SAFETY: the handler calls only functions for signal handlers, and atomics.
    unsafe { libc::signal(libc::SIGALRM, handler as libc::sighandler_t) };
    block(true);
}

/// Blocks or allows the signal for this thread.
pub(crate) fn block(on: bool) {
    let how = if on { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    let mut set = MaybeUninit::uninit();
    // SAFETY: (1) the first call initialises the set; (2) the others read or write only the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGALRM);
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut());
    }
}

/// Runs `start` with the signal allowed, so that a thread that it starts handles signals.
pub(crate) fn allowed<T>(start: impl FnOnce() -> T) -> T {
    block(false);
    let result = start();
    block(true);
    result
}

/// Sends the signal to the process each `interval`.
pub(crate) fn start_timer(interval: Duration) {
    let interval = libc::timeval { tv_sec: 0, tv_usec: interval.as_micros() as libc::suseconds_t };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the timer's structure is valid.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
}

pub(crate) fn stop_timer() {
    start_timer(Duration::ZERO);
}
