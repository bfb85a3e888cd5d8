//! Everything behind the cache: a zone's lock, its buddy, watermarks, flags and counters. Uses `frame`, `machine`, `policy`,
//! `buddy`.
//!
//! [`Zone::lock`] gives a [`ZoneGuard`]; only through it does the buddy change. Specification: `linux-page-allocator.md` 1.1
//! to 1.3, 1.6.

pub(crate) mod flags;
mod guard;
pub(crate) mod memory;
pub(crate) mod watermark;

use core::sync::atomic::{AtomicBool, AtomicU64};

use crate::buddy::Buddy;
use crate::frame::{NodeId, Order, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::policy::{HighAtomicRule, Pressure};
use crate::sync::LockedWord;

pub(crate) use guard::ZoneGuard;

use flags::{BELOW_HIGH, BOOSTED, Flags, MIXED, PLENTY, RECLAIM_ACTIVE};
use memory::Memory;
use watermark::{Mark, MarkTest};

/// A zone: the data under one lock, and data that is read without it.
#[derive(Debug)]
pub(crate) struct Zone<'a, M: Machine> {
    pub(crate) index: usize,
    pub(crate) node: NodeId,
    pub(crate) kind: ZoneKind,
    /// What the lock protects.
    pub(crate) buddy: Buddy<'a>,
    lock: M::Lock,
    flags: Flags,
    pub(crate) highatomic: HighAtomicRule,
    /// The effective marks by [`Mark`], boost included. Unit: pages.
    marks: [AtomicU64; 3],
    /// The part of each mark that is boost, in pages; [`ZoneGuard`] writes it.
    pub(crate) boost: AtomicU64,
    /// Ten-thousandths of the high mark that the boost may reach; 0 for no boost.
    pub(crate) boost_factor: u64,
    /// Whether requests that prefer this zone first try to keep types apart.
    pub(crate) keeps_apart: AtomicBool,
    /// The lowmem reserves by the request's highest zone, in pages.
    pub(crate) reserve: [AtomicU64; ZoneKind::COUNT],
    /// The largest reserve; [`ZoneGuard::set_reserve`] writes both.
    largest_reserve: AtomicU64,
    /// Holds of the lock by [`LockPath`].
    pub(crate) holds: [AtomicU64; LockPath::COUNT],
    /// Pages that bypassed the pagesets; written with the lock held.
    pub(crate) direct_alloc_pages: AtomicU64,
    pub(crate) direct_free_pages: AtomicU64,
    /// The positions and counters of compaction.
    pub(crate) compaction: Memory,
}

impl<M: Machine> Default for Zone<'_, M> {
    /// A zone without pages.
    fn default() -> Self {
        Zone {
            index: 0,
            node: NodeId(0),
            kind: ZoneKind::Normal,
            buddy: Buddy::default(),
            lock: M::Lock::default(),
            flags: Flags::default(),
            highatomic: HighAtomicRule::Free,
            marks: Default::default(),
            boost: AtomicU64::new(0),
            boost_factor: 0,
            keeps_apart: AtomicBool::new(false),
            reserve: Default::default(),
            largest_reserve: AtomicU64::new(0),
            holds: Default::default(),
            direct_alloc_pages: AtomicU64::new(0),
            direct_free_pages: AtomicU64::new(0),
            compaction: Memory::default(),
        }
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

    /// Clears the flag "boosted" and returns whether it was set.
    pub(crate) fn take_boosted(&self) -> bool {
        self.flags.take(BOOSTED)
    }

    /// Whether every request of any order passes the watermark test at the high mark, as of the last hold of the lock.
    /// One read replaces the test.
    #[inline]
    pub(crate) fn has_plenty(&self) -> bool {
        // The test would read free page counts of the same age.
        self.flags.get() & PLENTY != 0
    }

    /// Whether the zone has plenty, is under no pressure, and all its pageblocks are MOVABLE, as of the last hold of the lock.
    #[inline(always)]
    pub(crate) fn is_relaxed(&self) -> bool {
        self.flags.get() == PLENTY
    }

    /// As [`Self::is_relaxed`], for a zone with pageblocks of several types.
    pub(crate) fn is_relaxed_and_mixed(&self) -> bool {
        self.flags.get() == PLENTY | MIXED
    }

    /// Whether the limit leaves room for one more HIGHATOMIC pageblock.
    pub(crate) fn may_reserve_highatomic(&self) -> bool {
        self.buddy.reserved_highatomic.get() < self.highatomic.limit(self.buddy.managed.get())
    }

    /// Whether a HIGHATOMIC pageblock can be returned: the last one only if `forced`.
    pub(crate) fn may_unreserve_highatomic(&self, forced: bool) -> bool {
        let last = if forced { 0 } else { Order::PAGEBLOCK.pages() };
        self.buddy.reserved_highatomic.get() > last
    }
}
