//! The CPU that runs: what its work and its touches read and write, in one place.
//!
//! All that a touch of a near line takes is here and in the line's own state. What belongs to the CPU and to its core is
//! fetched when the CPU goes on and put back when another does: see [`Engine::enter`](super::Engine::enter).

use std::cell::Cell;

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
    /// Thousandths that lines from outside the core cost, while a lock is held that others wait for.
    pub(super) line_permille: Cell<u64>,
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
            line_permille: Cell::new(1000),
            smt_permille: Cell::new(1000),
            clock_permille: Cell::new(1000),
        }
    }

    /// Time passes for it.
    #[inline(always)]
    pub(super) fn pass(&self, time: Time) {
        self.clock.set(self.clock.get() + time);
    }
}
