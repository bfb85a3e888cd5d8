//! Free parts of pageblocks in bitmaps, which drains set and refills take without a lock.

use crate::llfree::shuffle;
use crate::owner::StampingOwner;
use crate::support::{Known, World, build, movable};
use crate::threads::Random;
use pageset::policy::presets::{PAGESET, PAGESET_LISTS};
use pageset::policy::{Bounds, TuningError, Watermarks};
use pageset::{
    Alloc, AllocFrom, CompactMode, CompactOutcome, Config, CpuId, Free, FreeTo, MapError, MigrateType, NodeId, Order,
    PageRange, Pfn, RegionRule, Request, Tuning, Wait, WrongFree, ZoneKind, ZoneSpec,
};

const BASE: u64 = 1 << 20;
const REGION: u64 = 1 << 13;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// A zone of two regions, and two CPUs, whose pagesets keep few pages. No depots, so that all that is drained goes to bitmaps.
fn two_regions<R>(tuning: Tuning, test: impl FnOnce(&World<'_>) -> R) -> R {
    let ranges = [PageRange::new(Pfn(BASE), 2 * REGION)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let backing = tuning.backing.with_regions(RegionRule::Fixed(2)).with_stores(false, tuning.backing.bitmaps());
    let tuning = Tuning { backing, ..tuning };
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) }, |world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 200, high_max: 200 }).expect("room");
        world.at(0).set_watermarks(Watermarks { min: 0, low: 0, high: 0 }, [0; 4]);
        test(world)
    })
}

fn take(world: &World<'_>, of: u8, blocks: usize) -> Vec<Pfn> {
    (0..blocks).map(|_| world.alloc(&movable(of)).expect("memory")).collect()
}

fn shuffled(mut blocks: Vec<Pfn>) -> Vec<Pfn> {
    shuffle(&mut blocks, &mut Random(7));
    blocks
}

/// Allocates all memory in single pages. Frees the pages that `free` selects, in random order, and returns the other pages.
fn scatter(world: &World<'_>, free: impl Fn(u64) -> bool) -> Vec<Pfn> {
    scatter_pages(world, 2 * REGION, free)
}

/// As [`scatter`], in a zone of some pages.
fn scatter_pages(world: &World<'_>, pages: u64, free: impl Fn(u64) -> bool) -> Vec<Pfn> {
    let all = take(world, 0, pages as usize);
    // Drains go to the lists until a tick has seen that the zone has memory again.
    world.free_with(Free::block(all[0], Order::ZERO).to(FreeTo::Buddy)).expect("in use");
    let _ = world.tick();
    assert_eq!(world.alloc(&movable(0)), Ok(all[0]));
    let (freed, kept): (Vec<Pfn>, _) = shuffled(all).into_iter().partition(|pfn| free(pfn.0 - BASE));
    freed.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
    kept
}

/// The pages of the blocks that `/proc/pagetypeinfo` would list.
fn listed(world: &World<'_>) -> u64 {
    let of =
        |order: Order| MigrateType::ALL.map(|list| u64::from(world.at(0).free_blocks(order, list)) * order.pages());
    Order::all().flat_map(of).sum()
}

fn check_books(world: &World<'_>) {
    let stats = world.at(0).stats();
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!((books.free, listed(world)), (stats.nr_free_pages, stats.nr_free_pages));
    assert!(stats.bitmap <= stats.nr_free_pages);
}

/// A range that is brought on-line may not contain a page that is free in a bitmap.
#[test]
fn a_page_in_a_bitmap_is_known() {
    two_regions(PAGESET, |world| {
        let gone = PageRange::new(Pfn(BASE), 4);
        world.offline(gone, &pageset::Immovable).expect("all of it is free");
        world.at(0).set_watermarks(Watermarks { min: 0, low: 0, high: 0 }, [0; 4]);
        let pages = take(world, 0, 2 * REGION as usize - 4);
        let (near, others): (Vec<Pfn>, Vec<Pfn>) = pages.into_iter().partition(|page| page.0 < BASE + 8);
        for page in near.into_iter().chain(shuffled(others)) {
            world.free(page, Order::ZERO).expect("was allocated");
        }
        let free = world.at(0).stats().bitmap;
        assert!(free > 0);
        let known = world.online(PageRange::new(Pfn(BASE), 8));
        assert_eq!(known, Err(MapError::Overlap { start: Pfn(BASE), other: Pfn(BASE + 4) }));
        check_books(world);
        world.online(gone).expect("it was taken off-line");
        check_books(world);
    });
}

