//! Merging put off: single pages are freed without a look at their buddies, until high orders are needed.
//!
//! Which pages were put off is not stored: two free pages that are buddies would have merged, so one of them was. That
//! finds more than a flag set at the free would: pages moved to another list lose such a flag and then never merge.
//! Specification: `linux-page-allocator.md` 6.1.

use crate::alloc::Allocator;
use crate::frame::Order;
use crate::machine::{LockPath, Machine};
use crate::policy::Tuning;
use crate::sync::{self, Held};
use crate::zone::Zone;

/// While one exists, pages of its zone merge as they are freed, refills take page by page, and none is on its way. Takes
/// the zone lock to begin and to end.
pub(crate) struct NoClusters<'z, 'a, M: Machine> {
    machine: &'z M,
    zone: &'z Zone<'a, M>,
}

impl<'z, 'a, M: Machine> NoClusters<'z, 'a, M> {
    pub(crate) fn new(machine: &'z M, zone: &'z Zone<'a, M>) -> Self {
        let _guard = zone.lock(machine, LockPath::Map);
        zone.in_flight.disable();
        zone.wait_for_refills(machine);
        NoClusters { machine, zone }
    }
}

impl<M: Machine> Drop for NoClusters<'_, '_, M> {
    fn drop(&mut self) {
        let _guard = self.zone.lock(self.machine, LockPath::Map);
        self.zone.in_flight.enable();
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Whether a block of this order is freed without merging: a single page, while no compaction has been passed over
    /// since the last one failed, and nobody needs merging. The zone lock is held.
    pub(crate) fn can_skip(&self, tuning: &Tuning, order: Order) -> bool {
        tuning.merge_skip && order == Order::ZERO && self.deferral.considered() == 0 && !self.in_flight.is_disabled()
    }

    /// Notes pages that were freed without merging. The zone lock is held.
    pub(crate) fn count_skips(&self, pages: u64) {
        sync::add(&self.skips, pages);
    }

    /// Whether there may be pages that have not merged with their buddies, as of some recent moment.
    pub(crate) fn has_skipped(&self) -> bool {
        self.skips.get() != self.skips_merged.get()
    }

    /// Waits until no page of the zone is on its way from a free list to a pageset. The zone lock is held.
    pub(crate) fn wait_for_refills(&self, machine: &M) {
        self.in_flight.wait(|| machine.relax());
    }

    /// Merges all pages that were freed without; returns how many pairs. Takes the zone lock, for one pageblock at a
    /// time.
    pub(crate) fn merge_skipped(&self, machine: &M, tuning: &Tuning) -> u64 {
        if !self.has_skipped() {
            return 0;
        }
        let _merging = NoClusters::new(machine, self);
        let mut pairs = 0;
        for start in (0..self.frames.len()).step_by(Order::PAGEBLOCK.pages() as usize) {
            // Without the lock: what was put off has been so since before it was last held, and no more comes now.
            if self.unmerged_pairs(start).next().is_some() {
                let _guard = self.lock(machine, LockPath::Map);
                pairs += self.merge_pageblock(machine, tuning, start);
            }
        }
        // Nothing was put off since the call above, and all that had been is merged.
        self.skips_merged.set(self.skips.get());
        pairs
    }

    /// The pairs of free pages in a pageblock that could be blocks of order 1, by their lower page.
    fn unmerged_pairs(&self, start: u32) -> impl Iterator<Item = u32> {
        let is_pair = |page: &u32| self.is_free(*page, Order::ZERO) && self.is_free(page + 1, Order::ZERO);
        (start..start + Order::PAGEBLOCK.pages() as u32).step_by(2).filter(is_pair)
    }

    fn merge_pageblock(&self, machine: &M, tuning: &Tuning, start: u32) -> u64 {
        let migratetype = self.frames.block_type(start);
        let mut pairs = 0;
        for page in self.unmerged_pairs(start) {
            self.remove(machine, page, Order::ZERO);
            // Disabled, so this merges.
            self.free_block(machine, tuning, page, Order::ZERO, migratetype);
            pairs += 1;
        }
        pairs
    }
}

impl<M: Machine> Allocator<'_, M> {
    /// Merges the pages of a zone that were freed without merging, as [`Tuning::merge_skip`] lets them; returns how
    /// many pairs of pages were merged. A request above order 0 that finds nothing does this by itself. Takes time in
    /// proportion to the zone, the zone lock for a pageblock at a time. Specification 6.1.
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn merge_skipped(&self, zone: usize) -> u64 {
        self.zones[zone].merge_skipped(&self.machine, &self.tuning)
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
