//! The buddy system: what changes free lists. Blocks are split, merged, claimed, stolen. Uses `frame`, `machine`, `policy`, `zone`.
//!
//! A [`ZoneGuard`] is the proof that the lists of its region may change. Only [`ZoneGuard::put`] and [`ZoneGuard::remove`] change one.
//! Specification: `linux-page-allocator.md` 1.4 to 1.6.

mod fallback;
pub(crate) mod free;
mod pageblocks;

use crate::frame::{End, MigrateType, Order};
use crate::machine::{Line, Machine};
use crate::sync::{self, AtomicU64};
use crate::zone::ZoneGuard;

#[cfg(feature = "research")]
pub(crate) use fallback::may_claim;
pub(crate) use fallback::{Stage, Wanted};
pub(crate) use free::Capture;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// The block at the head of one of the region's lists.
    pub(crate) fn first(&self, order: Order, list: MigrateType) -> Option<u32> {
        Some(self.zone.frames.page_of_slot(self.region.list(order, list).first()?, order))
    }

    /// Puts a free block on the list of `list`, at an end.
    #[inline]
    pub(crate) fn put(&self, page: u32, order: Order, list: MigrateType, end: End) {
        self.touch_list(page, order, list);
        self.zone.frames.set_free(page, order, list);
        if !self.note_put(page, order, list, end) {
            let slot = self.zone.frames.slot(page, order);
            self.region.list(order, list).push(self.zone.frames.links, slot, end, self.touch_slot(order));
        }
        self.count_free(order, list, sync::add);
    }

    /// Takes a free block off its list, and returns that list. The tag then reads as `Inside`.
    pub(crate) fn remove(&self, page: u32, order: Order) -> MigrateType {
        let list = self.zone.list_of(page);
        self.touch_list(page, order, list);
        self.zone.frames.set_not_free(page, order);
        if !self.remove_from_cluster(page, order, list) {
            let slot = self.zone.frames.slot(page, order);
            self.region.list(order, list).remove(self.zone.frames.links, slot, self.touch_slot(order));
        }
        self.count_free(order, list, sync::sub);
        list
    }

    #[inline]
    fn count_free(&self, order: Order, list: MigrateType, count: impl Fn(&AtomicU64, u64)) {
        let region = self.region;
        if list.is_ordinary() {
            return count(&region.free_pages, order.pages());
        }
        match list {
            MigrateType::Cma => count(&region.free_cma, order.pages()),
            MigrateType::HighAtomic => count(&region.free_highatomic, order.pages()),
            // Isolated blocks do not count as free pages of the zone.
            _ => return,
        }
        count(&region.free_pages, order.pages());
    }

    /// Takes the smallest sufficient block of one type's lists and splits it. Returns its first page, untagged.
    pub(crate) fn take_smallest(&self, order: Order, list: MigrateType) -> Option<u32> {
        for found in Order::all().skip(order.index()) {
            if let Some(page) = self.first(found, list) {
                self.remove(page, found);
                self.split(page, found, order, list);
                return Some(page);
            }
        }
        None
    }

    /// Returns the upper halves of a taken block to the lists, until `to` pages remain at its start.
    pub(crate) fn split(&self, page: u32, from: Order, to: Order, list: MigrateType) {
        for half in Order::all().take(from.index()).skip(to.index()).rev() {
            self.put(page + half.pages() as u32, half, list, End::Head);
        }
    }

    /// Reports a list and a block that enters or leaves it. Inlined: outside a simulator it is nothing.
    #[inline(always)]
    pub(crate) fn touch_list(&self, page: u32, order: Order, list: MigrateType) {
        self.env.touch(Line::FreeList {
            zone: self.zone.index,
            region: self.number,
            order: order.get(),
            migratetype: list as u8,
        });
        self.touch_page(page);
    }

    #[inline(always)]
    pub(crate) fn touch_page(&self, page: u32) {
        self.env.touch(Line::Page(self.zone.frames.pfn(page)));
    }

    /// Reports the neighbours of a block that enters or leaves a list: their links change.
    pub(crate) fn touch_slot(&self, order: Order) -> impl Fn(u32) {
        move |slot| self.touch_page(self.zone.frames.page_of_slot(slot, order))
    }
}
