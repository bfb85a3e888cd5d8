//! The queue of callers that wait for memory.
//!
//! A free wakes the caller that has waited longest. That caller tries to allocate. If it fails, it passes the turn on to the
//! next caller that wants a smaller run; no larger run can be free. A caller that takes memory of one node only passes it to the
//! next caller: other nodes may have any run. If a caller succeeds, or gives up, it passes the turn on to the first, for there may
//! be more. So one free causes at most eleven failed tries of callers that take any node, one for each order.
//!
//! No turn gets lost: a caller that fails goes to sleep only if no free came since its try began.
//!
//! The queue calls no waker, and drops none, while it holds its lock: both run code of the caller.

use std::sync::PoisonError;
use std::task::Waker;

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(all(loom, test))]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(not(all(loom, test)))]
use std::sync::{Mutex, MutexGuard};

use pageset::Order;

/// Callers that wait for memory.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queue: Mutex<Queue>,
    /// Deferred frees while callers wait. Relaxed: a caller that sees the change later tries later.
    deferred_frees: AtomicU64,
}

/// A caller of the queue. The values are never used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaiterId(u64);

/// The number of frees that the queue has noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frees(u64);

#[derive(Debug, Default)]
struct Queue {
    /// The callers, the one that has waited longest first.
    waiters: Vec<Waiter>,
    frees: u64,
    next_id: u64,
    /// Whether every free that is not deferred calls [`Waiters::freed`] while the queue is not empty.
    is_certain: bool,
}

#[derive(Debug)]
struct Waiter {
    id: WaiterId,
    order: Order,
    /// Whether the caller takes memory of one node only.
    one_node: bool,
    /// What wakes the caller. `None`: the caller is awake.
    waker: Option<Waker>,
    /// Whether it is the caller's turn to try, after a free.
    has_turn: bool,
}

impl Queue {
    /// Gives the turn to the first sleeping caller from this place on that `may` try. Returns its waker.
    fn pass_turn(&mut self, from: usize, may: impl Fn(Order) -> bool) -> Option<Waker> {
        let mut later = self.waiters.iter_mut().skip(from);
        let next = later.find(|waiter| waiter.waker.is_some() && may(waiter.order))?;
        next.has_turn = true;
        next.waker.take()
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code of a caller runs with the lock held, so a panic cannot leave a queue that is half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a caller, awake. `announce` runs before the call returns if the queue was empty: from then on, frees call
    /// [`Self::freed`]. It returns whether that is certain; so does this call.
    pub(crate) fn add(&self, order: Order, one_node: bool, announce: impl FnOnce() -> bool) -> (WaiterId, bool) {
        let mut queue = self.lock();
        let id = WaiterId(queue.next_id);
        queue.next_id += 1;
        if queue.waiters.is_empty() {
            // With the lock held: another caller must not find a queue that frees do not notice yet.
            queue.is_certain = announce();
        }
        queue.waiters.push(Waiter { id, order, one_node, waker: None, has_turn: false });
        (id, queue.is_certain)
    }

    /// Whether a caller is awake: a free has woken it since it last went to sleep.
    pub(crate) fn is_awake(&self, id: WaiterId) -> bool {
        self.lock().waiters.iter().all(|waiter| waiter.id != id || waiter.waker.is_none())
    }

    /// Notes a free that wakes nobody. Safe in a signal handler.
    pub(crate) fn note_deferred_free(&self) {
        self.deferred_frees.fetch_add(1, Relaxed);
    }

    /// The number of frees that woke nobody.
    pub(crate) fn deferred_frees(&self) -> u64 {
        self.deferred_frees.load(Relaxed)
    }

    /// The frees so far. A caller reads them before it tries.
    pub(crate) fn frees(&self) -> Frees {
        Frees(self.lock().frees)
    }

    /// Puts a caller to sleep after a try that failed. Returns false if a free came since `frees`; the caller then tries
    /// again. A caller that already sleeps gets the new waker.
    pub(crate) fn sleep(&self, id: WaiterId, frees: Frees, waker: &Waker) -> bool {
        let new = waker.clone();
        let (former, next) = {
            let mut queue = self.lock();
            if queue.frees != frees.0 {
                return false;
            }
            let Some(place) = queue.waiters.iter().position(|waiter| waiter.id == id) else { return false };
            let waiter = &mut queue.waiters[place];
            let former = waiter.waker.replace(new);
            let (had_turn, order, one_node) = (std::mem::take(&mut waiter.has_turn), waiter.order, waiter.one_node);
            // Only to later callers, so that a turn ends.
            let next = if had_turn { queue.pass_turn(place + 1, |other| one_node || other < order) } else { None };
            (former, next)
        };
        // The drop of a waker may panic, so the turn is passed on before.
        next.into_iter().for_each(Waker::wake);
        drop(former);
        true
    }

    /// Removes a caller that `got` memory, or gives up. `end` runs if the queue is then empty.
    pub(crate) fn remove(&self, id: WaiterId, got: bool, end: impl FnOnce()) {
        let (former, next) = {
            let mut queue = self.lock();
            let place = queue.waiters.iter().position(|waiter| waiter.id == id);
            let former = place.map(|place| queue.waiters.remove(place));
            if queue.waiters.is_empty() {
                end();
            }
            let passes = got || former.as_ref().is_some_and(|waiter| waiter.has_turn);
            let next = if passes { queue.pass_turn(0, |_| true) } else { None };
            (former, next)
        };
        // The drop of a waker may panic, so the turn is passed on before.
        next.into_iter().for_each(Waker::wake);
        drop(former);
    }

    /// Notes a free, and wakes a caller.
    pub(crate) fn freed(&self) {
        let next = {
            let mut queue = self.lock();
            queue.frees += 1;
            queue.pass_turn(0, |_| true)
        };
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
#[path = "waiters_tests.rs"]
mod tests;
