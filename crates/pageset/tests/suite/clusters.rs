//! Skipped merging and order-0 clusters. Specification 6.

use crate::support::{Behaving, Behaviour, Known, World, movable, one_zone};
use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::{Access, Line};
use pageset::policy::presets::*;
use pageset::policy::{Backing, BatchRule, Bounds, BulkFree, ClusterRule, Tuning};
use pageset::{
    Allocator, CompactMode, Config, CpuId, Free, FreeTo, Immovable, LockPath, MigrateType, NodeId, Order, PageRange,
    Pfn, Request, ZoneKind, ZoneSpec,
};
use std::cell::{Cell, RefCell};

use MigrateType::{Movable, Unmovable};

/// The first page of the zone.
const BASE: u64 = 1 << 20;

/// A zone with all its pages allocated as single pages. Refills and drains move `batch` pages; high is `high`.
fn taken(tuning: Tuning, pages: u64, batch: u32, high: u32, test: impl FnOnce(&World<'_>)) {
    // The zone-size formula gives such small zones no clusters.
    let tuning = Tuning { batch: BatchRule::Fixed(batch.max(2)), ..tuning };
    one_zone(tuning, pages, 1, |world| {
        world.at(0).set_watermarks(Default::default(), [0; 4]);
        world.at(0).set_bounds(Bounds { batch, high_min: high, high_max: high }).expect("the pagesets have room");
        take(world, pages);
        test(world);
        world.at(0).audit().expect("the audit passes");
    });
}

/// Allocates single pages. Returns their page indexes in the zone.
fn take(world: &World<'_>, pages: u64) -> Vec<u64> {
    // No marks, since they would reserve pages that the pageset holds when the zone is empty.
    let request = Request { watermarks: false, ..movable(0) };
    (0..pages).map(|_| world.alloc(&request).expect("memory").0 - BASE).collect()
}

/// Frees single pages without the pagesets, by their page indexes in the zone.
fn free(world: &World<'_>, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        world.free_with(Free::block(Pfn(BASE + page), Order::ZERO).to(FreeTo::Buddy)).expect("was allocated");
    }
}

/// Free blocks by order.
fn blocks(world: &World<'_>, migratetype: MigrateType) -> Vec<(u8, u32)> {
    Order::all()
        .map(|of| (of.get(), world.at(0).free_blocks(of, migratetype)))
        .filter(|(_, blocks)| *blocks > 0)
        .collect()
}

#[test]
fn merging_is_skipped_until_requested() {
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, 0..1024);
        assert_eq!(blocks(world, Movable), [(0, 1024)]);
        assert_eq!(world.at(0).stats().merge_skips, 1024);
        world.at(0).audit().expect("unmerged pairs are valid while merging is skipped");
        assert_eq!(world.at(0).merge_skipped(), 512);
        assert_eq!(blocks(world, Movable), [(10, 1)]);
        assert_eq!(world.at(0).merge_skipped(), 0);
    });
    taken(LINUX_4_16, 1024, 31, 62, |world| {
        free(world, 0..1024);
        assert_eq!((blocks(world, Movable), world.at(0).merge_skipped()), (vec![(10, 1)], 0));
    });
}

#[test]
fn a_request_for_a_high_order_merges() {
    for of in [1, 4, 10] {
        taken(MERGE_SKIP, 2048, 31, 62, |world| {
            free(world, (0..2048).rev());
            assert_eq!(blocks(world, Movable), [(0, 2048)]);
            assert_eq!(world.alloc(&movable(of)).expect("all is free").0 % (1 << of), 0, "order {of}");
        });
    }
    // A request for a single page never merges. If merging yields no block, the request fails as before.
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, (0..1024).step_by(2));
        let before = stats(world).lock_map;
        world.alloc(&movable(0)).expect("memory");
        assert_eq!(stats(world).lock_map, before, "only the requested page was read");
        world.alloc(&movable(1)).expect_err("no two pages are side by side");
        assert!(stats(world).lock_map > before);
    });
}

#[test]
fn only_single_pages_skip_and_only_whole_pairs_merge() {
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, [2, 3, 0, 5, 6]);
        assert_eq!(blocks(world, Movable), [(0, 5)]);
        // 2 and 3 are free buddies; of 0 and 1, 4 and 5, 6 and 7 only one is free.
        assert_eq!(world.at(0).merge_skipped(), 1);
        assert_eq!(blocks(world, Movable), [(0, 3), (1, 1)]);
        // The next free skips merging again: 1 joins neither 0 nor the block 2-3.
        free(world, [1]);
        assert_eq!(blocks(world, Movable), [(0, 4), (1, 1)]);
        assert_eq!(world.at(0).merge_skipped(), 1);
        assert_eq!(blocks(world, Movable), [(0, 2), (2, 1)]);
    });
}

