//! Compaction by hand: small zones with known contents, exact results and exact costs.
//!
//! Specification: `linux-page-allocator.md` 7.

use crate::layouts::{BASE, NO_MARKS, PAGEBLOCK, cost, every_other, holes, laid_out, order, owner_of, page};
use crate::owner::{Id, StampingOwner};
use crate::support::{Known, TestMachine, movable, one_zone};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::{CLUSTERS_FREE, LINUX_6_18};
use pageset::policy::{Bounds, Watermarks};
use pageset::{
    Allocator, CompactMode, CompactOutcome, CompactReport, Config, CpuId, Immovable, Machine, MigrateType, NodeId,
    Order, PageRange, Pfn, RawLock, Request, SpinLock, ZoneKind, ZoneSpec,
};
use std::cell::Cell;

/// One pageblock with a free page next to each page in use becomes free. Eight clusters of 32 pages are isolated in 64
/// looks each. The free scanner looks at 256 pages in use and then finds 256 free pages in one block, enough for all.
#[test]
fn a_pageblock_with_holes_becomes_free() {
    laid_out(8, every_other, |world| {
        let owner = owner_of(world, holes());
        let report = world.compact(&movable(9), CompactMode::SyncLight, &owner);
        assert_eq!(report.outcome, CompactOutcome::Success);
        assert_eq!(cost(&report), [512, 257, 256, 256, 256, 0]);
        // The targets ascend from the middle of the last pageblock, in the order of the sources.
        let expected: Vec<_> =
            holes().enumerate().map(|(i, n)| (page(n), page(7 * 512 + 256 + i as u64), Order::ZERO)).collect();
        assert_eq!(owner.moved(), expected);
        owner.check();
        let stats = world.at(0).stats();
        assert_eq!(stats.compact_migrate_scanned, 512);
        assert_eq!(stats.compact_free_scanned, 257);
        assert_eq!(stats.compact_isolated, 512);
        assert_eq!((stats.pgmigrate_success, stats.pgmigrate_fail), (256, 0));
        assert_eq!((stats.compact_stall, stats.compact_success, stats.compact_fail), (1, 1, 0));
        // No page waited in the pageset, so nothing was captured: the block is on its list.
        assert_eq!(report.captured, None);
        assert_eq!(world.alloc(&movable(9)), Ok(page(0)));
    });
}

/// If the pageset keeps the moved pages, they merge when drained, and the block is captured.
#[test]
fn the_block_is_captured() {
    laid_out(8, every_other, |world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 500, high_max: 500 }).expect("room");
        let owner = owner_of(world, holes());
        let before = world.at(0).stats();
        let report = world.compact(&movable(9), CompactMode::SyncLight, &owner);
        assert_eq!((report.outcome, report.captured), (CompactOutcome::Success, Some(page(0))));
        owner.check();
        assert_eq!(world.at(0).free_blocks(Order::PAGEBLOCK, MigrateType::Movable), 0);
        let stats = world.at(0).stats();
        assert_eq!(stats.pgalloc() - before.pgalloc(), 512 + 256, "the block, and what was moved to");
        world.free(page(0), Order::PAGEBLOCK).expect("it is allocated");
        world.free(page(0), Order::PAGEBLOCK).expect_err("only once");
    });
}

/// Small blocks are not captured if the request would fragment a movable pageblock.
#[test]
fn a_block_of_another_type_is_not_captured() {
    for (migratetype, captured) in [(MigrateType::Movable, true), (MigrateType::Unmovable, false)] {
        // Blocks of two pages in the first pageblock; none is completely free.
        let free = |n: u64| n % 4 != 1 && n < 128 && n.is_multiple_of(2) || n >= 7 * 512 && n.is_multiple_of(2);
        laid_out(8, free, |world| {
            world.at(0).set_bounds(Bounds { batch: 63, high_min: 500, high_max: 500 }).expect("room");
            let owner = owner_of(world, (1..128).step_by(2));
            let request = Request::new(order(1), migratetype);
            let report = world.compact(&request, CompactMode::SyncLight, &owner);
            assert_eq!(report.outcome, CompactOutcome::Success);
            assert_eq!(report.captured.is_some(), captured, "{migratetype:?}");
            owner.check();
            if let Some(pfn) = report.captured {
                world.free(pfn, order(1)).expect("it is allocated");
            }
        });
    }
}

