//! The default rules compared with those of Linux 6.18, on which they are based: four defects of 6.18, and their
//! absence.

use std::collections::{HashSet, VecDeque};

use crate::support::{Known, World, build, movable, one_zone};
use pageset::policy::presets::{LINUX_6_18, PAGESET};
use pageset::policy::sizes::ZoneSize;
use pageset::policy::{Backing, Bounds, BulkFree, HighRule, Holds, ListRule, RegionRule, Tuning, Watermarks};
use pageset::{Config, CpuId, MigrateType, NodeId, Order, PageRange, Pfn, Request, ZoneKind, ZoneSpec};

const BOTH: [Tuning; 2] = [LINUX_6_18, PAGESET];

#[test]
fn the_default_is_6_18_but_for_these_rules() {
    let holds = Holds::Short { depot: true, bitmaps: true };
    assert_eq!(Tuning::default().backing, Backing::Regions { count: RegionRule::PerCpu, holds });
    assert_eq!(Tuning::default().lists, ListRule::AllOrders);
    assert!(Tuning::default().double_blocks);
    let Tuning { below_high_by_pages, below_high_at_tick, expire_all, bulk_counts, long_runs, whole_blocks, .. } =
        Tuning::default();
    assert!(below_high_by_pages && below_high_at_tick && expire_all && bulk_counts && long_runs && whole_blocks);
    let as_was = Tuning {
        below_high_by_pages: false,
        below_high_at_tick: false,
        expire_all: false,
        bulk_counts: false,
        long_runs: false,
        whole_blocks: false,
        drain_for_requests: false,
        batch_scale_max: 5,
        block_scale_max: 6,
        kept_fraction: 0,
        backing: Backing::Kernel(BulkFree::SinglePass),
        lists: ListRule::HugeByMobility,
        double_blocks: false,
        batch_blocks: 0,
        high_share: 0,
        cache_slice_batches: 3,
        ..PAGESET
    };
    assert_eq!((Tuning::default(), as_was), (PAGESET, LINUX_6_18));
}

/// Half of the zone is free, in single pages. A request for a huge page finds none, and the zone is far above its
/// marks.
#[test]
fn a_missing_order_is_no_page_shortage() {
    let below_high = BOTH.map(|tuning| {
        one_zone(tuning, 8192, 1, |world| {
            world.at(0).set_bounds(Bounds::DISABLED).expect("room");
            let mut pages = vec![];
            while let Ok(pfn) = world.alloc(&Request { watermarks: false, ..movable(0) }) {
                pages.push(pfn);
            }
            world.at(0).set_below_high(false);
            pages.iter().step_by(2).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
            world.alloc(&movable(9)).expect_err("no huge page is free");
            world.at(0).stats().below_high
        })
    });
    assert_eq!(below_high, [true, false]);
}

/// A shortage of pages is detected by requests of every order.
#[test]
fn every_order_detects_a_page_shortage() {
    for (tuning, order) in BOTH.into_iter().flat_map(|tuning| [(tuning, 0), (tuning, 9)]) {
        one_zone(tuning, 8192, 1, |world| {
            world.at(0).set_watermarks(Watermarks { min: 10, low: 20, high: 8192 }, [0; ZoneKind::COUNT]);
            world.alloc(&movable(order)).expect("there is enough above the low mark");
            assert!(world.at(0).stats().below_high, "order {order}");
        });
    }
}

/// A short shortage, after which no CPU frees.
#[test]
fn a_tick_clears_below_high() {
    let below_high = BOTH.map(|tuning| {
        one_zone(tuning, 8192, 1, |world| {
            world.at(0).set_below_high(true);
            world.tick();
            world.at(0).stats().below_high
        })
    });
    assert_eq!(below_high, [true, false]);
    one_zone(PAGESET, 8192, 1, |world| {
        world.at(0).set_watermarks(Watermarks { min: 10, low: 20, high: 8192 }, [0; ZoneKind::COUNT]);
        world.at(0).set_below_high(true);
        world.tick();
        assert!(world.at(0).stats().below_high, "it is not over");
    });
}

/// 200 idle pages of another node.
#[test]
fn all_idle_remote_pages_are_drained() {
    let ranges = [1, 2].map(|at| [PageRange::new(Pfn(at << 20), 1 << 18)]);
    let zone = |node: usize| ZoneSpec {
        node: NodeId(node as u32),
        kind: ZoneKind::Normal,
        span: ranges[node][0],
        ranges: &ranges[node],
    };
    let left = BOTH.map(|tuning| {
        let specs = [zone(0), zone(1)];
        build(&Config { tuning, pageset_capacity: 4000, ..Config::new(&specs, &[NodeId(0), NodeId(1)]) }, |world| {
            world.at(1).set_bounds(Bounds { batch: 63, high_min: 2000, high_max: 2000 }).expect("room");
            let request = Request { node: Some(NodeId(1)), ..movable(0) };
            let held: Vec<_> = (0..200).map(|_| world.alloc(&request).expect("memory")).collect();
            held.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
            let before = world.pageset(1, CpuId(0)).state().count;
            (0..6).for_each(|_| _ = world.tick());
            before - world.pageset(1, CpuId(0)).state().count
        })
    });
    assert_eq!(left[0], 2 * 63, "the kernels' rule: a batch every third tick");
    assert!(left[1] >= 200);
}

