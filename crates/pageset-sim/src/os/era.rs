//! Sizes outside of the allocator that kernels have changed over time.

use pageset::Tuning;

/// The sizes of one time. Specification: `linux-page-allocator.md` 5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Era {
    /// Pages of a CPU's batch in front of the LRU lock.
    pub lru_batch: usize,
    /// Pages unlinked from the LRU under one hold of its lock.
    pub lru_release: usize,
}

impl Era {
    /// The time of a set of rules.
    #[must_use]
    pub const fn of(tuning: &Tuning) -> Era {
        // Both sizes changed in 6.10, as did the moment at which a drained page's type is read.
        if tuning.type_at_drain {
            Era { lru_batch: 31, lru_release: 31 }
        } else {
            Era { lru_batch: 15, lru_release: 32 }
        }
    }
}

/// Entries of the bundle that an unmapping has on its stack. Specification: 5, "Unmap".
pub(super) const GATHER_FIRST: usize = 8;
/// Entries of a gather page.
pub(super) const GATHER_PAGE: usize = 510;
/// Gather pages at most.
pub(super) const GATHER_PAGES: usize = 19;