#[test]
fn pages_moved_to_another_type_merge_as_well() {
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, 0..512);
        world.set_pageblock_type(Pfn(BASE), Unmovable).expect("the page is in the zone");
        assert_eq!(blocks(world, Unmovable), [(0, 512)]);
        assert_eq!(world.at(0).merge_skipped(), 256);
        assert_eq!(blocks(world, Unmovable), [(9, 1)]);
    });
}

#[test]
fn skipped_pages_come_last_in_first_out() {
    taken(MERGE_SKIP, 1024, 4, 16, |world| {
        free(world, [10, 700, 11, 44]);
        assert_eq!(take(world, 4), [44, 11, 700, 10]);
        assert_eq!(world.at(0).stats().pagesets.refills, 1024 / 4 + 1);
    });
}

fn stats(world: &World<'_>) -> pageset::admin::stats::ZoneStats {
    world.at(0).stats()
}

#[test]
fn a_refill_takes_whole_clusters() {
    for tuning in [CLUSTERS, CLUSTERS_FREE] {
        taken(tuning, 1024, 4, 16, |world| {
            // Clusters from the head on: 19 18, 17 to 14, 13 to 10.
            free(world, 10..20);
            let before = stats(world);
            // Two clusters for four wanted pages: all six come, in list order, under one hold.
            assert_eq!(take(world, 1), [19]);
            let after = stats(world);
            assert_eq!(after.cluster_alloc_pages - before.cluster_alloc_pages, 6);
            assert_eq!(after.pagesets.refill_pages - before.pagesets.refill_pages, 6);
            assert_eq!((after.pagesets.count, after.lock_refill - before.lock_refill), (5, 1));
            assert_eq!((after.nr_free_pages, blocks(world, Movable)), (4, vec![(0, 4)]));
            assert_eq!(take(world, 9), (10..19).rev().collect::<Vec<_>>());
            assert_eq!(stats(world).lock_refill - before.lock_refill, 2);
        });
    }
}

#[test]
fn pages_without_clusters_are_taken_one_by_one() {
    taken(CLUSTERS, 1024, 4, 16, |world| {
        free(world, 0..64);
        assert_eq!(world.at(0).merge_skipped(), 32);
        free(world, 70..73);
        let before = stats(world);
        assert_eq!(take(world, 4), [72, 71, 70, 0]);
        let after = stats(world);
        assert_eq!(after.cluster_alloc_pages - before.cluster_alloc_pages, 3);
        assert_eq!((after.lock_refill - before.lock_refill, after.pagesets.count), (2, 0));
        // Page 1 remained from the split and is a cluster of its own.
        assert_eq!(take(world, 4), [1, 2, 3, 4]);
        assert_eq!(stats(world).cluster_alloc_pages - after.cluster_alloc_pages, 1);
        // Without clusters one hold suffices.
        assert_eq!(world.at(0).merge_skipped(), 0);
        let holds = stats(world).lock_refill;
        assert_eq!(take(world, 3), [5, 6, 7]);
        assert_eq!(stats(world).lock_refill - holds, 2, "page 5 was a cluster");
        assert_eq!(take(world, 5), [8, 9, 10, 11, 12]);
    });
}

/// Frees single pages through the pageset.
fn free_cached(world: &World<'_>, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        world.free(Pfn(BASE + page), Order::ZERO).expect("was allocated");
    }
}

#[test]
fn a_full_batch_drains_as_one_cluster() {
    let on_5_18 = Tuning {
        backing: Backing::MergeSkip { bulk_free: BulkFree::SinglePass, clusters: ClusterRule::RefillsAndDrains },
        ..LINUX_5_18
    };
    for tuning in [CLUSTERS_FREE, on_5_18] {
        taken(tuning, 1024, 4, 8, |world| {
            free_cached(world, [100, 7, 300, 2]);
            assert_eq!(stats(world).pagesets.drains, 0);
            free_cached(world, [50, 60, 70, 80]);
            // The oldest four pages, the oldest of them last.
            let after = stats(world);
            assert_eq!((after.cluster_free_pages, after.merge_skips, after.nr_free_pages), (4, 4, 4));
            world.at(0).audit().expect("one cluster of four pages");
            assert_eq!(take(world, 8), [80, 70, 60, 50, 2, 300, 7, 100]);
            assert_eq!(stats(world).cluster_alloc_pages, 4);
        });
    }
    // Without the rule the same pages are freed to the same place, one by one.
    taken(CLUSTERS, 1024, 4, 8, |world| {
        free_cached(world, [100, 7, 300, 2, 50, 60, 70, 80]);
        assert_eq!((stats(world).cluster_free_pages, stats(world).merge_skips), (0, 4));
        assert_eq!(take(world, 8), [80, 70, 60, 50, 2, 300, 7, 100]);
    });
}

