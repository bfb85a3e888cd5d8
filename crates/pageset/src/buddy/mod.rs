//! The buddy system of a zone: free lists by order and migratetype, split, merge, claim, steal. Uses `frame`, `machine`,
//! `policy`.
//!
//! A zone consists of one or more regions, each with free lists and a lock of its own. [`Buddy`] is the whole zone;
//! [`Locked`] is one region with its lock held. Only [`Locked::put`] and [`Locked::remove`] change a free list.
//! Specification: `linux-page-allocator.md` 1.4 to 1.6.

pub(crate) mod bitmaps;
pub(crate) mod deferral;
pub(crate) mod depot;
mod fallback;
pub(crate) mod free;
pub(crate) mod list;
mod pageblocks;
mod parts;
pub(crate) mod region;
#[cfg(feature = "research")]
pub(crate) mod research;
#[cfg(not(feature = "research"))]
#[path = "no_research.rs"]
pub(crate) mod research;

use core::cell::Cell;
use core::sync::atomic::AtomicU32;

use crate::frame::{Frames, MigrateType, Order, PageState};
use crate::machine::{Access, Guard, Line, Machine};
use crate::policy::Active;
use crate::sync::{self, AtomicU64, Counter, const_new};

#[cfg(feature = "research")]
pub(crate) use fallback::may_claim;
pub(crate) use fallback::{Stage, Wanted};
pub(crate) use free::Capture;

use bitmaps::Bitmaps;
use deferral::Deferral;
use list::End;
use region::{Region, Totals};
use research::Research;

/// The machine and the rules, which every operation receives.
#[derive(Debug)]
pub(crate) struct Env<'e, M> {
    pub(crate) machine: &'e M,
    pub(crate) tuning: &'e Active,
}

impl<M> Copy for Env<'_, M> {}

impl<M> Clone for Env<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Env<'_, M> {
    #[inline(always)]
    pub(crate) fn touch(self, line: Line) {
        self.machine.probe(Access::Touch(line));
    }
}

/// Free lists and counters of one zone. Everything here may be read at any time; only [`Locked`] writes.
#[derive(Debug)]
pub(crate) struct Buddy<'a, L> {
    /// The zone's number in the map.
    pub(crate) zone: usize,
    pub(crate) frames: Frames<'a>,
    /// The zone's regions, in the order of their pages. Not empty after construction.
    pub(crate) regions: &'a [Region<L>],
    /// Pages of a region, as a power of two.
    pub(crate) region_order: u32,
    /// Sums over the regions, where there are several.
    totals: Totals,
    /// How many regions have free blocks of an order and of none above, by order, where there are several.
    largest: [AtomicU32; Order::COUNT],
    /// Pages of HIGHATOMIC and of CMA pageblocks, holes included; [`Locked::set_block_type`] writes both.
    pub(crate) reserved_highatomic: Counter,
    pub(crate) cma_pages: Counter,
    /// Pageblocks of other types than MOVABLE; [`Locked::set_block_type`] writes it.
    other_blocks: Counter,
    /// Pages brought online, and pages managed by the buddy.
    pub(crate) present: Counter,
    pub(crate) managed: Counter,
    /// Blocks taken from other types' pageblocks: claimed, stolen.
    pub(crate) claims: Counter,
    pub(crate) steals: Counter,
    /// Free parts of pageblocks that are on no list.
    pub(crate) bitmaps: Bitmaps<'a>,
    /// The pageblock in whose bitmap [`Self::has_bitmap_block`] found a block last. A hint.
    found_in: AtomicU32,
    /// The deferral of compaction.
    pub(crate) deferral: Deferral,
    /// What the rules of `research` keep.
    pub(crate) research: Research<'a>,
}

/// Something that a check found wrong: the page if there is one, what does not hold, what the counters say, what was found.
pub(crate) type Mismatch = (Option<u32>, &'static str, u64, u64);

impl<L> Buddy<'_, L> {
    const_new! {
    /// A buddy without pages.
    #[inline]
    pub(crate) fn new() -> Self {
        Buddy {
            zone: 0,
            frames: Frames::EMPTY,
            regions: &[],
            region_order: 0,
            totals: Totals::new(),
            largest: [const { AtomicU32::new(0) }; Order::COUNT],
            reserved_highatomic: Counter::new(),
            cma_pages: Counter::new(),
            other_blocks: Counter::new(),
            present: Counter::new(),
            managed: Counter::new(),
            claims: Counter::new(),
            steals: Counter::new(),
            bitmaps: Bitmaps::NONE,
            found_in: AtomicU32::new(0),
            deferral: Deferral::new(),
            research: Research::new(),
        }
    }
    }
}

