//! How callers that wait meet frees, under a model checker: it explores every order of the steps, and every value that a relaxed
//! load may return. `ci/loom.sh` runs the models.
//!
//! The model of a pool is a counter of free pages. Fences that order all accesses stand for `membarrier`, which the checker does
//! not know: one in the caller that waits, one in each free. At the end of a model, a caller sleeps only if it was woken or no page is
//! free. Variants with one step wrong must fail there.

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicBool as StdBool;
use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
use loom::thread;
use pageset::Order;

use crate::waiters::{WaiterId, Waiters};

#[derive(Default)]
struct Pool {
    free: AtomicUsize,
    is_awaited: AtomicBool,
    waiters: Waiters,
}

/// Which step of the protocol a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The barrier after the word is set.
    Barrier,
    /// The look at the frees that came during a try.
    Frees,
}

/// Notes that it was woken. The end of the model reads it, so the checker need not know it.
#[derive(Default)]
struct Alarm(StdBool);

impl Wake for Alarm {
    fn wake(self: StdArc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A caller that sleeps, or has a page.
struct Caller {
    place: WaiterId,
    alarm: StdArc<Alarm>,
    sleeps: bool,
}

impl Pool {
    fn try_alloc(&self) -> bool {
        let take = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Acquire, Relaxed, take).is_ok()
    }

    fn free(&self, without: Without) {
        self.free.fetch_add(1, loom::sync::atomic::Ordering::Release);
        if without != Without::Barrier {
            fence(SeqCst);
        }
        if self.is_awaited.load(Relaxed) {
            self.waiters.freed();
        }
    }

    /// Polls a future until it sleeps or has a page: `PagesFuture::poll`.
    fn poll(&self, without: Without) -> Caller {
        let announce = || {
            self.is_awaited.store(true, Relaxed);
            if without != Without::Barrier {
                fence(SeqCst);
            }
            true
        };
        let alarm = StdArc::<Alarm>::default();
        let waker = Waker::from(StdArc::clone(&alarm));
        let (place, _) = self.waiters.add(Order::ZERO, false, announce);
        loop {
            let mut frees = self.waiters.frees();
            if self.try_alloc() {
                self.leave(place, true);
                return Caller { place, alarm, sleeps: false };
            }
            if without == Without::Frees {
                frees = self.waiters.frees();
            }
            if self.waiters.sleep(place, frees, &waker) {
                return Caller { place, alarm, sleeps: true };
            }
        }
    }

    /// Fails if a caller would sleep for ever. All other threads have ended.
    fn check(&self, caller: &Caller) {
        if caller.sleeps {
            let woken = caller.alarm.0.load(Relaxed);
            assert!(woken || self.free.load(Relaxed) == 0, "a wake-up was lost");
            self.leave(caller.place, false);
        }
        assert!(!self.is_awaited.load(Relaxed), "nobody waits any more");
    }

    fn leave(&self, place: WaiterId, got: bool) {
        self.waiters.remove(place, got, || self.is_awaited.store(false, Relaxed));
    }

    /// A future that is polled and dropped.
    fn poll_and_give_up(&self) {
        let caller = self.poll(Without::Nothing);
        if caller.sleeps {
            self.leave(caller.place, false);
        } else {
            self.free(Without::Nothing);
        }
    }
}

/// One thread waits while another frees a page.
fn explore(without: Without) {
    loom::model(move || {
        let pool = Arc::new(Pool::default());
        let other = Arc::clone(&pool);
        let freer = thread::spawn(move || other.free(without));
        let caller = pool.poll(without);
        freer.join().expect("a thread that ends");
        pool.check(&caller);
    });
}

#[test]
fn a_free_wakes_a_caller_that_sleeps() {
    explore(Without::Nothing);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_missing_barrier_is_found() {
    explore(Without::Barrier);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_caller_that_sleeps_after_a_free_is_found() {
    explore(Without::Frees);
}

/// A caller that gives up does not keep a page from the one that waits.
#[test]
fn a_caller_that_gives_up_passes_its_turn_on() {
    let mut model = loom::model::Builder::new();
    // Three threads have too many orders. Most errors need two switches.
    model.preemption_bound = Some(2);
    model.check(|| {
        let pool = Arc::new(Pool::default());
        let (one, two) = (Arc::clone(&pool), Arc::clone(&pool));
        let freer = thread::spawn(move || one.free(Without::Nothing));
        let quitter = thread::spawn(move || two.poll_and_give_up());
        let caller = pool.poll(Without::Nothing);
        freer.join().expect("a thread that ends");
        quitter.join().expect("a thread that ends");
        pool.check(&caller);
    });
}
