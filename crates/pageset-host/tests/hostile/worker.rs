//! A thread that makes random calls.

use std::fmt::Write as _;
use std::future::Future;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pageset_host::{AllocError, ContigPages, Order, PAGE_BYTES, PagePool, Pages, PagesFuture, RunSpec};

use crate::callbacks::{self, Hostile, below, random_order};
use crate::common::{MIB, pointer_to};
use crate::owned::Owned;
use crate::{COUNTS, children, count, fail, signals, watchdog};

/// What the threads of a round share.
pub(crate) struct Round<'p> {
    pub(crate) pool: &'p Arc<PagePool>,
    /// Whether a forked child can read the memory.
    pub(crate) child_reads: bool,
    pub(crate) end: Instant,
    /// Runs on their way to another thread.
    pub(crate) mail: Mutex<Vec<Owned<'p>>>,
}

impl<'p> Round<'p> {
    /// The mail. No call of the pool may happen meanwhile: it may call back and come here again.
    fn mail(&self) -> MutexGuard<'_, Vec<Owned<'p>>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Worker<'r, 'p> {
    round: &'r Round<'p>,
    pool: &'p Arc<PagePool>,
    place: usize,
    mine: Vec<Owned<'p>>,
    futures: Vec<PagesFuture<&'p PagePool>>,
}

/// An operation: its weight, its name, and its function.
type Operation<W> = (u64, &'static str, fn(&mut W));

impl<'r, 'p> Worker<'r, 'p> {
    const OPERATIONS: [Operation<Self>; 21] = [
        (40, "allocate", Self::allocate),
        (34, "free", Self::free_one),
        (3, "bulk", |worker| callbacks::bulk(worker.pool)),
        (2, "zeroed", Self::zeroed),
        (2, "contiguous", Self::contiguous),
        (3, "wait", Self::wait),
        (4, "start a future", Self::start_future),
        (8, "poll", Self::poll),
        (3, "drop a future", |worker| drop(worker.pick_future())),
        (3, "send", Self::send),
        (3, "receive", Self::receive),
        (6, "give to a signal handler", Self::give),
        (2, "tick", |worker| worker.expect("tick", |pool| pool.tick().map_err(|error| error.to_string()))),
        (1, "drain", |worker| worker.pool.drain()),
        (1, "give back", |worker| {
            worker.expect("give back", |pool| pool.give_back(4 * MIB).map_err(|error| error.to_string()));
        }),
        (1, "grow", |worker| drop(worker.pool.grow(1 + below(4 * MIB)))),
        (1, "shrink", |worker| drop(worker.pool.shrink(1 + below(4 * MIB)))),
        (1, "limit", |worker| callbacks::limit(worker.pool)),
        (2, "counters", Self::counters),
        (3, "unwind", Self::unwind),
        (2, "fork", Self::fork),
    ];

    pub(crate) fn new(round: &'r Round<'p>, place: usize) -> Self {
        Worker { round, pool: round.pool, place, mine: vec![], futures: vec![] }
    }

    /// Makes calls until the round ends, then frees everything.
    pub(crate) fn run(mut self) {
        let all: u64 = Self::OPERATIONS.iter().map(|(weight, ..)| weight).sum();
        signals::block(false);
        callbacks::allow_panics(true);
        while Instant::now() < self.round.end {
            let mut at = below(all);
            let chosen = Self::OPERATIONS.iter().find(|(weight, ..)| {
                let is_here = at < *weight;
                at = at.wrapping_sub(*weight);
                is_here
            });
            let Some((_, name, operation)) = chosen else { continue };
            watchdog::at(self.place, name);
            COUNTS.operations.fetch_add(1, Relaxed);
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| operation(&mut self)))
                && !payload.is::<Hostile>()
            {
                fail("a call panicked");
            }
        }
        callbacks::allow_panics(false);
        watchdog::at(self.place, "the end of a thread");
        self.futures.clear();
        self.mine.into_iter().for_each(Owned::free);
        callbacks::clear();
        watchdog::ended(self.place);
    }

    fn expect<T>(&self, what: &str, call: impl FnOnce(&PagePool) -> Result<T, String>) {
        if let Err(error) = call(self.pool) {
            fail(&format!("{what}: {error}"));
        }
    }

