//! The state of the running CPU that its work and touches read and write, in one place.
//!
//! A touch of a near line uses only this state and the state of the line. [`Engine::enter`](super::Engine::enter) loads
//! the state of the CPU and its core; `Engine::leave` stores it.

use std::cell::Cell;

use super::jitter::Factor;
use super::topology::Core;
use crate::time::Time;

/// The number for "no CPU".
pub(super) const NOBODY: u32 = u32::MAX;

/// The state of the running CPU, or of the CPU that acts while none runs. Actions of the latter take no time.
#[derive(Debug)]
pub(super) struct Running {
    /// Whether virtual time passes for this CPU.
    pub(super) on: Cell<bool>,
    pub(super) cpu: Cell<u32>,
    pub(super) core: Cell<Core>,
    pub(super) clock: Cell<Time>,
    /// The value that the core writes into the state of a touched line, see [`LineState`](super::LineState).
    pub(super) tag: Cell<u64>,
    /// A line is in the core's own caches if the core has brought in fewer than `near` lines since it touched the line.
    /// 0 where touches cost no time, or do more than cost time.
    pub(super) near: Cell<u64>,
    /// The random factor of the current lock hold, and the time up to which the clock includes this factor.
    pub(super) hold: Cell<Factor>,
    pub(super) settled: Cell<Time>,
    /// Duration of work in thousandths, from the core's other thread, and from its clock and speed.
    pub(super) smt_permille: Cell<u64>,
    pub(super) clock_permille: Cell<u64>,
}

impl Running {
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

    #[inline(always)]
    pub(super) fn pass(&self, time: Time) {
        self.clock.set(self.clock.get() + time);
    }

    /// Starts a lock hold whose duration is multiplied by `factor`.
    #[inline]
    pub(super) fn begin_hold(&self, factor: Factor) {
        self.hold.set(factor);
        self.settled.set(self.clock.get());
    }

    /// Applies the hold's factor to the time since the last call, before others see the clock. The delay makes all
    /// parts of a hold vary together, without a cost per touch.
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