#[test]
fn an_existing_block_needs_no_compaction() {
    laid_out(
        8,
        |n| n < 512,
        |world| {
            let report = world.compact(&movable(9), CompactMode::SyncLight, &Immovable);
            assert_eq!(report, CompactReport { outcome: CompactOutcome::Success, ..CompactReport::default() });
        },
    );
}

#[test]
fn unsuitable_zones_are_skipped() {
    let skipped = CompactReport::default();
    // 1024 free pages are not more than twice the block.
    let free = |n: u64| (4 * PAGEBLOCK..).contains(&n) && n % PAGEBLOCK >= 256;
    laid_out(8, free, |world| {
        assert_eq!(world.compact(&movable(9), CompactMode::Sync, &Immovable), skipped);
        assert_eq!(world.compact(&movable(0), CompactMode::Sync, &Immovable), skipped);
        assert_eq!(world.at(0).compact(Some(Order::ZERO), CompactMode::Sync, &Immovable), skipped);
        let isolate = Request::new(order(9), MigrateType::Isolate);
        assert_eq!(world.compact(&isolate, CompactMode::Sync, &Immovable), skipped);
        assert_eq!(world.at(0).stats().compact_stall, 0, "no attempt was made");
    });
    // 1280 pages in 5 blocks of 256: the index is 1000 - (1000 + 2500) / 5 = 300, so memory is lacking.
    let free = |n: u64| (3 * PAGEBLOCK..).contains(&n) && n % PAGEBLOCK >= 256;
    laid_out(8, free, |world| {
        assert_eq!(world.compact(&movable(9), CompactMode::SyncLight, &Immovable), skipped);
    });
}

/// Nothing moves: seven pageblocks are scanned before the scanners meet. Afterwards skip bits save the scans, until
/// they are cleared.
#[test]
fn a_zone_where_nothing_moves() {
    laid_out(8, every_other, |world| {
        let run = || world.at(0).compact(Some(order(9)), CompactMode::SyncLight, &Immovable);
        let first = world.compact(&movable(9), CompactMode::SyncLight, &Immovable);
        assert_eq!(first.outcome, CompactOutcome::Complete);
        // Pageblock 0: a look at each page. 1 to 3: the same. 4 to 6: 256 pages and one free block each. The last
        // pageblock is the free scanner's.
        assert_eq!(cost(&first), [4 * 512 + 3 * 257, 0, 0, 0, 0, 0]);
        assert_eq!((world.at(0).stats().compact_stall, world.at(0).stats().compact_fail), (1, 1));
        let second = run();
        assert_eq!((second.outcome, cost(&second)), (CompactOutcome::Complete, [0; 6]));
        world.node(NodeId(1)).forget_skipped();
        assert_eq!(cost(&run()), [0; 6], "that was another node");
        world.node(NodeId(0)).forget_skipped();
        assert_eq!(cost(&run()), cost(&first));
        world.node(NodeId(0)).forget_skipped();
        assert_eq!(cost(&run()), [0; 6], "no request has seen the whole zone since");
        let all = world.at(0).compact(None, CompactMode::Sync, &Immovable);
        assert_eq!((all.outcome, cost(&all)), (CompactOutcome::Complete, cost(&first)), "all of it, whatever is known");
    });
}

