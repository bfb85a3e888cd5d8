//! A zone and its regions: what it knows of its pages, its free lists, marks, flags and counters, and the locks. Uses `frame`, `machine`,
//! `policy`.
//!
//! Everything here may be read at any time. A [`ZoneGuard`] holds the lock of a region; with it the layer `buddy` changes the region's
//! free lists. Specification: `linux-page-allocator.md` 1.1 to 1.3, 1.6.

pub(crate) mod bitmaps;
pub(crate) mod compaction;
pub(crate) mod deferred;
pub(crate) mod depot;
mod parts;
pub(crate) mod region;
#[cfg(feature = "research")]
pub(crate) mod research;
#[cfg(not(feature = "research"))]
#[path = "no_research.rs"]
pub(crate) mod research;
pub(crate) mod watermark;

use core::sync::atomic::{AtomicBool, AtomicU32};

use crate::frame::{Frames, MigrateType, NodeId, Order, PageState, ZoneKind};
use crate::machine::{Access, Line, Machine};
use crate::policy::{Active, HighAtomicRule, Pressure};
use crate::sync::atomic::AtomicU8;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::const_new;
use crate::sync::{AtomicU64, Counter, LockedWord};

pub(crate) use region::ZoneGuard;

use bitmaps::Bitmaps;
use compaction::{CompactionState, Deferral};
use deferred::Deferred;
use region::{Region, Totals};
use research::Research;
use watermark::{Boost, Mark, MarkTest};

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

/// Something that a check found wrong: the page if there is one, what does not hold, what the counters say, what was found.
pub(crate) type Mismatch = (Option<u32>, &'static str, u64, u64);

/// A zone: the data under the locks of its regions, and data that is read without them.
#[derive(Debug)]
pub(crate) struct Zone<'a, M: Machine> {
    pub(crate) index: usize,
    pub(crate) node: NodeId,
    pub(crate) kind: ZoneKind,
    pub(crate) frames: Frames<'a>,
    /// The zone's regions, in the order of their pages. Not empty after construction.
    pub(crate) regions: &'a [Region<M::Lock>],
    /// Pages of a region, as a power of two.
    pub(crate) region_order: u32,
    /// Sums over the regions, where there are several.
    totals: Totals,
    /// How many regions have free blocks of an order and of none above, by order, where there are several.
    largest: [AtomicU32; Order::COUNT],
    /// Pages of HIGHATOMIC and of CMA pageblocks, holes included; [`ZoneGuard::set_block_type`] writes both.
    pub(crate) reserved_highatomic: Counter,
    pub(crate) cma_pages: Counter,
    /// Pageblocks of other types than MOVABLE; [`ZoneGuard::set_block_type`] writes it.
    pub(crate) other_blocks: Counter,
    /// Pages brought online, and pages that the zone manages.
    pub(crate) present: Counter,
    pub(crate) managed: Counter,
    /// Blocks taken from other types' pageblocks: claimed, stolen.
    pub(crate) claims: Counter,
    pub(crate) steals: Counter,
    /// Free parts of pageblocks that are on no list.
    pub(crate) bitmaps: Bitmaps<'a>,
    /// The pageblock in whose bitmap [`Zone::has_bitmap_block`] found a block last. A hint.
    found_in: AtomicU32,
    /// The deferral of compaction.
    pub(crate) deferral: Deferral,
    /// What the rules of `research` keep.
    pub(crate) research: Research<'a>,
    pub(crate) flags: Flags,
    /// The orders, from 0 on, for which every request passes at the high mark: [`Self::has_plenty`].
    plenty: core::sync::atomic::AtomicU8,
    pub(crate) highatomic: HighAtomicRule,
    /// The marks by [`Mark`], without the boost. Unit: pages.
    marks: [AtomicU64; 3],
    /// What each mark is raised by.
    boost: Boost,
    /// Ten-thousandths of the high mark that the boost may reach; 0 for no boost.
    pub(crate) boost_factor: u64,
    /// Whether requests that prefer this zone first try to keep types apart.
    pub(crate) keeps_apart: AtomicBool,
    /// The lowmem reserves by the request's highest zone, in pages.
    pub(crate) reserve: [AtomicU64; ZoneKind::COUNT],
    /// The largest reserve; [`ZoneGuard::set_reserve`] writes both.
    largest_reserve: AtomicU64,
    /// The blocks whose free is deferred.
    pub(crate) deferred: Deferred,
    /// Their pages. Written without a lock.
    deferred_pages: AtomicU32,
    /// The positions and counters of compaction.
    pub(crate) compaction: CompactionState,
    /// The words of the regions' depots; none without them.
    pub(crate) depots: &'a [AtomicU32],
    /// Whose turn it is at the next tick.
    pub(crate) turn: AtomicU32,
}

impl<M: Machine> Zone<'_, M> {
    const_new! {
    /// A zone without pages.
    #[inline]
    pub(crate) fn new() -> Self {
        Zone {
            index: 0,
            node: NodeId(0),
            kind: ZoneKind::Normal,
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
            flags: Flags::new(),
            plenty: core::sync::atomic::AtomicU8::new(0),
            highatomic: HighAtomicRule::Free,
            marks: [const { AtomicU64::new(0) }; 3],
            boost: Boost::new(),
            boost_factor: 0,
            keeps_apart: AtomicBool::new(false),
            reserve: [const { AtomicU64::new(0) }; ZoneKind::COUNT],
            largest_reserve: AtomicU64::new(0),
            deferred: Deferred::new(),
            deferred_pages: AtomicU32::new(0),
            compaction: CompactionState::new(),
            depots: &[],
            turn: AtomicU32::new(0),
        }
    }
    }
}