/// Blocks that are freed in random order merge without the lock: a pageblock takes one hold, when all of it is free.
#[test]
fn random_frees_take_a_lock_for_each_pageblock() {
    for of in [0, 1, 3, 5, 6, 8] {
        let [with, without] = [PAGESET, PAGESET_LISTS].map(|tuning| {
            two_regions(tuning, |world| {
                let whole = |world: &World<'_>| world.at(0).free_blocks(Order::MAX, MigrateType::Movable);
                let before = whole(world);
                let blocks = shuffled(take(world, of, 8192 >> of));
                let holds = world.at(0).stats().lock_drain;
                let (first, rest) = blocks.split_at(blocks.len() / 2);
                first.iter().for_each(|&pfn| world.free(pfn, order(of)).expect("in use"));
                let parts = world.at(0).stats().bitmap;
                check_books(world);
                rest.iter().for_each(|&pfn| world.free(pfn, order(of)).expect("in use"));
                check_books(world);
                let holds = world.at(0).stats().lock_drain - holds;
                world.drain_all();
                assert_eq!((world.at(0).stats().bitmap, whole(world)), (0, before), "order {of}: all memory merges");
                check_books(world);
                (parts, holds)
            })
        });
        assert!(with.0 > 1000 && without.0 == 0, "order {of}: pages in bitmaps: {with:?}, {without:?}");
        assert!(with.1 <= 8192 / 512, "order {of}: holds: {with:?}, {without:?}");
    }
}

/// A refill takes blocks of each order from the bitmaps, and none of them twice.
#[test]
fn refills_take_what_fits() {
    two_regions(PAGESET, |world| {
        let pages = shuffled(take(world, 0, 8192));
        pages.iter().take(6000).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let before = world.at(0).stats();
        assert!(before.bitmap > 3000, "{before:?}");
        let mut taken = vec![];
        for of in [0, 1, 2, 3] {
            taken.extend(take(world, of, 150).into_iter().map(|pfn| (pfn, order(of))));
            check_books(world);
        }
        let after = world.at(0).stats();
        assert!(after.bitmap + 500 < before.bitmap, "{before:?}, {after:?}");
        taken.into_iter().for_each(|(pfn, of)| world.free(pfn, of).expect("no other block has its pages"));
        check_books(world);
    });
}

/// The part of a pageblock that a refill leaves is in the bitmap, so that the next refill takes no lock.
#[test]
fn a_refill_leaves_the_rest_of_a_pageblock_in_its_bitmap() {
    two_regions(PAGESET, |world| {
        take(world, 0, 1);
        let stats = world.at(0).stats();
        assert_eq!((stats.lock_refill, stats.bitmap), (1, 512 - stats.pagesets.refill_pages));
        take(world, 0, stats.pagesets.refill_pages as usize);
        let stats = world.at(0).stats();
        assert_eq!((stats.pagesets.refills, stats.lock_refill), (2, 1));
        check_books(world);
    });
}

/// A refill that splits a block of a pageblock with other parts on lists leaves the rest there: it may merge with them, and no tick has
/// to bring it back.
#[test]
fn a_refill_leaves_parts_on_lists() {
    two_regions(PAGESET, |world| {
        take(world, 0, 1);
        world.drain_all();
        take(world, 0, 1);
        assert_eq!(world.at(0).stats().bitmap, 0);
        check_books(world);
    });
}