impl<L> Buddy<'_, L> {
    /// The list that a free block is on.
    pub(crate) fn list_of(&self, page: u32) -> MigrateType {
        self.frames.tag(page).kind().unwrap_or_else(|| self.frames.block_type(page))
    }

    /// Whether a free block of exactly this order starts here.
    pub(crate) fn is_free(&self, page: u32, order: Order) -> bool {
        page < self.frames.len() && self.frames.tag(page).is(PageState::Free, order)
    }

    /// Whether every pageblock of the zone is MOVABLE.
    pub(crate) fn is_all_movable(&self) -> bool {
        self.other_blocks.get() == 0
    }

    /// The block that a page is inside of: its first page, order and state. A page in a bitmap is on no list: it reads as a block in a
    /// pageset.
    pub(crate) fn block_around(&self, page: u32) -> Option<(u32, Order, PageState)> {
        let block = Order::all().find_map(|order| {
            let head = page & !(order.pages() as u32 - 1);
            let tag = self.frames.tag(head);
            let reaches = tag.state() != PageState::Inside && head + tag.order().pages() as u32 > page;
            reaches.then(|| (head, tag.order(), tag.state()))
        });
        block.or_else(|| self.is_part(page).then_some((page, Order::ZERO, PageState::Cached)))
    }

    /// The first of some pages that already belongs to a block.
    pub(crate) fn first_known(&self, page: u32, pages: u64) -> Option<u32> {
        if self.block_around(page).is_some() {
            return Some(page);
        }
        let end = page + pages as u32;
        let mut at = page;
        while at < end {
            let next = end.min((at + 1).next_multiple_of(Order::PAGEBLOCK.pages() as u32));
            if self.frames.pageblock(at).is_online()
                && let Some(known) =
                    (at..next).find(|&at| self.frames.tag(at).state() != PageState::Inside || self.is_part(at))
            {
                return Some(known);
            }
            at = next;
        }
        None
    }
}

/// A region of a zone with its lock held: the proof that its free lists may change. The lock is given back on drop.
#[derive(Debug)]
pub(crate) struct Locked<'g, 'a, M: Machine> {
    pub(crate) buddy: &'g Buddy<'a, M::Lock>,
    /// The number of the region in its zone.
    pub(crate) number: usize,
    pub(crate) region: &'g Region<M::Lock>,
    pub(crate) env: Env<'g, M>,
    /// What this hold has taken from pageblocks of other types.
    breaks: Cell<Breaks>,
    _guard: Guard<'g, M::Lock>,
}

/// How often one hold of the lock took part of another type's pageblock. The zone raises its marks for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breaks {
    pub(crate) count: u32,
    /// Whether reclaim may be woken for it.
    pub(crate) wakes: bool,
}

impl<'g, 'a, M: Machine> Locked<'g, 'a, M> {
    /// The region whose lock `guard` holds.
    pub(crate) fn new(
        buddy: &'g Buddy<'a, M::Lock>,
        number: usize,
        env: Env<'g, M>,
        guard: Guard<'g, M::Lock>,
    ) -> Self {
        let region = &buddy.regions[number];
        Locked { buddy, number, region, env, breaks: Cell::default(), _guard: guard }
    }

    pub(crate) fn breaks(&self) -> Breaks {
        self.breaks.get()
    }

    /// The block at the head of one of the region's lists.
    pub(crate) fn first(&self, order: Order, list: MigrateType) -> Option<u32> {
        Some(self.buddy.frames.page_of_slot(self.region.list(order, list).first()?, order))
    }

    /// Records that a request took part of a pageblock of another type.
    pub(crate) fn note_break(&self, wakes: bool) {
        self.breaks.set(Breaks { count: self.breaks.get().count + 1, wakes });
    }

    /// Puts a free block on the list of `list`, at an end.
    #[inline]
    pub(crate) fn put(&self, page: u32, order: Order, list: MigrateType, end: End) {
        self.touch_list(page, order, list);
        self.buddy.frames.set_free(page, order, list);
        if !self.note_put(page, order, list, end) {
            let slot = self.buddy.frames.slot(page, order);
            self.region.list(order, list).push(self.buddy.frames.links, slot, end, self.touch_slot(order));
        }
        self.count_free(order, list, sync::add);
    }

    /// Takes a free block off its list, and returns that list. The tag then reads as `Inside`.
    pub(crate) fn remove(&self, page: u32, order: Order) -> MigrateType {
        let list = self.buddy.list_of(page);
        self.touch_list(page, order, list);
        self.buddy.frames.set_not_free(page, order);
        if !self.remove_from_cluster(page, order, list) {
            let slot = self.buddy.frames.slot(page, order);
            self.region.list(order, list).remove(self.buddy.frames.links, slot, self.touch_slot(order));
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
            zone: self.buddy.zone,
            region: self.number,
            order: order.get(),
            migratetype: list as u8,
        });
        self.touch_page(page);
    }

    #[inline(always)]
    pub(crate) fn touch_page(&self, page: u32) {
        self.env.touch(Line::Page(self.buddy.frames.pfn(page)));
    }

    /// Reports the neighbours of a block that enters or leaves a list: their links change.
    pub(crate) fn touch_slot(&self, order: Order) -> impl Fn(u32) {
        move |slot| self.touch_page(self.buddy.frames.page_of_slot(slot, order))
    }
}
