//! A zone: its pages' metadata, its lock, its free areas, its watermarks.
//!
//! Specification: `linux-page-allocator.md` 1.1 to 1.3.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use crate::cluster::Clusters;
use crate::compact::defer::Deferral;
use crate::compact::memory::Memory;
use crate::flags::{BELOW_HIGH, BOOSTED, Flags, MIXED, PLENTY, RECLAIM_ACTIVE};
use crate::flight::InFlight;
use crate::frame::{Order, PageState, Pfn, Tag};
use crate::list::{Links, List};
use crate::machine::{LockPath, Machine};
use crate::migrate::MigrateType;
use crate::pageblock::Pageblock;
use crate::pcp::Pageset;
use crate::tuning::{HighAtomicRule, Pressure};
use crate::watermark::{Mark, MarkTest};
use crate::word::{self, Held};

/// The number of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u32);

/// The kinds of zones, lowest first. Specification 1.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ZoneKind {
    /// For devices that reach 16 MiB.
    Dma,
    /// For devices that reach 4 GiB.
    Dma32,
    /// For everything.
    Normal,
    /// For pages that can be moved.
    Movable,
}

impl ZoneKind {
    /// How many kinds there are.
    pub const COUNT: usize = 4;
    /// All kinds, lowest first.
    pub const ALL: [ZoneKind; Self::COUNT] = [Self::Dma, Self::Dma32, Self::Normal, Self::Movable];

    /// The kind as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that `/proc/zoneinfo` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
        }
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The metadata of one zone's pages. Pages are numbered from `base`, which is aligned to the largest order. The
/// arrays reach from there to the next such boundary; pages outside the span have the tag of an inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames<'a> {
    pub(crate) base: Pfn,
    /// The first page of the zone's span, and the first one after it.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// One byte a page.
    pub(crate) tags: &'a [AtomicU8],
    /// One byte a pageblock: see [`Pageblock`].
    pub(crate) types: &'a [AtomicU8],
    pub(crate) links: Links<'a>,
}

impl Frames<'_> {
    /// The length of the arrays.
    pub(crate) fn len(&self) -> u32 {
        self.tags.len() as u32
    }

    /// Pages that the zone spans, holes included.
    pub(crate) fn spanned(&self) -> u64 {
        u64::from(self.end - self.first)
    }

    /// The page's number in the zone, if it is in the zone's span.
    #[inline]
    pub(crate) fn page(&self, pfn: Pfn) -> Option<u32> {
        let page = pfn.0.wrapping_sub(self.base.0);
        (page >= u64::from(self.first) && page < u64::from(self.end)).then_some(page as u32)
    }

    pub(crate) fn pfn(&self, page: u32) -> Pfn {
        self.base.offset(u64::from(page))
    }

    #[inline]
    pub(crate) fn tag(&self, page: u32) -> Tag {
        let tag = Tag::from_byte(self.tags[page as usize].get());
        if tag == Tag::INSIDE { self.largest_tag(page) } else { tag }
    }

    /// The tag of a free block of the largest order, if one begins at a page.
    #[cold]
    fn largest_tag(&self, page: u32) -> Tag {
        match self.pageblock(page).largest() {
            Some(kind) if u64::from(page) % Order::MAX.pages() == 0 => {
                Tag::from_parts(PageState::Free, Order::MAX, kind)
            }
            _ => Tag::INSIDE,
        }
    }

    /// Tags a block that enters a free list. The largest are noted in their pageblock's byte instead, so that
    /// bringing a large range online leaves the tags' memory untouched.
    pub(crate) fn set_free(&self, page: u32, order: Order, list: MigrateType) {
        let tag = Tag::new(PageState::Free, order, list);
        if order == Order::MAX {
            self.set_pageblock(page, self.pageblock(page).with_largest(tag.kind_bits()));
        } else {
            self.set_tag(page, tag);
        }
    }

    /// Turns the tag of a block that leaves a free list to the inside of a block.
    pub(crate) fn set_not_free(&self, page: u32, order: Order) {
        if order == Order::MAX {
            self.set_pageblock(page, self.pageblock(page).without_largest());
        } else {
            self.set_tag(page, Tag::INSIDE);
        }
    }

    #[inline(always)]
    pub(crate) fn set_tag(&self, page: u32, tag: Tag) {
        self.tags[page as usize].set(tag.byte());
    }

    /// What is known of the pageblock that a page lies in.
    #[inline]
    pub(crate) fn pageblock(&self, page: u32) -> Pageblock {
        Pageblock(self.types[(page >> Order::PAGEBLOCK.get()) as usize].get())
    }

    /// Changes it; the zone lock is held, since the byte is read, changed and written.
    pub(crate) fn set_pageblock(&self, page: u32, pageblock: Pageblock) {
        self.types[(page >> Order::PAGEBLOCK.get()) as usize].set(pageblock.0);
    }

    /// The type of the pageblock that a page lies in.
    #[inline]
    pub(crate) fn block_type(&self, page: u32) -> MigrateType {
        self.pageblock(page).migratetype()
    }

    /// To be called by [`Zone::set_block_type`], which keeps count.
    fn set_block_type(&self, page: u32, migratetype: MigrateType) {
        self.set_pageblock(page, self.pageblock(page).with_type(migratetype));
    }

    /// Notes that a block of pages has been brought online.
    pub(crate) fn set_online(&self, page: u32, order: Order) {
        for at in (page..page + order.pages() as u32).step_by(Order::PAGEBLOCK.pages() as usize) {
            self.set_pageblock(at, self.pageblock(at).with_online(true));
        }
    }

    /// The links of a block. Those of pageblocks and larger blocks lie side by side after all others: bringing a large range
    /// online touches few lines, and huge pages that come and go do not each have a page of links for themselves.
    pub(crate) fn slot(&self, page: u32, order: Order) -> u32 {
        if order >= Order::PAGEBLOCK { self.len() + (page >> Order::PAGEBLOCK.get()) } else { page }
    }

    /// The block of a slot on a list of `order`.
    pub(crate) fn page_of_slot(&self, slot: u32, order: Order) -> u32 {
        if order >= Order::PAGEBLOCK { (slot - self.len()) << Order::PAGEBLOCK.get() } else { slot }
    }
}

