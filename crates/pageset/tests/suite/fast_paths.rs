//! The fast path and the shortcuts of refills and drains match the general path: two allocators, one of which uses only
//! the general path, stay equal under any operations.

use crate::decode::RECORD;
use crate::ops::{Map, Op, Scenario};
use crate::support::{Behaving, Behaviour, Known, NO_HINT, World, movable, one_zone, presets};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::{Bounds, PRESETS, Preset};
use pageset::{
    Allocator, Block, Config, CpuId, MigrateType, NodeId, Order, PageRange, Pfn, Request, Tuning, ZoneKind, ZoneSpec,
};
use proptest::prelude::*;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The whole visible state of an allocator.
fn state(world: &World<'_>, cpus: u32) -> String {
    let mut text = String::new();
    for zone in 0..world.zones().len() {
        let _ = writeln!(text, "{:?}", world.at(zone).stats());
        for cpu in (0..cpus).map(CpuId) {
            let (state, lists) = (world.pageset(zone, cpu).state(), world.pageset(zone, cpu).lists());
            let _ = writeln!(text, "{state:?} {lists:?} {:?}", world.pageset(zone, cpu).stats());
        }
        for order in Order::all() {
            let blocks = MigrateType::ALL.map(|migratetype| world.at(zone).free_blocks(order, migratetype));
            let _ = write!(text, "{blocks:?}");
        }
    }
    text
}

/// The states after each operation.
fn states(scenario: &Scenario, generally: bool) -> Vec<String> {
    NO_HINT.set(generally);
    let mut states = vec![];
    scenario.run_with(|world, _| states.push(state(world, scenario.map.cpus().len() as u32)));
    NO_HINT.set(false);
    states
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    /// Under any rules, on any map.
    #[test]
    fn any_sequence_ends_the_same(
        // Mostly rules with a fast path.
        preset in prop_oneof![prop::sample::select(presets("linux-6.7", "")), prop::sample::select(PRESETS)],
        map in prop::sample::select(&Map::ALL[..]),
        records in prop::collection::vec(any::<[u8; RECORD]>(), 1..60),
    ) {
        let ops: Vec<_> = records.iter().map(|record| Op::decode(record)).collect();
        let scenario = Scenario { preset: preset.name, map, ops };
        let (fast, general) = (states(&scenario, false), states(&scenario, true));
        for (i, (fast, general)) in fast.iter().zip(&general).enumerate() {
            prop_assert!(fast == general, "after operation {i} of\n{scenario}\n{fast}\nbut generally\n{general}");
        }
    }
}

/// The allocated pages in order, and the final state. The patterns meet whole and partial refills, and drains of pages
/// in ascending, descending and random order.
fn pages(generally: bool) -> (Vec<Pfn>, String) {
    NO_HINT.set(generally);
    let result = one_zone(Tuning::default(), 1 << 16, 2, |world| {
        let mut seen = vec![];
        let mut held: Vec<Pfn> = vec![];
        let mut random = 1_u64;
        for round in 0..60 {
            world.machine().run_on(round % 2);
            for _ in 0..500 + 37 * round {
                held.extend(world.alloc(&movable(0)));
            }
            let mut bulk = [Pfn(0); 100];
            let got = world.alloc_bulk(&movable(0), &mut bulk).expect("memory");
            held.extend(&bulk[..got]);
            seen.extend(&held);
            match round % 5 {
                0 => held.reverse(),
                1 => held.sort_by_cached_key(|pfn| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(pfn.0);
                    random >> 33
                }),
                2 => held.sort(),
                _ => {}
            }
            let keep = held.len() / 4;
            let blocks: Vec<_> =
                held.split_off(keep).into_iter().map(|pfn| Block { pfn, order: Order::ZERO }).collect();
            let (single, together) = blocks.split_at(blocks.len() / 2);
            single.iter().for_each(|block| world.free(block.pfn, block.order).expect("was allocated"));
            world.free_bulk(together).expect("were allocated");
        }
        (seen, state(world, 2))
    });
    NO_HINT.set(false);
    result
}

#[test]
fn the_same_pages_come_in_the_same_order() {
    let (fast, general) = (pages(false), pages(true));
    assert_eq!(fast.0.len(), general.0.len());
    let differs = fast.0.iter().zip(&general.0).position(|(fast, general)| fast != general);
    assert_eq!(differs, None);
    assert_eq!(fast.1, general.1);
}

/// As [`pages`], with blocks of any cached order: blocks that a refill splits, and pairs of pageblocks that a drain
/// merges, some of them of two types.
fn blocks(order: u8, generally: bool) -> (Vec<Pfn>, String) {
    NO_HINT.set(generally);
    let result = one_zone(Tuning::default(), 1 << 17, 2, |world| {
        let freed_as = Order::new(order).expect("an order");
        let (mut seen, mut held, mut random) = (vec![], vec![], 1_u64);
        for round in 0..40_usize {
            world.machine().run_on(round as u32 % 2);
            let some = (0..(120 >> (order / 3)) + round % 5).filter_map(|_| world.alloc(&movable(order)).ok());
            held.extend(some);
            seen.extend(&held);
            match round % 4 {
                0 => held.reverse(),
                1 => held.sort_by_cached_key(|pfn: &Pfn| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(pfn.0);
                    random >> 33
                }),
                2 => held.sort(),
                _ => {}
            }
            for pfn in held.iter().skip(round % 5).take(40) {
                // Most pairs have one type, some have two.
                let pageblock = (pfn.0 >> 9) as usize;
                let differs = (pageblock.wrapping_mul(2_654_435_761) >> 7).is_multiple_of(4);
                let types = [MigrateType::Unmovable, MigrateType::Reclaimable, MigrateType::Movable];
                world
                    .set_pageblock_type(Pfn(pfn.0 & !511), types[(pageblock / 2 + usize::from(differs)) % 3])
                    .expect("the page is in the zone");
            }
            held.drain(held.len() / 4..).for_each(|pfn| world.free(pfn, freed_as).expect("was allocated"));
        }
        (seen, state(world, 2))
    });
    NO_HINT.set(false);
    result
}