/// All memory is in bitmaps, in parts: it serves every request that it can.
#[test]
fn bitmaps_give_way_to_requests() {
    let scattered = |world: &World<'_>| {
        let request = Request { watermarks: false, ..movable(0) };
        let all: Vec<_> = std::iter::from_fn(|| world.alloc(&request).ok()).collect();
        shuffled(all)
            .into_iter()
            .filter(|pfn| pfn.0 % 1024 != 0)
            .for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        assert!(world.at(0).stats().bitmap > 2 * REGION - 1024, "{:?}", world.at(0).stats());
    };
    // A block that the bitmaps have only after pages of all pagesets came back, by a request that waits for locks only.
    two_regions(PAGESET, |world| {
        scattered(world);
        world.drain_cpu(CpuId(0));
        let request = Request { watermarks: false, wait: Wait::Lock, ..movable(9) };
        world.alloc(&request).expect("half of the pageblocks are free");
        check_books(world);
    });
    // Requests that wait for nothing get every last page, of another type's pageblocks as well.
    for migratetype in [MigrateType::Movable, MigrateType::Unmovable] {
        two_regions(PAGESET, |world| {
            scattered(world);
            let free = world.at(0).stats().nr_free_pages + world.at(0).stats().pagesets.count;
            let request = Request { watermarks: false, wait: Wait::Nothing, ..Request::new(Order::ZERO, migratetype) };
            let got = std::iter::from_fn(|| world.alloc(&request).ok()).count() as u64;
            let left = world.at(0).stats();
            let kept = if migratetype == MigrateType::Movable { 0 } else { left.pagesets.count };
            assert_eq!((got + kept, left.nr_free_pages), (free, 0), "{migratetype:?}: {left:?}");
            check_books(world);
        });
    }
}

/// The mark test of a request above order 0 sees the blocks in bitmaps: no request fails while they have its block.
#[test]
fn marks_see_blocks_in_bitmaps() {
    let types = [MigrateType::Movable, MigrateType::Unmovable];
    for (of, migratetype) in [1, 3, 6, 8].into_iter().flat_map(|of| types.map(|kind| (of, kind))) {
        two_regions(PAGESET, |world| {
            scatter(world, |n| n % 512 != 0);
            let before = world.at(0).stats();
            assert_eq!(before.nr_free_pages, before.bitmap, "no block is on a list");
            let request = Request { wait: Wait::Nothing, ..Request::new(order(of), migratetype) };
            world.alloc(&request).expect("the bitmaps have it");
            check_books(world);
        });
    }
}

/// A mark test looks at the bitmaps of 64 pageblocks at most. What is beyond serves requests that may wait for a lock.
#[test]
fn marks_look_at_few_pageblocks() {
    let ranges = [PageRange::new(Pfn(BASE), 128 * 512)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { backing: PAGESET.backing.with_regions(RegionRule::One).with_stores(false, true), ..PAGESET };
    for (pageblock, is_seen) in [(63, true), (64, false)] {
        build(&Config { tuning, ..Config::new(&zones, &[NodeId(0)]) }, |world| {
            world.at(0).set_bounds(Bounds { batch: 63, high_min: 200, high_max: 200 }).expect("room");
            world.at(0).set_watermarks(Watermarks { min: 0, low: 0, high: 0 }, [0; 4]);
            // Blocks of order 3 in one pageblock, single pages in all others.
            let free = |n: u64| if n / 512 == pageblock { n % 512 >= 8 } else { n.is_multiple_of(8) };
            scatter_pages(world, 128 * 512, free);
            assert!(world.at(0).stats().bitmap > 8000, "{:?}", world.at(0).stats());
            let request = Request { wait: Wait::Nothing, ..movable(3) };
            assert_eq!(world.alloc(&request).is_ok(), is_seen, "{:?}", world.alloc(&request));
            world.alloc(&Request { wait: Wait::Lock, ..request }).expect("the bitmaps have it");
            check_books(world);
        });
    }
}

/// A refill of an order that the first pageblocks with free parts do not have takes the rest of the pageblock that an earlier refill
/// split, and does not split another one.
#[test]
fn refills_go_on_where_they_found_blocks() {
    two_regions(PAGESET, |world| {
        let kept = scatter(world, |n| n % REGION / 512 >= 12);
        // Single pages follow, so that no page of the others stays in the pageset.
        kept.iter().filter(|pfn| pfn.0 % 2 == 0).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let whole = || {
            let of = |of| u64::from(world.at(0).free_blocks(order(of), MigrateType::Movable));
            of(9) + 2 * of(10)
        };
        assert_eq!(whole(), 8);
        take(world, 3, 100);
        assert!(whole() >= 8 - 2, "800 pages of {} pageblocks", 8 - whole());
        check_books(world);
    });
}

/// A refill passes by 512 pageblocks of other types at most. The next one goes on where it ended.
#[test]
fn refills_skip_few_pageblocks_of_other_types() {
    let ranges = [PageRange::new(Pfn(BASE), 640 * 512)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { backing: PAGESET.backing.with_regions(RegionRule::One).with_stores(false, true), ..PAGESET };
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0)]) }, |world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 200, high_max: 200 }).expect("room");
        world.at(0).set_watermarks(Watermarks { min: 0, low: 0, high: 0 }, [0; 4]);
        let of_type = |migratetype| Request { watermarks: false, ..Request::new(Order::ZERO, migratetype) };
        for pageblock in 0..630 {
            let pfn = Pfn(BASE + 512 * pageblock);
            world.set_pageblock_type(pfn, MigrateType::Unmovable).expect("in the zone");
        }
        let mut pages: Vec<_> =
            (0..630 * 512).map(|_| world.alloc(&of_type(MigrateType::Unmovable)).unwrap()).collect();
        pages.extend((0..5 * 512).map(|_| world.alloc(&of_type(MigrateType::Movable)).expect("memory")));
        // Half of the pages of each type, the movable ones first.
        pages.iter().rev().step_by(2).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        world.drain_cpu(CpuId(0));
        let holds = || world.at(0).stats().lock_refill;
        let refill = || {
            let before = (holds(), world.at(0).stats().pagesets.refills);
            while world.at(0).stats().pagesets.refills == before.1 {
                world.alloc(&movable(0)).expect("memory");
            }
            holds() - before.0
        };
        assert_eq!([refill(), refill()], [1, 0], "the first one goes to the lists");
    });
}

