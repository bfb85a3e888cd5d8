//! Forks at any time, from threads that use the pool. The child's calls are refused, it reads its own copy of the memory, and
//! it can use a pool of its own.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pageset_host::{AllocError, HugePages, Order, PagePool, PoolError, RunSpec};

use crate::callbacks::{Hostile, below};
use crate::common::MIB;
use crate::owned::Owned;
use crate::{count, fail, signals, watchdog};

/// When the next fork is due, in milliseconds of the system's clock. Relaxed: two forks may come at once.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Forks if a fork is due, and waits for the child. The child also calls `in_child`.
pub(crate) fn fork(pool: &Arc<PagePool>, in_child: impl FnOnce()) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    if now < NEXT.load(Relaxed) {
        return;
    }
    NEXT.store(now + 5 + below(40), Relaxed);
    count(|counts| &counts.forks);
    // A fork begins anew when a signal comes, and so does a sleep, with the slack of its timer added to the rest of its time.
    // Frequent signals would hold up both.
    signals::block(true);
    // SAFETY: (1) the child takes no lock that another thread may hold, except those of the C library, which frees them in the
    // child; (2) the child ends with `_exit`, which runs no exit handlers.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let failed = check_child(pool, in_child);
        // SAFETY: as above.
        unsafe { libc::_exit(failed) };
    }
    if pid < 0 {
        fail("cannot fork");
    }
    let (mut status, start) = (0, Instant::now());
    // SAFETY: the status is a valid place, and the child is this thread's.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > watchdog::LIMIT / 2 {
            fail("a forked child hangs");
        }
        thread::sleep(Duration::from_micros(200));
    }
    signals::block(false);
    if status != 0 {
        fail(&format!("a forked child failed: status {status:#x}, whose second byte is the number of the check"));
    }
}

/// Does what a child may do. Returns the number of the first check that failed, or 0.
fn check_child(pool: &Arc<PagePool>, in_child: impl FnOnce()) -> i32 {
    let before = pool.stats();
    in_child();
    let ready = {
        let mut future = pool.pages_async(Order::ZERO);
        matches!(
            Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(Err(AllocError::Forked))
        )
    };
    let called = std::cell::Cell::new(false);
    let bulk = pool.alloc_bulk_as(Order::ZERO, &mut [(); 3], |_| called.set(true));
    pool.drain();
    let checks = [
        pool.is_forked(),
        pool.alloc(Order::ZERO) == Err(AllocError::Forked),
        pool.pages(Order::MAX).is_err_and(|error| error == AllocError::Forked),
        bulk == Err(AllocError::Forked) && !called.get(),
        pool.contig_pages(1).is_err_and(|error| error == AllocError::Forked),
        pool.pages_with(&RunSpec::new(Order::ZERO).timeout(Duration::from_secs(60)))
            .is_err_and(|error| error == AllocError::Forked),
        ready,
        matches!(pool.grow(1), Err(PoolError::Forked)),
        matches!(pool.shrink(1), Err(PoolError::Forked)),
        matches!(pool.set_limit(None), Err(PoolError::Forked)),
        pool.give_back(u64::MAX).is_err(),
        pool.tick().is_ok(),
        // Nothing was allocated, and dropped handles freed nothing.
        pool.stats() == before,
        own_pool(),
    ];
    checks.iter().position(|passed| !passed).map_or(0, |at| at as i32 + 1)
}

/// Uses a pool that the child builds, also with an unwinding panic.
fn own_pool() -> bool {
    let Ok(mut pool) = PagePool::builder(4 * MIB).huge_pages(HugePages::None).build() else { return false };
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let runs: Vec<_> = (0..8).map_while(|_| pool.pages(Order::ZERO).ok()).map(Owned::new).collect();
        runs.iter().for_each(Owned::check);
        resume_unwind(Box::new(Hostile));
    }));
    unwound.is_err() && pool.audit().is_ok_and(|books| books.iter().all(|node| node.in_use == 0))
}
