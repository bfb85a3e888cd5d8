//! A signal handler frees runs of a pool whose calls it interrupts.
#![allow(unsafe_code, reason = "a signal handler, and raw frees")]

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pageset_host::{FreeCheck, Order, PagePool};

static POOL: OnceLock<PagePool> = OnceLock::new();
/// The run that the next signal frees; null for none.
static GIFT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static FREED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_signal: libc::c_int) {
    let Some((run, pool)) = NonNull::new(GIFT.swap(std::ptr::null_mut(), SeqCst)).zip(POOL.get()) else { return };
    // SAFETY: the main thread gave the run away.
    let freed = unsafe { pool.free_deferred(run, Order::ZERO) };
    if freed.is_ok() { &FREED } else { &REFUSED }.fetch_add(1, SeqCst);
}

fn main() {
    let pool = POOL.get_or_init(|| PagePool::builder(8 << 20).free_check(FreeCheck::All).build().expect("a pool"));
    // SAFETY: (1) the handler calls only a function for signal handlers, and atomics; (2) the timer's structure is valid.
    unsafe {
        libc::signal(libc::SIGALRM, handler as extern "C" fn(libc::c_int) as libc::sighandler_t);
        let period = libc::timeval { tv_sec: 0, tv_usec: 100 };
        let timer = libc::itimerval { it_interval: period, it_value: period };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
    let end = Instant::now() + Duration::from_secs(1);
    let mut given = 0;
    let mut mine = Vec::with_capacity(1024);
    let mut full = 0;
    while Instant::now() < end {
        // Orders with and without a cache, in a pool that is nearly full: all paths are interrupted.
        for order in [0, 0, 3, 5, 0, 9] {
            let order = Order::new(order).expect("an order");
            match pool.alloc(order) {
                Ok(run) => mine.push((run.cast::<u8>(), order)),
                Err(_) => full += 1,
            }
        }
        if GIFT.load(SeqCst).is_null()
            && let Ok(run) = pool.alloc(Order::ZERO)
        {
            GIFT.store(run.cast::<u8>().as_ptr(), SeqCst);
            given += 1;
        }
        if full > 20 {
            full = 0;
            for (run, order) in mine.drain(..) {
                // SAFETY: the run is allocated, and nothing refers to it.
                unsafe { pool.free(run, order).expect("an allocated run") };
            }
        }
    }
    // SAFETY: the timer's structure is valid.
    unsafe {
        let timer = libc::itimerval {
            it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
            it_value: libc::timeval { tv_sec: 0, tv_usec: 0 },
        };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
    handler(libc::SIGALRM);
    for (run, order) in mine.drain(..) {
        // SAFETY: the run is allocated, and nothing refers to it.
        unsafe { pool.free(run, order).expect("an allocated run") };
    }
    let freed = FREED.load(SeqCst);
    println!("signals freed {freed} runs");
    assert_eq!((freed, REFUSED.load(SeqCst)), (given, 0));
    assert!(freed > 100, "{freed} frees by signals");
    // A drain takes the lock of the zone, which completes the frees.
    pool.drain();
    let run = pool.alloc(Order::MAX).expect("all memory is free");
    // SAFETY: the run is allocated, and nothing refers to it.
    unsafe { pool.free(run.cast(), Order::MAX).expect("an allocated run") };
    assert_eq!(pool.stats().in_use_bytes, 0);
}