#[test]
fn only_a_full_batch_of_one_type_drains_as_a_cluster() {
    // Fewer than a batch.
    taken(CLUSTERS_FREE, 1024, 4, 8, |world| {
        free_cached(world, [1, 2, 3]);
        world.drain_all();
        assert_eq!((stats(world).cluster_free_pages, stats(world).nr_free_pages), (0, 3));
    });
    // More than one batch.
    taken(CLUSTERS_FREE, 1024, 4, 16, |world| {
        free_cached(world, 1..10);
        world.drain_all();
        assert_eq!((stats(world).cluster_free_pages, stats(world).nr_free_pages), (0, 9));
    });
    // Two types: the rule visits RECLAIMABLE, UNMOVABLE, MOVABLE in turn.
    taken(CLUSTERS_FREE, 1024, 4, 8, |world| {
        world.set_pageblock_type(Pfn(BASE), Unmovable).expect("the page is in the zone");
        free_cached(world, [600, 1, 601, 2, 602, 3, 603, 4]);
        let freed = (blocks(world, Unmovable), blocks(world, Movable));
        // Two of UNMOVABLE for the two lists passed, then one of MOVABLE. RECLAIMABLE is empty, so two of UNMOVABLE
        // follow.
        assert_eq!((stats(world).cluster_free_pages, freed), (0, (vec![(0, 3)], vec![(0, 1)])));
    });
    // High orders are needed, so the pages merge one by one.
    taken(CLUSTERS_FREE, 1024, 1, 1, |world| {
        free_cached(world, 0..4);
        assert_eq!(stats(world).cluster_free_pages, 0, "a batch of one page makes no cluster");
    });
}

/// Movable lists hold pages of pageblocks whose type has changed. Each drained page goes to the list of its pageblock's
/// type.
#[test]
fn drained_pages_go_to_their_pageblocks_lists() {
    for other in [MigrateType::Cma, MigrateType::HighAtomic, MigrateType::Isolate] {
        for late in [false, true] {
            // Pages of an isolated pageblock bypass the pageset, so the isolation can only come late.
            if other == MigrateType::Isolate && !late {
                continue;
            }
            taken(CLUSTERS_FREE, 1024, 4, 8, |world| {
                let retype = || world.set_pageblock_type(Pfn(BASE + 512), other).expect("the page is in the zone");
                if !late {
                    retype();
                }
                free_cached(world, [1, 600, 2, 3]);
                if late {
                    retype();
                }
                free_cached(world, [4, 5, 6, 7]);
                // Before 6.10 a page keeps the type of its free, unless its pageblock is isolated since.
                let misses = late && other != MigrateType::Isolate;
                let (own, theirs) = if misses { (4, 0) } else { (3, 1) };
                assert_eq!(stats(world).cluster_free_pages, own, "{other:?}, {late}");
                assert_eq!(world.at(0).free_blocks(Order::ZERO, other), theirs, "{other:?}, {late}");
                assert_eq!(world.at(0).free_blocks(Order::ZERO, Movable), own as u32, "{other:?}, {late}");
            });
            let by_drain = Tuning { type_at_drain: true, ..CLUSTERS_FREE };
            taken(by_drain, 1024, 4, 8, |world| {
                free_cached(world, [1, 600, 2, 3]);
                world.set_pageblock_type(Pfn(BASE + 512), other).expect("the page is in the zone");
                free_cached(world, [4, 5, 6, 7]);
                assert_eq!(stats(world).cluster_free_pages, 3, "{other:?}");
                assert_eq!(world.at(0).free_blocks(Order::ZERO, other), 1, "{other:?}");
            });
        }
    }
}

