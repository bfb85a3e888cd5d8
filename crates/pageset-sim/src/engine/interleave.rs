//! How the next CPU is chosen, and the other way than by time: at random.

use super::Engine;
use crate::time::Time;

/// How the next CPU is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Always the earliest in virtual time. Touches and locks cost time; a CPU waits for the others only at locks.
    #[default]
    Earliest,
    /// At random, at every lock and every touch.
    Interleave,
}

/// A bug that tests plant, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// Of those who find a zone's lock held, some get it.
    ZoneLockShared,
    /// Of those who wait for a zone's lock, some are forgotten.
    WaiterForgotten,
}

#[cfg(test)]
impl Plant {
    /// One of so many.
    const ONE_IN: u64 = 64;
}

/// A step of most CPUs: short, so that they race. In picoseconds, as all times here; only their order counts.
const SHORT: u64 = 16;
/// A long one: all others overtake.
const LONG: u64 = 1 << 12;
/// One of so many steps is long.
const ONE_IN: u64 = 16;

impl Engine {
    /// One step of the interleaving: it takes a random time, and whoever is then the earliest goes on.
    #[cold]
    pub(super) fn step(&self) {
        let longest = if self.random_below(ONE_IN) == 0 { LONG } else { SHORT };
        self.pass(Time::from_ps(1 + self.random_below(longest)));
        self.sync();
    }

    /// A lock is about to be tried: where others act in between counts in every mode.
    #[inline]
    pub(super) fn before_lock(&self) {
        if self.config.mode == Mode::Earliest { self.sync() } else { self.step() }
    }

    /// As [`Self::before_lock`] for a lock that costs no time by itself: nobody waits for it in a queue.
    #[inline]
    pub(crate) fn before_light_lock(&self) {
        if self.config.mode != Mode::Earliest && self.is_running() {
            self.step();
        }
    }

    /// Plants a bug.
    #[cfg(test)]
    pub(crate) fn plant(&self, plant: Plant) {
        self.planted.set(Some(plant));
    }

    /// Whether a planted bug strikes, where it could.
    #[cfg(test)]
    pub(super) fn strikes(&self, plant: Plant) -> bool {
        self.planted.get() == Some(plant) && self.random_below(Plant::ONE_IN) == 0
    }

    /// No bug is planted outside of tests.
    #[cfg(not(test))]
    #[inline]
    pub(super) const fn strikes(&self, _: Plant) -> bool {
        false
    }
}
