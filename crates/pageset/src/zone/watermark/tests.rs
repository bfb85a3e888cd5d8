extern crate std;

use core::sync::atomic::AtomicU32;
use std::vec::Vec;

use super::*;
use crate::frame::MigrateType::{Cma, HighAtomic, Isolate, Movable};
use crate::frame::{CpuId, End, Links};
use crate::machine::SpinLock;
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
