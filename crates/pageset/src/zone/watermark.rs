//! Watermarks: whether a zone has enough free pages for a request, the reserves, and the boost of the marks.
//!
//! Specification: `linux-page-allocator.md` 1.2, 1.3, 1.6 "Watermark boost".

use core::sync::atomic::AtomicU32;

use super::region::{Breaks, Region};
use super::{BOOSTED, Zone, ZoneGuard};
use crate::frame::{MigrateType, Order, ZoneKind};
use crate::machine::Machine;
use crate::policy::sizes::boosted;
use crate::policy::{HighAtomicRule, Watermarks};
use crate::sync::LockedWord;
use crate::sync::atomic::Ordering::Relaxed;

/// A mark that is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// The mark of the slow path.
    Min,
    /// The mark of the first attempt.
    Low,
    /// Above this mark pagesets may grow and reclaim rests.
    High,
}

/// The rights of a request to the reserves. With any of them, HIGHATOMIC pages count as free pages in the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rights {
    /// Lowers the min mark by half.
    pub(crate) high: bool,
    /// With `high`, lowers the rest by a quarter; HIGHATOMIC blocks after all others.
    pub(crate) non_blocking: bool,
    /// Lowers the mark by half; HIGHATOMIC blocks after all others.
    pub(crate) oom_victim: bool,
    /// HIGHATOMIC blocks before all others.
    pub(crate) highatomic: bool,
}

impl Rights {
    /// The rights of the first attempt, and of ordinary requests.
    pub(crate) const NONE: Rights = Rights { high: false, non_blocking: false, oom_victim: false, highatomic: false };

    const fn any(self) -> bool {
        self.high || self.non_blocking || self.oom_victim || self.highatomic
    }

    /// The mark lowered by these rights.
    pub(crate) const fn lowered(self, mark: u64) -> u64 {
        let mut min = mark;
        if self.high {
            min -= min / 2;
            if self.non_blocking {
                min -= min / 4;
            }
        }
        if self.oom_victim {
            min -= min / 2;
        }
        min
    }
}

/// The parameters of a watermark test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkTest {
    pub(crate) order: Order,
    pub(crate) highest: ZoneKind,
    pub(crate) rights: Rights,
    pub(crate) cma: bool,
}

impl MarkTest {
    /// A single page for a request that may use every zone. This test clears "below high".
    pub(crate) const SINGLE: MarkTest =
        MarkTest { order: Order::ZERO, highest: ZoneKind::Movable, rights: Rights::NONE, cma: false };

    /// Whether blocks on lists of this type serve the request.
    const fn may_use(&self, migratetype: MigrateType) -> bool {
        match migratetype {
            MigrateType::Cma => self.cma,
            MigrateType::HighAtomic => self.rights.highatomic || self.rights.oom_victim,
            MigrateType::Isolate => false,
            _ => true,
        }
    }
}

impl<M: Machine> Zone<'_, M> {
    /// The effective marks, boost included.
    pub(crate) fn watermarks(&self) -> Watermarks {
        Watermarks { min: self.mark(Mark::Min), low: self.mark(Mark::Low), high: self.mark(Mark::High) }
    }

    /// The part of each effective mark that is boost, in pages.
    pub(crate) fn boost(&self) -> u64 {
        self.boost.get()
    }

    /// The effective mark, boost included.
    pub(crate) fn mark(&self, mark: Mark) -> u64 {
        self.marks[mark as usize].get().saturating_add(self.boost.get())
    }

    /// Free pages reserved for requests with a right to HIGHATOMIC pageblocks.
    pub(crate) fn kept_highatomic(&self) -> u64 {
        match self.highatomic {
            HighAtomicRule::Reserved => self.reserved_highatomic.get(),
            HighAtomicRule::Free => self.sum(|region| &region.free_highatomic),
        }
    }

    /// Free pages that cannot serve a request, whatever the marks.
    pub(crate) fn unusable(&self, test: &MarkTest) -> u64 {
        let highatomic = if test.rights.any() { 0 } else { self.kept_highatomic() };
        let cma = if test.cma { 0 } else { self.sum(|region| &region.free_cma) };
        test.order.pages() - 1 + highatomic + cma
    }

    /// The watermark test of a request. Reads without the lock. Specification 1.3.
    ///
    /// The specification's fast variant for single pages is a shortcut to the same answer.
    pub(crate) fn passes(&self, mark: u64, test: &MarkTest) -> bool {
        let floor = test.rights.lowered(mark).saturating_add(self.reserve[test.highest.index()].get());
        let certain = self.surely_free() > floor.saturating_add(test.order.pages());
        (certain || self.free().saturating_sub(self.unusable(test)) > floor) && self.has_block(test)
    }

    /// The watermark test at one of the zone's own marks. At the min mark, an urgent request for a single page ignores
    /// the boost. Specification 1.3, "Fast path variant".
    pub(crate) fn passes_mark(&self, mark: Mark, test: &MarkTest) -> bool {
        let (base, boost) = (self.marks[mark as usize].get(), self.boost.get());
        let unboosted = mark == Mark::Min && test.order == Order::ZERO && test.rights.high && boost > 0;
        self.passes(base.saturating_add(boost), test) || unboosted && self.passes(base, test)
    }

    /// Notes for which orders every request passes at the high mark, whatever its reserve. `region` is the one whose lock is held: only
    /// its lists have changed since the last call.
    pub(crate) fn note_plenty(&self, region: &Region<M::Lock>) {
        let plenty = self.orders_with_blocks(region).min(self.orders_with_pages());
        if self.plenty.get() != plenty {
            // Relaxed, as all hints: an old value sends a request to the general path, or lets one pass that the marks would have
            // let pass a moment earlier.
            self.plenty.set(plenty);
        }
    }

    /// The orders, from 0 on, that the zone has enough free pages for. Without bitmaps: they are filled and emptied without a lock, and
    /// this answer lasts until the next hold.
    fn orders_with_pages(&self) -> u8 {
        let floor = self.mark(Mark::High).saturating_add(self.largest_reserve.get());
        if self.surely_free() > floor.saturating_add(Order::MAX.pages()) {
            return Order::COUNT as u8;
        }
        let usable = self.listed().saturating_sub(self.unusable(&MarkTest::SINGLE));
        // The test of an order keeps one page less than its block above the floor: so its block fits between them.
        let largest = usable.saturating_sub(floor).checked_ilog2();
        largest.map_or(0, |order| (order + 1).min(Order::COUNT as u32) as u8)
    }

    /// Whether a single page is available above the min mark after a block of `order` is taken, for a request without a
    /// lowmem reserve. Specification 1.5.
    pub(crate) fn has_above_min(&self, order: Order) -> bool {
        let test = MarkTest { highest: ZoneKind::Dma, cma: true, ..MarkTest::SINGLE };
        self.passes(self.mark(Mark::Min).saturating_add(order.pages()), &test)
    }

    /// Whether a list or bitmap that serves the request has a block of the order or above. Always true for single pages. Looks at some bitmaps
    /// only: a request that they do not serve, and that may wait for a lock, empties all bitmaps before it fails.
    pub(crate) fn has_block(&self, test: &MarkTest) -> bool {
        test.order == Order::ZERO || self.has_any_block(test)
    }

    /// As [`Self::has_block`], with a check for single pages as well.
    pub(crate) fn has_any_block(&self, test: &MarkTest) -> bool {
        let is_there = |order| move |&&list: &&MigrateType| self.has_listed(order, list) && test.may_use(list);
        Order::all().skip(test.order.index()).any(|order| MigrateType::ALL.iter().find(is_there(order)).is_some())
            || self.has_bitmap_block(test.order, |list| test.may_use(list))
    }
}