/// Clusters that exceed the pageset's capacity are not taken.
#[test]
fn a_full_pageset_takes_page_by_page() {
    use pageset::{Config, CpuId, NodeId, PageRange, ZoneKind, ZoneSpec};
    let ranges = [PageRange::new(Pfn(BASE), 4096)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { batch: BatchRule::Fixed(65), ..CLUSTERS };
    let config = Config { tuning, pageset_capacity: 1, ..Config::new(&zones, &[NodeId(0)]) };
    crate::support::build(&config, |world| {
        world.at(0).set_watermarks(Default::default(), [0; 4]);
        world.at(0).set_bounds(Bounds { batch: 65, high_min: 65, high_max: 65 }).expect("room for 65");
        let pages = take(world, 4096);
        free(world, pages.iter().copied().rev());
        for batch in [65, 64, 40, 30] {
            world.at(0).set_bounds(Bounds { batch, high_min: 65, high_max: 65 }).expect("room for 65");
            take(world, 100);
            assert!(world.pageset(0, CpuId(0)).state().count <= 65);
            world.at(0).audit().expect("the audit passes");
        }
        assert!(stats(world).cluster_alloc_pages > 0);
    });
}

/// A disabled pageset takes only the requested page.
#[test]
fn a_disabled_pageset_takes_one_page() {
    taken(CLUSTERS, 1024, 4, 16, |world| {
        free(world, 10..20);
        world.drain_all();
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        assert_eq!(take(world, 2), [19, 18]);
        assert_eq!((stats(world).pagesets.count, stats(world).cluster_alloc_pages), (0, 0));
    });
}

#[test]
fn clusters_use_metadata_only_when_enabled() {
    use pageset::{Config, NodeId, PageRange, ZoneKind, ZoneSpec};
    let words = |tuning, pages| {
        let ranges = [PageRange::new(Pfn(BASE), pages)];
        let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
        Config { tuning, ..Config::new(&zones, &[NodeId(0)]) }.zone_metadata_size(0).expect("the map is valid").words
    };
    let pages = 1 << 20;
    assert_eq!(words(MERGE_SKIP, pages), words(LINUX_4_16, pages));
    // One word per page, two per batch of 31.
    assert_eq!(words(CLUSTERS, pages) - words(LINUX_4_16, pages), (1 << 20) + 2 * (1_usize << 20).div_ceil(31));
    assert_eq!(words(CLUSTERS_FREE, pages), words(CLUSTERS, pages));
    // Batch 1.
    assert_eq!(words(CLUSTERS, 4096), words(LINUX_4_16, 4096));
}

thread_local! {
    static DRAINS: Cell<bool> = const { Cell::new(false) };
    static ACT: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Runs a hook at the first touch of a page after a drain has taken the zone lock: an action of another CPU at that
/// moment.
struct Meanwhile;

impl Behaviour for Meanwhile {
    fn probe(&self, access: Access) {
        match access {
            Access::ZoneLock { path, .. } => DRAINS.set(path == LockPath::Drain),
            Access::Touch(Line::Page(_)) if DRAINS.get() => {
                if let Some(act) = ACT.take() {
                    act();
                }
            }
            _ => {}
        }
    }
}

/// A batch drains as a cluster. Before its last page is read, a request of another CPU is deferred, which ends skipped
/// merging. The last page belongs on another list; its buddy already looks free, but is on no list.
#[test]
fn a_cluster_stays_whole_if_merging_resumes_during_its_drain() {
    let range = PageRange::new(Pfn(BASE), 64 * 512);
    let ranges: &[PageRange] = Box::leak(Box::new([range]));
    let zones = Box::leak(Box::new([ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges }]));
    let config = Config { tuning: CLUSTERS_FREE, ..Config::new(zones, &[NodeId(0)]) };
    let metadata = Box::leak(Box::new(OwnedMetadata::new(&config).expect("the map is valid")));
    let lent = Box::leak(Box::new(metadata.zones()));
    let world: &'static _ = Box::leak(Box::new(
        Allocator::new(Behaving(&Meanwhile), &config, metadata.lend(lent)).expect("the map is valid"),
    ));
    world.at(0).set_watermarks(Default::default(), [0; 4]);
    let pages: Vec<_> = std::iter::from_fn(|| world.alloc(&movable(0)).ok()).collect();
    pages
        .iter()
        .filter(|pfn| pfn.0 >= BASE + 2048 && pfn.0 % 2 == 0)
        .for_each(|&pfn| world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::Buddy)).expect("allocated"));
    // The compaction fails, so the next request is deferred, which ends skipped merging.
    let deferred = || world.compact(&movable(9), CompactMode::SyncLight, &Immovable);
    deferred();
    world.drain_all();
    let free = |page: u64| world.free(Pfn(BASE + page), Order::ZERO).expect("allocated");
    free(0);
    world.set_pageblock_type(Pfn(BASE), MigrateType::HighAtomic).expect("the page is in the zone");
    free(1);
    let batch = world.pageset(0, CpuId(0)).state().batch;
    (1..).step_by(2).take(batch as usize - 2).for_each(|page| free(1024 + page));
    assert_eq!(world.pageset(0, CpuId(0)).state().count, batch);
    let before = world.at(0).stats().cluster_free_pages;
    ACT.set(Some(Box::new(move || {
        world.compact(&movable(9), CompactMode::SyncLight, &Immovable);
    })));
    world.drain();
    assert!(ACT.take().is_none() && world.at(0).stats().cluster_free_pages > before);
    world.at(0).audit().expect("the audit passes");
}
