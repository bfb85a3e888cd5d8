//! Claiming and stealing other migratetypes' pageblocks. Specification 1.6.

use crate::support::{Known, World, one_zone};
use pageset::policy::presets::*;
use pageset::policy::{BatchRule, Bounds, Tuning};
use pageset::{CpuId, MigrateType, Order, Pfn, Request};

use MigrateType::{Cma, Movable, Reclaimable, Unmovable};

const BASE: u64 = 1 << 20;
const ORDINARY: [MigrateType; 3] = [Unmovable, Movable, Reclaimable];

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

fn request(of: u8, migratetype: MigrateType) -> Request {
    Request { watermarks: false, cma: false, ..Request::new(order(of), migratetype) }
}

/// A zone whose pagesets keep nothing.
fn bare(tuning: Tuning, pages: u64, test: impl FnOnce(&World<'_>)) {
    one_zone(tuning, pages, 1, |world| {
        world.at(0).set_bounds(Bounds::DISABLED).expect("the pagesets have room");
        test(world);
        world.at(0).audit().expect("the audit passes");
    });
}

fn types(world: &World<'_>, pageblocks: u64) -> Vec<MigrateType> {
    (0..pageblocks).map(|i| world.pageblock_type(Pfn(BASE + 512 * i)).expect("the page is in the zone")).collect()
}

fn claims_and_steals(world: &World<'_>) -> (u64, u64) {
    (world.at(0).stats().claims, world.at(0).stats().steals)
}

#[test]
fn fallback_types_are_tried_in_order() {
    // One free pageblock of each other type; the preferred type goes first.
    for tuning in [LINUX_4_19, LINUX_6_7, LINUX_6_10, LINUX_6_18] {
        for (wanted, first) in [(Unmovable, Reclaimable), (Movable, Reclaimable), (Reclaimable, Unmovable)] {
            bare(tuning, 2048, |world| {
                let others: Vec<_> = ORDINARY.into_iter().filter(|&t| t != wanted).collect();
                // An allocation in between keeps buddy pageblocks apart.
                for (i, &other) in [others[0], Movable, others[1]].iter().enumerate() {
                    world.set_pageblock_type(Pfn(BASE + 512 * i as u64), other).expect("the page is in the zone");
                }
                world.set_pageblock_type(Pfn(BASE + 512), Cma).expect("the page is in the zone");
                world.set_pageblock_type(Pfn(BASE + 1536), Cma).expect("the page is in the zone");
                let pfn = world.alloc(&request(4, wanted)).expect("memory");
                let at = if others[0] == first { BASE } else { BASE + 1024 };
                assert_eq!(pfn, Pfn(at), "{wanted:?}");
                assert_eq!((world.pageblock_type(pfn), claims_and_steals(world)), (Some(wanted), (1, 0)), "{wanted:?}");
            });
        }
    }
}

#[test]
fn whole_pageblocks_are_claimed_and_split_on_the_lists_of_the_wanted_type() {
    for tuning in [LINUX_4_19, LINUX_6_10, LINUX_6_18] {
        for wanted in [Unmovable, Reclaimable] {
            bare(tuning, 2048, |world| {
                let pfn = world.alloc(&request(0, wanted)).expect("memory");
                // Of two blocks of order 10 the first in the list is taken completely.
                assert_eq!(pfn, Pfn(BASE));
                assert_eq!(types(world, 4), [wanted, wanted, Movable, Movable]);
                for o in 0..10 {
                    assert_eq!(world.at(0).free_blocks(order(o), wanted), 1, "order {o}");
                }
                assert_eq!(claims_and_steals(world), (1, 0));
                assert_eq!(world.alloc(&request(0, wanted)), Ok(Pfn(BASE + 1)), "own memory serves from now on");
                assert_eq!(claims_and_steals(world), (1, 0));
            });
        }
    }
}

/// A single pageblock with `movable` and `unmovable` allocated pages: blocks of order 4, then single pages for the
/// rest. The remaining pages are free.
fn one_pageblock(tuning: Tuning, of: MigrateType, movable: u64, unmovable: u64, test: impl FnOnce(&World<'_>)) {
    bare(tuning, 512, |world| {
        world.set_pageblock_type(Pfn(BASE), Unmovable).expect("the page is in the zone");
        for _ in 0..unmovable {
            world.alloc(&request(0, Unmovable)).expect("memory");
        }
        world.set_pageblock_type(Pfn(BASE), Movable).expect("the page is in the zone");
        for _ in 0..movable {
            world.alloc(&request(0, Movable)).expect("memory");
        }
        world.set_pageblock_type(Pfn(BASE), of).expect("the page is in the zone");
        assert_eq!(world.at(0).stats().nr_free_pages, 512 - movable - unmovable);
        assert_eq!(claims_and_steals(world), (0, 0));
        test(world);
    });
}

#[test]
fn half_of_a_pageblock_must_be_free_or_alike() {
    // Columns: type of the pageblock, movable pages, unmovable pages, wanted type, claimed.
    let rows = [
        // F = 256: exactly half.
        (Movable, 256, 0, Unmovable, true),
        (Movable, 257, 0, Unmovable, false),
        (Movable, 300, 0, Reclaimable, false),
        // Unmovable pages in a movable pageblock count as compatible: 512 - F - M.
        (Movable, 250, 250, Unmovable, true),
        (Movable, 300, 200, Unmovable, false),
        (Movable, 200, 300, Reclaimable, true),
        // In a pageblock of a third type they do not.
        (Reclaimable, 0, 256, Unmovable, true),
        (Reclaimable, 0, 300, Unmovable, false),
        (Unmovable, 0, 300, Reclaimable, false),
        // Wanted movable: movable pages count as compatible, others do not.
        (Unmovable, 250, 200, Movable, true),
        (Unmovable, 200, 290, Movable, false),
        (Reclaimable, 200, 220, Movable, true),
    ];
    for (of, movable, unmovable, wanted, claimed) in rows {
        let what = format!("{of:?} with {movable} movable and {unmovable} unmovable pages, wanted {wanted:?}");
        for tuning in [LINUX_6_18, LINUX_6_10, LINUX_6_7, LINUX_4_19] {
            one_pageblock(tuning, of, movable, unmovable, |world| {
                let free = world.at(0).stats().nr_free_pages;
                let found = Order::all().rev().find(|&o| world.at(0).free_blocks(o, of) > 0).expect("free pages");
                // A movable request claims from order 4 on, others from any.
                let claimed = claimed && (found >= order(4) || wanted != Movable);
                world.alloc(&request(0, wanted)).expect("memory");
                let after = if claimed { wanted } else { of };
                assert_eq!(types(world, 1), [after], "{what}");
                assert_eq!(claims_and_steals(world), if claimed { (1, 0) } else { (0, 1) }, "{what}");
                // The lists of the remaining pages: before 6.10 all free blocks move, even without a claim.
                let on_wanted: u64 =
                    Order::all().map(|o| u64::from(world.at(0).free_blocks(o, wanted)) * o.pages()).sum();
                let all_moved = claimed || (!tuning.type_at_drain && (found >= order(4) || wanted != Movable));
                let expected = if all_moved { free - 1 } else { 0 };
                assert_eq!(on_wanted, expected, "{what}: pages on lists of the wanted type");
            });
        }
    }
}

#[test]
fn a_small_movable_request_takes_the_smallest_block() {
    // Only blocks below order 4 are free, in an unmovable pageblock: predicate C is false for movable requests.
    for tuning in [LINUX_6_18, LINUX_6_10, LINUX_6_7] {
        bare(tuning, 512, |world| {
            world.set_pageblock_type(Pfn(BASE), Unmovable).expect("the page is in the zone");
            let pages: Vec<_> = (0..512).map(|_| world.alloc(&request(0, Unmovable)).expect("memory")).collect();
            for at in [0, 1, 2, 3, 64, 65, 128] {
                world.free(pages[at], Order::ZERO).expect("was allocated");
            }
            assert_eq!(world.alloc(&request(0, Movable)), Ok(pages[128]));
            assert_eq!(world.alloc(&request(1, Movable)), Ok(pages[64]));
            assert_eq!(world.alloc(&request(0, Movable)), Ok(pages[0]), "the last block is split");
            let (rest, other) = if tuning == LINUX_6_7 { (Movable, Unmovable) } else { (Unmovable, Movable) };
            // Stolen blocks are split on their own type's lists from 6.10 on, on the wanted type's before.
            assert_eq!((world.at(0).free_blocks(order(0), rest), world.at(0).free_blocks(order(1), rest)), (1, 1));
            assert_eq!((world.at(0).free_blocks(order(0), other), world.at(0).free_blocks(order(1), other)), (0, 0));
            assert_eq!(types(world, 1), [Unmovable]);
            assert_eq!(claims_and_steals(world), (0, 3));
        });
    }
}

#[test]
fn the_stage_is_remembered_over_one_refill() {
    // One movable pageblock with 300 pages in use, so no claim. From 6.15 on a refill of 63 steals page after page; the
    // next refill searches again. Before, the first steal moves all free pages. From 6.10 to 6.14 each page is a search
    // and a steal.
    for (tuning, steals, left) in
        [(LINUX_6_18, [63, 126], Movable), (LINUX_6_10, [63, 126], Movable), (LINUX_6_7, [1, 1], Unmovable)]
    {
        let tuning = Tuning { batch: BatchRule::Fixed(63), ..tuning };
        one_zone(tuning, 512, 2, |world| {
            world.at(0).set_bounds(Bounds::DISABLED).expect("room");
            for _ in 0..300 {
                world.alloc(&request(0, Movable)).expect("memory");
            }
            world.at(0).set_bounds(Bounds { batch: 63, high_min: 63, high_max: 63 }).expect("room");
            let mut pages = vec![];
            for steals in steals {
                pages.extend((0..63).map(|_| world.alloc(&request(0, Unmovable)).expect("memory")));
                assert_eq!(claims_and_steals(world), (0, steals));
                assert_eq!(world.pageset(0, CpuId(0)).state().count, 0);
            }
            assert_eq!(types(world, 1), [Movable]);
            let free: u64 = Order::all().map(|o| u64::from(world.at(0).free_blocks(o, left)) * o.pages()).sum();
            assert_eq!(free, 212 - 126);
            world.at(0).audit().expect("the audit passes");
        });
    }
}

#[test]
fn a_refill_that_claims_goes_on_with_its_own_memory() {
    let tuning = Tuning { batch: BatchRule::Fixed(63), ..LINUX_6_18 };
    one_zone(tuning, 1024, 1, |world| {
        world.alloc(&request(0, Unmovable)).expect("memory");
        let stats = world.at(0).stats();
        assert_eq!((stats.pagesets.refill_pages, stats.claims, stats.steals), (63, 1, 0));
    });
}

#[test]
fn before_6_15_own_memory_serves_after_a_cma_block_did() {
    // A refill of 63: own 0, CMA 16, then the first steal, whose moved pages serve the rest.
    let tuning = Tuning { batch: BatchRule::Fixed(63), ..LINUX_6_7 };
    one_zone(tuning, 1024, 1, |world| {
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        world.set_pageblock_type(Pfn(BASE), Cma).expect("the page is in the zone");
        world.set_pageblock_type(Pfn(BASE + 512), Unmovable).expect("the page is in the zone");
        let blocks = |migratetype, times, of: u8, cma| {
            for _ in 0..times {
                world.alloc(&Request { cma, ..request(of, migratetype) }).expect("memory");
            }
        };
        // 300 unmovable pages in use prevent a claim. 16 CMA pages are left.
        blocks(Unmovable, 300, 0, false);
        blocks(Movable, 31, 4, true);
        assert_eq!((world.at(0).stats().nr_free_cma, world.at(0).stats().nr_free_pages), (16, 16 + 212));
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 63, high_max: 63 }).expect("room");
        world.alloc(&Request { cma: true, ..request(0, Movable) }).expect("memory");
        assert_eq!(world.at(0).stats().nr_free_cma, 0);
        assert_eq!(claims_and_steals(world), (0, 1));
        world.at(0).audit().expect("the audit passes");
    });
}

