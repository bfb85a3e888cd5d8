//! Skipped merging: single pages are freed without a look at their buddies, until high orders are needed.
//!
//! Skipped merges are not recorded per page. Two free buddies of order 0 would have merged, so one of their merges was
//! skipped. This finds more than a flag set at the free would: a page that moves to another list loses such a flag and
//! never merges again. Specification: `linux-page-allocator.md` 6.1.

use crate::admin::views::ZoneView;
use crate::frame::{End, MigrateType, Order};
use crate::machine::{LockPath, Machine};
use crate::sync::{self, LockedWord};
use crate::zone::{Env, Zone, ZoneGuard};

/// While a value exists, pages of its zone merge when freed, refills take page by page, and no refill is in flight. The
/// creation and the drop take the zone lock.
pub(crate) struct Merges<'z, 'a, M: Machine> {
    env: Env<'z, M>,
    zone: &'z Zone<'a, M>,
}

impl<M: Machine> Drop for Merges<'_, '_, M> {
    fn drop(&mut self) {
        let _guard = self.zone.lock(self.env, LockPath::Map, 0);
        self.zone.research.in_flight.enable();
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Whether pages may exist that have not merged with their buddies, at a recent moment.
    pub(crate) fn has_skipped(&self) -> bool {
        self.research.skips.get() != self.research.skips_merged.get()
    }

    /// The pairs of free pages in a pageblock that could merge to order 1, as the lower page of each.
    fn unmerged_pairs(&self, start: u32) -> impl Iterator<Item = u32> {
        let is_pair = |page: &u32| self.is_free(*page, Order::ZERO) && self.is_free(page + 1, Order::ZERO);
        (start..start + Order::PAGEBLOCK.pages() as u32).step_by(2).filter(is_pair)
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Whether a block of this order is freed without merging: a single page, while no attempt at compaction was
    /// counted since its last failure or success, and no [`Merges`] exists.
    pub(super) fn skips_merge(&self, order: Order) -> bool {
        self.env.tuning.backing.skips_merges()
            && order == Order::ZERO
            && self.zone.deferral.considered.get() == 0
            && !self.zone.research.in_flight.is_disabled()
    }

    /// Puts a free block that skips merging on its list. Returns false if it must merge.
    #[inline]
    pub(crate) fn put_unmerged(&self, page: u32, order: Order, list: MigrateType, end: impl FnOnce() -> End) -> bool {
        let skips = self.skips_merge(order);
        if skips {
            self.put(page, order, list, end());
            self.count_skips(order.pages());
        }
        skips
    }

    /// Counts pages that were freed without merging.
    pub(super) fn count_skips(&self, pages: u64) {
        sync::add(&self.zone.research.skips, pages);
    }

    /// Waits until no refill of the zone is in flight.
    pub(crate) fn wait_for_refills(&self) {
        self.zone.research.in_flight.wait(|| self.env.machine.relax());
    }

    fn merge_pageblock(&self, start: u32) -> u64 {
        let mut pairs = 0;
        for page in self.zone.unmerged_pairs(start) {
            self.remove(page, Order::ZERO);
            // Merge skipping is disabled here, so this free merges.
            self.free_block(page, Order::ZERO);
            pairs += 1;
        }
        pairs
    }
}

impl<'a, M: Machine> Zone<'a, M> {
    /// Disables merge skipping while the result lives.
    pub(crate) fn merges<'z>(&'z self, env: Env<'z, M>) -> Merges<'z, 'a, M> {
        let guard = self.lock(env, LockPath::Map, 0);
        self.research.in_flight.disable();
        guard.wait_for_refills();
        drop(guard);
        Merges { env, zone: self }
    }

    /// Merges all pages that were freed without merging. Returns the number of pairs. Takes the zone lock for one
    /// pageblock at a time.
    pub(crate) fn merge_skipped(&self, env: Env<'_, M>) -> u64 {
        if !self.has_skipped() {
            return 0;
        }
        let _merges = self.merges(env);
        let mut pairs = 0;
        for start in (0..self.frames.len()).step_by(Order::PAGEBLOCK.pages() as usize) {
            // No lock is needed here: every skip happened before the lock was last held, and no new one can begin.
            if self.unmerged_pairs(start).next().is_some() {
                pairs += self.lock(env, LockPath::Map, start).merge_pageblock(start);
            }
        }
        // Nothing was skipped since the call above, and all earlier skips are merged.
        self.research.skips_merged.set(self.research.skips.get());
        pairs
    }
}

impl<M: Machine> ZoneView<'_, '_, M> {
    /// Merges the pages of the zone that were freed without merging under
    /// [`Backing::MergeSkip`](crate::policy::Backing::MergeSkip). Returns the number of merged pairs. A request above order 0
    /// that finds no block does this by itself. Takes time in proportion to the zone, and the zone lock for one
    /// pageblock at a time. Specification 6.1.
    pub fn merge_skipped(self) -> u64 {
        self.zone.shared.merge_skipped(self.allocator.env())
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
