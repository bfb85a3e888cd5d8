//! Frees a block: merges it with its buddies and puts it on a list.
//!
//! A block that a direct compaction made goes to that compaction instead ([`Capture`]), before another CPU can take it. Free parts of
//! pageblocks, which are on no list, and deferred frees come here later: who takes a region's lock next, and waits for it, completes some
//! of the deferred frees first. Specification: `linux-page-allocator.md` 1.5, 7.6 "Capture".

use core::cell::Cell;
use core::ops::Range;

use super::Wanted;
use crate::frame::{End, MigrateType, Order, PageState, Tag, pageblocks};
use crate::machine::{LockPath, Machine};
use crate::sync::{self, LockedWord};
use crate::zone::{Env, Zone, ZoneGuard};

/// From this order on blocks go to the head of their list: a merge would give the largest order, or is impossible.
/// Specification 1.5, step 3.
const HEAD_ORDERS: u8 = Order::MAX.get() - 1;

/// The most deferred frees that one hold of the lock completes, in blocks: about as much work as a refill. A guess.
const DEFERRED_PER_HOLD: u32 = 32;

/// The block that a direct compaction waits for. Only the compaction's own frees see it, under the zone lock.
#[derive(Debug)]
pub(crate) struct Capture {
    order: Order,
    wanted: MigrateType,
    page: Cell<Option<u32>>,
}

impl Capture {
    pub(crate) fn new(order: Order, wanted: MigrateType) -> Self {
        Capture { order, wanted, page: Cell::new(None) }
    }

    /// The first page of the captured block, which is on no list and tagged like a block in a pageset.
    pub(crate) fn page(&self) -> Option<u32> {
        self.page.get()
    }

    /// Captures a free block that is about to enter a list of `migratetype`, if it matches. Returns whether it did.
    pub(crate) fn takes(&self, page: u32, order: Order, migratetype: MigrateType) -> bool {
        // CMA and isolated pageblocks keep their pages. Small blocks for other migratetypes would fragment a movable
        // pageblock.
        let spoils =
            migratetype == MigrateType::Movable && self.wanted != MigrateType::Movable && self.order < Order::PAGEBLOCK;
        let fits = order == self.order && !matches!(migratetype, MigrateType::Cma | MigrateType::Isolate) && !spoils;
        let takes = fits && self.page.get().is_none();
        if takes {
            self.page.set(Some(page));
        }
        takes
    }
}