#[test]
fn before_5_14_a_failed_refill_fails_the_zone() {
    // One hold of the zone lock per walk, without a second search.
    for (tuning, holds) in [(LINUX_4_19, [2, 0]), (LINUX_6_18, [2, 2])] {
        bare(tuning, 512, |world| {
            while world.alloc(&request(0, Movable)).is_ok() {}
            let before = world.at(0).stats();
            world.alloc(&request(0, Movable)).expect_err("nothing is left");
            let after = world.at(0).stats();
            let [refill, direct] = holds;
            assert_eq!(after.lock_refill - before.lock_refill, refill);
            assert_eq!(after.lock_direct_alloc - before.lock_direct_alloc, direct);
        });
    }
}

#[test]
fn cma_pageblocks_are_never_claimed() {
    // A page cached as movable whose pageblock then becomes CMA leaves a movable block in it, before 6.10.
    for tuning in [LINUX_4_19, LINUX_6_7, LINUX_6_10, LINUX_6_18] {
        one_zone(tuning, 512, 1, |world| {
            let pages: Vec<_> = (0..256).map(|_| world.alloc(&request(0, Movable)).expect("memory")).collect();
            for &pfn in &pages[..2] {
                world.free(pfn, Order::ZERO).expect("was allocated");
            }
            world.set_pageblock_type(Pfn(BASE), Cma).expect("the page is in the zone");
            world.drain_all();
            while let Ok(pfn) = world.alloc(&request(0, Unmovable)) {
                assert_eq!(world.pageblock_type(pfn), Some(Cma));
            }
            assert_eq!(types(world, 1), [Cma]);
            world.at(0).audit().expect("the audit passes");
        });
    }
}