/// A second run continues at the positions of the first, for both scanners. Async runs have a position of their own.
#[test]
fn positions_are_remembered() {
    let run = |first: CompactMode, second: CompactMode| {
        // In the last eight pageblocks every third page is free.
        let free = |n: u64| if n < PAGEBLOCK { n.is_multiple_of(2) } else { n >= 4 * PAGEBLOCK && n.is_multiple_of(3) };
        laid_out(12, free, |world| {
            let owner = owner_of(world, holes().chain((1..4).map(|block| block * PAGEBLOCK)));
            let report = world.compact(&movable(9), first, &owner);
            assert_eq!((report.outcome, report.moved), (CompactOutcome::Success, 256));
            assert_eq!(world.alloc(&movable(9)), Ok(page(0)));
            // Isolation overwrites the skip bits, so only the positions remain.
            for migratetype in [MigrateType::Isolate, MigrateType::Movable] {
                (0..12).for_each(|block| {
                    world.set_pageblock_type(page(block * 512), migratetype).expect("the page is in the zone")
                });
            }
            let report = world.at(0).compact(Some(order(9)), second, &owner);
            // Pageblocks 1 to 3 have one movable page each, which makes no block. Pageblocks that an async run scanned
            // in strides are scanned again, so the scanners meet later and more pages move.
            let moved = match (first, second) {
                (CompactMode::Async, CompactMode::Async) => 11,
                (CompactMode::Async, _) => 42,
                _ => 3,
            };
            assert_eq!(report.moved, moved);
            owner.check();
            report
        })
    };
    let same = run(CompactMode::SyncLight, CompactMode::SyncLight);
    assert_eq!(same.outcome, CompactOutcome::PartialSkipped, "it began behind the first pageblock");
    // Pageblocks 1 to 9 are scanned; in 10 the scanners meet.
    assert_eq!(same.migrate_scanned, 9 * 512);
    // 170 pages of the last pageblock were free. 86 came from the previous one, the last of them its page 256. The
    // second run begins at its first page and takes pages 259, 262 and 265.
    assert_eq!((same.free_scanned, same.free_isolated), (266, 3));
    let other = run(CompactMode::Async, CompactMode::SyncLight);
    assert_eq!(other.outcome, CompactOutcome::Complete, "the asynchronous position is none of its business");
    assert_eq!(run(CompactMode::Async, CompactMode::Async).outcome, CompactOutcome::PartialSkipped);
    assert_eq!(run(CompactMode::SyncLight, CompactMode::Async).outcome, CompactOutcome::PartialSkipped);
}

/// After a failure the next attempt is skipped and the one after it is made: 2^1 are considered.
#[test]
fn failures_defer() {
    laid_out(8, every_other, |world| {
        let attempt = |mode| world.compact(&movable(9), mode, &Immovable).outcome;
        assert_eq!(attempt(CompactMode::Async), CompactOutcome::Complete);
        assert_eq!(attempt(CompactMode::SyncLight), CompactOutcome::Complete, "an asynchronous failure does not count");
        assert_eq!(attempt(CompactMode::SyncLight), CompactOutcome::Deferred);
        assert_eq!(attempt(CompactMode::Sync), CompactOutcome::Complete, "the last resort is never deferred");
        let passed_over = (0..).take_while(|_| attempt(CompactMode::SyncLight) == CompactOutcome::Deferred).count();
        assert_eq!(passed_over, 3, "after two failures 2^2 are considered");
        // Larger orders are deferred with it, smaller ones are not.
        let smaller = world.compact(&movable(8), CompactMode::SyncLight, &Immovable);
        assert_eq!(smaller.outcome, CompactOutcome::Success, "there are such blocks");
        // After 64 skipped attempts the skip bits are cleared and everything is scanned again.
        for _ in 0..4 {
            while world.compact(&movable(9), CompactMode::SyncLight, &Immovable).outcome == CompactOutcome::Deferred {}
        }
        let stats = world.at(0).stats().compact_migrate_scanned;
        let passed_over = (0..)
            .take_while(|_| {
                world.compact(&movable(9), CompactMode::SyncLight, &Immovable).outcome == CompactOutcome::Deferred
            })
            .count();
        assert_eq!(passed_over, 63);
        assert!(world.at(0).stats().compact_migrate_scanned > stats, "skip bits are forgotten");
    });
}

/// A captured block ends the deferral at once.
#[test]
fn success_ends_deferral() {
    laid_out(8, every_other, |world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 500, high_max: 500 }).expect("room");
        let fails = || world.compact(&movable(9), CompactMode::SyncLight, &Immovable).outcome;
        assert_eq!(fails(), CompactOutcome::Complete);
        assert_eq!(fails(), CompactOutcome::Deferred);
        let owner = owner_of(world, holes());
        let report = world.compact(&movable(9), CompactMode::Sync, &owner);
        assert!(report.captured.is_some());
        assert_ne!(fails(), CompactOutcome::Deferred);
    });
}

