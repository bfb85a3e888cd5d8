//! Reserves: HIGHATOMIC pageblocks, boosted marks, types that do not mix. Specification 1.6.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::support::{Known, World, build, movable, one_zone};
use pageset::admin::audit::AuditError;
use pageset::pcp::Pageset;
use pageset::policy::presets::*;
use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{Bounds, Tuning, Watermarks};
use pageset::{
    Allocator, CachedZone, Config, Free, FreeTo, Metadata, MigrateType, NodeId, Order, PageRange, Pfn, Region, Request,
    SpinLock, Urgency, Wait, ZoneKind, ZoneMetadata, ZoneSpec,
};

use MigrateType::{HighAtomic, Movable, Unmovable};

const BASE: u64 = 1 << 20;
/// 128 pageblocks; 1 % of them, rounded up, is two.
const PAGES: u64 = 65_536;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

fn urgent(of: u8) -> Request {
    Request { urgency: Urgency::High, wait: Wait::Lock, ..movable(of) }
}

/// A zone that is below its low mark from the start, so that every request takes the slow path.
fn short(tuning: Tuning, pages: u64, test: impl FnOnce(&World<'_>)) {
    one_zone(tuning, pages, 2, |world| {
        world.at(0).set_bounds(Bounds::DISABLED).expect("the pagesets have room");
        world.at(0).set_watermarks(Watermarks { min: 0, low: pages, high: pages }, [0; 4]);
        test(world);
        world.at(0).audit().expect("the audit passes");
    });
}

fn reserved(world: &World<'_>) -> (u64, u64) {
    let stats = world.at(0).stats();
    (stats.nr_reserved_highatomic, stats.nr_free_highatomic)
}

#[test]
fn an_urgent_block_reserves_its_pageblock() {
    short(LINUX_6_18, PAGES, |world| {
        let first = world.alloc(&urgent(4)).expect("memory");
        assert_eq!(world.pageblock_type(first), Some(HighAtomic));
        assert_eq!(reserved(world), (512, 512 - 16));
        // The rest of the pageblock serves only the next urgent requests.
        for nth in 1..32 {
            assert_eq!(world.alloc(&urgent(4)), Ok(first.offset(16 * nth)));
        }
        assert_eq!(reserved(world), (512, 0));
        for nth in 0..10 {
            world.free(first.offset(16 * nth), order(4)).expect("was allocated");
        }
        assert_eq!(reserved(world), (512, 160));
        let ordinary = world.alloc(&movable(4)).expect("memory");
        assert_ne!(world.pageblock_type(ordinary), Some(HighAtomic));
    });
}

#[test]
fn only_urgent_blocks_that_found_little_reserve() {
    for (name, request) in [
        ("a single page", urgent(0)),
        ("of one that can wait", Request { wait: Wait::Memory, ..urgent(4) }),
        ("of one that waits for nothing", Request { wait: Wait::Nothing, ..urgent(4) }),
        ("not urgent", Request { urgency: Urgency::Ordinary, ..urgent(4) }),
        ("of an OOM victim", Request { urgency: Urgency::OomVictim, ..urgent(4) }),
    ] {
        short(LINUX_6_18, PAGES, |world| {
            world.alloc(&request).expect("memory");
            assert_eq!(reserved(world), (0, 0), "{name}");
        });
    }
    short(LINUX_6_18, PAGES, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        world.alloc(&urgent(4)).expect("memory");
        assert_eq!(reserved(world), (0, 0), "above the low mark");
    });
}