#[test]
fn steals_when_no_claim_is_possible() {
    // One movable pageblock with too many pages in use for a claim. Page 100 and the pages from 448 on are free.
    for (tuning, first) in
        [(LINUX_6_7, 100), (LINUX_6_10, 448), (LINUX_6_11, 448), (LINUX_6_15, 100), (LINUX_6_18, 100)]
    {
        bare(tuning, 512, |world| {
            let pages: Vec<_> = (0..448).map(|_| world.alloc(&request(0, Movable)).expect("memory")).collect();
            world.free(pages[100], Order::ZERO).expect("was allocated");
            let other = world.alloc(&request(0, Unmovable)).expect("memory");
            // 6.10 to 6.14 split the largest block; from 6.15 on the smallest is stolen. Before, all free blocks move,
            // and the smallest of them serves.
            assert_eq!(other, Pfn(BASE + first), "{tuning:?}");
            assert_eq!((types(world, 1), claims_and_steals(world)), (vec![Movable], (0, 1)));
            let kept = Order::all().map(|o| u64::from(world.at(0).free_blocks(o, Movable)) * o.pages()).sum::<u64>();
            assert_eq!(kept, if tuning == LINUX_6_7 { 0 } else { 64 });
        });
    }
}

#[test]
fn blocks_that_change_their_type_go_to_the_head_or_to_the_tail() {
    // Page 99 of an unmovable pageblock is free, and of a movable one page 100 and the upper half. A request of order 6
    // claims the second; the next single page shows the list end of its blocks.
    for (tuning, next) in [(LINUX_4_16, 612), (LINUX_5_9, 612), (LINUX_5_10, 99), (LINUX_6_10, 99), (LINUX_6_18, 99)] {
        bare(tuning, 1024, |world| {
            world.set_pageblock_type(Pfn(BASE), Unmovable).expect("the page is in the zone");
            let own: Vec<_> = (0..512).map(|_| world.alloc(&request(0, Unmovable)).expect("memory")).collect();
            let theirs: Vec<_> = (0..256).map(|_| world.alloc(&request(0, Movable)).expect("memory")).collect();
            assert_eq!((own[0], theirs[0]), (Pfn(BASE), Pfn(BASE + 512)));
            world.free(own[99], Order::ZERO).expect("was allocated");
            world.free(theirs[100], Order::ZERO).expect("was allocated");
            world.alloc(&request(6, Unmovable)).expect("memory");
            assert_eq!((types(world, 2), claims_and_steals(world)), (vec![Unmovable; 2], (1, 0)));
            assert_eq!(world.alloc(&request(0, Unmovable)), Ok(Pfn(BASE + next)), "{tuning:?}");
        });
    }
}

