//! Watermarks: whether a zone has enough free pages for a request, the reserves, and the boost of the marks.
//!
//! Specification: `linux-page-allocator.md` 1.2, 1.3, 1.6 "Watermark boost".

use core::sync::atomic::AtomicU32;

use crate::frame::MigrateType;
use crate::frame::Order;
use crate::frame::ZoneKind;
use crate::machine::Machine;
use crate::policy::{HighAtomicRule, Watermarks};
use crate::sync::LockedWord;
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::Zone;
use crate::zone::region::Region;

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
            HighAtomicRule::Free => self.free_pages().highatomic,
        }
    }

    /// Free pages that cannot serve a request, whatever the marks.
    pub(crate) fn unusable(&self, test: &MarkTest) -> u64 {
        let highatomic = if test.rights.any() { 0 } else { self.kept_highatomic() };
        let cma = if test.cma { 0 } else { self.free_pages().cma };
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

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::AtomicU32;
    use std::vec::Vec;

    use super::*;
    use crate::frame::CpuId;
    use crate::frame::Links;
    use crate::frame::MigrateType::{Cma, HighAtomic, Isolate, Movable};
    use crate::machine::SpinLock;
    use crate::zone::list::End;
    use crate::zone::region::Region;

    struct OneCpu;

    impl Machine for OneCpu {
        type Lock = SpinLock;

        fn cpu(&self) -> CpuId {
            CpuId(0)
        }
    }

    const HIGH: Rights = Rights { high: true, ..Rights::NONE };
    const NON_BLOCKING: Rights = Rights { non_blocking: true, ..Rights::NONE };
    const ATOMIC: Rights = Rights { non_blocking: true, ..HIGH };
    const HIGHATOMIC: Rights = Rights { highatomic: true, ..ATOMIC };
    const OOM: Rights = Rights { oom_victim: true, ..Rights::NONE };

    fn region() -> [Region<SpinLock>; 1] {
        [Region::new(SpinLock::new())]
    }

    /// Marks of 400, 500 and 600 plus a boost; 100 free CMA pages; 200 free HIGHATOMIC pages of 512 reserved; a reserve
    /// of 50 pages against requests that a MOVABLE zone could serve.
    fn zone(regions: &[Region<SpinLock>; 1], boost: u64) -> Zone<'_, OneCpu> {
        let mut zone = Zone::new();
        zone.regions = regions;
        for (word, mark) in zone.marks.iter().zip([400, 500, 600]) {
            word.set(mark);
        }
        zone.boost.raise(|_| boost);
        regions[0].free_cma.set(100);
        regions[0].free_highatomic.set(200);
        zone.reserved_highatomic.add(512);
        zone.reserve[ZoneKind::Movable.index()].set(50);
        zone
    }

    fn test(order: u8, rights: Rights) -> MarkTest {
        MarkTest { order: Order::new(order).expect("an order"), highest: ZoneKind::Normal, rights, cma: false }
    }

    /// The fewest free pages with which a zone passes.
    fn fewest(zone: &Zone<'_, OneCpu>, mark: Mark, test: &MarkTest) -> u64 {
        let passes = |free: &u64| {
            zone.regions[0].free_pages.set(*free);
            zone.passes_mark(mark, test)
        };
        let all: Vec<u64> = (0..2000).filter(passes).collect();
        let first = *all.first().expect("2000 pages are enough");
        assert_eq!(all.len() as u64, 2000 - first, "more free pages never fail");
        first
    }

    #[test]
    fn flags_one_by_one() {
        let movable = |rights| MarkTest { highest: ZoneKind::Movable, ..test(0, rights) };
        for (name, mark, asked, expected) in [
            // More than 400 above the 100 CMA and the 200 HIGHATOMIC pages.
            ("none", Mark::Min, test(0, Rights::NONE), 701),
            ("the low mark", Mark::Low, test(0, Rights::NONE), 801),
            ("the high mark", Mark::High, test(0, Rights::NONE), 901),
            ("CMA pages count", Mark::Min, MarkTest { cma: true, ..test(0, Rights::NONE) }, 601),
            // From here on HIGHATOMIC pages count, too: 100 and the lowered mark.
            ("high priority: half of 400", Mark::Min, test(0, HIGH), 301),
            ("and a quarter of the rest", Mark::Min, test(0, ATOMIC), 251),
            ("non-blocking lowers nothing", Mark::Min, test(0, NON_BLOCKING), 501),
            ("an OOM victim: half", Mark::Min, test(0, OOM), 301),
            ("the reserve for the highest zone", Mark::Min, movable(Rights::NONE), 751),
            ("which no right lowers", Mark::Min, movable(HIGH), 351),
            ("rights lower whatever mark is tested", Mark::Low, test(0, HIGH), 351),
        ] {
            assert_eq!(fewest(&zone(&region(), 0), mark, &asked), expected, "{name}");
        }
        let regions = region();
        let mut before = zone(&regions, 0);
        before.highatomic = HighAtomicRule::Reserved;
        assert_eq!(fewest(&before, Mark::Min, &test(0, Rights::NONE)), 1013, "all 512 reserved ones, before 6.13");
        assert_eq!(fewest(&before, Mark::Min, &test(0, HIGH)), 301);
    }

    #[test]
    fn a_block_counts_whole() {
        let links = [const { AtomicU32::new(0) }; 2];
        let regions = region();
        let zone = zone(&regions, 0);
        regions[0].list(Order::new(5).expect("an order"), Movable).push(Links(&links), 0, End::Head, |_| {});
        for (order, rights, expected) in
            [(1, Rights::NONE, 702), (5, Rights::NONE, 732), (3, HIGH, 308), (3, HIGHATOMIC, 258), (5, OOM, 332)]
        {
            assert_eq!(fewest(&zone, Mark::Min, &test(order, rights)), expected, "order {order}, {rights:?}");
        }
    }

    #[test]
    fn odd_marks_round_up() {
        for (mark, high, atomic, oom) in [(0, 0, 0, 0), (1, 1, 1, 1), (7, 4, 3, 4), (401, 201, 151, 201)] {
            assert_eq!([HIGH, ATOMIC, OOM].map(|rights| rights.lowered(mark)), [high, atomic, oom], "{mark}");
        }
    }

    #[test]
    fn a_boost_is_not_for_urgent_single_pages_at_the_min_mark() {
        for (name, mark, asked, expected) in [
            ("others heed it", Mark::Min, test(0, Rights::NONE), 801),
            ("at every mark", Mark::High, test(0, Rights::NONE), 1001),
            ("urgent ones do not: half of 400", Mark::Min, test(0, HIGH), 301),
            ("but at the low mark they do: half of 600", Mark::Low, test(0, HIGH), 401),
            ("and an OOM victim: half of 500", Mark::Min, test(0, OOM), 351),
        ] {
            assert_eq!(fewest(&zone(&region(), 100), mark, &asked), expected, "{name}");
        }
        let links = [const { AtomicU32::new(0) }; 2];
        let regions = region();
        let zone = zone(&regions, 100);
        regions[0].list(Order::new(1).expect("an order"), Movable).push(Links(&links), 0, End::Head, |_| {});
        assert_eq!(fewest(&zone, Mark::Min, &test(1, HIGH)), 352, "and a larger block");
    }

    #[test]
    fn lists_that_serve() {
        let cma = MarkTest { cma: true, ..test(2, Rights::NONE) };
        for (list, asked, serves) in [
            (Movable, test(2, Rights::NONE), true),
            (Cma, test(2, Rights::NONE), false),
            (Cma, cma, true),
            (HighAtomic, test(2, Rights::NONE), false),
            (HighAtomic, cma, false),
            (HighAtomic, test(2, HIGH), false),
            (HighAtomic, test(2, NON_BLOCKING), false),
            (HighAtomic, test(2, HIGHATOMIC), true),
            (HighAtomic, test(2, OOM), true),
            (Isolate, test(2, OOM), false),
        ] {
            for (order, large_enough) in [(1, false), (2, true), (3, true)] {
                let links = [const { AtomicU32::new(0) }; 2];
                let regions = region();
                let zone = zone(&regions, 0);
                regions[0].free_pages.set(2000);
                regions[0].list(Order::new(order).expect("an order"), list).push(Links(&links), 0, End::Head, |_| {});
                let expected = serves && large_enough;
                assert_eq!(zone.passes_mark(Mark::Min, &asked), expected, "{list:?} of order {order}, {asked:?}");
            }
        }
    }
}
