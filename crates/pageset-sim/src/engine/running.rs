//! The CPU that runs: what its work and its touches read and write, in one place.
//!
//! All that a touch of a near line takes is here and in the line's own state. What belongs to the CPU and to its core is
//! fetched when the CPU goes on and put back when another does: see [`Engine::enter`](super::Engine::enter).

use std::cell::Cell;

use super::jitter::Factor;
use super::topology::Core;
use crate::time::Time;

/// No CPU.
pub(super) const NOBODY: u32 = u32::MAX;

/// The state of the running CPU. Where none runs it is that of the CPU that acts, which nothing costs time.
#[derive(Debug)]
pub(super) struct Running {
    /// Whether virtual time passes for it.
    pub(super) on: Cell<bool>,
    pub(super) cpu: Cell<u32>,
    pub(super) core: Cell<Core>,
    pub(super) clock: Cell<Time>,
    /// What the core writes into the state of a line that it touches: see [`LineState`](super::LineState).
    pub(super) tag: Cell<u64>,
    /// A line that the core touched when it had brought in fewer lines less than this is in its own caches. No line is
    /// where touches cost nothing, or more than time.
    pub(super) near: Cell<u64>,
    /// How many times as long as on average its present hold of a lock takes, and up to when that is in the clock.
    pub(super) hold: Cell<Factor>,
    pub(super) settled: Cell<Time>,
    /// Thousandths that work takes for the core's other thread, and for its clock.
    pub(super) smt_permille: Cell<u64>,
    pub(super) clock_permille: Cell<u64>,
}

impl Running {
    /// Nobody.
    pub(super) fn new() -> Self {
        Running {
            on: Cell::new(false),
            cpu: Cell::new(NOBODY),
            core: Cell::new(Core(0)),
            clock: Cell::new(Time::ZERO),
            tag: Cell::new(0),
            near: Cell::new(0),
            hold: Cell::new(Factor::ONE),
            settled: Cell::new(Time::ZERO),
            smt_permille: Cell::new(1000),
            clock_permille: Cell::new(1000),
        }
    }

    /// Time passes for it.
    #[inline(always)]
    pub(super) fn pass(&self, time: Time) {
        self.clock.set(self.clock.get() + time);
    }

    /// A hold of a lock begins, which takes so many times as long as on average.
    #[inline]
    pub(super) fn begin_hold(&self, factor: Factor) {
        self.hold.set(factor);
        self.settled.set(self.clock.get());
    }

    /// Others are about to see the clock: what has passed of a hold takes as long as it does this time. Until then nobody
    /// knows, so that all that the hold does varies together, at no cost for each touch.
    #[inline]
    pub(super) fn settle(&self) {
        let factor = self.hold.get();
        if factor != Factor::ONE {
            let since = self.settled.get();
            self.clock.set(since + factor.of(self.clock.get() - since));
            self.settled.set(self.clock.get());
        }
    }
}
