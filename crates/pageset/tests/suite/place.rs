//! Free blocks taken by page number, and freed to the list end that is allocated last.

use crate::support::{Known, World, movable, one_zone};
use pageset::policy::presets::*;
use pageset::policy::{BatchRule, Bounds, Tuning};
use pageset::{Free, FreeTo, MigrateType, Order, PageRange, Pfn, Request};

const BASE: u64 = 1 << 20;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

fn page(n: u64) -> Pfn {
    Pfn(BASE + n)
}

/// A zone whose pagesets keep nothing.
fn bare(tuning: Tuning, pages: u64, test: impl FnOnce(&World<'_>)) {
    one_zone(tuning, pages, 1, |world| {
        world.at(0).set_watermarks(Default::default(), [0; 4]);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        test(world);
        world.at(0).audit().expect("the audit passes");
    });
}

fn blocks(world: &World<'_>) -> Vec<(u8, u32)> {
    let blocks = |of: Order| world.at(0).free_blocks(of, MigrateType::Movable);
    Order::all().map(|of| (of.get(), blocks(of))).filter(|(_, blocks)| *blocks > 0).collect()
}

#[test]
fn a_block_is_taken_out_of_the_middle_of_a_larger_one() {
    bare(LINUX_6_18, 2048, |world| {
        assert_eq!(world.free_block_around(page(700)), Some(PageRange::new(page(0), 1024)));
        assert!(world.alloc_at(page(704), order(4)));
        // Left over: 512 below the block; 128, 32 and 16 next to it; 64 and 256 above.
        assert_eq!(blocks(world), [(4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 1)]);
        assert_eq!(world.free_block_around(page(704)), None);
        assert_eq!(world.free_block_around(page(720)), Some(PageRange::new(page(720), 16)));
        for at in [700, 704, 720] {
            assert_eq!(world.settled_free_block_around(page(at)), world.free_block_around(page(at)), "{at}");
        }
        assert!(!world.alloc_at(page(704), order(4)), "in use");
        assert!(!world.alloc_at(page(640), order(7)), "part of the block is in use");
        assert!(
            !world.alloc_at(page(1), order(1)) && !world.alloc_at(Pfn(1), Order::ZERO),
            "misaligned, or in no zone"
        );
        assert_eq!(world.at(0).stats().pgalloc(), 16);
        world.free(page(704), order(4)).expect("in use");
        assert_eq!(blocks(world), [(10, 2)]);
    });
}

/// Blocks that ordinary requests may not use cannot be taken by page number either.
#[test]
fn reserved_and_isolated_blocks_stay() {
    for migratetype in [MigrateType::Cma, MigrateType::HighAtomic, MigrateType::Isolate] {
        bare(LINUX_6_18, 2048, |world| {
            world.set_pageblock_type(page(512), migratetype).expect("the page is in the zone");
            assert!(!world.alloc_at(page(512), Order::PAGEBLOCK), "{migratetype:?}");
            assert!(world.alloc_at(page(0), Order::PAGEBLOCK));
        });
    }
}

/// Blocks that were freed cold are allocated after all others of their order.
#[test]
fn cold_blocks_are_allocated_last() {
    bare(LINUX_6_18, 8 * 1024, |world| {
        for cold in [5, 3] {
            assert!(world.alloc_at(page(1024 * cold), Order::MAX));
            world.free_with(Free::block(page(1024 * cold), Order::MAX).to(FreeTo::BuddyCold)).expect("in use");
        }
        let got: Vec<_> = (0..8).map(|_| world.alloc(&movable(10)).expect("memory").0 - BASE).collect();
        assert_eq!(got[6..], [5 * 1024, 3 * 1024]);
        world.free_with(Free::block(page(0), Order::MAX).to(FreeTo::BuddyCold)).expect("in use");
        world.free_with(Free::block(page(0), Order::MAX).to(FreeTo::BuddyCold)).expect_err("free");
    });
}

/// A single page of a list with clusters, and one that was freed without merging.
#[test]
fn single_pages_under_clusters() {
    bare(Tuning { batch: BatchRule::Fixed(4), ..CLUSTERS }, 2048, |world| {
        let pages: Vec<_> = (0..64).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        pages.iter().for_each(|&pfn| world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::Buddy)).expect("in use"));
        let free = world.at(0).stats().nr_free_pages;
        let single = pages[7];
        assert_eq!(world.free_block_around(single), Some(PageRange::new(single, 1)));
        assert!(world.alloc_at(single, Order::ZERO));
        assert_eq!(world.at(0).stats().nr_free_pages, free - 1);
        world.at(0).audit().expect("the audit passes");
        world.free_with(Free::block(single, Order::ZERO).to(FreeTo::BuddyCold)).expect("in use");
        world.alloc(&Request::new(Order::PAGEBLOCK, MigrateType::Movable)).expect("all memory merges");
    });
}

/// Pages in pagesets and depots are found; pages in use are not, and then nothing is drained.
#[test]
fn cached_pages_are_found() {
    one_zone(PAGESET, 8192, 2, |world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 400, high_max: 400 }).expect("room");
        let pages: Vec<_> = (0..1024).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        let (kept, given) = pages.split_last().expect("pages");
        given.iter().for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let stats = || world.at(0).stats();
        let before = stats();
        assert!(before.depot > 0 && before.pagesets.count > 0, "{before:?}");
        let of_kept = kept.align_down(Order::PAGEBLOCK);
        assert!(!world.alloc_at_cached(of_kept, Order::PAGEBLOCK), "a page is in use");
        assert_eq!((stats().depot, stats().pagesets), (before.depot, before.pagesets), "nothing is drained");
        let other = given
            .iter()
            .map(|pfn| pfn.align_down(Order::PAGEBLOCK))
            .find(|&pfn| pfn != of_kept)
            .expect("two pageblocks");
        assert!(!world.alloc_at(other, Order::PAGEBLOCK));
        assert!(world.alloc_at_cached(other, Order::PAGEBLOCK));
        assert!(!world.alloc_at_cached(other, Order::PAGEBLOCK), "now it is in use");
        assert!(
            !world.alloc_at_cached(Pfn(1), Order::PAGEBLOCK)
                && !world.alloc_at_cached(other.offset(1), Order::PAGEBLOCK)
        );
        world.at(0).audit().expect("the audit passes");
    });
}
