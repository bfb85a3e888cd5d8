//! The buddy system of a zone: free lists by order and migratetype, split, merge.
//!
//! Specification: `linux-page-allocator.md` 1.5. Everything here is called with the zone lock held. `add` and
//! `remove` are the only code that changes a free list.

pub(crate) mod capture;
pub(crate) mod fallback;
pub(crate) mod list;

use crate::buddy::capture::Capture;
use crate::buddy::list::{End, List};
use crate::frame::MigrateType;
use crate::frame::ZoneKind;
use crate::frame::{Order, PAGEBLOCK, PageState, Tag, start_of};
use crate::machine::{Line, Machine};
use crate::policy::Tuning;
use crate::sync;
use crate::zone::Zone;
use crate::zone::watermark::MarkTest;

/// Blocks of at least this order are always put at the head: what they would merge into is the largest order
/// or beyond. Specification 1.5, step 3.
const TAIL_ORDERS: u8 = Order::MAX.get() - 1;

/// What a zone must be able to give besides a block that is taken and not allocated: a single page, to a request that
/// no lowmem reserve holds back. Specification 1.5.
const TAKE: MarkTest = MarkTest { highest: ZoneKind::Dma, cma: true, ..MarkTest::SINGLE };

/// Where a freed and merged block goes.
#[derive(Clone, Copy)]
enum Put<'c> {
    /// To the end of its list that its chances to merge ask for.
    ByChance,
    At(End),
    /// As by chance, unless it becomes what a compaction waits for.
    OrCapture(&'c Capture),
}