/// Without targets the run stops: it does not take the last pages above the min mark.
#[test]
fn the_min_mark_is_kept() {
    // 4 free pages in the first pageblock, 8 in the last, none next to another.
    let free = |n: u64| (n < 8 || (7 * 512..7 * 512 + 16).contains(&n)) && n.is_multiple_of(2);
    laid_out(8, free, |world| {
        // Order 1 is tried with more than 4 pages above the min mark. Each taken page must leave more than one.
        world.at(0).set_watermarks(Watermarks { min: 7, low: 7, high: 7 }, [0; 4]);
        // Moved pages wait in the pageset and are not free yet.
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 500, high_max: 500 }).expect("room");
        let owner = owner_of(world, (32..512).rev());
        let report = world.compact(&movable(1), CompactMode::SyncLight, &owner);
        assert_eq!(report.outcome, CompactOutcome::Contended);
        // 12, 11, 10, 9 are more than 7 + 1.
        assert_eq!((report.free_isolated, report.moved, report.isolated), (4, 4, 32));
        assert_eq!(report.failed, 28);
        assert_eq!(world.at(0).stats().nr_free_pages, 8);
        owner.check();
    });
}

/// An async request processes one sub-block after the other: each moves away completely or stays.
#[test]
fn an_asynchronous_request_leaves_what_cannot_become_free() {
    // Order 2. Sub-block 0 has a page that stays; the second sub-block moves.
    let free = |n: u64| n == 0 || n >= 3 * 512 && n.is_multiple_of(2);
    laid_out(4, free, |world| {
        let owner = owner_of(world, [1, 2, 4, 5, 6, 7].into_iter());
        let report = world.compact(&movable(2), CompactMode::Async, &owner);
        assert_eq!(report.outcome, CompactOutcome::Success);
        assert_eq!(owner.moved().iter().map(|moved| moved.0).collect::<Vec<_>>(), [4, 5, 6, 7].map(page));
        // Pages 1 and 2 were isolated, and put back at page 3.
        assert_eq!((report.isolated, report.moved, report.failed), (6, 4, 2));
        owner.check();
    });
    // Only async requests skip pageblocks of another type.
    laid_out(8, every_other, |world| {
        world.set_pageblock_type(page(0), MigrateType::Unmovable).expect("the page is in the zone");
        let owner = owner_of(world, holes());
        let report = world.compact(&movable(9), CompactMode::Async, &owner);
        assert_eq!((report.outcome, report.isolated), (CompactOutcome::Complete, 0));
        let report = world.compact(&movable(9), CompactMode::SyncLight, &owner);
        assert_eq!((report.outcome, report.isolated), (CompactOutcome::Success, 256));
    });
}

/// Pages move only to movable pageblocks; as a last resort to any type, but never to an isolated pageblock.
#[test]
fn destinations_by_type() {
    use MigrateType::{Cma, HighAtomic, Isolate, Movable, Reclaimable, Unmovable};
    for (migratetype, light, last_resort) in [
        (Movable, true, true),
        (Cma, true, true),
        (Unmovable, false, true),
        (Reclaimable, false, true),
        (HighAtomic, false, true),
        (Isolate, false, false),
    ] {
        for (mode, moves) in [(CompactMode::SyncLight, light), (CompactMode::Sync, last_resort)] {
            let free = |n: u64| n < 512 && n.is_multiple_of(2) || n >= 3 * 512 && n.is_multiple_of(2);
            laid_out(4, free, |world| {
                for block in 1..4 {
                    world.set_pageblock_type(page(block * 512), migratetype).expect("the page is in the zone");
                }
                let owner = owner_of(world, (1..512).step_by(2));
                let report = world.compact(&Request { cma: true, ..movable(1) }, mode, &owner);
                assert_eq!(report.moved > 0, moves, "{migratetype:?}, {mode:?}: {report:?}");
                owner.check();
                for block in 1..4 {
                    world.set_pageblock_type(page(block * 512), Movable).expect("the page is in the zone");
                }
            });
        }
    }
}

