//! The HIGHATOMIC reserve: pageblocks kept for urgent requests above order 0 whose callers cannot wait.
//!
//! Specification: `linux-page-allocator.md` 1.6, "HIGHATOMIC reserve"; 2.3, step 5. All that changes
//! something is called with the zone lock held.

use crate::frame::MigrateType;
use crate::frame::{Order, PAGEBLOCK, start_of};
use crate::machine::Machine;
use crate::policy::Tuning;
use crate::sync::Held;
use crate::zone::Zone;

use MigrateType::HighAtomic;

impl<M: Machine> Zone<'_, M> {
    /// Whether the limit leaves room for one pageblock more.
    pub(crate) fn may_reserve_highatomic(&self) -> bool {
        self.reserved_highatomic.get() < self.highatomic.limit(self.managed.get())
    }

    /// Whether there is one to be given back: the last one only where `forced`.
    pub(crate) fn may_unreserve_highatomic(&self, forced: bool) -> bool {
        let last = if forced { 0 } else { Order::PAGEBLOCK.pages() };
        self.reserved_highatomic.get() > last
    }

    /// Keeps the pageblocks of a block that an urgent request just got, as far as the limit lets it. The block itself is in
    /// use; what is free around it is for the next one.
    pub(crate) fn reserve_highatomic(&self, machine: &M, tuning: &Tuning, page: u32, order: Order) {
        let first = start_of(page, Order::PAGEBLOCK);
        for start in (first..page + order.pages() as u32).step_by(PAGEBLOCK as usize) {
            let inside = start >= self.frames.first && start + PAGEBLOCK <= self.frames.end;
            if inside && self.may_reserve_highatomic() && self.frames.block_type(start).is_ordinary() {
                self.change_type(machine, tuning, start, HighAtomic);
            }
        }
    }

    /// Gives one reserved pageblock that has free pages to `to`. The last one stays unless `forced`. True when one was
    /// given.
    pub(crate) fn unreserve_highatomic(&self, machine: &M, tuning: &Tuning, to: MigrateType, forced: bool) -> bool {
        if !self.may_unreserve_highatomic(forced) {
            return false;
        }
        let found = Order::all().find_map(|order| {
            let slot = self.areas[order.index()][HighAtomic.index()].first()?;
            Some(start_of(self.frames.page_of_slot(slot, order), Order::PAGEBLOCK))
        });
        found.inspect(|&start| self.change_type(machine, tuning, start, to)).is_some()
    }
}