impl<M: Machine> Zone<'_, M> {
    /// The list that a free block is on.
    pub(crate) fn list_of(&self, page: u32) -> MigrateType {
        self.frames.tag(page).kind().unwrap_or_else(|| self.frames.block_type(page))
    }

    /// Whether a free block of exactly this order starts here.
    pub(crate) fn is_free(&self, page: u32, order: Order) -> bool {
        page < self.frames.len() && self.frames.tag(page).is(PageState::Free, order)
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

    /// The first of some pages of a pageblock that already belongs to a block.
    pub(crate) fn first_known(&self, page: u32, pages: u64) -> Option<u32> {
        // In a pageblock of which nothing is online, only a larger block that began before may have pages, and then the first one.
        let looked_at = if self.frames.pageblock(page).is_online() { pages as u32 } else { 1 };
        (page..page + looked_at).find(|&at| self.block_around(at).is_some())
    }
}

impl<M: Machine> Zone<'_, M> {
    /// The zone's memory pressure.
    pub(crate) fn pressure(&self) -> Pressure {
        let flags = self.flags.get();
        Pressure { reclaim_active: flags & RECLAIM_ACTIVE != 0, below_high: flags & BELOW_HIGH != 0 }
    }

    pub(crate) fn set_below_high(&self, on: bool) {
        self.flags.set(BELOW_HIGH, on);
    }

    /// Clears "below high" of a zone that is above its high mark again. Specification 4.8, "Clear".
    pub(crate) fn clear_below_high(&self) {
        if self.pressure().below_high && self.passes_mark(Mark::High, &MarkTest::SINGLE) {
            self.set_below_high(false);
        }
    }

    pub(crate) fn set_reclaim_active(&self, on: bool) {
        self.flags.set(RECLAIM_ACTIVE, on);
    }

    /// Whether every request of this order passes the watermark test at the high mark, as of the last hold of a region's lock.
    /// One read replaces the test.
    #[inline]
    pub(crate) fn has_plenty(&self, order: Order) -> bool {
        // The test would read free page counts of the same age.
        order.get() < self.plenty.get()
    }

    /// Whether the limit leaves room for one more HIGHATOMIC pageblock.
    pub(crate) fn may_reserve_highatomic(&self) -> bool {
        self.reserved_highatomic.get() < self.highatomic.limit(self.managed.get())
    }

    /// Whether a HIGHATOMIC pageblock can be returned: the last one only if `forced`.
    pub(crate) fn may_unreserve_highatomic(&self, forced: bool) -> bool {
        let last = if forced { 0 } else { Order::PAGEBLOCK.pages() };
        self.reserved_highatomic.get() > last
    }
}

// The bits of the flags.

/// Reclaim is balancing the zone's node.
pub(crate) const RECLAIM_ACTIVE: u8 = 1;
/// An allocation found the zone below its high mark.
pub(crate) const BELOW_HIGH: u8 = 2;
/// The marks were boosted, and reclaim is not yet woken for it.
pub(crate) const BOOSTED: u8 = 4;
/// Not all pageblocks are MOVABLE.
pub(crate) const MIXED: u8 = 8;

/// Frees on the fast path claim their block with an atomic exchange. This flag and the next are constant after construction: the fast path
/// tests them together with the others.
pub(crate) const CHECKED: u8 = 32;
/// The rules have no fast path.
pub(crate) const NO_FAST_PATH: u8 = 64;
/// The fast path looks up the zone of a request and of a page: there are several zones, or the zone does not serve requests for
/// at most [`ZoneKind::Normal`]. Constant after construction.
pub(crate) const LOOK_UP_ZONE: u8 = 128;

/// The flags of a zone that is under no pressure, and whose pageblocks are all MOVABLE.
pub(crate) const RELAXED: u8 = 0;
/// The same in an allocator whose fast path claims blocks; and where pageblocks have several types.
pub(crate) const RELAXED_CHECKED: u8 = RELAXED | CHECKED;
pub(crate) const RELAXED_MIXED_CHECKED: u8 = RELAXED_CHECKED | MIXED;

/// The flags of one zone, one bit each: hints that several CPUs set and clear concurrently without losing an update.
/// Specification 1.1.
#[derive(Debug, Default)]
pub(crate) struct Flags(AtomicU8);

impl Flags {
    const_new! {
        #[inline]
        pub(crate) fn new() -> Self {
            Flags(AtomicU8::new(0))
        }
    }

    /// All flags at a recent moment.
    #[inline]
    pub(crate) fn get(&self) -> u8 {
        // Relaxed: hints. An old value moves some pages earlier or later.
        self.0.load(Relaxed)
    }

    /// All flags but [`LOOK_UP_ZONE`] at a recent moment: for a zone that was looked up.
    #[inline]
    pub(crate) fn of_found_zone(&self) -> u8 {
        self.get() & !LOOK_UP_ZONE
    }

    /// Sets or clears one flag.
    pub(crate) fn set(&self, flag: u8, on: bool) {
        // Relaxed: a hint that orders nothing.
        if on {
            self.0.fetch_or(flag, Relaxed);
        } else {
            self.0.fetch_and(!flag, Relaxed);
        }
    }

    /// Sets the flags of `mask` to `values`. If they have these values already, the cache line stays shared.
    #[inline]
    pub(crate) fn replace(&self, mask: u8, values: u8) {
        let wrong = (self.get() & mask) ^ values;
        if wrong != 0 {
            self.set(wrong & values, true);
            self.set(wrong & !values, false);
        }
    }

    /// Clears one flag. Returns true for the one caller that found it set.
    pub(crate) fn take(&self, flag: u8) -> bool {
        // Relaxed, both: a hint that orders nothing. The read first keeps the line shared if the flag is clear.
        self.0.load(Relaxed) & flag != 0 && self.0.fetch_and(!flag, Relaxed) & flag != 0
    }
}