/// Blocks above order 0 move as a whole, to an aligned target. Blocks at least as large as wanted stay.
#[test]
fn larger_blocks_move_whole() {
    one_zone(LINUX_6_18, 8 * PAGEBLOCK, 1, |world| {
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        let owner = StampingOwner::new(world);
        let all: Vec<Id> = (0..).map_while(|_| owner.alloc(&movable(3))).collect();
        assert_eq!(all.len() as u64, 8 * PAGEBLOCK / 8);
        // Every other block of the first half pageblock and of the last four pageblocks: 1152 pages.
        for (id, block) in owner.blocks() {
            let n = (block.pfn.0 - BASE) / 8;
            if n < 32 && n.is_multiple_of(2) || n >= 256 && n % 2 == 1 {
                assert!(owner.free(id));
            }
        }
        assert_eq!(
            world.at(0).compact(Some(order(5)), CompactMode::SyncLight, &owner).outcome,
            CompactOutcome::Success
        );
        let moved = owner.moved();
        assert!(!moved.is_empty() && moved.iter().all(|moved| moved.2 == order(3)), "{moved:?}");
        owner.check();
        world.at(0).audit().expect("the audit passes");
        let report = world.at(0).compact(Some(order(3)), CompactMode::SyncLight, &owner);
        assert_eq!(report.outcome, CompactOutcome::Success, "there are such blocks");
    });
}

/// Background compaction serves no particular request: a failure drains the pagesets of all CPUs and defers.
#[test]
fn background_compaction_of_a_node() {
    laid_out(8, every_other, |world| {
        let background = |owner: &StampingOwner<'_, '_, TestMachine>| {
            world.node(NodeId(0)).compact(order(9), ZoneKind::Normal, owner).outcome
        };
        let nothing = owner_of(world, 0..0);
        assert_eq!(background(&nothing), CompactOutcome::Complete);
        assert_eq!(background(&nothing), CompactOutcome::Deferred);
        let owner = owner_of(world, holes());
        assert_eq!(world.node(NodeId(1)).compact(order(9), ZoneKind::Normal, &owner), CompactReport::default());
        assert_eq!(world.node(NodeId(0)).compact(order(9), ZoneKind::Dma, &owner), CompactReport::default());
        assert_eq!(world.compact(&movable(9), CompactMode::Sync, &owner).outcome, CompactOutcome::Success);
        assert_eq!(world.at(0).stats().compact_stall, 1, "the background keeps no request waiting");
    });
}

/// Proactive compaction ends when the fragmentation score is low enough.
#[test]
fn proactive_until_the_score_is_low_enough() {
    laid_out(
        8,
        |n| n.is_multiple_of(2),
        |world| {
            let owner = owner_of(world, (1..8 * PAGEBLOCK).step_by(2));
            assert_eq!(world.node(NodeId(0)).fragmentation_score(), 100);
            assert_eq!(world.node(NodeId(1)).fragmentation_score(), 0);
            let report = world.node(NodeId(0)).compact_proactively(60, &owner);
            assert_eq!(report.outcome, CompactOutcome::Success);
            // At least 60 % of the 2048 free pages must be in blocks of order 9: three of four pageblocks.
            assert_eq!(world.node(NodeId(0)).fragmentation_score(), 25);
            let all = world.node(NodeId(0)).compact_proactively(100, &owner);
            assert_eq!(
                (all.outcome, world.node(NodeId(0)).fragmentation_score()),
                (CompactOutcome::Complete, 0),
                "the scanners met first"
            );
            owner.check();
        },
    );
}

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// A lock that is held by another when tried, if the test selects so.
#[derive(Debug, Default)]
struct SometimesBusy(SpinLock);

impl RawLock for SometimesBusy {
    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        !BUSY.get() && self.0.try_lock()
    }

    fn unlock(&self) {
        self.0.unlock();
    }
}

struct BusyMachine;

impl Machine for BusyMachine {
    type Lock = SometimesBusy;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// An async run ends at the next pageblock when others want the lock; other runs go on.
#[test]
fn a_busy_lock_ends_an_asynchronous_run() {
    for (mode, outcome) in
        [(CompactMode::Async, CompactOutcome::Contended), (CompactMode::SyncLight, CompactOutcome::Complete)]
    {
        let range = PageRange::new(Pfn(BASE), 8 * PAGEBLOCK);
        let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] };
        let zones = [spec];
        let config = Config::new(&zones, &[NodeId(0)]);
        let metadata = OwnedMetadata::new(&config).expect("memory");
        let mut zones = metadata.zones();
        let world = Allocator::new(BusyMachine, &config, metadata.lend(&mut zones)).expect("the map is valid");
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        let owner = StampingOwner::new(&world);
        while let Ok(pfn) = world.alloc(&movable(0)) {
            let n = pfn.0 - BASE;
            // One page of each pageblock stays, so no block is made.
            if n % PAGEBLOCK != 7 {
                owner.adopt(pfn, Order::ZERO);
            }
        }
        for n in (0..8 * PAGEBLOCK).filter(|n| n.is_multiple_of(3)) {
            if let Some(id) = owner.at(page(n)) {
                assert!(owner.free(id));
            }
        }
        BUSY.set(true);
        let report = world.at(0).compact(Some(order(9)), mode, &owner);
        BUSY.set(false);
        assert_eq!(report.outcome, outcome, "{mode:?} {report:?}");
        assert!(report.moved > 0, "what was begun is finished");
        owner.check();
        world.at(0).audit().expect("the audit passes");
    }
}

