//! CPUs that go offline and online, and disabled pagesets: the pages kept, the pages drained, and the bounds of the
//! other CPUs. Specification 2.2, 8.1, 8.3.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::support::{Known, TestMachine, World, build, movable, one_zone};
use pageset::admin::audit::AuditError;
use pageset::pcp::Pageset;
use pageset::policy::presets::*;
use pageset::policy::{Bounds, PRESETS, PcpState, Tuning, Watermarks};
use pageset::{
    Allocator, Block, CachedZone, Config, CpuId, Free, FreeTo, HotplugError, MapError, Metadata, MigrateType, NodeId,
    Order, PageRange, Pfn, Region, Request, ZoneKind, ZoneMetadata, ZoneSpec,
};

const CPUS: u32 = 2;

/// A NORMAL zone of 4 GiB for each of `zones` nodes. The pagesets have room for all that one CPU may keep.
fn nodes(tuning: Tuning, zones: u32, cpus: &[u32], test: impl FnOnce(&World<'_>)) {
    let ranges: Vec<_> = (1..=zones).map(|node| [PageRange::new(Pfn(u64::from(node) << 20), 1 << 20)]).collect();
    let specs: Vec<_> = ranges
        .iter()
        .zip(0..)
        .map(|(ranges, node)| ZoneSpec { node: NodeId(node), kind: ZoneKind::Normal, span: ranges[0], ranges })
        .collect();
    let cpus: Vec<_> = cpus.iter().copied().map(NodeId).collect();
    build(&Config { tuning, pageset_capacity: 1 << 18, ..Config::new(&specs, &cpus) }, test)
}

fn bounds(world: &World<'_>, zone: usize, cpu: u32) -> Bounds {
    let PcpState { batch, high_min, high_max, .. } = world.pageset(zone, CpuId(cpu)).state();
    Bounds { batch, high_min, high_max }
}

fn count(world: &World<'_>, zone: usize, cpu: u32) -> u32 {
    world.pageset(zone, CpuId(cpu)).state().count
}

/// Pages in the pageset of CPU `cpu`, all of one type.
fn cache(world: &World<'_>, cpu: u32, pages: usize) {
    world.machine().run_on(cpu);
    let held: Vec<_> = (0..pages).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
    held.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
    assert!(count(world, 0, cpu) > 0);
}

fn cached_orders(tuning: &Tuning) -> impl Iterator<Item = Order> {
    Order::all().filter(|&order| tuning.lists.list(order, MigrateType::Movable).is_some())
}

/// Every block freed on the CPU, by any call, goes to the buddy, and no allocation leaves pages behind.
fn passes_through(world: &World<'_>, cpu: u32, what: &str) {
    world.machine().run_on(cpu);
    for order in cached_orders(world.tuning()) {
        for migratetype in [MigrateType::Movable, MigrateType::Unmovable] {
            let request = Request::new(order, migratetype);
            let alloc = || {
                let pfn = world.alloc(&request).expect("memory");
                assert_eq!(count(world, 0, cpu), 0, "{what}, order {order}: a refill took more than was asked for");
                pfn
            };
            type FreeCall = fn(&World<'_>, Pfn, Order);
            let frees: [(&str, FreeCall); 3] = [
                ("free", |world, pfn, order| world.free(pfn, order).expect("allocated")),
                ("free_undrained", |world, pfn, order| {
                    world.free_with(Free::block(pfn, order).to(FreeTo::PagesetUndrained)).expect("allocated")
                }),
                ("free_bulk", |world, pfn, order| world.free_bulk(&[Block { pfn, order }]).expect("allocated")),
            ];
            for (name, free) in frees {
                let blocks = [alloc(), alloc(), alloc()];
                for pfn in blocks {
                    let before = world.at(0).stats().nr_free_pages;
                    free(world, pfn, order);
                    assert_eq!(count(world, 0, cpu), 0, "{what}, {name}, order {order}");
                    assert_eq!(world.at(0).stats().nr_free_pages, before + order.pages(), "{what}, {name}");
                }
            }
        }
    }
    let mut pages = [Pfn(0); 100];
    assert_eq!(world.alloc_bulk(&movable(0), &mut pages), Ok(100));
    assert_eq!(count(world, 0, cpu), 0, "{what}, alloc_bulk");
    world.free_bulk(&pages.map(|pfn| Block { pfn, order: Order::ZERO })).expect("allocated");
    assert_eq!(count(world, 0, cpu), 0, "{what}, free_bulk");
    world.at(0).audit().expect("the audit passes");
}

#[test]
fn an_offline_cpu_keeps_nothing_and_the_others_more() {
    for preset in PRESETS {
        one_zone(preset.tuning, 1 << 16, CPUS as usize, |world| {
            let free = world.at(0).stats().nr_free_pages;
            (0..CPUS).for_each(|cpu| cache(world, cpu, 50));
            let kept = count(world, 0, 0);
            world.cpu_offline(CpuId(1)).expect("another is left");
            assert!(!world.is_cpu_online(CpuId(1)) && world.is_cpu_online(CpuId(0)));
            assert_eq!((count(world, 0, 0), count(world, 0, 1)), (kept, 0), "{}", preset.name);
            assert_eq!(world.at(0).stats().nr_free_pages, free - u64::from(kept), "{}", preset.name);
            world.at(0).audit().expect("the audit passes");
        });
    }
}

#[test]
fn bounds_follow_the_online_cpus() {
    let example = |high_min, high_max| Bounds { batch: 63, high_min, high_max };
    nodes(LINUX_6_18, 1, &[0; 2], |world| {
        // Specification 10.1: low mark 3096, shared by two; then by one.
        let running = PcpState { high: 9000, ..PcpState::default() };
        world.pageset(0, CpuId(0)).restore(&running);
        assert_eq!(bounds(world, 0, 0), example(1548, 65_536));
        world.cpu_offline(CpuId(1)).expect("another is left");
        assert_eq!(bounds(world, 0, 0), example(3096, 131_072));
        assert_eq!(bounds(world, 0, 1), Bounds::DISABLED);
        // An administrator's change affects the online CPUs at once, and the others when they come online.
        world.set_high_fraction(100).expect("10485 pages");
        assert_eq!(bounds(world, 0, 0), example(10_485, 10_485));
        assert_eq!(bounds(world, 0, 1), Bounds::DISABLED);
        assert_eq!(world.pageset(0, CpuId(0)).state().high, 9000, "high follows at its next use");
        world.cpu_online(CpuId(1)).expect("it was offline");
        assert_eq!([0, 1].map(|cpu| bounds(world, 0, cpu)), [example(5242, 5242); 2]);
        world.set_high_fraction(0).expect("the rules again");
        assert_eq!([0, 1].map(|cpu| bounds(world, 0, cpu)), [example(1548, 65_536); 2]);
    });
    // Two nodes with CPUs and one without: three CPUs, of which node 1 has one.
    nodes(LINUX_6_18, 3, &[0, 0, 1], |world| {
        let low = world.at(0).stats().watermarks.low as u32;
        let shared_by = |world: &World<'_>, zone, cpu: u32| {
            let PcpState { high_min, .. } = world.pageset(zone, CpuId(cpu)).state();
            (1..4).find(|n| high_min == (low / n).max(252)).expect("the low mark, shared")
        };
        assert_eq!([0, 1, 2].map(|zone| shared_by(world, zone, 0)), [2, 1, 3]);
        world.cpu_offline(CpuId(2)).expect("two are left");
        // Node 1 has no CPU any more, so all share its zone. Node 2 never had one.
        assert_eq!([0, 1, 2].map(|zone| shared_by(world, zone, 0)), [2, 2, 2]);
        world.cpu_offline(CpuId(0)).expect("one is left");
        assert_eq!([0, 1, 2].map(|zone| shared_by(world, zone, 1)), [1, 1, 1]);
        world.cpu_online(CpuId(2)).expect("it was offline");
        assert_eq!([0, 1, 2].map(|zone| shared_by(world, zone, 1)), [1, 1, 2]);
        world.cpu_online(CpuId(0)).expect("it was offline");
        assert_eq!([0, 1, 2].map(|zone| shared_by(world, zone, 0)), [2, 1, 3]);
    });
}

/// The capacity covers the bounds with all CPUs online, not the bounds of a single remaining CPU.
#[test]
fn the_last_cpu_keeps_no_more_than_its_pagesets_have_room_for() {
    one_zone(LINUX_6_18, 1 << 16, 8, |world| {
        let all = bounds(world, 0, 0);
        (1..8).for_each(|cpu| world.cpu_offline(CpuId(cpu)).expect("others are left"));
        let alone = bounds(world, 0, 0);
        // An eighth of the zone, shared by eight, with four batches and a block of each order on top.
        assert_eq!(all.high_max, (1 << 16) / 8 / 8);
        assert_eq!(alone, Bounds { high_max: all.high_max + 4 * all.batch + 64, ..alone });
        let pages: Vec<_> = (0..20_000).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        for &pfn in &pages {
            world.free(pfn, Order::ZERO).expect("was allocated");
            assert!(count(world, 0, 0) <= alone.high_max);
        }
        world.set_high_fraction(8).expect("there is room with all CPUs online");
        assert_eq!(bounds(world, 0, 0).high_max, alone.high_max);
        world.at(0).audit().expect("the audit passes");
    });
}

#[test]
fn a_caller_on_an_offline_cpu_leaves_no_page_there() {
    for preset in PRESETS {
        one_zone(preset.tuning, 1 << 16, CPUS as usize, |world| {
            cache(world, 1, 50);
            world.machine().run_on(1);
            let late = world.alloc(&movable(0)).expect("memory");
            world.cpu_offline(CpuId(1)).expect("another is left");
            world.free(late, Order::ZERO).expect("was allocated");
            assert_eq!(count(world, 0, 1), 0, "{}", preset.name);
            passes_through(world, 1, preset.name);
            // Settings and restored states meanwhile do not change that.
            let bounds = Bounds { batch: 4, high_min: 40, high_max: 40 };
            world.at(0).set_bounds(bounds).expect("room");
            world.pageset(0, CpuId(1)).restore(&PcpState { high: 100, ..PcpState::default() });
            world.recompute();
            world.tick();
            passes_through(world, 1, preset.name);
            world.cpu_online(CpuId(1)).expect("it was offline");
            cache(world, 1, 50);
        });
    }
}

#[test]
fn invalid_cpu_changes_are_errors() {
    one_zone(Tuning::default(), 1 << 16, 3, |world| {
        world.cpu_offline(CpuId(2)).expect("two are left");
        world.cpu_offline(CpuId(0)).expect("one is left");
        let states = || [0, 1, 2].map(|cpu| (world.is_cpu_online(CpuId(cpu)), bounds(world, 0, cpu)));
        let before = states();
        for (result, error, message) in [
            (
                world.cpu_offline(CpuId(1)),
                HotplugError::LastCpu(CpuId(1)),
                "cannot take CPU 1 offline: it is the last online CPU",
            ),
            (
                world.cpu_offline(CpuId(0)),
                HotplugError::Offline(CpuId(0)),
                "cannot take CPU 0 offline: it is offline already",
            ),
            (
                world.cpu_online(CpuId(1)),
                HotplugError::Online(CpuId(1)),
                "cannot bring CPU 1 online: it is online already",
            ),
            (
                world.cpu_online(CpuId(3)),
                HotplugError::NoSuchCpu { cpu: CpuId(3), possible: 3 },
                "cannot change CPU 3: it is not possible; allowed: below 3",
            ),
            (
                world.cpu_offline(CpuId(u32::MAX)),
                HotplugError::NoSuchCpu { cpu: CpuId(u32::MAX), possible: 3 },
                "cannot change CPU 4294967295: it is not possible; allowed: below 3",
            ),
            (
                world.at(0).enable_pagesets(),
                HotplugError::PagesetsEnabled { zone: 0 },
                "cannot enable the pagesets of zone 0: they are not disabled",
            ),
        ] {
            assert_eq!(result, Err(error));
            assert_eq!(error.to_string(), message);
            assert_eq!(states(), before, "{message}");
        }
        assert!(!world.is_cpu_online(CpuId(3)) && !world.is_cpu_online(CpuId(u32::MAX)));
    });
}

/// More CPUs than one word of the set holds, and the zoneinfo view of them.
#[test]
fn each_of_many_cpus_goes_and_comes_alone() {
    one_zone(Tuning::default(), 1 << 14, 70, |world| {
        for cpu in [0, 31, 32, 63, 64, 69] {
            world.cpu_offline(CpuId(cpu)).expect("others are left");
            let offline: Vec<_> = (0..80).filter(|&cpu| !world.is_cpu_online(CpuId(cpu))).collect();
            assert_eq!(offline, [cpu].into_iter().chain(70..80).collect::<Vec<_>>());
            let shown = world.zoneinfo().to_string();
            assert_eq!(shown.matches("    cpu: ").count(), 69);
            assert!(!shown.contains(&format!("    cpu: {cpu}\n")));
            world.cpu_online(CpuId(cpu)).expect("it was offline");
        }
    });
}

/// By hand: a disabled pageset has batch 1 and high 0, so each allocation and each free takes the zone lock.
#[test]
fn a_disabled_pageset_by_hand() {
    nodes(LINUX_6_18, 1, &[0; 2], |world| {
        world.machine().run_on(0);
        let holds = || {
            let stats = world.at(0).stats();
            (stats.lock_refill, stats.pagesets.refill_pages, stats.lock_drain, stats.pagesets.drain_pages)
        };
        let pages: Vec<_> = (0..10).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        assert_eq!((holds(), count(world, 0, 0)), ((1, 63, 0, 0), 53));
        // 53 pages in holds of batch << 5, which is 32 now.
        world.at(0).disable_pagesets();
        assert_eq!((holds(), count(world, 0, 0)), ((1, 63, 2, 53), 0));
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
        assert_eq!((holds(), count(world, 0, 0)), ((1, 63, 12, 63), 0));
        let pages: Vec<_> = (0..10).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        assert_eq!((holds(), count(world, 0, 0)), ((11, 73, 12, 63), 0));
        world.at(0).enable_pagesets().expect("disabled once");
        assert_eq!(bounds(world, 0, 0), Bounds { batch: 63, high_min: 1548, high_max: 65_536 });
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
        assert_eq!((holds(), count(world, 0, 0)), ((11, 73, 12, 63), 10), "the pageset keeps pages again");
    });
}

/// The batch of an offline CPU is 1, which with short holds is no bound of what a hold drains.
#[test]
fn an_offline_cpu_is_emptied_in_few_holds() {
    nodes(PAGESET, 1, &[0; 2], |world| {
        cache(world, 0, 3000);
        let drains = || world.pageset(0, CpuId(0)).stats().drains;
        let (pages, before) = (count(world, 0, 0), drains());
        assert!(pages > 1000, "{pages}");
        world.machine().run_on(1);
        world.cpu_offline(CpuId(0)).expect("another is online");
        let holds = drains() - before;
        assert!(count(world, 0, 0) == 0 && holds <= u64::from(pages.div_ceil(512)) + 1, "{holds} for {pages} pages");
    });
}

#[test]
fn only_the_last_enable_ends_a_disable() {
    for preset in PRESETS {
        one_zone(preset.tuning, 1 << 16, CPUS as usize, |world| {
            let enabled = bounds(world, 0, 0);
            let disabled = |what: &str| {
                for cpu in 0..CPUS {
                    assert_eq!(bounds(world, 0, cpu), Bounds::DISABLED, "{}, {what}", preset.name);
                    passes_through(world, cpu, preset.name);
                }
            };
            (0..CPUS).for_each(|cpu| cache(world, cpu, 50));
            world.at(0).disable_pagesets();
            assert_eq!(world.at(0).stats().pagesets.count, 0, "{}", preset.name);
            disabled("once");
            world.at(0).disable_pagesets();
            disabled("twice");
            world.at(0).enable_pagesets().expect("disabled twice");
            disabled("once again");
            world.recompute();
            disabled("marks recomputed");
            world.set_high_fraction(0).expect("allowed");
            disabled("fraction set");
            let by_hand = world.at(0).set_bounds(Bounds { batch: 4, high_min: 40, high_max: 40 });
            let error = by_hand.expect_err("disabled");
            assert_eq!(error, MapError::PagesetsDisabled { zone: 0 });
            assert_eq!(error.to_string(), "the pagesets of zone 0 are disabled; enable them first");
            disabled("bounds refused");
            world.pageset(0, CpuId(0)).restore(&PcpState { high: 100, ..PcpState::default() });
            disabled("state restored");
            world.cpu_offline(CpuId(1)).expect("one is left");
            world.cpu_online(CpuId(1)).expect("it was offline");
            disabled("CPU came");
            world.at(0).enable_pagesets().expect("disabled once");
            assert_eq!([0, 1].map(|cpu| bounds(world, 0, cpu)), [enabled; 2], "{}", preset.name);
            (0..CPUS).for_each(|cpu| cache(world, cpu, 50));
            assert_eq!(world.at(0).enable_pagesets(), Err(HotplugError::PagesetsEnabled { zone: 0 }));
        });
    }
}

/// Only the zone's own pagesets are disabled.
#[test]
fn one_zone_of_two_is_disabled() {
    nodes(LINUX_6_18, 2, &[0, 1], |world| {
        world.machine().run_on(0);
        let here = Request { this_node_only: true, ..movable(0) };
        let there = Request { node: Some(NodeId(1)), ..here };
        let pages = [here, there].map(|request| world.alloc(&request).expect("memory"));
        assert_eq!([0, 1].map(|zone| count(world, zone, 0)), [62, 62]);
        world.at(1).disable_pagesets();
        assert_eq!([0, 1].map(|zone| count(world, zone, 0)), [62, 0]);
        pages.iter().for_each(|&pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
        assert_eq!([0, 1].map(|zone| count(world, zone, 0)), [63, 0]);
    });
}

/// Marks set by hand change bounds only when they are computed; a disabled zone is no exception.
#[test]
fn marks_that_change_while_disabled_count_afterwards() {
    nodes(LINUX_6_18, 1, &[0; 2], |world| {
        world.at(0).disable_pagesets();
        world.at(0).set_watermarks(Watermarks { min: 1000, low: 8000, high: 9000 }, [0; ZoneKind::COUNT]);
        assert_eq!(bounds(world, 0, 0), Bounds::DISABLED);
        world.at(0).enable_pagesets().expect("disabled");
        assert_eq!(bounds(world, 0, 0), Bounds { batch: 63, high_min: 4000, high_max: 65_536 });
    });
}

/// The audit finds an offline CPU with pages: planted by clearing its bit in the set.
#[test]
fn an_offline_cpu_with_pages_is_found() {
    let ranges = [PageRange::new(Pfn(0), 1 << 14)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config::new(&zones, &[NodeId(0); 2]);
    let (common, size) = (config.metadata_size().expect("valid"), config.zone_metadata_size(0).expect("valid"));
    let tags: Vec<_> = (0..size.tags).map(|_| AtomicU8::new(0)).collect();
    let words: Vec<_> = (0..size.words).map(|_| AtomicU32::new(0)).collect();
    let pagesets: Vec<_> = (0..size.pagesets).map(|_| Pageset::default()).collect();
    let common: Vec<_> = (0..common.words).map(|_| AtomicU32::new(0)).collect();
    let regions = [Region::default()];
    let metadata = ZoneMetadata { tags: &tags, words: &words, pagesets: &pagesets, regions: &regions };
    let mut zones = [CachedZone::new(metadata)];
    let metadata = Metadata { words: &common, zones: &mut zones };
    let world = Allocator::new(TestMachine::default(), &config, metadata).expect("the map is valid");
    // The word of the set is the one that changes when an idle CPU goes offline.
    let picture = || common.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>();
    let before = picture();
    world.cpu_offline(CpuId(1)).expect("another is left");
    let changed: Vec<_> = before.iter().zip(picture()).enumerate().filter(|(_, (old, new))| *old != new).collect();
    let [(at, (&both, first))] = changed[..] else { panic!("{changed:?}") };
    assert_eq!((both, first), (3, 1));
    world.cpu_online(CpuId(1)).expect("it was offline");
    cache(&world, 1, 50);
    let kept = count(&world, 0, 1);
    common[at].store(first, Relaxed);
    let Err(AuditError::Inconsistent(error)) = world.at(0).audit() else { panic!("CPU 1 has pages") };
    assert_eq!((error.expected, error.found), (0, u64::from(kept.max(bounds(&world, 0, 1).high_max))));
    assert!(error.to_string().contains("disabled or of an offline CPU"), "{error}");
    common[at].store(both, Relaxed);
    world.at(0).audit().expect("the audit passes");
}

/// An owner that panics ends the call, not the zone's pagesets.
#[test]
fn pagesets_are_enabled_again_where_the_owner_panics() {
    struct Panics;
    impl pageset::Owner for Panics {
        fn isolate(&self, _pfn: Pfn) -> Option<Order> {
            panic!("planned")
        }

        fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), pageset::MoveError> {
            unreachable!("nothing is isolated")
        }

        fn put_back(&self, _pfn: Pfn, _order: Order) {}
    }
    one_zone(LINUX_6_18, 8 * 512, 1, |world| {
        let before = bounds(world, 0, 0);
        let pfn = world.alloc(&movable(0)).expect("memory");
        let offline = || world.offline(PageRange::new(pfn.align_down(Order::PAGEBLOCK), 512), &Panics);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(offline)).expect_err("planned");
        assert_eq!(world.at(0).enable_pagesets(), Err(HotplugError::PagesetsEnabled { zone: 0 }));
        assert_eq!((bounds(world, 0, 0), world.pageblock_type(pfn)), (before, Some(MigrateType::Movable)));
        world.free(pfn, Order::ZERO).expect("still in use");
        world.at(0).audit().expect("the audit passes");
    });
}