/// A zone: what one lock protects.
#[derive(Debug)]
pub struct Zone<'a, M: Machine> {
    pub(crate) index: usize,
    pub(crate) node: NodeId,
    pub(crate) kind: ZoneKind,
    pub(crate) frames: Frames<'a>,
    /// One a possible CPU.
    pub(crate) pagesets: &'a [Pageset<M::Lock>],
    /// How often they are disabled; changed under [`crate::Allocator::changes`].
    pub(crate) disabled: AtomicU32,
    /// The arrays of all pagesets' lists.
    pub(crate) arrays: &'a [AtomicU32],
    pub(crate) lock: M::Lock,
    /// By order and migratetype; changed by `buddy` only.
    pub(crate) areas: [[List; MigrateType::COUNT]; Order::COUNT],
    /// Pages on free lists of types other than ISOLATE.
    pub(crate) free_pages: AtomicU64,
    /// Those of them in CMA pageblocks.
    pub(crate) free_cma: AtomicU64,
    /// Those of them on lists of HIGHATOMIC.
    pub(crate) free_highatomic: AtomicU64,
    /// Pages of HIGHATOMIC and of CMA pageblocks, holes included; changed by [`Zone::set_block_type`] only.
    pub(crate) reserved_highatomic: AtomicU64,
    pub(crate) cma_pages: AtomicU64,
    /// Pageblocks of other types than MOVABLE; changed by [`Zone::set_block_type`] only.
    other_blocks: AtomicU64,
    pub(crate) highatomic: HighAtomicRule,
    pub(crate) present: AtomicU64,
    pub(crate) managed: AtomicU64,
    flags: Flags,
    /// In force, by [`crate::watermark::Mark`]: with the boost.
    pub(crate) marks: [AtomicU64; 3],
    /// How much of each is boost; with the next line changed by `boost` only, under the lock.
    pub(crate) boost: AtomicU64,
    /// Ten-thousandths of the high mark that it may reach; 0 for no boost.
    pub(crate) boost_factor: u64,
    /// Whether requests that prefer this zone first try to keep types apart; see [`crate::walk`].
    pub(crate) keeps_apart: AtomicBool,
    /// Pages kept from requests that could be served from the zone of that kind.
    pub(crate) reserve: [AtomicU64; ZoneKind::COUNT],
    /// Lock holds by [`LockPath`]; under the lock.
    pub(crate) holds: [AtomicU64; LockPath::COUNT],
    /// Pages that passed the pagesets by; under the lock.
    pub(crate) direct_alloc_pages: AtomicU64,
    pub(crate) direct_free_pages: AtomicU64,
    /// Blocks got from other types' pageblocks: claimed, stolen; under the lock.
    pub(crate) claims: AtomicU64,
    pub(crate) steals: AtomicU64,
    /// When compaction of the zone is tried again.
    pub(crate) deferral: Deferral,
    /// Runs of pages on the order-0 lists of the ordinary types.
    pub(crate) clusters: Clusters<'a>,
    /// Where it goes on, and what it has done.
    pub(crate) compaction: Memory,
    /// Refills that take whole clusters.
    pub(crate) in_flight: InFlight,
    /// Pages freed without merging, and how many of them have merged since or are in use again; under the lock.
    pub(crate) skips: AtomicU64,
    pub(crate) skips_merged: AtomicU64,
}

