//! Refills on their way: pages that look free but are on no list, and how others wait for them.
//!
//! A refill that takes whole clusters cuts them off their list with the zone lock held, and writes to their pages
//! without it. In between they still look free. Whoever would act on the look of a page holds the zone lock, and waits
//! here first; a refill needs no zone lock to come to its end, so the wait is short. Specification:
//! `linux-page-allocator.md` 6.2, "Race".

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A zone's refills between the cut and the end of the writes, and how many have asked that no more begin.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    refills: AtomicU32,
    disabled: AtomicU32,
}

impl InFlight {
    /// A refill has cut its clusters off. The zone lock is held.
    pub(crate) fn begin(&self) {
        // Relaxed: whoever waits has the zone lock after us, and so sees it.
        self.refills.fetch_add(1, Relaxed);
    }

    /// It has written to all its pages. The zone lock is not needed.
    pub(crate) fn end(&self) {
        // Release: pairs with the acquire in wait, over the adds and subtracts of others in between.
        self.refills.fetch_sub(1, Release);
    }

    /// Waits until no refill is on its way; the zone lock is held, so none begins. What they wrote is seen after it.
    pub(crate) fn wait(&self, relax: impl Fn()) {
        // Acquire: pairs with the release in end.
        while self.refills.load(Acquire) > 0 {
            relax();
        }
    }

    /// How many are on their way, as of some recent moment.
    pub(crate) fn refills(&self) -> u32 {
        self.refills.load(Relaxed)
    }

    /// No more are to begin until [`Self::enable`]; may be asked for many times at once. The zone lock is held.
    pub(crate) fn disable(&self) {
        // Relaxed, here and below: read and written under the zone lock.
        self.disabled.fetch_add(1, Relaxed);
    }

    /// Takes back one [`Self::disable`]. The zone lock is held.
    pub(crate) fn enable(&self) {
        self.disabled.fetch_sub(1, Relaxed);
    }

    /// Whether any has asked that none begin. The zone lock is held.
    pub(crate) fn is_disabled(&self) -> bool {
        self.disabled.load(Relaxed) > 0
    }
}

#[cfg(test)]
mod tests;