/// Where a freed and merged block goes.
#[derive(Clone, Copy)]
enum Put<'c> {
    /// To the tail of its list if it is likely to merge soon, else to the head.
    ByMergeLikelihood,
    At(End),
    /// As by merge likelihood, unless it becomes the block that a compaction waits for.
    OrCapture(&'c Capture),
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Frees one block, which is on no list, to the list of its pageblock's type, and merges it with its buddies, unless the rules skip
    /// the merge. Specification 1.5, "Free one block".
    pub(crate) fn free_block(&self, page: u32, order: Order) {
        self.free_and_put(page, order, self.zone.frames.block_type(page), Put::ByMergeLikelihood);
    }

    /// Frees a block without a pageset.
    pub(crate) fn free_direct(&self, page: u32, order: Order) {
        self.free_block(page, order);
        sync::add(&self.region.direct_free_pages, order.pages());
    }

    /// As [`Self::free_block`], to the list of `migratetype`, or for a compaction that waits for a block.
    pub(crate) fn free_or_capture(&self, page: u32, order: Order, migratetype: MigrateType, capture: Option<&Capture>) {
        self.free_and_put(page, order, migratetype, capture.map_or(Put::ByMergeLikelihood, Put::OrCapture));
    }

    /// As [`Self::free_block`], to the tail of the list: the block is allocated last.
    pub(crate) fn free_cold(&self, page: u32, order: Order) {
        self.free_and_put(page, order, self.zone.frames.block_type(page), Put::At(End::Tail));
    }

    fn free_and_put(&self, page: u32, order: Order, migratetype: MigrateType, put: Put<'_>) {
        if order > Order::PAGEBLOCK && (self.env.tuning.type_at_drain || self.is_mixed(page, order)) {
            if self.env.tuning.whole_blocks && self.is_one_block(page, order, put) {
                self.zone.frames.set_tag(page, Tag::INSIDE);
                return self.put(page, order, self.zone.frames.block_type(page), End::Head);
            }
            self.free_pageblocks(page, order, put);
        } else if !self.put_unmerged(page, order, migratetype, || if let Put::At(end) = put { end } else { End::Head })
        {
            self.merge(page, order, migratetype, put);
        }
    }

    /// Frees the pageblocks of a block one after the other.
    #[inline(never)]
    fn free_pageblocks(&self, page: u32, order: Order, put: Put<'_>) {
        for pageblock in pageblocks(page, order) {
            self.merge(pageblock, Order::PAGEBLOCK, self.zone.frames.block_type(pageblock), put);
        }
    }

    /// Whether the pageblocks of a block, freed one after the other, would merge to the largest block and nothing else happens.
    fn is_one_block(&self, page: u32, order: Order, put: Put<'_>) -> bool {
        let first = self.zone.frames.block_type(page);
        let same = || pageblocks(page, order).skip(1).all(|pageblock| self.zone.frames.block_type(pageblock) == first);
        order == Order::MAX && matches!(put, Put::ByMergeLikelihood) && same()
    }

    /// Whether the pageblocks of a block must not be on one list: the types of two of them differ, and at least one is not
    /// ordinary.
    fn is_mixed(&self, page: u32, order: Order) -> bool {
        let first = self.zone.frames.block_type(page);
        pageblocks(page, order).skip(1).any(|pageblock| !self.may_merge(pageblock, Order::PAGEBLOCK, first))
    }

    fn merge(&self, page: u32, order: Order, migratetype: MigrateType, put: Put<'_>) {
        self.zone.frames.set_tag(page, Tag::INSIDE);
        let (mut page, mut order) = (page, order);
        while order < Order::MAX {
            if let Put::OrCapture(capture) = put
                && capture.takes(page, order, migratetype)
            {
                // The compaction holds the block and allocates it when the run ends.
                self.end_ownership(page, order);
                self.zone.frames.set_tag(page, Tag::new(PageState::Cached, order, migratetype));
                return;
            }
            let buddy = page ^ order.pages() as u32;
            self.touch_page(buddy);
            if !self.is_surely_free(buddy, order) {
                break;
            }
            if !self.may_merge(buddy, order, migratetype) {
                break;
            }
            self.remove(buddy, order);
            if self.env.tuning.merge_by_type && order >= Order::PAGEBLOCK {
                self.set_block_type(buddy, migratetype);
                // Never with the default orders: no half of the largest block is larger than a pageblock.
                if order > Order::PAGEBLOCK {
                    self.retype(buddy, order, migratetype);
                }
            }
            page &= buddy;
            order = next(order);
        }
        let end = match put {
            Put::At(end) => end,
            _ if self.merges_soon(page, order) => End::Tail,
            _ => End::Head,
        };
        self.put(page, order, migratetype, end);
    }

    /// Whether a free block of exactly this order starts here, that no refill in flight owns: it may own a page that looks free.
    #[inline]
    pub(crate) fn is_surely_free(&self, page: u32, order: Order) -> bool {
        if !self.zone.is_free(page, order) {
            return false;
        }
        // Only refills of clusters are in flight.
        if order > Order::ZERO || !cfg!(feature = "research") {
            return true;
        }
        self.wait_for_refills();
        self.zone.is_free(page, order)
    }

    /// Whether the types of the pageblocks let a block merge with its buddy.
    ///
    /// Before 5.18 only ISOLATE prevented it. CMA areas were aligned so that the rule made no difference to them.
    fn may_merge(&self, buddy: u32, order: Order, migratetype: MigrateType) -> bool {
        let theirs = self.zone.frames.block_type(buddy);
        order < Order::PAGEBLOCK || theirs == migratetype || theirs.is_ordinary() && migratetype.is_ordinary()
    }

    /// Whether the buddy of the merged block would be free, if this block merged with its own buddy.
    fn merges_soon(&self, page: u32, order: Order) -> bool {
        if order.get() >= HEAD_ORDERS {
            return false;
        }
        let merged = page & !(order.pages() as u32);
        let above = next(order);
        let theirs = merged ^ above.pages() as u32;
        self.touch_page(theirs);
        self.zone.is_free(theirs, above)
    }

    /// Brings pages of the region online: writes only the heads of their largest blocks, and merges them with their neighbours.
    pub(crate) fn online(&self, first: u32, pages: u64) {
        let (mut page, end) = (u64::from(first), u64::from(first) + pages);
        while page < end {
            let first = page as u32;
            let fits = Order::at_most((end - page).ilog2().min(page.trailing_zeros()));
            let order = if fits > Order::PAGEBLOCK && self.is_mixed(first, fits) { Order::PAGEBLOCK } else { fits };
            self.zone.frames.set_online(first, order);
            let migratetype = self.zone.frames.block_type(first);
            if order == Order::MAX {
                self.put(first, order, migratetype, End::Tail);
            } else {
                self.merge(first, order, migratetype, Put::At(End::Tail));
            }
            page += order.pages();
        }
        self.zone.managed.add(pages);
        self.zone.present.add(pages);
    }
}

