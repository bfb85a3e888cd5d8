//! Tests that need a zone's private words: merging while clusters are disabled or compaction is deferred, and planted
//! inconsistencies that the audit must find.

extern crate std;

use crate::admin::audit::AuditError;
use crate::alloc::owned::OwnedMetadata;
use crate::policy::BatchRule;
use crate::policy::presets::CLUSTERS;
use crate::zone::Zone;
use crate::zone::research::clusters::Cluster;
use crate::{
    Allocator, Config, CpuId, Free, FreeTo, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request, SpinLock,
    Tuning, ZoneKind, ZoneSpec,
};
use std::string::ToString;
use std::vec::Vec;

struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

const PAGES: u64 = 1024;

/// Runs a test on a zone with all pages allocated and batches of 4 pages.
fn taken(test: impl FnOnce(&Allocator<'_, OneCpu>, &Zone<'_, OneCpu>)) {
    let ranges = [PageRange::new(Pfn(0), PAGES)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { batch: BatchRule::Fixed(4), ..CLUSTERS };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(OneCpu, &config, metadata.lend(&mut zones)).expect("the map is valid");
    (0..PAGES).for_each(|_| assert!(take(&world) < PAGES));
    test(&world, &world.zones[0].shared);
}

fn take(world: &Allocator<'_, OneCpu>) -> u64 {
    let request = Request { watermarks: false, ..Request::new(Order::ZERO, MigrateType::Movable) };
    world.alloc(&request).expect("memory").0
}

fn free(world: &Allocator<'_, OneCpu>, pages: impl IntoIterator<Item = u64>) {
    pages.into_iter().for_each(|page| {
        world.free_with(Free::block(Pfn(page), Order::ZERO).to(FreeTo::Buddy)).expect("was allocated")
    });
}

fn blocks(world: &Allocator<'_, OneCpu>) -> Vec<u32> {
    Order::all().take(4).map(|order| world.zone(0).expect("a zone").free_blocks(order, MigrateType::Movable)).collect()
}

#[test]
fn merging_goes_on_while_somebody_needs_it() {
    taken(|world, zone| {
        free(world, 0..4);
        assert_eq!(blocks(world), [4, 0, 0, 0]);
        let outer = zone.merges(world.env());
        drop(zone.merges(world.env()));
        // Merge skipping is still disabled once: pages merge when freed, but earlier skips stay.
        free(world, 4..8);
        assert_eq!(blocks(world), [4, 0, 1, 0]);
        let before = world.zone(0).expect("a zone").stats();
        assert_eq!((take(world), take(world)), (3, 2));
        assert_eq!(
            world.zone(0).expect("a zone").stats().cluster_alloc_pages,
            before.cluster_alloc_pages,
            "page by page"
        );
        drop(outer);
        free(world, [2, 3]);
        assert_eq!(blocks(world)[0], 2);
    });
}

#[test]
fn merging_goes_on_once_compaction_is_passed_over() {
    taken(|world, zone| {
        zone.deferral.on_failure(Order::PAGEBLOCK);
        free(world, 0..2);
        assert_eq!(blocks(world), [2, 0, 0, 0], "merging is skipped right after the failure");
        assert!(zone.deferral.defers(Order::PAGEBLOCK));
        free(world, 2..4);
        assert_eq!(blocks(world), [2, 1, 0, 0]);
        let before = world.zone(0).expect("a zone").stats().cluster_alloc_pages;
        assert_eq!(take(world), 1);
        assert_eq!(world.zone(0).expect("a zone").stats().cluster_alloc_pages, before, "page by page");
        zone.deferral.reset(Order::PAGEBLOCK, true);
        free(world, 6..8);
        assert_eq!(blocks(world)[0], 2);
    });
}

#[test]
fn planted_inconsistencies_are_found() {
    type Plant = fn(&Zone<'_, OneCpu>);
    let rows: [(Plant, &str); 7] = [
        (
            |zone| zone.research.clusters.set(Cluster(0), 0, 3),
            "zone 0: the length of a cluster: expected 3, found 4, at page 0x3",
        ),
        (
            |zone| zone.research.clusters.set(Cluster(0), 1, 4),
            "zone 0: the tail of a cluster: expected 1, found 0, at page 0x3",
        ),
        (
            |zone| zone.research.clusters.set_of(4, Some(Cluster(99))),
            "zone 0: the cluster of a page was never made: expected 0, found 99, at page 0x4",
        ),
        (
            |zone| zone.research.clusters.set_of(1, None),
            "zone 0: the length of a cluster: expected 4, found 2, at page 0x3",
        ),
        (
            |zone| assert!(zone.research.clusters.open().is_some()),
            "zone 0: clusters in use against those on lists: expected 3, found 2",
        ),
        (|zone| zone.research.in_flight.begin(), "zone 0: refills in flight: expected 0, found 1"),
        (
            |zone| {
                crate::sync::LockedWord::set(
                    &zone.research.skips_merged,
                    crate::sync::LockedWord::get(&zone.research.skips),
                )
            },
            "zone 0: free buddies are unmerged: expected 0, found 0, at page 0x0",
        ),
    ];
    for (plant, message) in rows {
        taken(|world, zone| {
            // Clusters 3 2 1 0 and 4.
            free(world, 0..5);
            world.zone(0).expect("a zone").audit().expect("nothing is planted yet");
            plant(zone);
            let error: AuditError = world.zone(0).expect("a zone").audit().expect_err(message);
            assert_eq!(error.to_string(), message);
        });
    }
}
