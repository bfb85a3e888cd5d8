//! Free lists: the order of splits, the list end of each block, merging. Specification 1.5.

use crate::support::{Known, World, movable, one_zone};
use pageset::policy::presets::*;
use pageset::policy::{Bounds, ListRule, PRESETS, Tuning};
use pageset::{MigrateType, Order, Pfn, Request};

use MigrateType::{Cma, HighAtomic, Isolate, Movable, Reclaimable, Unmovable};

/// The first page of the zone.
const BASE: u64 = 1 << 20;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// A zone whose pagesets keep nothing: every free goes to the buddy, every refill takes one block.
fn bare(tuning: Tuning, pages: u64, test: impl FnOnce(&World<'_>)) {
    one_zone(tuning, pages, 1, |world| {
        world.at(0).set_bounds(Bounds::DISABLED).expect("the pagesets have room");
        world.at(0).set_watermarks(Default::default(), [0; 4]);
        test(world);
        world.at(0).audit().expect("the audit passes");
    });
}

/// Allocates blocks of one order until none is left. Returns their page indexes in the zone.
fn take_all(world: &World<'_>, of: u8) -> Vec<u64> {
    // No marks, since they would reserve pages that the pageset holds when the zone is empty.
    let request = Request { watermarks: false, ..movable(of) };
    std::iter::from_fn(|| world.alloc(&request).ok()).map(|pfn| pfn.0 - BASE).collect()
}

fn free(world: &World<'_>, page: u64, of: u8) {
    world.free(Pfn(BASE + page), order(of)).expect("was allocated");
}

#[test]
fn a_block_is_handed_out_from_its_lowest_page_up() {
    for preset in PRESETS {
        one_zone(preset.tuning, 4096, 1, |world| {
            world.at(0).set_watermarks(Default::default(), [0; 4]);
            assert_eq!(take_all(world, 0), (0..4096).collect::<Vec<_>>(), "{}", preset.name);
        });
    }
    for of in [4, 5, 8, 10] {
        bare(LINUX_6_18, 4096, |world| {
            let step = 1 << of;
            assert_eq!(take_all(world, of), (0..4096).step_by(step).collect::<Vec<_>>(), "order {of}");
        });
    }
}

#[test]
fn upper_halves_stay_at_the_head() {
    bare(LINUX_6_18, 2048, |world| {
        assert_eq!(world.alloc(&movable(4)), Ok(Pfn(BASE)));
        for o in 4..=10 {
            assert_eq!(world.at(0).free_blocks(order(o), Movable), 1, "order {o}");
        }
        assert_eq!(world.at(0).stats().nr_free_pages, 2048 - 16);
        free(world, 0, 4);
        assert_eq!(world.at(0).free_blocks(Order::MAX, Movable), 2);
    });
}

#[test]
fn a_freed_block_goes_to_the_head() {
    bare(LINUX_6_18, 1024, |world| {
        take_all(world, 4);
        for page in [0, 64, 128] {
            free(world, page, 4);
        }
        assert_eq!(take_all(world, 4), [128, 64, 0]);
    });
}

#[test]
fn a_block_that_would_merge_twice_goes_to_the_tail() {
    // Columns: order, blocks freed, the order in which they are allocated again.
    let rows: &[(u8, &[u64], &[u64])] = &[
        // 0 would form 0-1, whose buddy 2-3 is free.
        (4, &[2, 3, 8, 0], &[8, 0, 2, 3]),
        // 1 the same from the other side.
        (4, &[2, 3, 8, 1], &[8, 1, 2, 3]),
        // 2-3 is only partly free.
        (4, &[2, 8, 0], &[0, 8, 2]),
        // Below the second largest order: 0 would form 0-1, whose buddy 2-3 of order 9 is free.
        (8, &[2, 3, 6, 0], &[6, 0, 2, 3]),
    ];
    for &(of, freed, again) in rows {
        bare(LINUX_6_18, 4096, |world| {
            take_all(world, of);
            for block in freed {
                free(world, block << of, of);
            }
            let had: Vec<_> = take_all(world, of).into_iter().map(|page| page >> of).collect();
            assert_eq!(had, again, "order {of}, freed {freed:?}");
        });
    }
}

#[test]
fn the_second_largest_order_always_goes_to_the_head() {
    let tuning = Tuning { lists: ListRule::ToCostly, ..LINUX_6_18 };
    bare(tuning, 4096, |world| {
        take_all(world, 9);
        for block in [6, 2, 3, 0] {
            free(world, block << 9, 9);
        }
        assert_eq!(take_all(world, 9), [0, 6 << 9, 2 << 9, 3 << 9]);
    });
}

/// Frees two pageblocks that are buddies, one of each type, the lower first.
fn merge_pair(tuning: Tuning, lower: MigrateType, upper: MigrateType, check: impl FnOnce(&World<'_>)) {
    bare(Tuning { lists: ListRule::ToCostly, ..tuning }, 1024, |world| {
        assert_eq!(take_all(world, 9), [0, 512]);
        for (page, migratetype) in [(0, lower), (512, upper)] {
            world.set_pageblock_type(Pfn(BASE + page), migratetype).expect("the page is in the zone");
            free(world, page, 9);
        }
        check(world);
    });
}

#[test]
fn pageblocks_merge_by_their_types() {
    for tuning in [LINUX_5_14, LINUX_6_18] {
        let merges = |lower, upper| {
            merge_pair(tuning, lower, upper, |world| {
                let what = format!("{lower:?} and {upper:?}, merge_by_type {}", tuning.merge_by_type);
                assert_eq!(world.at(0).free_blocks(Order::MAX, upper), 1, "{what}");
                let lower_now = if tuning.merge_by_type { upper } else { lower };
                assert_eq!(world.pageblock_type(Pfn(BASE)), Some(lower_now), "{what}");
                assert_eq!(world.pageblock_type(Pfn(BASE + 512)), Some(upper), "{what}");
            });
        };
        let stays_apart = |lower, upper, free, cma| {
            merge_pair(tuning, lower, upper, |world| {
                assert_eq!(world.at(0).free_blocks(order(9), lower), 1, "{lower:?} and {upper:?}");
                assert_eq!(world.at(0).free_blocks(order(9), upper), 1, "{lower:?} and {upper:?}");
                let stats = world.at(0).stats();
                assert_eq!((stats.nr_free_pages, stats.nr_free_cma), (free, cma), "{lower:?} and {upper:?}");
            });
        };
        for lower in [Unmovable, Movable, Reclaimable] {
            for upper in [Unmovable, Movable, Reclaimable] {
                merges(lower, upper);
            }
            stays_apart(lower, Isolate, 512, 0);
            stays_apart(Isolate, lower, 512, 0);
            stays_apart(lower, Cma, 1024, 512);
            stays_apart(lower, HighAtomic, 1024, 0);
        }
        stays_apart(Cma, Isolate, 512, 512);
        merges(Cma, Cma);
        merges(Isolate, Isolate);
    }
}

#[test]
fn a_largest_block_over_two_types() {
    // The block is allocated as one, the upper pageblock's type is changed, then the block is freed. Columns: rules,
    // type, blocks afterwards.
    type Row = (Tuning, MigrateType, &'static [(u8, MigrateType)]);
    let rows: [Row; 5] = [
        (LINUX_6_18, Unmovable, &[(10, Unmovable)]),
        (LINUX_6_18, Cma, &[(9, Movable), (9, Cma)]),
        (LINUX_6_18, Isolate, &[(9, Movable), (9, Isolate)]),
        // Before 6.10 the whole block goes to the list of its first page's type, if both are ordinary.
        (LINUX_6_7, Unmovable, &[(10, Movable)]),
        (LINUX_6_7, Isolate, &[(9, Movable), (9, Isolate)]),
    ];
    for (tuning, upper, after) in rows {
        bare(tuning, 1024, |world| {
            assert_eq!(take_all(world, 10), [0]);
            world.set_pageblock_type(Pfn(BASE + 512), upper).expect("the page is in the zone");
            free(world, 0, 10);
            for &(o, migratetype) in after {
                assert_eq!(
                    world.at(0).free_blocks(order(o), migratetype),
                    1,
                    "{upper:?}: order {o} of {migratetype:?}"
                );
            }
        });
    }
}

#[test]
fn isolated_pages_are_neither_free_nor_allocatable() {
    for tuning in [LINUX_4_19, LINUX_5_14, LINUX_6_18] {
        one_zone(tuning, 2048, 1, |world| {
            world.at(0).set_watermarks(Default::default(), [0; 4]);
            let inside = world.alloc(&movable(4)).expect("memory");
            let cached = world.alloc(&movable(0)).expect("memory");
            assert_eq!((inside, cached), (Pfn(BASE), Pfn(BASE + 16)));
            let held = world.pageset(0, pageset::CpuId(0)).state().count;
            world.set_pageblock_type(Pfn(BASE), Isolate).expect("the page is in the zone");
            assert_eq!(world.at(0).stats().nr_free_pages, 1536, "half a largest block, split");
            assert_eq!(world.pageblock_type(Pfn(BASE + 512)), Some(Movable), "the other half keeps its type");
            // These frees bypass the pagesets and do not count as free pages.
            world.free(cached, Order::ZERO).expect("was allocated");
            world.free(inside, order(4)).expect("was allocated");
            assert_eq!(world.pageset(0, pageset::CpuId(0)).state().count, held);
            assert_eq!((world.at(0).stats().nr_free_pages, world.at(0).stats().direct_free_pages), (1536, 17));
            // The page in the pageset follows with the drain.
            world.drain_all();
            assert_eq!(world.at(0).stats().nr_free_pages, 1536);
            assert_eq!(world.at(0).free_blocks(order(9), Isolate), 1);
            let taken = take_all(world, 0);
            assert_eq!((taken.len(), taken.iter().filter(|&&page| page < 512).count()), (1536, 0));
            world.set_pageblock_type(Pfn(BASE), Movable).expect("the page is in the zone");
            assert_eq!(world.at(0).stats().nr_free_pages, 512);
            world.at(0).audit().expect("the audit passes");
        });
    }
}

#[test]
fn a_pageblock_given_back_merges() {
    bare(LINUX_6_18, 1024, |world| {
        for migratetype in [Isolate, Cma, Unmovable] {
            world.set_pageblock_type(Pfn(BASE + 512), migratetype).expect("the page is in the zone");
            assert_eq!(world.at(0).free_blocks(order(9), migratetype), 1, "{migratetype:?}");
            world.at(0).audit().expect("the audit passes");
            world.set_pageblock_type(Pfn(BASE + 512), Movable).expect("the page is in the zone");
            assert_eq!(world.at(0).free_blocks(Order::MAX, Movable), 1, "{migratetype:?}");
        }
    });
}

#[test]
fn cma_serves_movable_requests_only() {
    let request = |migratetype, cma| Request { cma, ..Request::new(order(4), migratetype) };
    bare(LINUX_6_18, 4096, |world| {
        // With 512 CMA pages of 4096, own blocks come first. When they are fewer than the CMA pages, CMA blocks come.
        world.set_pageblock_type(Pfn(BASE), Cma).expect("the page is in the zone");
        assert_eq!(world.at(0).stats().nr_free_cma, 512);
        let mut own = 0;
        while world.at(0).stats().nr_free_cma == 512 {
            world.alloc(&request(Movable, true)).expect("memory");
            own += 1;
        }
        // 4096 - 16 * 192 = 1024 free: CMA is not more than half. One more, and it is.
        assert_eq!(own, 192 + 2, "one block at the turning point, then the first from CMA");
        while let Ok(pfn) = world.alloc(&request(Unmovable, false)) {
            assert!(pfn.0 >= BASE + 512);
        }
        let stats = world.at(0).stats();
        assert_eq!(stats.nr_free_pages, stats.nr_free_cma);
        world.alloc(&request(Movable, false)).expect_err("the rest is CMA");
        let left = stats.nr_free_cma / 16;
        for _ in 0..left {
            world.alloc(&request(Movable, true)).expect("CMA");
        }
        world.alloc(&request(Movable, true)).expect_err("all is taken");
        assert_eq!((world.at(0).stats().nr_free_pages, world.at(0).stats().nr_free_cma), (0, 0));
    });
}

#[test]
fn ranges_that_come_online_merge_with_their_neighbours() {
    use pageset::{Config, NodeId, PageRange, ZoneKind, ZoneSpec};
    let at = |start: u64, pages| PageRange::new(Pfn(BASE + start), pages);
    let ranges = [at(0, 100), at(100, 412)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: at(0, 4096), ranges: &ranges }];
    crate::support::build(&Config::new(&zones, &[NodeId(0)]), |world| {
        assert_eq!(world.at(0).free_blocks(order(9), Movable), 1);
        world.online(at(512, 512)).expect("the range is still a hole");
        assert_eq!(world.at(0).free_blocks(order(10), Movable), 1);
        world.online(at(3000, 1096)).expect("the range is still a hole");
        world.online(at(1024, 1976)).expect("the range is still a hole");
        assert_eq!(world.at(0).free_blocks(order(10), Movable), 4);
        world.at(0).audit().expect("the audit passes");
        for known in [at(0, 1), at(4095, 1), at(0, 4096)] {
            world.online(known).expect_err("known");
        }
        assert_eq!(world.at(0).stats().managed, 4096);
    });
}
