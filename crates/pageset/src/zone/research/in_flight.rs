//! Refills in flight: pages that look free but are on no list, and how other CPUs wait for them.
//!
//! A refill from whole clusters cuts them off their list under the zone lock, and writes their pages' tags without it.
//! In between the pages still look free. Code that acts on a page's tag holds the zone lock and first waits here. A
//! refill ends without the zone lock, so the wait is short. Specification: `linux-page-allocator.md` 6.2, "Race".

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::const_new;

/// A zone's refills between the cut and the end of the writes, and the number of open requests to start no more.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    refills: AtomicU32,
    disabled: AtomicU32,
}

impl InFlight {
    const_new! {
        pub(crate) fn new() -> Self {
            InFlight { refills: AtomicU32::new(0), disabled: AtomicU32::new(0) }
        }
    }

    /// Begins a refill that has cut its clusters off. The zone lock is held.
    pub(crate) fn begin(&self) {
        // Relaxed: a waiter takes the zone lock after this hold, and so sees the store.
        self.refills.fetch_add(1, Relaxed);
    }

    /// Ends a refill that has written all its pages. Needs no zone lock.
    pub(crate) fn end(&self) {
        // Release: pairs with the acquire in wait, also across other refills' adds and subtracts in between.
        self.refills.fetch_sub(1, Release);
    }

    /// Waits until no refill is in flight. The zone lock is held, so none begins. The refills' writes are visible
    /// afterwards.
    pub(crate) fn wait(&self, relax: impl Fn()) {
        // Acquire: pairs with the release in end.
        while self.refills.load(Acquire) > 0 {
            relax();
        }
    }

    /// The number of refills in flight at a recent moment.
    pub(crate) fn refills(&self) -> u32 {
        self.refills.load(Relaxed)
    }

    /// Forbids new refills until [`Self::enable`]. Calls nest. The zone lock is held.
    pub(crate) fn disable(&self) {
        // Relaxed, here and below: read and written under the zone lock.
        self.disabled.fetch_add(1, Relaxed);
    }

    /// Undoes one [`Self::disable`]. The zone lock is held.
    pub(crate) fn enable(&self) {
        self.disabled.fetch_sub(1, Relaxed);
    }

    /// Whether new refills are forbidden. The zone lock is held.
    pub(crate) fn is_disabled(&self) -> bool {
        self.disabled.load(Relaxed) > 0
    }
}

#[cfg(test)]
mod tests;