#[test]
fn the_reserve_has_a_limit() {
    // The number of reserved pageblocks after more and more urgent blocks.
    for (name, tuning, pages, pageblocks) in [
        ("a hundredth rounded up", LINUX_6_18, PAGES, 2),
        ("exactly one", LINUX_6_18, 51_200, 1),
        ("none where a hundredth is less than one", LINUX_6_18, 51_199, 0),
        ("before: a hundredth and one, so three of 655 + 512", LINUX_6_7, PAGES, 3),
        ("before: 511 + 512 pages", LINUX_6_7, 51_199, 2),
        ("before: 1 + 512 pages", LINUX_6_7, 200, 0),
    ] {
        short(tuning, pages, |world| {
            for _ in 0..8 {
                let _ = world.alloc(&urgent(8));
                let _ = world.alloc(&urgent(8));
            }
            assert_eq!(reserved(world).0, 512 * pageblocks, "{name}");
        });
    }
    short(LINUX_6_18, PAGES, |world| {
        let largest = world.alloc(&urgent(10)).expect("memory");
        assert_eq!(reserved(world), (1024, 0), "a block of two pageblocks reserves both");
        world.free(largest, Order::MAX).expect("was allocated");
        assert_eq!(reserved(world), (1024, 1024));
    });
}

#[test]
fn rights_to_the_highatomic_reserve() {
    // Only the reserve is left: the requests that may use it.
    for (name, request, got) in [
        ("an urgent block, first of all", urgent(4), true),
        ("an OOM victim", Request { urgency: Urgency::OomVictim, ..movable(4) }, true),
        ("and its single pages", Request { urgency: Urgency::OomVictim, ..movable(0) }, true),
        // The marks require a free block of the order outside the reserve, or the right to use HIGHATOMIC blocks.
        ("one that cannot wait: not above order 0", Request { wait: Wait::Lock, ..movable(4) }, false),
        ("but single pages", Request { wait: Wait::Lock, ..movable(0) }, true),
        ("urgent ones, too", urgent(0), true),
        ("not if they can wait", Request { urgency: Urgency::High, ..movable(0) }, false),
        ("nobody else", movable(0), false),
        ("whoever waits for nothing has no rights", Request { wait: Wait::Nothing, ..urgent(4) }, false),
        ("nor for single pages", Request { wait: Wait::Nothing, ..urgent(0) }, false),
    ] {
        short(LINUX_6_18, PAGES, |world| {
            world.alloc(&urgent(4)).expect("memory");
            while world.alloc(&movable(4)).is_ok() {}
            assert_eq!(world.at(0).stats().nr_free_pages, 512 - 16, "only the reserve is left");
            let result = world.alloc(&request);
            assert_eq!(result.is_ok(), got, "{name}: {result:?}");
            if let Ok(pfn) = result {
                assert_eq!(world.pageblock_type(pfn), Some(HighAtomic), "{name}");
            }
        });
    }
}

#[test]
fn reserved_pages_come_back_through_pagesets() {
    // 2.6: cached on the movable lists, drained to their own lists, under both rules for a block's remembered type.
    for tuning in [LINUX_5_14, LINUX_6_7, LINUX_6_18, LINUX_6_19] {
        short(tuning, PAGES, |world| {
            let block = world.alloc(&urgent(4)).expect("memory");
            world.at(0).set_bounds(Bounds { batch: 63, high_min: 100, high_max: 100 }).expect("room");
            world.split(block, order(4), order(1)).expect("was allocated");
            for nth in 0..8 {
                world.free(block.offset(2 * nth), order(1)).expect("was allocated");
            }
            assert_eq!(world.at(0).stats().pagesets.count, 16);
            assert_eq!(world.pageset(0, pageset::CpuId(0)).lists()[4], 8, "order 1, movable");
            assert_eq!(reserved(world), (512, 496));
            world.drain_all();
            assert_eq!(reserved(world), (512, 512));
            assert_eq!(world.at(0).free_blocks(Order::PAGEBLOCK, HighAtomic), 1, "the pages have merged");
        });
    }
}

#[test]
fn pageblocks_that_are_typed_by_hand_count() {
    short(LINUX_6_18, PAGES, |world| {
        let set = |nth: u64, to| world.set_pageblock_type(Pfn(BASE + 512 * nth), to).expect("the page is in the zone");
        set(0, HighAtomic);
        set(1, HighAtomic);
        set(2, MigrateType::Cma);
        assert_eq!((reserved(world), world.at(0).stats().cma), ((1024, 1024), 512));
        world.alloc(&urgent(4)).expect("memory");
        assert_eq!(reserved(world), (1024, 1008), "the limit is reached");
        set(0, MigrateType::Isolate);
        set(0, HighAtomic);
        set(2, Movable);
        assert_eq!((reserved(world), world.at(0).stats().cma), ((1024, 1008), 0));
        assert!(world.zoneinfo().to_string().contains("cma      0\n"));
    });
}