/// A tick looks after each region by itself: refills of one do not keep the pages in the bitmaps of another.
#[test]
fn idle_regions_are_emptied() {
    two_regions(PAGESET, |world| {
        scatter(world, |n| n % 512 != 0);
        // A page in a bitmap is in no free block.
        let parts = |region: u64| {
            let pages = (region * REGION..(region + 1) * REGION).filter(|n| n % 512 != 0);
            pages.filter(|&n| world.free_block_around(Pfn(BASE + n)).is_none()).count()
        };
        assert!(parts(0) > 7000 && parts(1) > 7000);
        for _ in 0..4 {
            take(world, 0, 400);
            let _ = world.tick();
        }
        // The refills come from region 0.
        assert!(parts(0) > 7000 && parts(1) < 300, "{}, {}", parts(0), parts(1));
        check_books(world);
    });
}

/// Parts that no refill needed go to the lists, by the ticks of any CPU.
#[test]
fn idle_parts_go_back() {
    two_regions(PAGESET, |world| {
        let pages = shuffled(take(world, 0, 4096));
        pages.iter().take(2000).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        assert!(world.at(0).stats().bitmap > 0);
        assert!(world.tick(), "there is more to do");
        for _ in 0..5 {
            let _ = world.tick();
        }
        let stats = world.at(0).stats();
        assert_eq!(stats.bitmap, 0);
        check_books(world);
    });
}

/// Changes of a pageblock's type, ranges, and disabled pagesets find no page in a bitmap.
#[test]
fn bitmaps_are_emptied_first() {
    two_regions(PAGESET, |world| {
        let pages = shuffled(take(world, 0, 4096));
        let (kept, freed) = pages.split_at(300);
        freed.iter().for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        assert!(world.at(0).stats().bitmap > 0);
        world.at(0).disable_pagesets();
        assert_eq!(world.at(0).stats().bitmap, 0);
        let more = take(world, 0, 700);
        more.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        assert_eq!(world.at(0).stats().bitmap, 0, "a pageset that keeps nothing leaves nothing there");
        world.at(0).enable_pagesets().expect("disabled");
        kept.iter().for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        check_books(world);
    });
    // Unmovable requests claim pageblocks that have free parts in bitmaps.
    two_regions(PAGESET, |world| {
        let pages = shuffled(take(world, 0, 2 * REGION as usize - 600));
        pages.iter().take(9000).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let request = Request { watermarks: false, ..Request::new(Order::ZERO, MigrateType::Unmovable) };
        (0..2000).for_each(|_| assert!(world.alloc(&request).is_ok()));
        check_books(world);
    });
}