/// What each mark of a zone is raised by, in pages. It has no lock: holders of several regions raise it at the same time, and a call
/// that waits for nothing may have interrupted one of them.
#[derive(Debug)]
pub(crate) struct Boost(AtomicU32);

impl Boost {
    #[inline]
    pub(crate) const fn new() -> Self {
        Boost(AtomicU32::new(0))
    }

    /// The boost at a recent moment.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed here and below: an amount that orders nothing.
        self.0.load(Relaxed).into()
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// Raises the boost to what `more` makes of it, unless that is 0. Returns whether it was raised.
    pub(crate) fn raise(&self, more: impl Fn(u64) -> u64) -> bool {
        let raised = |boost: u32| match more(boost.into()) {
            0 => None,
            // Pages have numbers of 32 bits.
            more => Some(u32::try_from(more).unwrap_or(u32::MAX)),
        };
        self.0.fetch_update(Relaxed, Relaxed, raised).is_ok()
    }

    /// Lowers the boost by up to `pages`. Returns the rest.
    pub(crate) fn lower(&self, pages: u64) -> u64 {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let lowered = |boost: u32| Some(boost.saturating_sub(pages));
        let before = self.0.fetch_update(Relaxed, Relaxed, lowered).unwrap_or_else(|boost| boost);
        before.saturating_sub(pages).into()
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Sets the marks, without a boost.
    pub(crate) fn set_watermarks(&self, marks: Watermarks) {
        self.zone.boost.clear();
        for (word, mark) in self.zone.marks.iter().zip([marks.min, marks.low, marks.high]) {
            word.set(mark);
        }
    }

    /// Sets the reserves by the highest zone of a request.
    pub(crate) fn set_reserve(&self, pages: [u64; ZoneKind::COUNT]) {
        for (word, pages) in self.zone.reserve.iter().zip(pages) {
            word.set(pages);
        }
        self.zone.largest_reserve.set(pages.into_iter().max().unwrap_or(0));
    }

    /// Lowers the boost by up to `pages`. Returns the remaining boost.
    pub(crate) fn lower_boost(&self, pages: u64) -> u64 {
        self.zone.boost.lower(pages)
    }

    /// Records that a request took part of a pageblock of another type.
    pub(crate) fn note_break(&self, wakes: bool) {
        self.breaks.set(Breaks { count: self.breaks.get().count + 1, wakes });
    }

    /// Raises the marks after requests took part of other types' pageblocks. Specification 1.6, "Watermark boost".
    #[cold]
    pub(super) fn raise_boosts(&self) {
        let (zone, Breaks { count, wakes }) = (self.zone, self.breaks.get());
        let (managed, high) = (zone.managed.get(), zone.marks[Mark::High as usize].get());
        for _ in 0..count {
            if zone.boost.raise(|boost| boosted(boost, managed, high, zone.boost_factor)) && wakes {
                zone.flags.set(BOOSTED, true);
            }
        }
    }
}

#[cfg(test)]
mod tests;