/// Free parts of pageblocks, which are on no list.
impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Moves the free pages of a block's pageblocks that are on no list to the lists, where they merge.
    pub(crate) fn settle(&self, page: u32, order: Order) {
        for start in pageblocks(page, order) {
            self.zone.take_parts(self.region, start, |page, order| self.free_block(page, order));
        }
    }
}

/// Deferred frees.
impl<'a, M: Machine> Zone<'a, M> {
    /// Takes the lock of the region that a page is in, waits for it, and counts the hold. First completes some of the deferred
    /// frees.
    pub(crate) fn lock<'z>(&'z self, env: Env<'z, M>, path: LockPath, page: u32) -> ZoneGuard<'z, 'a, M> {
        self.complete_some_deferred(env);
        self.lock_page(env, path, page)
    }

    /// Takes the locks of the regions that some pages are in, one after the other, each for at most `most` pages. An item is the lock, and the
    /// pages that it is held for.
    pub(crate) fn lock_each<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        pages: Range<u32>,
        most: u32,
    ) -> impl Iterator<Item = (ZoneGuard<'z, 'a, M>, Range<u32>)> {
        self.pieces(pages.start, pages.end, most).map(move |(from, end)| (self.lock(env, path, from), from..end))
    }

    /// Takes the lock of a zone's only region for a request. Waits for it, unless the request waits for nothing.
    pub(crate) fn lock_for<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        wanted: Wanted,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        if wanted.waits {
            self.complete_some_deferred(env);
        }
        self.lock_or_try(env, path, 0, wanted.waits)
    }

    /// Completes some of the deferred frees.
    #[inline]
    pub(crate) fn complete_some_deferred(&self, env: Env<'_, M>) {
        if !self.deferred.is_empty() {
            self.free_deferred(env);
        }
    }

    /// Completes all deferred frees, in as many holds as that takes. The caller does not hold the lock.
    pub(crate) fn complete_deferred(&self, env: Env<'_, M>) {
        while !self.deferred.is_empty() {
            self.free_deferred(env);
        }
    }

    /// Frees some of the blocks whose free was deferred, in a hold of its own: the first region's. A block of another region
    /// takes that region's lock as well. No other call takes two regions' locks.
    #[cold]
    fn free_deferred(&self, env: Env<'_, M>) {
        let path = LockPath::DirectFree;
        let first = self.lock_page(env, path, 0);
        let mut pages = 0;
        for _ in 0..DEFERRED_PER_HOLD {
            let Some(page) = self.deferred.take(|page| self.deferred_link(page).get()) else { break };
            let other = (!first.covers(page)).then(|| self.lock_page(env, path, page));
            let guard = other.as_ref().unwrap_or(&first);
            let order = self.frames.tag(page).order();
            guard.free_direct(page, order);
            pages += order.pages() as u32;
        }
        self.sub_deferred(pages);
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Goes on with the region of a page: keeps the lock if it is the same region.
    pub(crate) fn at(self, page: u32) -> Self {
        let (zone, env) = (self.zone, self.env);
        if self.covers(page) {
            return self;
        }
        drop(self);
        zone.lock(env, LockPath::Map, page)
    }
}

/// The next larger order of one below the largest.
pub(crate) fn next(order: Order) -> Order {
    debug_assert!(order < Order::MAX, "no order is above {order}");
    Order::at_most(u32::from(order.get()) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use MigrateType::{Cma, HighAtomic, Isolate, Movable, Unmovable};

    #[test]
    fn what_is_captured() {
        let order = |order| Order::new(order).expect("an order");
        // Columns: wanted order and type; freed order and type; captured.
        for (wanted, freed, captured) in [
            ((4, Movable), (4, Movable), true),
            ((4, Movable), (3, Movable), false),
            ((4, Movable), (5, Movable), false),
            ((4, Movable), (4, Unmovable), true),
            ((4, Movable), (4, HighAtomic), true),
            ((4, Movable), (4, Cma), false),
            ((4, Movable), (4, Isolate), false),
            ((4, Unmovable), (4, Movable), false),
            ((8, Unmovable), (8, Movable), false),
            ((9, Unmovable), (9, Movable), true),
            ((4, Unmovable), (4, Unmovable), true),
        ] {
            let capture = Capture::new(order(wanted.0), wanted.1);
            assert_eq!(capture.takes(64, order(freed.0), freed.1), captured, "{wanted:?}, {freed:?}");
            assert_eq!(capture.page(), captured.then_some(64));
            assert!(!captured || !capture.takes(128, order(freed.0), freed.1), "one block is enough");
        }
    }
}
