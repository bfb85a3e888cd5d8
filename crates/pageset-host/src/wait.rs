//! Allocations that wait until memory is free: for at most some time, or as a future.
//!
//! A free tests one word that lies next to the words of its fast path. No caller that waits misses a free:
//!
//! - The caller sets the word, then makes all threads execute a memory barrier (`membarrier`), then tries to allocate.
//! - A free makes the run free, then reads the word. If the read comes before the barrier, the run is free before the
//!   caller tries, and the caller gets it. Otherwise the free sees the word and wakes a caller.
//!
//! The word is cleared when nobody waits any more. `waiters.rs` describes whose turn it is.
//!
//! Two frees are not certain to wake anybody: a deferred free, because a signal handler must not run wakers, and any free where
//! a filter of system calls refuses `membarrier`. A blocked caller looks for these each 10 ms. A future learns of them
//! with the next free or [`PagePool::tick`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pageset::{AllocError as CoreAllocError, MigrateType, Order, Request};

use crate::error::AllocError;
use crate::pages::{Pages, PoolRef};
use crate::pool::{PAGE_BYTES, PagePool};
use crate::spec::request;
use crate::sys::barrier::barrier_in_all_threads;
use crate::waiters::WaiterId;

/// How often a blocked caller looks for frees that wake nobody. A guess: a wake-up of a thread costs about 5 µs, so this is
/// below 0.1 % of a CPU.
const RECHECK: Duration = Duration::from_millis(10);

impl PagePool {
    /// Allocates a run, and waits up to `timeout` until one is free.
    #[cold]
    pub(crate) fn alloc_in_time(&self, request: &Request, timeout: Duration) -> Result<NonNull<[u8]>, AllocError> {
        let order = request.order;
        let mut future = PagesFuture::with(self, *request);
        let alarm = Arc::new(Alarm::default());
        let waker = Waker::from(Arc::clone(&alarm));
        let mut context = Context::from_waker(&waker);
        let start = Instant::now();
        let mut deferred = self.waiters.deferred_frees();
        loop {
            if let Poll::Ready(result) = Pin::new(&mut future).poll(&mut context) {
                return result.map(Pages::into_raw);
            }
            // A free wakes this caller. Other frees only change the counter.
            loop {
                let left = timeout.saturating_sub(start.elapsed());
                if left.is_zero() {
                    self.count_failed_alloc();
                    return Err(AllocError::TimedOut { order, timeout });
                }
                alarm.wait(left.min(RECHECK));
                let former = std::mem::replace(&mut deferred, self.waiters.deferred_frees());
                if deferred != former || future.is_awake() || !future.is_certain_to_wake {
                    break;
                }
            }
        }
    }

