//! Selection of the next CPU: by time, or at random to explore interleavings.

use super::Engine;
use crate::time::Time;

/// How the engine selects the next CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The earliest CPU in virtual time. Touches and locks cost time; a CPU waits for others only at locks.
    #[default]
    Earliest,
    /// A random CPU, at every lock and every touch.
    Interleave,
}

/// A bug that tests plant to check that the explorer finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlantedBug {
    /// Some CPUs that find a zone's lock held get it anyway.
    ZoneLockShared,
    /// Some CPUs in the queue of a zone's lock are forgotten.
    WaiterForgotten,
}

#[cfg(test)]
impl PlantedBug {
    /// The bug occurs at one in this many opportunities.
    const ONE_IN: u64 = 64;
}

/// Longest ordinary step, short so that CPUs race. Unit: picoseconds, of which only the order counts.
const SHORT: u64 = 16;
/// Longest rare step, in which all other CPUs overtake.
const LONG: u64 = 1 << 12;
/// One in this many steps is long.
const ONE_IN: u64 = 16;

impl Engine {
    /// One step of the interleaving: advances the clock by a random time and lets the earliest CPU run.
    #[cold]
    pub(super) fn step(&self) {
        let longest = if self.random_below(ONE_IN) == 0 { LONG } else { SHORT };
        self.pass(Time::from_ps(1 + self.random_below(longest)));
        self.sync();
    }

    /// Called before a lock is tried. In every mode the actions of others before this point count.
    #[inline]
    pub(super) fn before_lock(&self) {
        if self.config.mode == Mode::Earliest { self.sync() } else { self.step() }
    }

    /// As [`Self::before_lock`], for a lock without a queue, which costs no time by itself.
    #[inline]
    pub(crate) fn before_light_lock(&self) {
        if self.config.mode != Mode::Earliest && self.is_running() {
            self.step();
        }
    }

    #[cfg(test)]
    pub(crate) fn plant(&self, plant: PlantedBug) {
        self.planted.set(Some(plant));
    }

    /// Whether the planted bug occurs at this opportunity.
    #[cfg(test)]
    pub(super) fn strikes(&self, plant: PlantedBug) -> bool {
        self.planted.get() == Some(plant) && self.random_below(PlantedBug::ONE_IN) == 0
    }

    /// Planted bugs exist only in tests.
    #[cfg(not(test))]
    #[inline]
    pub(super) const fn strikes(&self, _: PlantedBug) -> bool {
        false
    }
}