/// Marks that were set by hand in a wrong order are shown as they are.
#[test]
fn zoneinfo_shows_any_marks() {
    one_zone(LINUX_6_18, 4096, 1, |world| {
        world.at(0).set_watermarks(Watermarks { min: 30, low: 20, high: 10 }, [0; 4]);
        let shown = world.zoneinfo().to_string();
        assert!(shown.contains("high     10\n        promo    10\n"), "{shown}");
    });
}

/// A zone in which unmovable requests must take part of movable pageblocks. One block of order 4 is in use at the start
/// of each pageblock, so that none is completely free.
fn broken(tuning: Tuning, factor: u64, test: impl FnOnce(&World<'_>)) {
    let range = PageRange::new(Pfn(BASE), 4096);
    let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] };
    let watermarks = WatermarkRule { boost_factor: factor, ..WatermarkRule::default() };
    build(&Config { tuning, watermarks, ..Config::new(&[spec], &[NodeId(0)]) }, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let blocks: Vec<_> = (0..8).map(|_| world.alloc(&movable(9)).expect("memory")).collect();
        for block in blocks {
            world.split(block, order(9), order(4)).expect("was allocated");
            for nth in 1..32 {
                world.free(block.offset(16 * nth), order(4)).expect("was allocated");
            }
        }
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        world.at(0).set_watermarks(MARKS, [0; 4]);
        test(world);
        world.at(0).audit().expect("the audit passes");
    });
}

const MARKS: Watermarks = Watermarks { min: 200, low: 400, high: 600 };

/// The effective marks' distance above [`MARKS`].
fn boost(world: &World<'_>) -> u64 {
    let stats = world.at(0).stats();
    let boost = stats.watermark_boost;
    let expected = Watermarks { min: MARKS.min + boost, low: MARKS.low + boost, high: MARKS.high + boost };
    assert_eq!(stats.watermarks, expected);
    boost
}

#[test]
fn claims_boost_the_marks_and_wake_reclaim_once() {
    let request = |wakes_reclaim| Request { wakes_reclaim, ..Request::new(order(4), Unmovable) };
    for tuning in [LINUX_5_14, LINUX_6_18] {
        broken(tuning, WatermarkRule::KERNEL_BOOST_FACTOR, |world| {
            assert_eq!((boost(world), world.machine().woken()), (0, vec![]));
            // Each claims the 496 free pages of a pageblock and uses 16, so the next claim comes after 31 requests.
            world.alloc(&request(true)).expect("memory");
            assert_eq!(boost(world), 512);
            assert_eq!(world.machine().woken(), [(0, Order::ZERO, ZoneKind::Normal)]);
            for _ in 1..31 {
                world.alloc(&request(true)).expect("memory");
            }
            assert_eq!((boost(world), world.machine().woken()), (512, vec![]), "reclaim is not woken again");
            world.alloc(&request(false)).expect("memory");
            // One and a half times 600.
            assert_eq!((boost(world), world.machine().woken()), (900, vec![]), "the request wakes nobody");
            let text = world.zoneinfo().to_string();
            assert!(text.contains("boost    900\n") && text.contains("min      1100\n"), "{text}");
            assert_eq!(world.at(0).decay_boost(300), 600);
            assert_eq!(boost(world), 600);
            assert_eq!(world.at(0).decay_boost(5000), 0);
            assert_eq!(boost(world), 0);
        });
        broken(tuning, 0, |world| {
            world.alloc(&request(true)).expect("memory");
            assert_eq!((boost(world), world.machine().woken()), (0, vec![]), "off");
        });
    }
    broken(LINUX_6_18, WatermarkRule::KERNEL_BOOST_FACTOR, |world| {
        world.alloc(&request(true)).expect("memory");
        world.at(0).set_watermarks(MARKS, [0; 4]);
        assert_eq!(boost(world), 0, "new marks begin without");
    });
}

