//! Sizes outside of the allocator that kernels have changed over time.

use pageset::Tuning;

/// The sizes of one time. Specification: `linux-page-allocator.md` 5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Era {
    /// Pages of a CPU's batch in front of the LRU lock.
    pub lru_batch: usize,
    /// Pages unlinked from the LRU under one hold of its lock.
    pub lru_release: usize,
    /// Whether each memory control group has its own LRU lists and lock (5.11 on).
    pub lru_by_group: bool,
}

impl Era {
    /// The time of a set of rules.
    #[must_use]
    pub const fn of(tuning: &Tuning) -> Era {
        // Both sizes changed in 6.10, as did the moment at which a drained page's type is read.
        let (lru_batch, lru_release) = if tuning.type_at_drain { (31, 31) } else { (15, 32) };
        // No preset lies between 5.11 and 5.14, when drains came to grow.
        Era { lru_batch, lru_release, lru_by_group: tuning.scale_drain }
    }
}

/// Entries of the bundle that an unmapping has on its stack. Specification: 5, "Unmap".
pub(super) const GATHER_FIRST: usize = 8;
/// Entries of a gather page.
pub(super) const GATHER_PAGE: usize = 510;
/// Gather pages at most.
pub(super) const GATHER_PAGES: usize = 19;