impl<M: Machine> Zone<'_, M> {
    /// A zone without pages, to be filled in by [`crate::Allocator::new`].
    #[must_use]
    pub fn empty() -> Self {
        Zone {
            index: 0,
            node: NodeId(0),
            kind: ZoneKind::Normal,
            frames: Frames { base: Pfn(0), first: 0, end: 0, tags: &[], types: &[], links: Links(&[]) },
            pagesets: &[],
            disabled: AtomicU32::new(0),
            arrays: &[],
            lock: M::Lock::default(),
            areas: Default::default(),
            free_pages: AtomicU64::new(0),
            free_cma: AtomicU64::new(0),
            free_highatomic: AtomicU64::new(0),
            reserved_highatomic: AtomicU64::new(0),
            cma_pages: AtomicU64::new(0),
            other_blocks: AtomicU64::new(0),
            highatomic: HighAtomicRule::Free,
            present: AtomicU64::new(0),
            managed: AtomicU64::new(0),
            flags: Flags::default(),
            marks: Default::default(),
            boost: AtomicU64::new(0),
            boost_factor: 0,
            keeps_apart: AtomicBool::new(false),
            reserve: Default::default(),
            holds: Default::default(),
            direct_alloc_pages: AtomicU64::new(0),
            direct_free_pages: AtomicU64::new(0),
            claims: AtomicU64::new(0),
            steals: AtomicU64::new(0),
            deferral: Deferral::default(),
            clusters: Clusters::default(),
            compaction: Memory::default(),
            in_flight: InFlight::default(),
            skips: AtomicU64::new(0),
            skips_merged: AtomicU64::new(0),
        }
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Pages on free lists, exact while the lock is held.
    pub(crate) fn free(&self) -> u64 {
        self.free_pages.get()
    }

    pub(crate) fn pressure(&self) -> Pressure {
        let flags = self.flags.get();
        Pressure { reclaim_active: flags & RECLAIM_ACTIVE != 0, below_high: flags & BELOW_HIGH != 0 }
    }

    pub(crate) fn set_below_high(&self, on: bool) {
        self.flags.set(BELOW_HIGH, on);
    }

    /// Takes "below high" back from a zone that is above its high mark again. Specification 4.8, "Clear".
    pub(crate) fn clear_below_high(&self) {
        if self.pressure().below_high && self.passes_mark(Mark::High, &MarkTest::SINGLE) {
            self.set_below_high(false);
        }
    }

    pub(crate) fn set_reclaim_active(&self, on: bool) {
        self.flags.set(RECLAIM_ACTIVE, on);
    }

    /// Notes that the marks were boosted and that reclaim is to be told.
    pub(crate) fn set_boosted(&self) {
        self.flags.set(BOOSTED, true);
    }

    /// Whether that is noted; it is so no longer.
    pub(crate) fn take_boosted(&self) -> bool {
        self.flags.take(BOOSTED)
    }

    /// Whether every request for any order passes the watermark test at the high mark, as of the last hold of the zone
    /// lock: one look instead of the test.
    #[inline]
    pub(crate) fn has_plenty(&self) -> bool {
        // The free pages that the test would read are as old.
        self.flags.get() & PLENTY != 0
    }

    /// Whether the flags say that the zone is under no pressure, has plenty, and that its pageblocks are all MOVABLE.
    #[inline(always)]
    pub(crate) fn is_calm(&self) -> bool {
        self.flags.get() == PLENTY
    }

    /// The same of a zone whose pageblocks are of several types.
    pub(crate) fn is_calm_and_mixed(&self) -> bool {
        self.flags.get() == PLENTY | MIXED
    }

    pub(crate) fn set_plenty(&self, on: bool) {
        self.flags.set(PLENTY, on);
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Gives a pageblock another type and keeps count of those that are reserved. Its free blocks stay
    /// where they are; the zone lock is held.
    pub(crate) fn set_block_type(&self, page: u32, to: MigrateType) {
        let from = self.frames.block_type(page);
        if from == to {
            return;
        }
        let pages = Order::PAGEBLOCK.pages();
        for (counted, word) in
            [(MigrateType::HighAtomic, &self.reserved_highatomic), (MigrateType::Cma, &self.cma_pages)]
        {
            if from == counted {
                word::sub(word, pages);
            }
            if to == counted {
                word::add(word, pages);
            }
        }
        let is_other = |migratetype| u64::from(migratetype != MigrateType::Movable);
        let others = self.other_blocks.get() + is_other(to) - is_other(from);
        self.other_blocks.set(others);
        // Before the type: who sees the flag looks at the type.
        self.flags.set(MIXED, others > 0);
        self.frames.set_block_type(page, to);
    }

    /// The block that a page is inside of: its first page, order and state.
    pub(crate) fn block_around(&self, page: u32) -> Option<(u32, Order, PageState)> {
        Order::all().find_map(|order| {
            let head = page & !(order.pages() as u32 - 1);
            let tag = self.frames.tag(head);
            let reaches = tag.state() != PageState::Inside && head + tag.order().pages() as u32 > page;
            reaches.then(|| (head, tag.order(), tag.state()))
        })
    }

    /// The first of some pages that is part of a block already.
    pub(crate) fn first_known(&self, page: u32, pages: u64) -> Option<u32> {
        if self.block_around(page).is_some() {
            return Some(page);
        }
        let end = page + pages as u32;
        let mut at = page;
        while at < end {
            let next = end.min((at + 1).next_multiple_of(Order::PAGEBLOCK.pages() as u32));
            if self.frames.pageblock(at).is_online()
                && let Some(known) = (at..next).find(|&at| self.frames.tag(at).state() != PageState::Inside)
            {
                return Some(known);
            }
            at = next;
        }
        None
    }
}