/// DMA32 and NORMAL of node 0, 4 pageblocks each, and a NORMAL zone of 4 pageblocks on node 1. No pageblock of node 0's
/// NORMAL zone is completely free.
fn two_zones(tuning: Tuning, dma32: bool, test: impl FnOnce(&World<'_>)) {
    let at = |nth: u64| PageRange::new(Pfn(BASE + 2048 * nth), 2048);
    let spans = [at(0), at(1), at(2)];
    let kinds = [(0, ZoneKind::Normal), (0, ZoneKind::Dma32), (1, ZoneKind::Normal)];
    let all = [1, usize::from(dma32), 1];
    let zones: Vec<_> = (0..3)
        .map(|i| ZoneSpec { node: NodeId(kinds[i].0), kind: kinds[i].1, span: spans[i], ranges: &spans[i..i + all[i]] })
        .collect();
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0)]) }, |world| {
        (0..3).for_each(|zone| world.at(zone).set_watermarks(Watermarks::default(), [0; 4]));
        let in_normal = Request { zone: Some(0), ..movable(9) };
        let blocks: Vec<_> = (0..4).map(|_| world.alloc(&in_normal).expect("memory")).collect();
        for block in blocks {
            world.split(block, order(9), order(4)).expect("was allocated");
            (1..32).for_each(|nth| world.free(block.offset(16 * nth), order(4)).expect("was allocated"));
        }
        test(world);
        for zone in 0..3 {
            world.at(zone).audit().expect("the audit passes");
        }
    });
}

#[test]
fn types_stay_apart_while_another_zone_has_a_pageblock() {
    let unmovable = Request::new(Order::ZERO, Unmovable);
    let serving = |world: &World<'_>, request: &Request| {
        let pfn = world.alloc(request).expect("memory");
        world.zone_of(pfn).map(|zone| zone.number()).expect("the page is in the zone")
    };
    for tuning in [LINUX_5_14, LINUX_6_7, LINUX_6_18] {
        two_zones(tuning, true, |world| {
            assert_eq!(serving(world, &movable(0)), 0, "its own type is there");
            assert_eq!(serving(world, &unmovable), 1);
            assert_eq!((world.at(0).stats().claims, world.at(0).stats().steals), (0, 0));
            assert_eq!(serving(world, &Request { zone: Some(0), ..unmovable }), 0, "there is no other zone");
        });
        two_zones(tuning, true, |world| {
            // The rest of DMA32 is movable and fragmented as well: types then mix in the preferred zone, not on another
            // node.
            while let Ok(pfn) = world.alloc(&Request { zone: Some(1), ..movable(9) }) {
                world.split(pfn, order(9), order(4)).expect("was allocated");
                world.free_with(Free::block(pfn, order(4)).to(FreeTo::Buddy)).expect("was allocated");
            }
            assert_eq!(serving(world, &unmovable), 0);
        });
        two_zones(tuning, false, |world| {
            assert_eq!(serving(world, &unmovable), 0, "two nodes, and DMA32 is empty");
        });
    }
    two_zones(LINUX_4_19, true, |world| assert_eq!(serving(world, &unmovable), 0, "before 5.0"));
    two_zones(Tuning { no_fragment: false, ..LINUX_6_18 }, true, |world| assert_eq!(serving(world, &unmovable), 0));
}

#[test]
fn memory_onlined_later_counts() {
    two_zones(LINUX_6_18, false, |world| {
        world.online(PageRange::new(Pfn(BASE + 2048), 2048)).expect("the range is still a hole");
        (0..3).for_each(|zone| world.at(zone).set_watermarks(Watermarks::default(), [0; 4]));
        let pfn = world.alloc(&Request::new(Order::ZERO, Unmovable)).expect("memory");
        assert_eq!(world.zone_of(pfn).map(|zone| zone.number()), Some(1));
    });
}