/// Every other page is free. An async run that looks at one page in 32 finds none of them. It must not set skip bits,
/// so that the next run finds the free pages.
#[test]
fn pageblocks_scanned_in_strides_are_scanned_again() {
    laid_out(
        12,
        |n| n % 2 == 1,
        |world| {
            let owner = owner_of(world, (0..6 * PAGEBLOCK).filter(|n| n % 2 == 0));
            let first = world.compact(&movable(9), CompactMode::Async, &owner);
            assert_ne!(first.outcome, CompactOutcome::Success);
            let second = world.compact(&movable(9), CompactMode::SyncLight, &owner);
            assert_eq!(second.outcome, CompactOutcome::Success);
            owner.check();
        },
    );
}

/// One block of order 3 at the start, then single pages with a hole next to each. No target is large enough for the
/// block. The single pages move all the same.
#[test]
fn a_block_without_a_target_does_not_stop_smaller_ones() {
    one_zone(LINUX_6_18, 8 * PAGEBLOCK, 1, |world| {
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        let owner = StampingOwner::new(world);
        owner.alloc(&movable(3)).expect("memory");
        let singles: Vec<Id> = std::iter::from_fn(|| owner.alloc(&movable(0))).collect();
        singles.into_iter().filter(|&id| owner.place(id).0.is_multiple_of(2)).for_each(|id| assert!(owner.free(id)));
        let report = world.compact(&movable(6), CompactMode::SyncLight, &owner);
        assert!(report.outcome == CompactOutcome::Success && report.moved > 0 && report.failed > 0, "{report:?}");
        world.at(0).audit().expect("the audit passes");
    });
}

/// The last resort ignores skip bits, whoever requests it.
#[test]
fn sync_compaction_scans_the_whole_zone() {
    laid_out(
        8,
        |n| n.is_multiple_of(2),
        |world| {
            // The owner releases no page, so all pageblocks get skip bits.
            for _ in 0..3 {
                world.at(0).compact(Some(order(9)), CompactMode::SyncLight, &Immovable);
            }
            let owner = owner_of(world, (0..8 * PAGEBLOCK).filter(|n| !n.is_multiple_of(2)));
            let passed_over = world.at(0).compact(Some(order(9)), CompactMode::SyncLight, &owner);
            assert_eq!(passed_over.moved, 0, "{passed_over:?}");
            let report = world.at(0).compact(Some(order(9)), CompactMode::Sync, &owner);
            assert_eq!(report.outcome, CompactOutcome::Success, "{report:?}");
        },
    );
}

/// The pageset holds exactly a batch when the run drains it. If the batch were freed as a cluster, its pages would not
/// be captured.
#[test]
fn a_block_is_captured_from_a_pageset_that_holds_a_batch() {
    for batch in [16, 17] {
        one_zone(CLUSTERS_FREE, 64 * PAGEBLOCK, 1, |world| {
            world.at(0).set_watermarks(NO_MARKS, [0; 4]);
            world.at(0).set_bounds(Bounds::DISABLED).expect("room");
            for _ in 0..64 * PAGEBLOCK {
                world.alloc(&movable(0)).expect("a page");
            }
            for n in (0..32).step_by(2).chain((63 * PAGEBLOCK..64 * PAGEBLOCK).step_by(2)) {
                world.free(page(n), Order::ZERO).expect("allocated");
            }
            world.at(0).set_bounds(Bounds { batch, high_min: 60, high_max: 60 }).expect("room");
            let owner = owner_of(world, (1..32).step_by(2));
            let report = world.compact(&movable(5), CompactMode::Async, &owner);
            assert_eq!((report.captured, report.moved), (Some(page(0)), 16), "batch {batch}: {report:?}");
            world.at(0).audit().expect("the audit passes");
        });
    }
}
