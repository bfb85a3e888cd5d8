//! The kinds of locks: where the critical sections of waiting CPUs run.

use crate::time::Time;

/// Where the critical sections of CPUs that wait for a lock run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LockKind {
    /// On their own cores: the lock passes from CPU to CPU in the order of their first tries.
    #[default]
    Queue,
    /// On the core of the CPU that had the lock first, in the same order. [`Mode::Interleave`](super::Mode::Interleave)
    /// ignores this.
    Combining {
        /// Maximum of sections that a CPU executes in a row, its own included; at least 1.
        most: u32,
    },
}

impl LockKind {
    /// A combining lock for up to 64 sections. A guess: a combiner then works for others for as long as tens of drains
    /// of a pageset take.
    pub const COMBINING: LockKind = LockKind::Combining { most: 64 };
}

/// A CPU that has ended its own section and executes those of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combiner {
    pub(super) cpu: u32,
    /// The path of its own section.
    pub(super) path: usize,
    pub(super) since: Time,
    /// Executed sections, including its own and the current one.
    pub(super) executed: u32,
}
