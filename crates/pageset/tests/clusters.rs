//! Merging put off, and order-0 clusters. Specification 6.

mod support;

use pageset::tuning::presets::*;
use pageset::tuning::{Bounds, Tuning};
use pageset::{MigrateType, Order, Pfn, Request};
use support::{World, movable, one_zone};

use MigrateType::{Movable, Unmovable};

/// Where the zone begins.
const BASE: u64 = 1 << 20;

/// A zone with all its pages handed out as single ones; `batch` pages move at a time, none is kept below `high`.
fn taken(tuning: Tuning, pages: u64, batch: u32, high: u32, test: impl FnOnce(&World<'_>)) {
    one_zone(tuning, pages, 1, |world| {
        world.set_watermarks(0, Default::default(), [0; 4]);
        world.set_bounds(0, Bounds { batch, high_min: high, high_max: high }).expect("the pagesets have room");
        take(world, pages);
        test(world);
        world.audit(0).expect("the books add up");
    });
}

/// Takes single pages; they are returned by their place in the zone.
fn take(world: &World<'_>, pages: u64) -> Vec<u64> {
    // Without marks: they would keep what a pageset holds once the zone has nothing.
    let request = Request { watermarks: false, ..movable(0) };
    (0..pages).map(|_| world.alloc(&request).expect("memory").0 - BASE).collect()
}

/// Frees single pages past the pagesets, by their place in the zone.
fn free(world: &World<'_>, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        world.free_direct(Pfn(BASE + page), Order::ZERO).expect("was allocated");
    }
}

/// Free blocks by order.
fn blocks(world: &World<'_>, migratetype: MigrateType) -> Vec<(u8, u32)> {
    Order::all().map(|of| (of.get(), world.free_blocks(0, of, migratetype))).filter(|(_, blocks)| *blocks > 0).collect()
}

#[test]
fn merging_is_put_off_until_it_is_asked_for() {
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, 0..1024);
        assert_eq!(blocks(world, Movable), [(0, 1024)]);
        assert_eq!(world.zone_stats(0).merge_skips, 1024);
        world.audit(0).expect("legal as long as nobody merges");
        assert_eq!(world.merge_skipped(0), 512);
        assert_eq!(blocks(world, Movable), [(10, 1)]);
        assert_eq!(world.merge_skipped(0), 0);
    });
    taken(LINUX_4_16, 1024, 31, 62, |world| {
        free(world, 0..1024);
        assert_eq!((blocks(world, Movable), world.merge_skipped(0)), (vec![(10, 1)], 0));
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
    // A single page never does; and where merging gives nothing the answer is as before.
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, (0..1024).step_by(2));
        let before = world.zone_stats(0).lock_map;
        world.alloc(&movable(0)).expect("memory");
        assert_eq!(world.zone_stats(0).lock_map, before);
        world.alloc(&movable(1)).expect_err("no two pages are side by side");
    });
}

#[test]
fn only_single_pages_skip_and_only_whole_pairs_merge() {
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, [2, 3, 0, 5, 6]);
        assert_eq!(blocks(world, Movable), [(0, 5)]);
        // 2 and 3 are buddies; 0 and 1, 4 and 5, 6 and 7 are not both free.
        assert_eq!(world.merge_skipped(0), 1);
        assert_eq!(blocks(world, Movable), [(0, 3), (1, 1)]);
        // The next free is put off again: 1 joins neither 0 nor the 2 and 3 above.
        free(world, [1]);
        assert_eq!(blocks(world, Movable), [(0, 4), (1, 1)]);
        assert_eq!(world.merge_skipped(0), 1);
        assert_eq!(blocks(world, Movable), [(0, 2), (2, 1)]);
    });
}

#[test]
fn pages_moved_to_another_type_merge_as_well() {
    taken(MERGE_SKIP, 1024, 31, 62, |world| {
        free(world, 0..512);
        world.set_pageblock_type(Pfn(BASE), Unmovable).expect("ours");
        assert_eq!(blocks(world, Unmovable), [(0, 512)]);
        assert_eq!(world.merge_skipped(0), 256);
        assert_eq!(blocks(world, Unmovable), [(9, 1)]);
    });
}

#[test]
fn skipped_pages_come_last_in_first_out() {
    taken(MERGE_SKIP, 1024, 4, 16, |world| {
        free(world, [10, 700, 11, 44]);
        assert_eq!(take(world, 4), [44, 11, 700, 10]);
        assert_eq!(world.zone_stats(0).pagesets.refills, 1024 / 4 + 1);
    });
}
