//! What the rules of the layer `research` keep in a pageset: what other CPUs left for it, and its merges. Without the feature
//! `research` the type in `no_research` replaces [`PcpResearch`]: it has no memory, and its methods return constants.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;

use super::PcpGuard;
use crate::sync::{AtomicU64, LockedWord, const_new};
use crate::zone::deferred::Deferred;

/// The state of these rules in one pageset.
#[derive(Debug)]
pub(crate) struct PcpResearch {
    /// Blocks that other CPUs freed, for the owner of their pageblock, and the pages that came from there.
    pub(crate) remote: Deferred,
    pub(crate) owner_pages: AtomicU64,
    /// Pages of the blocks that wait.
    pub(crate) waiting: AtomicU32,
    /// Merges in the pageset, and the number of the last pass over a list.
    pub(crate) merges: AtomicU64,
    pub(crate) merge_passes: AtomicU32,
    /// Pages that had come before the last merge.
    pub(crate) merged_at: AtomicU64,
}

impl PcpResearch {
    const_new! {
        pub(crate) fn new() -> Self {
            PcpResearch {
                remote: Deferred::new(),
                owner_pages: AtomicU64::new(0),
                waiting: AtomicU32::new(0),
                merges: AtomicU64::new(0),
                merge_passes: AtomicU32::new(0),
                merged_at: AtomicU64::new(0),
            }
        }
    }

    /// Whether blocks of other CPUs wait.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.remote.is_empty()
    }

    /// Pages of the blocks that wait, at a recent moment.
    pub(crate) fn waiting(&self) -> u32 {
        // Acquire: pairs with the release of the subtraction. Who misses a page here finds it where it is now.
        self.waiting.load(Acquire)
    }

    /// A number that grows when another CPU's free or a merge changes the pageset, and the pages that wait.
    pub(crate) fn version(&self) -> [u64; 2] {
        [self.owner_pages.get() + u64::from(self.merge_passes.get()), self.waiting().into()]
    }

    /// Pages that came from other CPUs, and merges.
    pub(crate) fn counters(&self) -> [u64; 2] {
        [self.owner_pages.get(), self.merges.get()]
    }
}

impl<'p, L, G> PcpGuard<'p, L, G> {
    /// The blocks of a list, the oldest first.
    pub(crate) fn blocks(&self, list: usize) -> impl Iterator<Item = u32> + use<'p, L, G> {
        self.pageset.list(list).iter(self.words)
    }
}