impl<M: Machine> Zone<'_, M> {
    /// Puts a free block on the list of `list`.
    pub(crate) fn add(&self, machine: &M, page: u32, order: Order, list: MigrateType, end: End) {
        self.touch_list(machine, page, order, list);
        self.put(machine, page, order, list, end);
    }

    /// As [`Self::add`] where the machine knows of the list and of the page already.
    #[inline]
    pub(crate) fn put(&self, machine: &M, page: u32, order: Order, list: MigrateType, end: End) {
        self.frames.set_free(page, order, list);
        let (links, free_list) = (self.frames.links, self.list(order, list));
        if self.has_clusters(order, list) {
            self.clusters.push(links, free_list, page, end, self.touch_cluster(machine));
        } else {
            free_list.push(links, self.frames.slot(page, order), end, self.touch_slot(machine, order));
        }
        if list != MigrateType::Isolate {
            sync::add(&self.free_pages, order.pages());
        }
        if list == MigrateType::Cma {
            sync::add(&self.free_cma, order.pages());
        }
        if list == MigrateType::HighAtomic {
            sync::add(&self.free_highatomic, order.pages());
        }
    }

    /// Takes a free block off its list, which it returns; the tag becomes the inside of a block.
    pub(crate) fn remove(&self, machine: &M, page: u32, order: Order) -> MigrateType {
        let list = self.list_of(page);
        self.touch_list(machine, page, order, list);
        self.frames.set_not_free(page, order);
        let (links, free_list) = (self.frames.links, self.list(order, list));
        if self.has_clusters(order, list) {
            self.clusters.remove(links, free_list, page, self.touch_cluster(machine));
        } else {
            free_list.remove(links, self.frames.slot(page, order), self.touch_slot(machine, order));
        }
        if list != MigrateType::Isolate {
            sync::sub(&self.free_pages, order.pages());
        }
        if list == MigrateType::Cma {
            sync::sub(&self.free_cma, order.pages());
        }
        if list == MigrateType::HighAtomic {
            sync::sub(&self.free_highatomic, order.pages());
        }
        list
    }

    pub(crate) fn list(&self, order: Order, list: MigrateType) -> &List {
        &self.areas[order.index()][list.index()]
    }

    /// Whether the pages of a list form clusters: single pages of the types that refills ask for. No refill takes
    /// clusters of other types.
    pub(crate) fn has_clusters(&self, order: Order, list: MigrateType) -> bool {
        order == Order::ZERO && self.clusters.exist() && list.is_ordinary()
    }

    /// The list that a free block is on.
    pub(crate) fn list_of(&self, page: u32) -> MigrateType {
        self.frames.tag(page).kind().unwrap_or_else(|| self.frames.block_type(page))
    }

    /// Tells of a list and of a block that enters or leaves it. Inlined: elsewhere than in a simulator it is nothing.
    #[inline(always)]
    pub(crate) fn touch_list(&self, machine: &M, page: u32, order: Order, list: MigrateType) {
        machine.touch(Line::FreeList { zone: self.index, order: order.get(), migratetype: list as u8 });
        machine.touch(Line::Page(self.frames.pfn(page)));
    }

    /// Tells of the blocks on both sides of one that enters or leaves a list: their links change.
    pub(crate) fn touch_slot(&self, machine: &M, order: Order) -> impl Fn(u32) {
        move |slot| machine.touch(Line::Page(self.frames.pfn(self.frames.page_of_slot(slot, order))))
    }

    /// Takes the smallest block that fits from one type's lists and splits it; returns its first page, untagged.
    pub(crate) fn take_smallest(&self, machine: &M, order: Order, list: MigrateType) -> Option<u32> {
        for found in Order::all().skip(order.index()) {
            if let Some(slot) = self.areas[found.index()][list.index()].first() {
                let page = self.frames.page_of_slot(slot, found);
                self.remove(machine, page, found);
                self.split(machine, page, found, order, list);
                return Some(page);
            }
        }
        None
    }

    /// Gives the upper halves of a taken block back until `to` pages remain at its start.
    pub(crate) fn split(&self, machine: &M, page: u32, from: Order, to: Order, list: MigrateType) {
        for half in Order::all().take(from.index()).skip(to.index()).rev() {
            self.add(machine, page + half.pages() as u32, half, list, End::Head);
        }
    }

    /// Frees one block, merging it with its buddies unless that is put off. Its first page must not be on a list;
    /// `migratetype` is the list that it goes to. Specification 1.5 "Free one block".
    pub(crate) fn free_block(&self, machine: &M, tuning: &Tuning, page: u32, order: Order, migratetype: MigrateType) {
        self.free_or_capture(machine, tuning, page, order, migratetype, None);
    }

    /// As [`Self::free_block`], for a compaction that waits for a block.
    pub(crate) fn free_or_capture(
        &self,
        machine: &M,
        tuning: &Tuning,
        page: u32,
        order: Order,
        migratetype: MigrateType,
        capture: Option<&Capture>,
    ) {
        self.free_and_put(machine, tuning, page, order, migratetype, capture.map_or(Put::ByChance, Put::OrCapture));
    }

    /// As [`Self::free_block`], to the end of the list that is taken from last.
    pub(crate) fn free_cold(&self, machine: &M, tuning: &Tuning, page: u32, order: Order, migratetype: MigrateType) {
        self.free_and_put(machine, tuning, page, order, migratetype, Put::At(End::Tail));
    }

    /// Frees a block of the largest order whose pageblocks are both of this type: as freeing one after the other does.
    pub(crate) fn put_whole(&self, machine: &M, tuning: &Tuning, page: u32, migratetype: MigrateType) {
        self.merge(machine, tuning, page, Order::MAX, migratetype, Put::ByChance);
    }

    fn free_and_put(
        &self,
        machine: &M,
        tuning: &Tuning,
        page: u32,
        order: Order,
        migratetype: MigrateType,
        put: Put<'_>,
    ) {
        if order > Order::PAGEBLOCK && (tuning.type_at_drain || self.is_mixed(page)) {
            let half = Order::PAGEBLOCK.pages() as u32;
            for piece in [page, page + half] {
                self.merge(machine, tuning, piece, Order::PAGEBLOCK, self.frames.block_type(piece), put);
            }
        } else if self.can_skip(tuning, order) {
            let end = if let Put::At(end) = put { end } else { End::Head };
            self.add(machine, page, order, migratetype, end);
            self.count_skips(order.pages());
        } else {
            self.merge(machine, tuning, page, order, migratetype, put);
        }
    }

    /// Whether the two pageblocks of a block of the largest order must not be on one list: their types differ, and not
    /// both are ordinary.
    fn is_mixed(&self, page: u32) -> bool {
        !self.may_merge(page + Order::PAGEBLOCK.pages() as u32, Order::PAGEBLOCK, self.frames.block_type(page))
    }

    /// Merges a block with its buddies and puts it where it is to go.
    fn merge(&self, machine: &M, tuning: &Tuning, page: u32, order: Order, migratetype: MigrateType, put: Put<'_>) {
        self.frames.set_tag(page, Tag::INSIDE);
        let (mut page, mut order) = (page, order);
        while order < Order::MAX {
            if let Put::OrCapture(capture) = put
                && capture.takes(page, order, migratetype)
            {
                // Held for the compaction, which hands it out when it ends.
                self.frames.set_tag(page, Tag::new(PageState::Cached, order, migratetype));
                return;
            }
            let buddy = page ^ order.pages() as u32;
            machine.touch(Line::Page(self.frames.pfn(buddy)));
            if !self.is_free(buddy, order) {
                break;
            }
            if order == Order::ZERO {
                // It may look free and be on its way to a pageset.
                self.wait_for_refills(machine);
                if !self.is_free(buddy, order) {
                    break;
                }
            }
            if !self.may_merge(buddy, order, migratetype) {
                break;
            }
            self.remove(machine, buddy, order);
            if tuning.merge_by_type && order >= Order::PAGEBLOCK {
                self.set_block_type(buddy, migratetype);
            }
            page &= buddy;
            order = next(order);
        }
        let end = match put {
            Put::At(end) => end,
            _ if self.merges_soon(machine, page, order) => End::Tail,
            _ => End::Head,
        };
        self.add(machine, page, order, migratetype, end);
    }

    /// Takes a free block off its list without allocating it; its tag is then the inside of a block. False, with nothing
    /// changed, where the zone would fall to its min mark. A block of half a pageblock and more leaves its pageblock
    /// MOVABLE. Specification 1.5, "Taking a free block without allocating it".
    pub(crate) fn take_free_block(&self, machine: &M, page: u32, order: Order) -> bool {
        let mark = self.watermarks().min.saturating_add(order.pages());
        if self.list_of(page) != MigrateType::Isolate && !self.passes(mark, &TAKE) {
            return false;
        }
        self.remove(machine, page, order);
        if order.get() + 1 >= Order::PAGEBLOCK.get() {
            let first = start_of(page, Order::PAGEBLOCK);
            for start in (first..page + order.pages() as u32).step_by(PAGEBLOCK as usize) {
                if self.frames.block_type(start).is_ordinary() {
                    self.move_free_blocks(machine, start, MigrateType::Movable, End::Tail);
                    self.set_block_type(start, MigrateType::Movable);
                }
            }
        }
        true
    }

    /// Whether a free block of exactly this order starts here.
    pub(crate) fn is_free(&self, page: u32, order: Order) -> bool {
        page < self.frames.len() && self.frames.tag(page).is(PageState::Free, order)
    }

    /// Whether the types of the pageblocks let a block merge with its buddy.
    ///
    /// Before 5.18 only ISOLATE stopped it; CMA areas were aligned so that it made no difference to them.
    fn may_merge(&self, buddy: u32, order: Order, migratetype: MigrateType) -> bool {
        let theirs = self.frames.block_type(buddy);
        order < Order::PAGEBLOCK || theirs == migratetype || theirs.is_ordinary() && migratetype.is_ordinary()
    }

    /// Whether the block that this one would form with its absent buddy has its own buddy free.
    fn merges_soon(&self, machine: &M, page: u32, order: Order) -> bool {
        if order.get() >= TAIL_ORDERS {
            return false;
        }
        let merged = page & !(order.pages() as u32);
        let above = next(order);
        let theirs = merged ^ above.pages() as u32;
        machine.touch(Line::Page(self.frames.pfn(theirs)));
        self.is_free(theirs, above)
    }

    /// Free blocks of one order and type.
    pub(crate) fn blocks(&self, order: Order, migratetype: MigrateType) -> u32 {
        self.areas[order.index()][migratetype.index()].len()
    }

    /// Brings pages online: writes only the heads of their largest blocks, and merges them with what is there.
    pub(crate) fn online(&self, machine: &M, tuning: &Tuning, first: u32, pages: u64) {
        let (mut page, end) = (u64::from(first), u64::from(first) + pages);
        while page < end {
            let fits = (end - page).ilog2().min(page.trailing_zeros()).min(u32::from(Order::MAX.get()));
            let first = page as u32;
            let fits = Order::new(fits as u8).unwrap_or(Order::MAX);
            let order = if fits == Order::MAX && self.is_mixed(first) { Order::PAGEBLOCK } else { fits };
            self.frames.set_online(first, order);
            let migratetype = self.frames.block_type(first);
            if order == Order::MAX {
                self.add(machine, first, order, migratetype, End::Tail);
            } else {
                self.merge(machine, tuning, first, order, migratetype, Put::At(End::Tail));
            }
            page += order.pages();
        }
        sync::add(&self.managed, pages);
        sync::add(&self.present, pages);
    }
}

/// The next larger order, at most the largest.
pub(crate) fn next(order: Order) -> Order {
    Order::new(order.get() + 1).unwrap_or(Order::MAX)
}