#[test]
fn movable_non_cma_requests_bypass_the_pageset() {
    // 2.3 and `kernels-2026.md` 3.6: 5.9 to 6.6, all orders that pagesets cache.
    let single = Request { cma: true, ..request(0, Movable) };
    for (tuning, passes) in [
        (LINUX_4_19, false),
        (LINUX_5_9, true),
        (LINUX_5_10, true),
        (LINUX_5_14, true),
        (LINUX_5_18, true),
        (LINUX_6_1_104, true),
        (LINUX_6_7, false),
        (LINUX_6_18, false),
    ] {
        one_zone(tuning, 1 << 12, 1, |world| {
            let direct = |request: Request| {
                let before = world.at(0).stats().lock_direct_alloc;
                world.alloc(&request).expect("memory");
                world.at(0).stats().lock_direct_alloc - before
            };
            assert_eq!(direct(single), 0);
            assert_eq!(direct(Request { cma: false, ..single }), u64::from(passes), "{tuning:?}");
            assert_eq!(direct(Request { cma: false, ..request(0, Unmovable) }), 0);
            let cached = tuning.lists.list(order(1), Movable).is_some();
            assert_eq!(direct(Request { cma: false, ..request(1, Movable) }), u64::from(passes || !cached));
            world.at(0).audit().expect("the audit passes");
        });
    }
}