    /// Allocates a run of 2^`order` pages as soon as one is free. The future works with every executor.
    ///
    /// The first poll tries to allocate, and polls wait for nothing but the locks of [`Self::alloc`]. A future that is dropped
    /// leaves nothing behind. [`RunSpec::timeout`](crate::RunSpec::timeout) describes who gets the run. The errors are those of [`Self::alloc`] but lack of
    /// memory, which is an error for a run that is larger than a node with its reserve.
    /// [`PagesFuture::new`] makes a future that keeps the pool alive.
    ///
    /// ```
    /// # use pageset_host::{Order, PagePool};
    /// # fn block_on<F: std::future::Future>(future: F) -> F::Output {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     match std::pin::pin!(future).poll(&mut context) {
    /// #         std::task::Poll::Ready(value) => value,
    /// #         std::task::Poll::Pending => unreachable!(),
    /// #     }
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = PagePool::builder(64 << 20).build()?;
    /// let buffer = block_on(async { pool.pages_async(Order::ZERO).await })?;
    /// assert_eq!(buffer.len(), 4096);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pages_async(&self, order: Order) -> PagesFuture<&PagePool> {
        PagesFuture::new(self, order)
    }

    /// Wakes a caller that waits for memory, if there is one. Every free calls it, after the run is free.
    #[inline(always)]
    pub(crate) fn wake_waiters(&self) {
        // The read comes after the free in the program. `barrier_in_all_threads` in `announce` orders the two in memory.
        compiler_fence(Ordering::SeqCst);
        if self.fork_detector.is_awaited() {
            self.wake_a_waiter();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_a_waiter(&self) {
        self.waiters.freed();
    }

    /// Notes a deferred free. Safe in a signal handler.
    #[inline]
    pub(crate) fn note_deferred_free(&self) {
        if self.fork_detector.is_awaited() {
            self.waiters.note_deferred_free();
        }
    }
}

/// Wakes a thread that waits.
///
/// Not the parking of `std::thread`: that keeps memory for threads of C programs, which leak checkers report.
#[derive(Default)]
struct Alarm {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Alarm {
    /// Waits until the alarm rings, for at most `time`.
    fn wait(&self, time: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(rung, time, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

/// An allocation of a run that completes as soon as a run is free. Made by [`PagePool::pages_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct PagesFuture<P: PoolRef> {
    pool: P,
    request: Request,
    /// The place in the queue, from the first failed try on.
    place: Option<WaiterId>,
    /// Whether every free that is not deferred wakes this future.
    is_certain_to_wake: bool,
}

// No field is pinned.
impl<P: PoolRef> Unpin for PagesFuture<P> {}

impl<P: PoolRef> PagesFuture<P> {
    /// As [`PagePool::pages_async`], for a pool that is `&PagePool`, or an `Arc<PagePool>` that the future and the handle keep alive.
    pub const fn new(pool: P, order: Order) -> PagesFuture<P> {
        Self::with(pool, request(order, MigrateType::Movable))
    }

    const fn with(pool: P, request: Request) -> PagesFuture<P> {
        PagesFuture { pool, request, place: None, is_certain_to_wake: true }
    }

    /// Whether a free has woken this future since it last went to sleep.
    fn is_awake(&self) -> bool {
        self.place.is_none_or(|place| self.pool.waiters.is_awake(place))
    }

    /// Enters the queue. From then on, frees see that somebody waits.
    fn enter(&mut self) -> WaiterId {
        let (place, is_certain) = self.pool.waiters.add(self.request.order, self.request.this_node_only, || {
            self.pool.fork_detector.set_awaited(true);
            barrier_in_all_threads()
        });
        self.is_certain_to_wake = is_certain;
        self.place = Some(place);
        place
    }

    fn leave(&mut self, got: bool) {
        // A thread that a fork did not copy may have held the lock of the queue.
        if let Some(place) = self.place.take().filter(|_| !self.pool.is_forked()) {
            self.pool.waiters.remove(place, got, || self.pool.fork_detector.set_awaited(false));
        }
    }
}

impl<P: PoolRef + Clone> Future for PagesFuture<P> {
    type Output = Result<Pages<P>, AllocError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.pool.is_forked() {
            return Poll::Ready(Err(AllocError::Forked));
        }
        let mut result = if self.place.is_none() { self.try_once() } else { None };
        while result.is_none() {
            let place = match self.place {
                Some(place) => place,
                None => self.enter(),
            };
            let frees = self.pool.waiters.frees();
            result = self.try_once();
            if result.is_none() && self.pool.waiters.sleep(place, frees, context.waker()) {
                return Poll::Pending;
            }
        }
        // This may call the waker of another caller. If that panics, the handle frees the run.
        self.leave(matches!(result, Some(Ok(_))));
        // The loop ended with a result.
        Poll::Ready(result.unwrap_or(Err(AllocError::Forked)))
    }
}

impl<P: PoolRef + Clone> PagesFuture<P> {
    /// Makes one try. `None`: there is no memory, and there may be some later.
    fn try_once(&self) -> Option<Result<Pages<P>, AllocError>> {
        match self.pool.try_alloc(&self.request) {
            Ok(run) => Some(Ok(self.handle(run.cast()))),
            Err(CoreAllocError::OutOfMemory(_))
                if PAGE_BYTES << self.request.order.get() <= self.pool.node_span_bytes =>
            {
                None
            }
            Err(error) => Some(Err(self.pool.failed_alloc(error))),
        }
    }

    #[allow(unsafe_code, reason = "a handle of a run that was just allocated")]
    fn handle(&self, start: NonNull<u8>) -> Pages<P> {
        // SAFETY: the run was just allocated from this pool, of this order, and nothing else uses it.
        unsafe { Pages::from_raw(self.pool.clone(), start, self.request.order) }
    }
}

impl<P: PoolRef> Drop for PagesFuture<P> {
    fn drop(&mut self) {
        self.leave(false);
    }
}

impl<P: PoolRef> fmt::Debug for PagesFuture<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = self.place.is_some();
        f.debug_struct("PagesFuture").field("order", &self.request.order).field("waits", &waits).finish_non_exhaustive()
    }
}
