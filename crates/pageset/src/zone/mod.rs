//! A zone: its pages' metadata, its lock, its free areas, its watermarks.
//!
//! Specification: `linux-page-allocator.md` 1.1 to 1.3.

mod boost;
pub(crate) mod deferral;
pub(crate) mod flags;
mod highatomic;
pub(crate) mod in_flight;
pub(crate) mod lock;
pub(crate) mod watermark;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::admin::compact::memory::Memory;
use crate::buddy::list::List;
use crate::frame::MigrateType;
use crate::frame::{Frames, Links, NodeId, Order, PageState, Pfn, ZoneKind};
use crate::history::cluster::Clusters;
use crate::machine::{LockPath, Machine};
use crate::pcp::Pageset;
use crate::policy::{HighAtomicRule, Pressure};
use crate::sync::{self, Held};
use crate::zone::deferral::Deferral;
use crate::zone::flags::{BELOW_HIGH, BOOSTED, Flags, MIXED, PLENTY, RECLAIM_ACTIVE};
use crate::zone::in_flight::InFlight;
use crate::zone::watermark::{Mark, MarkTest};

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
    /// In force, by [`crate::zone::watermark::Mark`]: with the boost.
    pub(crate) marks: [AtomicU64; 3],
    /// How much of each is boost; with the next line changed by `boost` only, under the lock.
    pub(crate) boost: AtomicU64,
    /// Ten-thousandths of the high mark that it may reach; 0 for no boost.
    pub(crate) boost_factor: u64,
    /// Whether requests that prefer this zone first try to keep types apart; see [`crate::alloc::general`].
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
                sync::sub(word, pages);
            }
            if to == counted {
                sync::add(word, pages);
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