/// A block that is taken by its place is found in bitmaps, and only its pageblock's bitmap is emptied.
#[test]
fn blocks_by_place_are_found_in_bitmaps() {
    two_regions(PAGESET, |world| {
        scatter(world, |n| n % 16 != 0);
        world.drain_cpu(CpuId(0));
        let at = |n: u64| Pfn(BASE + n);
        let bitmap = || world.at(0).stats().bitmap;
        let before = bitmap();
        assert_eq!((world.free_block_around(at(8)), bitmap()), (None, before), "it takes no lock");
        assert!(world.alloc_at(at(8), order(3)), "the pageblock's bitmap has it");
        let emptied = |pageblocks: u64| {
            let pages = before - bitmap();
            // Some pages came to the lists from a pageset.
            assert!((pageblocks * 440..=pageblocks * 480).contains(&pages), "{pages} pages of {pageblocks} pageblocks");
        };
        emptied(1);
        assert!(!world.alloc_at(at(512), Order::PAGEBLOCK), "pages are in use");
        emptied(2);
        assert_eq!(world.settled_free_block_around(at(1024 + 9)), Some(PageRange::new(at(1024 + 8), 8)));
        emptied(3);
        assert!(world.alloc_at_cached(at(2048 + 8), order(3)));
        emptied(4);
        assert!(!world.alloc_at(at(4096), Order::MAX), "pages are in use");
        emptied(6);
        check_books(world);
    });
}

/// A request that may not claim a pageblock leaves its bitmap as it is.
#[test]
fn a_claim_that_fails_leaves_the_bitmap() {
    two_regions(PAGESET, |world| {
        let kept = scatter(world, |n| n % 8 == 0);
        // One page on a list, where a claim finds it.
        world.free_with(Free::block(kept[0], Order::ZERO).to(FreeTo::Buddy)).expect("in use");
        let before = world.at(0).stats();
        // From a CPU with an empty pageset: another would first drain pages for a request that may wait.
        world.machine().run_on(1);
        assert_eq!(world.pageset(0, CpuId(1)).stats().count, 0);
        for wait in [Wait::Nothing, Wait::Lock, Wait::Memory] {
            let unmovable = Request::new(Order::ZERO, MigrateType::Unmovable);
            let request = Request { watermarks: false, wait, ..unmovable };
            assert_eq!(world.alloc(&request), Ok(kept[0]), "{wait:?}");
            assert_eq!((world.at(0).stats().bitmap, before.bitmap > 1000), (before.bitmap, true), "{wait:?}");
            world.free_with(Free::block(kept[0], Order::ZERO).to(FreeTo::Buddy)).expect("in use");
        }
        check_books(world);
    });
}

/// A compaction sees the pages in bitmaps as free pages.
#[test]
fn compaction_empties_the_bitmaps() {
    two_regions(PAGESET, |world| {
        let owner = StampingOwner::new(world);
        for pfn in scatter(world, |n| n % 2 == 0) {
            owner.adopt(pfn, Order::ZERO);
        }
        let before = world.at(0).stats();
        assert!(before.bitmap > REGION - 300 && world.node(NodeId(0)).fragmentation_score() == 100, "{before:?}");
        let report = world.at(0).compact(Some(Order::PAGEBLOCK), CompactMode::SyncLight, &owner);
        assert_eq!(report.outcome, CompactOutcome::Success, "{report:?}");
        assert!(world.at(0).stats().bitmap < 512, "{:?}", world.at(0).stats());
        world.alloc(&Request { wait: Wait::Nothing, ..movable(9) }).expect("compaction made it");
        owner.check();
        check_books(world);
    });
}

/// A proactive compaction ends at its score, whether the free memory was in bitmaps or on lists at its start.
#[test]
fn proactive_compaction_counts_the_pages_of_bitmaps() {
    let moved = |in_bitmaps: bool| {
        two_regions(PAGESET, |world| {
            let owner = StampingOwner::new(world);
            for pfn in scatter(world, |n| n % 2 == 0) {
                owner.adopt(pfn, Order::ZERO);
            }
            world.drain_cpu(CpuId(0));
            if !in_bitmaps {
                world.drain_all();
            }
            assert_eq!(world.at(0).stats().bitmap > REGION - 300, in_bitmaps);
            let report = world.node(NodeId(0)).compact_proactively(50, &owner);
            assert_eq!(report.outcome, CompactOutcome::Success, "{report:?}");
            assert!(world.node(NodeId(0)).fragmentation_score() <= 55, "{report:?}");
            owner.check();
            check_books(world);
            report.moved
        })
    };
    assert_eq!(moved(true), moved(false));
}