/// A CPU that allocates in bulk and frees single pages does not count as a CPU that only frees.
#[test]
fn bulk_allocations_end_frees_in_a_row() {
    let freed = |world: &World<'_>| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 252, high_max: 252 }).expect("room");
        let pages: Vec<_> = (0..100).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        world.alloc_bulk(&movable(0), &mut [Pfn(0); 4]).expect("memory");
        world.pageset(0, CpuId(0)).state().free_count
    };
    assert_eq!(BOTH.map(|tuning| one_zone(tuning, 8192, 1, freed)), [100, 100 >> 4]);
}

/// Two pageblocks that a drain finds next to each other go to the buddy as one block, if they form one; others one by one. Both
/// ways all memory is there again.
#[test]
fn pairs_of_pageblocks_drain_as_one() {
    let huge = Order::PAGEBLOCK;
    one_zone(PAGESET, 1 << 16, 1, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let drained_pages = |freed: &dyn Fn(&[Pfn]) -> Vec<Pfn>| {
            world.drain_all();
            let large = world.at(0).free_blocks(Order::MAX, pageset::MigrateType::Movable);
            world.at(0).set_bounds(Bounds { batch: 63, high_min: 8000, high_max: 8000 }).expect("room");
            let blocks: Vec<_> = (0..4)
                .map(|_| world.alloc(&Request::new(huge, pageset::MigrateType::Movable)).expect("memory"))
                .collect();
            assert!(blocks.chunks(2).all(|pair| pair[0].0 ^ 512 == pair[1].0), "pairs: {blocks:?}");
            for pfn in freed(&blocks) {
                world.free(pfn, huge).expect("in use");
            }
            assert_eq!(world.pageset(0, CpuId(0)).state().count, 2048, "all wait in the pageset");
            world.drain_all();
            let books = world.at(0).audit().expect("the audit passes");
            assert_eq!((books.in_use, world.at(0).stats().nr_free_pages), (0, 1 << 16));
            assert_eq!(
                world.at(0).free_blocks(Order::MAX, pageset::MigrateType::Movable),
                large,
                "all pairs have merged"
            );
        };
        drained_pages(&|blocks| blocks.to_vec());
        drained_pages(&|blocks| vec![blocks[0], blocks[2], blocks[1], blocks[3]]);
        drained_pages(&|blocks| vec![blocks[3], blocks[2], blocks[1], blocks[0]]);
    });
}

/// Fixed bounds are a range of high where high tunes itself, and one value where it does not.
#[test]
fn fixed_bounds() {
    let size = ZoneSize { managed: 1 << 20, low: 1 << 10, cpus: 4 };
    let tuning = Tuning { high: HighRule::Fixed { min: 300, max: 900 }, ..PAGESET };
    let bounds = |auto_high| Tuning { auto_high, ..tuning }.bounds(size, 0);
    assert_eq!((bounds(true).high_min, bounds(true).high_max), (300, 900));
    assert_eq!((bounds(false).high_min, bounds(false).high_max), (300, 300));
}

/// Eighteen lists with a block each in a pageset with seventeen chunks: the last free sends another list's blocks to the zone, and its own
/// block stays in the pageset.
#[test]
fn a_list_without_a_chunk_gets_that_of_another() {
    let ranges = [PageRange::new(Pfn(0), 1 << 16)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config { pageset_capacity: 190, ..Config::new(&zones, &[NodeId(0)]) };
    build(&config, |world| {
        world.at(0).set_bounds(Bounds { batch: 190, high_min: 190, high_max: 190 }).expect("room");
        let types = [MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable];
        let mut blocks = vec![];
        for (pageblock, migratetype) in types.into_iter().enumerate() {
            let first = Pfn(512 * pageblock as u64);
            world.set_pageblock_type(first, migratetype).expect("in the zone");
            for order in (0..6).map(|order| Order::new(order).expect("an order")) {
                let pfn = first.offset(order.pages());
                assert!(world.alloc_at(pfn, order));
                blocks.push((pfn, order));
            }
        }
        let free = |&(pfn, order): &(Pfn, Order)| world.free(pfn, order).expect("in use");
        blocks[..17].iter().for_each(free);
        assert_eq!(
            (world.pageset(0, CpuId(0)).stats().drains, world.pageset(0, CpuId(0)).state().count),
            (0, 189 - 32)
        );
        free(&blocks[17]);
        let stats = world.pageset(0, CpuId(0)).stats();
        let count = world.pageset(0, CpuId(0)).state().count;
        assert_eq!((stats.drains, u64::from(count)), (1, 189 - stats.drain_pages));
    });
}

/// One CPU allocates pages, and another one frees them after 512 others, in runs of 1 to 512 pages. Pages are used again soon: the memory
/// that was ever touched stays small. The freeing CPU passes a page on after as many others as it keeps.
#[test]
fn pages_that_pass_from_cpu_to_cpu_touch_little_memory() {
    let touched = BOTH.map(|tuning| {
        one_zone(tuning, 1 << 18, 2, |world| {
            let (mut ring, mut touched, mut state) = (VecDeque::new(), HashSet::new(), 1_u64);
            let mut run = || {
                // A linear congruence. Constants: Knuth's.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                1 + (state >> 33) as usize % 512
            };
            for _ in 0..1000 {
                world.machine().run_on(0);
                for _ in 0..run().min(512 - ring.len()) {
                    ring.push_back(world.alloc(&movable(0)).expect("memory"));
                }
                touched.extend(ring.iter().copied());
                world.machine().run_on(1);
                for pfn in ring.drain(..run().min(ring.len())) {
                    world.free(pfn, Order::ZERO).expect("in use");
                }
            }
            touched.len()
        })
    });
    // 8 MiB. Four times the pages of the ring.
    assert!(touched[1] <= 2048, "{touched:?} pages");
}