#[test]
fn blocks_of_every_cached_order_come_in_the_same_order() {
    for order in [0, 1, 2, 3, 9] {
        let (fast, general) = (blocks(order, false), blocks(order, true));
        let differs = fast.0.iter().zip(&general.0).position(|(fast, general)| fast != general);
        assert_eq!((differs, fast.0.len()), (None, general.0.len()), "order {order}");
        assert_eq!(fast.1, general.1, "order {order}");
    }
}

/// The states after each of some frees and the following allocations, with tight bounds.
fn around_high(preset: &Preset, order: u8, generally: bool) -> Vec<String> {
    NO_HINT.set(generally);
    let states = one_zone(preset.tuning, 1 << 16, 1, |world| {
        world
            .at(0)
            .set_bounds(Bounds { batch: 4, high_min: 8 << order, high_max: (40 << order).min(8000) })
            .expect("room");
        let blocks: Vec<_> = (0..48).map(|_| world.alloc(&movable(order)).expect("memory")).collect();
        let freed = blocks.iter().map(|&pfn| {
            world.free(pfn, Order::new(order).expect("an order")).expect("was allocated");
            state(world, 1)
        });
        let mut states: Vec<_> = freed.collect();
        states.extend((0..48).map(|_| {
            world.alloc(&movable(order)).expect("memory");
            state(world, 1)
        }));
        states
    });
    NO_HINT.set(false);
    states
}

/// The drain comes at the same free, not one later.
#[test]
fn drains_come_at_the_same_free() {
    for preset in presets("linux-6.7", "") {
        for order in [0, 1, 3, 9] {
            let (fast, general) = (around_high(preset, order, false), around_high(preset, order, true));
            let differs = fast.iter().zip(&general).position(|(fast, general)| fast != general);
            assert_eq!(differs, None, "{}, order {order}", preset.name);
        }
    }
}

/// A machine that counts how often it is asked for the CPU: only the general path asks, the fast path takes the hint.
#[derive(Default)]
struct Asked(AtomicU32);

impl Behaviour for Asked {
    fn cpu(&self) -> CpuId {
        self.0.fetch_add(1, Relaxed);
        CpuId(0)
    }

    fn cpu_hint(&self) -> u32 {
        0
    }
}

/// A page of a CMA or HIGHATOMIC pageblock is on a list of movable pages.
#[test]
fn frees_into_reserved_pageblocks_take_the_fast_path() {
    for migratetype in [MigrateType::Cma, MigrateType::HighAtomic] {
        for order in [0, 3, 9] {
            let lists = |generally| {
                NO_HINT.set(generally);
                let after = one_zone(Tuning::default(), 1 << 16, 1, |world| {
                    let block = world.alloc(&movable(order)).expect("memory");
                    world.set_pageblock_type(Pfn(block.0 & !511), migratetype).expect("in the zone");
                    world.free(block, Order::new(order).expect("an order")).expect("in use");
                    state(world, 1)
                });
                NO_HINT.set(false);
                after
            };
            assert_eq!(lists(false), lists(true), "{migratetype:?}, order {order}");
        }
    }
}

#[test]
fn a_hit_and_a_free_take_the_fast_path_also_in_a_zone_of_several_types() {
    for migratetype in [MigrateType::Movable, MigrateType::Unmovable] {
        let range = PageRange::new(Pfn(1 << 20), 1 << 18);
        let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
        let config = Config::new(&zones, &[NodeId(0)]);
        let metadata = OwnedMetadata::new(&config).expect("memory");
        let (mut zones, asked) = (metadata.zones(), Asked::default());
        let world = Allocator::new(Behaving(&asked), &config, metadata.lend(&mut zones)).expect("a good map");
        let request = Request::new(Order::ZERO, migratetype);
        let first = world.alloc(&request).expect("memory");
        let before = asked.0.load(Relaxed);
        let page = world.alloc(&request).expect("memory");
        world.free(page, Order::ZERO).expect("in use");
        assert_eq!(asked.0.load(Relaxed), before, "{migratetype:?}");
        world.free(first, Order::ZERO).expect("in use");
        // So do bulk frees of blocks of one order and type.
        for order in [Order::ZERO, Order::COSTLY] {
            let request = Request { order, ..request };
            let blocks: Vec<_> = (0..16).map(|_| world.alloc(&request).map(|pfn| Block { pfn, order })).collect();
            let blocks: Result<Vec<_>, _> = blocks.into_iter().collect();
            let before = asked.0.load(Relaxed);
            world.free_bulk(&blocks.expect("memory")).expect("in use");
            assert_eq!(asked.0.load(Relaxed), before, "{migratetype:?}, order {order:?}");
        }
    }
}