/// A page in a bitmap is no page in use: a second free of it changes nothing.
#[test]
fn wrong_frees_are_found() {
    two_regions(PAGESET, |world| {
        let pages = shuffled(take(world, 0, 4096));
        pages.iter().take(3000).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let before = world.at(0).stats();
        for &pfn in &pages[..3000] {
            let error = world.free(pfn, Order::ZERO).expect_err("freed twice");
            assert!(matches!(error.reason, WrongFree::NotAllocated(_) | WrongFree::Inside { .. }), "{error:?}");
            assert!(!error.to_string().contains("never brought online"), "{error}");
        }
        assert_eq!(world.at(0).stats(), before);
    });
}

#[test]
fn what_the_rule_needs() {
    let ranges = [PageRange::new(Pfn(BASE), REGION)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { type_at_drain: false, ..PAGESET };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let expected = MapError::Tuning(TuningError::Needs { rule: "bitmaps", needs: "type_at_drain = on" });
    assert_eq!(config.metadata_size().expect_err("refused"), expected);
}

/// `bitmap_pages` counts the pages that drains leave in bitmaps and the pages that refills take from bitmaps, without a lock.
#[test]
fn pages_that_pass_bitmaps_are_counted() {
    let moved = |bitmaps| {
        two_regions(Tuning { backing: PAGESET.backing.with_stores(false, bitmaps), ..PAGESET }, |world| {
            let stats = || {
                let stats = world.at(0).stats();
                (stats.bitmap_pages, stats.pagesets.drain_pages, stats.pagesets.refill_pages)
            };
            world.machine().run_on(0);
            let pages: Vec<_> = (0..2000).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
            let before = stats();
            // One page of each pair stays, so no pageblock becomes whole.
            pages.iter().step_by(2).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
            let freed = stats();
            take(world, 0, 1000);
            let after = stats();
            [(freed.0 - before.0, freed.1 - before.1), (after.0 - freed.0, after.2 - freed.2)]
        })
    };
    let [drain, refill] = moved(true);
    assert!(drain.1 > 0 && drain.0 == drain.1, "{drain:?}");
    assert!(refill.1 > 0 && refill.0 == refill.1, "{refill:?}");
    assert_eq!(moved(false).map(|counts| counts.0), [0, 0]);
}

/// A tick may be in an interrupt: it empties the bitmaps of 64 pageblocks at most, and says that there are more.
#[test]
fn a_tick_empties_some_pageblocks() {
    let ranges = [PageRange::new(Pfn(BASE), 1 << 17)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { backing: PAGESET.backing.with_regions(RegionRule::One).with_stores(false, true), ..PAGESET };
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0)]) }, |world| {
        let request = Request { watermarks: false, ..movable(0) };
        let pages: Vec<_> = std::iter::from_fn(|| world.alloc(&request).ok()).collect();
        pages.iter().step_by(2).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        // The first tick learns that no refill takes any.
        assert!(world.tick());
        let before = world.at(0).stats().bitmap;
        assert!(before > 128 * 256, "{before} pages in bitmaps of 256 pageblocks");
        assert!(world.tick(), "there are more");
        let freed = before - world.at(0).stats().bitmap;
        assert!((1..=64 * 256).contains(&freed), "{freed} pages in a tick");
        while world.tick() {}
        assert_eq!(world.at(0).stats().bitmap, 0);
        world.at(0).audit().expect("the audit passes");
    });
}

/// A request for one page does not empty the bitmaps before it fails: it takes single pages from there.
#[test]
fn requests_for_one_page_leave_bitmaps_alone() {
    two_regions(PAGESET, |world| {
        let _kept = scatter(world, |page| page % 2 == 0);
        let before = world.at(0).stats().bitmap;
        assert!(before > 0);
        let all = 4 * REGION;
        world.at(0).set_watermarks(Watermarks { min: all, low: all, high: all }, [0; 4]);
        world.alloc_with(Alloc::new(&movable(0)).from(AllocFrom::Buddy)).expect_err("below the marks");
        assert_eq!(world.at(0).stats().bitmap, before);
        world.alloc_with(Alloc::new(&movable(5)).from(AllocFrom::Buddy)).expect_err("below the marks");
        assert_eq!(world.at(0).stats().bitmap, 0, "for a larger block they are emptied");
    });
}