/// The audit counts pageblocks by type, and finds one whose type was changed without the allocator.
#[test]
fn a_pageblock_that_was_not_counted_is_found() {
    let range = PageRange::new(Pfn(BASE), 4096);
    let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] };
    let spec = [spec];
    let config = Config::new(&spec, &[NodeId(0)]);
    let (common, size) = (config.metadata_size().expect("valid"), config.zone_metadata_size(0).expect("valid"));
    for (number, what) in [
        (HighAtomic as u8, "the pages of HIGHATOMIC pageblocks"),
        (MigrateType::Cma as u8, "the pages of CMA pageblocks"),
    ] {
        let tags: Vec<AtomicU8> = (0..size.tags).map(|_| AtomicU8::new(0)).collect();
        let words: Vec<AtomicU32> = (0..size.words).map(|_| AtomicU32::new(0)).collect();
        let pagesets: Vec<Pageset<SpinLock>> = (0..size.pagesets).map(|_| Pageset::default()).collect();
        let common: Vec<AtomicU32> = (0..common.words).map(|_| AtomicU32::new(0)).collect();
        let regions = [Region::default()];
        let metadata = ZoneMetadata { tags: &tags, words: &words, pagesets: &pagesets, regions: &regions };
        let mut zones = [CachedZone::new(metadata)];
        let metadata = Metadata { words: &common, zones: &mut zones };
        let world =
            Allocator::new(crate::support::TestMachine::default(), &config, metadata).expect("the map is valid");
        world.at(0).audit().expect("the audit passes");
        // The pageblocks' bytes follow the pages' tags. The type is in the lowest three bits, the lowest one inverted.
        // The third pageblock is the first of a block of order 10.
        let byte = &tags[4096 + 2];
        byte.store(byte.load(Relaxed) & !7 | number ^ 1, Relaxed);
        let Err(AuditError::Inconsistent(found)) = world.at(0).audit() else { panic!("it was not counted") };
        assert_eq!((found.what, found.expected, found.found), (what, 0, 512));
    }
}

/// An empty zone at the head of the zonelist is not the preferred zone.
#[test]
fn types_are_kept_apart_beside_a_node_without_memory() {
    let spans = [0, 4096, 8192].map(|start| PageRange::new(Pfn(BASE + start), 2048));
    let zone = |node, kind, span: usize, ranges| ZoneSpec { node: NodeId(node), kind, span: spans[span], ranges };
    let zones = [
        zone(1, ZoneKind::Dma32, 0, &spans[0..1]),
        zone(1, ZoneKind::Normal, 1, &spans[1..2]),
        zone(0, ZoneKind::Normal, 2, &[]),
    ];
    build(&Config { tuning: LINUX_6_18, ..Config::new(&zones, &[NodeId(0)]) }, |world| {
        for zone in 0..zones.len() {
            world.at(zone).set_watermarks(Watermarks::default(), [0; 4]);
            world.at(zone).set_bounds(Bounds::DISABLED).expect("room");
        }
        // A movable page in each pageblock of NORMAL.
        let request = Request { zone: Some(1), ..movable(0) };
        let pages: Vec<_> = std::iter::from_fn(|| world.alloc(&request).ok()).collect();
        pages.into_iter().filter(|pfn| pfn.0 % 512 != 0).for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let got = world.alloc(&Request::new(Order::ZERO, Unmovable)).expect("memory");
        assert_eq!(world.zone_of(got).map(|zone| zone.number()), Some(0), "DMA32, whose pageblocks are empty");
    });
}

/// Offline memory is not reserved.
#[test]
fn a_reserved_pageblock_that_goes_off_line_is_reserved_no_more() {
    for tuning in [LINUX_6_11, LINUX_6_18] {
        short(tuning, PAGES, |world| {
            let block = world.alloc(&urgent(4)).expect("memory");
            world.free(block, order(4)).expect("was allocated");
            assert_eq!(reserved(world), (512, 512));
            let pageblock = PageRange::new(block.align_down(Order::PAGEBLOCK), 512);
            world.offline(pageblock, &pageset::Immovable).expect("all of it is free");
            assert_eq!(reserved(world), (0, 0));
            world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
            while world.alloc(&movable(0)).is_ok() {}
            assert_eq!(world.at(0).stats().nr_free_pages, 0);
        });
    }
}