    /// Keeps the run of an allocation that may have failed for want of memory.
    fn keep(&mut self, allocated: Result<Pages<&'p PagePool>, AllocError>) {
        match allocated {
            Ok(pages) => self.mine.push(Owned::new(pages)),
            Err(AllocError::OutOfMemory { .. } | AllocError::Limit { .. } | AllocError::TimedOut { .. }) => {
                count(|counts| &counts.refused);
                // Makes room for other threads.
                let half = self.mine.len() / 2;
                self.mine.drain(half..).for_each(Owned::free);
            }
            Err(error) => fail(&error.to_string()),
        }
    }

    fn allocate(&mut self) {
        self.keep(self.pool.pages(random_order()));
    }

    fn pick(&mut self) -> Option<Owned<'p>> {
        let at = below(256).checked_rem(self.mine.len() as u64)?;
        Some(self.mine.swap_remove(at as usize))
    }

    fn free_one(&mut self) {
        if let Some(run) = self.pick() {
            run.free();
        }
    }

    fn zeroed(&mut self) {
        let allocated = self.pool.pages_with(&RunSpec::new(random_order()).zeroed());
        if allocated.as_ref().is_ok_and(|pages| pages.iter().any(|&byte| byte != 0)) {
            fail("a zeroed run has other bytes");
        }
        self.keep(allocated);
    }

    fn contiguous(&mut self) {
        if let Ok(pages) = ContigPages::new(&**self.pool, 1 + below(6 * MIB) as usize) {
            self.mine.push(Owned::new(pages));
        }
    }

    fn wait(&mut self) {
        self.keep(self.pool.pages_with(&RunSpec::new(random_order()).timeout(Duration::from_micros(below(3000)))));
    }

    fn start_future(&mut self) {
        if self.futures.len() < 16 {
            self.futures.push(self.pool.pages_async(random_order()));
        }
    }

    fn pick_future(&mut self) -> Option<PagesFuture<&'p PagePool>> {
        let at = below(256).checked_rem(self.futures.len() as u64)?;
        Some(self.futures.swap_remove(at as usize))
    }

    /// Polls a future with a new waker. A poll that panics drops the future.
    fn poll(&mut self) {
        let Some(mut future) = self.pick_future() else { return };
        let waker = callbacks::waker(self.pool);
        match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                count(|counts| &counts.futures);
                self.keep(result);
            }
            Poll::Pending => self.futures.push(future),
        }
    }

    fn send(&mut self) {
        let few = self.mine.len() / 4;
        self.round.mail().extend(self.mine.drain(..few));
    }

    fn receive(&mut self) {
        let theirs: Vec<_> = {
            let mut mail = self.round.mail();
            let few = mail.len().min(30);
            mail.drain(..few).collect()
        };
        theirs.into_iter().for_each(Owned::free);
    }

    fn give(&mut self) {
        let order = [0, 0, 1, 3, 5, 9][below(6) as usize];
        if let Ok(pages) = self.pool.pages(Order::new(order).unwrap_or(Order::ZERO)) {
            signals::give(pages);
        }
    }

    /// Reads counters, prints to a writer that calls back, and makes frees that fail.
    fn counters(&mut self) {
        let _ = write!(callbacks::Writer(self.pool), "{}", self.pool.zoneinfo());
        let stats = self.pool.stats();
        if stats.size_bytes == 0 || self.pool.memory().resident_bytes().is_err() {
            fail(&format!("wrong counters: {stats:?}"));
        }
        let foreign = pointer_to(NonZero::new(PAGE_BYTES).unwrap_or(NonZero::<usize>::MIN));
        // SAFETY: nothing is freed.
        let freed = unsafe { [self.pool.free(foreign, Order::ZERO), self.pool.free_deferred(foreign, Order::MAX)] };
        if freed.iter().any(Result::is_ok) {
            fail("a page of no pool was freed");
        }
    }

    /// Panics while handles exist. The unwinding frees them.
    fn unwind(&mut self) {
        let run = self.pick();
        let other = self.pool.pages(random_order()).map(Owned::new);
        let future = self.pick_future();
        callbacks::panic_now(|counts| &counts.unwound);
        drop((run, other, future));
    }

    /// Forks. The child drops all handles. Before, it checks and writes its copy of the memory, if it has one.
    fn fork(&mut self) {
        children::fork(self.pool, || {
            if self.round.child_reads {
                self.mine.iter().for_each(Owned::check);
                self.mine.iter_mut().for_each(Owned::stamp_again);
            }
            self.mine.clear();
            self.futures.clear();
        });
    }
}
