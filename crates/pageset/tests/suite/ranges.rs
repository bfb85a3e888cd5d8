//! Contiguous ranges and memory that goes offline: blocks in use move away, neighbours stay, a failure changes nothing.

use crate::owner::StampingOwner;
use crate::support::{Known, TestMachine, World, build, movable, one_zone};
use pageset::policy::Watermarks;
use pageset::policy::presets::{LINUX_4_19, LINUX_6_18, PRESETS};
use pageset::{
    AllocError, Block, CompactMode, CompactOutcome, Config, CpuId, Free, Immovable, MapError, MigrateType, MoveError,
    NodeId, Obstacle, Order, Owner, PageRange, PageState, Pfn, RangeError, Request, Tuning, WrongFree, ZoneKind,
    ZoneSpec,
};
use std::cell::Cell;

const BASE: u64 = 1 << 20;
const NO_MARKS: Watermarks = Watermarks { min: 0, low: 0, high: 0 };

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

fn page(n: u64) -> Pfn {
    Pfn(BASE + n)
}

fn range(first: u64, end: u64) -> PageRange {
    PageRange::new(page(first), end - first)
}

fn zone<R>(tuning: Tuning, pages: u64, test: impl FnOnce(&World<'_>) -> R) -> R {
    one_zone(tuning, pages, 2, |world| {
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        let result = test(world);
        world.at(0).audit().expect("the audit passes");
        result
    })
}

/// Free blocks by order and type.
fn free_blocks(world: &World<'_>) -> Vec<(u8, MigrateType, u32)> {
    Order::all()
        .flat_map(|order| MigrateType::ALL.map(|migratetype| (order, migratetype)))
        .map(|(order, migratetype)| (order.get(), migratetype, world.at(0).free_blocks(order, migratetype)))
        .filter(|(_, _, blocks)| *blocks > 0)
        .collect()
}

fn types(world: &World<'_>, pages: u64) -> Vec<Option<MigrateType>> {
    (0..pages).step_by(512).map(|n| world.pageblock_type(page(n))).collect()
}

/// An unaligned range of free memory is allocated in its largest blocks; its neighbours stay free.
#[test]
fn a_free_range() {
    zone(LINUX_6_18, 4096, |world| {
        world.alloc_range(range(1000, 2051), MigrateType::Unmovable, &Immovable).expect("all is free");
        let stats = world.at(0).stats();
        assert_eq!((stats.nr_free_pages, stats.direct_alloc_pages), (4096 - 1051, 1051));
        assert_eq!(types(world, 4096), [Some(MigrateType::Movable); 8]);
        // 1000 to 1024, to 2048, to 2051.
        for (n, of) in [(1000, 3), (1008, 4), (1024, 10), (2048, 1), (2050, 0)] {
            let other = order((of + 1) % 3);
            let refused = world.free(page(n), other).expect_err("another order").reason;
            if page(n).is_aligned(other) {
                assert_eq!(refused, WrongFree::WrongOrder(order(of)));
            }
        }
        assert_eq!(
            world.alloc_range(range(2050, 2051), MigrateType::Movable, &Immovable),
            Err(RangeError { pfn: page(2050), obstacle: Obstacle::InUse(Order::ZERO) })
        );
        // One block alone, then the rest of the range on both sides.
        world.free(page(1024), Order::MAX).expect("it is a block of its own");
        world.free_with(Free::whole_blocks(range(1000, 1024))).expect("in use");
        world.free_with(Free::whole_blocks(range(2048, 2051))).expect("in use");
        world.drain_all();
        assert_eq!(free_blocks(world), [(10, MigrateType::Movable, 4)], "all memory has merged");
    });
}

#[test]
fn free_range_frees_all_or_nothing() {
    zone(LINUX_6_18, 4096, |world| {
        world.alloc_range(range(512, 1024), MigrateType::Movable, &Immovable).expect("free");
        let refused = |first, end| world.free_with(Free::whole_blocks(range(first, end))).expect_err("wrong");
        let before = world.at(0).stats();
        let error = refused(512, 1025);
        assert_eq!((error.pfn, error.reason), (page(1024), WrongFree::NotAllocated(PageState::Free)));
        let error = refused(512, 1000);
        assert_eq!(
            (error.pfn, error.reason),
            (page(512), WrongFree::WrongOrder(order(9))),
            "the block reaches beyond the range"
        );
        let inside = WrongFree::Inside { head: page(512), order: order(9), state: PageState::Allocated };
        assert_eq!((refused(600, 1024).pfn, refused(600, 1024).reason), (page(600), inside));
        assert_eq!(refused(5000, 5001).reason, WrongFree::NotOurs);
        assert_eq!(
            world.free_with(Free::whole_blocks(PageRange::new(page(0), 0))).expect_err("empty").reason,
            WrongFree::NoPages
        );
        assert_eq!(world.at(0).stats(), before);
        world.free_with(Free::whole_blocks(range(512, 1024))).expect("nothing has changed");
        let error = refused(512, 1024);
        assert!(matches!(error.reason, WrongFree::NotAllocated(_) | WrongFree::Inside { .. }), "{error}");
    });
}

/// Under every preset: pages of several orders in use, in pagesets and free, in and around a range. Blocks in use move
/// with their contents; blocks outside stay.
#[test]
fn blocks_in_use_move_away() {
    for preset in PRESETS {
        zone(preset.tuning, 8192, |world| {
            let owner = StampingOwner::new(world);
            let blocks: Vec<_> = (0..900)
                .map(|i| {
                    let migratetype = [MigrateType::Movable, MigrateType::Unmovable][usize::from(i % 5 == 4)];
                    let request = Request::new(order([0, 0, 1, 0, 3, 2][i % 6]), migratetype);
                    world.machine().run_on((i / 100 % 2) as u32);
                    owner.alloc(&request).expect("memory")
                })
                .collect();
            for (i, &id) in blocks.iter().enumerate() {
                world.machine().run_on((i / 50 % 2) as u32);
                assert!(i % 3 != 1 || owner.free(id));
            }
            let before = owner.blocks();
            let types_before = types(world, 8192);
            let wanted = range(100, 1201);
            world
                .alloc_range(wanted, MigrateType::Movable, &owner)
                .unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            owner.check();
            let reaches_in = |b: &Block| b.pfn < wanted.end() && b.pfn.offset(b.order.pages()) > wanted.start;
            for ((id, old), (_, new)) in before.iter().map(|&(id, old)| ((id, old), (id, owner.place(id)))) {
                assert_eq!(reaches_in(&old), new != old.pfn, "{}: {id:?} {old:?}", preset.name);
                assert!(!reaches_in(&Block { pfn: new, order: old.order }));
            }
            assert!(owner.moved().len() > 100, "{}: {} moves", preset.name, owner.moved().len());
            assert_eq!(types(world, 8192)[3..], types_before[3..]);
            let books = world.at(0).audit().expect("the audit passes");
            assert_eq!(books.in_use, owner.pages() + 1101);
            let stats = world.at(0).stats();
            assert_eq!(stats.pgalloc() - stats.pgfree(), books.in_use);
            world.free_with(Free::whole_blocks(wanted)).expect("in use");
        });
    }
}

/// A block of the largest order that overlaps the range moves as a whole; the half outside is free afterwards.
#[test]
fn a_block_that_reaches_in_moves_whole() {
    for tuning in [LINUX_4_19, LINUX_6_18] {
        zone(tuning, 8192, |world| {
            let owner = StampingOwner::new(world);
            while owner.blocks().len() < 5 {
                owner.alloc(&movable(10)).expect("memory");
            }
            let (_, block) = owner.blocks()[1];
            let first = block.pfn.0 - BASE;
            world.alloc_range(range(first + 700, first + 701), MigrateType::Movable, &owner).expect("it moves");
            owner.check();
            assert_eq!(owner.moved().len(), 1);
            world.at(0).audit().expect("the audit passes");
            assert_eq!(world.at(0).stats().nr_free_pages, 8192 - 5 * 1024 - 1);
            world.free_with(Free::whole_blocks(range(first + 700, first + 701))).expect("in use");
        });
    }
}

/// Any failure at any move: the error names the block; types, neighbours and contents are unchanged.
#[test]
fn every_move_may_fail() {
    for (nth, error) in (0..40).flat_map(|nth| [(nth, MoveError::Busy), (nth, MoveError::NoMemory)]) {
        for times in [1, usize::MAX] {
            zone(LINUX_6_18, 4096, |world| {
                let failing = move |n: usize| (n >= nth && n - nth < times).then_some(error);
                let owner = StampingOwner::new(world).failing(failing);
                for _ in 0..40 {
                    owner.alloc(&movable(0)).expect("memory");
                }
                world.set_pageblock_type(page(512), MigrateType::Cma).expect("the page is in the zone");
                let before = types(world, 4096);
                let span = range(owner.blocks()[0].1.pfn.0 - BASE, owner.blocks()[39].1.pfn.0 - BASE + 1);
                let result = world.alloc_range(span, MigrateType::Movable, &owner);
                owner.check();
                assert_eq!(types(world, 4096), before);
                world.at(0).audit().expect("the audit passes");
                if times == 1 {
                    // A later attempt moves the block.
                    assert_eq!(result, Ok(()), "{nth}");
                    world.free_with(Free::whole_blocks(span)).expect("in use");
                } else {
                    let obstacle = Obstacle::Move(Order::ZERO, error);
                    assert_eq!(result, Err(RangeError { pfn: span.start.offset(nth as u64), obstacle }));
                    assert_eq!(owner.moved().len(), nth);
                }
                owner.blocks().iter().for_each(|(id, _)| assert!(owner.free(*id)));
                world.drain_all();
                assert_eq!(world.at(0).stats().nr_free_pages, 4096, "no page is lost");
            });
        }
    }
}

/// Memory runs out while the range is emptied.
#[test]
fn no_target_to_move_to() {
    zone(LINUX_6_18, 2048, |world| {
        let owner = StampingOwner::new(world);
        while owner.alloc(&movable(0)).is_some() {}
        let blocks = owner.blocks();
        assert_eq!(blocks.len(), 2048);
        // Three free pages outside the range, and one inside.
        for n in [3, 700, 1900, 2000] {
            assert!(owner.free(blocks[n].0));
        }
        let error = world.alloc_range(range(600, 800), MigrateType::Movable, &owner).expect_err("199 pages must move");
        let Obstacle::NoPlace(AllocError::OutOfMemory(shortage)) = error.obstacle else { panic!("{error}") };
        assert_eq!((shortage.order, shortage.free_pages), (Order::ZERO, 0));
        // One or two of the three targets are in the pageset when the zone is empty, and the marks keep them there.
        assert!((page(601)..=page(603)).contains(&error.pfn), "{error}");
        owner.check();
        world.drain_all();
        assert_eq!(world.at(0).stats().nr_free_pages, 4);
    });
}

#[test]
fn invalid_ranges_are_errors() {
    zone(LINUX_6_18, 4096, |world| {
        let before = world.at(0).stats();
        let refused = |range, migratetype| world.alloc_range(range, migratetype, &Immovable).expect_err("wrong");
        for (asked, migratetype, pfn, obstacle) in [
            (PageRange::new(page(7), 0), MigrateType::Movable, page(7), Obstacle::Empty),
            (range(4096, 4097), MigrateType::Movable, page(4096), Obstacle::NotOurs),
            (range(4000, 4097), MigrateType::Movable, page(4000), Obstacle::NotOurs),
            (PageRange::new(page(1), u64::MAX), MigrateType::Movable, page(1), Obstacle::NotOurs),
            (range(0, 1), MigrateType::Cma, page(0), Obstacle::Migratetype(MigrateType::Cma)),
        ] {
            assert_eq!(refused(asked, migratetype), RangeError { pfn, obstacle });
        }
        assert_eq!(world.at(0).stats(), before);
        world.set_pageblock_type(page(1024), MigrateType::Isolate).expect("the page is in the zone");
        let error = refused(range(100, 1030), MigrateType::Movable);
        assert_eq!(error, RangeError { pfn: page(1024), obstacle: Obstacle::Isolated });
        assert_eq!(
            error.to_string(),
            "cannot take the range: the pageblock of page 0x100400 is already isolated for another range"
        );
        assert_eq!(
            world.pageblock_type(page(512)),
            Some(MigrateType::Movable),
            "the isolation of earlier pageblocks is undone"
        );
        assert_eq!(world.pageblock_type(page(1024)), Some(MigrateType::Isolate), "the other range stays isolated");
    });
}

#[test]
fn errors_name_the_hole() {
    let spec = ZoneSpec {
        node: NodeId(0),
        kind: ZoneKind::Normal,
        span: range(0, 4096),
        ranges: &[range(0, 700), range(1024, 2048)],
    };
    build(&Config::new(&[spec], &[NodeId(0)]), |world| {
        for (asked, at) in
            [(range(0, 701), 700), (range(512, 2048), 700), (range(900, 1024), 900), (range(2047, 2049), 2048)]
        {
            let error = world.alloc_range(asked, MigrateType::Movable, &Immovable).expect_err("a hole");
            assert_eq!(error, RangeError { pfn: page(at), obstacle: Obstacle::Offline });
            assert_eq!(world.offline(asked, &Immovable), Err(error));
        }
        world.at(0).audit().expect("the audit passes");
        assert_eq!(types(world, 2048), [Some(MigrateType::Movable); 4]);
    });
}

/// Where no store hides pages, a page that looks offline is offline: the first look ends the call.
#[test]
fn a_hole_ends_the_call_at_once() {
    for tuning in [LINUX_6_18, LINUX_4_19] {
        zone(tuning, 4096, |world| {
            world.offline(range(700, 701), &Immovable).expect("all of it is free");
            let before = world.at(0).stats().lock_map;
            let error = world.alloc_range(range(512, 1024), MigrateType::Movable, &Immovable).expect_err("a hole");
            assert_eq!(error, RangeError { pfn: page(700), obstacle: Obstacle::Offline });
            // A try takes the lock once; merging may take it twice.
            let holds = world.at(0).stats().lock_map - before;
            assert!(holds <= 3, "{holds} holds of the lock");
        });
    }
}

/// An owner that allocates ranges inside its callbacks: an overlapping range fails cleanly, and so does one that shares
/// only a pageblock.
#[test]
fn overlapping_ranges() {
    struct Nested<'w, 'a, 'o> {
        world: &'w World<'a>,
        inner: &'o StampingOwner<'w, 'a, TestMachine>,
        asked: Cell<u32>,
    }
    impl Owner for Nested<'_, '_, '_> {
        fn isolate(&self, pfn: Pfn) -> Option<Order> {
            for (asked, at) in
                [(range(0, 600), 512), (range(400, 3000), 512), (range(900, 1000), 900), (range(512, 520), 512)]
            {
                let error = self.world.alloc_range(asked, MigrateType::Movable, &Immovable).expect_err("overlaps");
                assert_eq!(error, RangeError { pfn: page(at), obstacle: Obstacle::Isolated });
            }
            self.asked.set(self.asked.get() + 1);
            self.inner.isolate(pfn)
        }
        fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
            self.inner.move_block(from, to, order)
        }
        fn put_back(&self, pfn: Pfn, order: Order) {
            self.inner.put_back(pfn, order);
        }
    }
    zone(LINUX_6_18, 4096, |world| {
        let inner = StampingOwner::new(world);
        world.alloc_range(range(700, 702), MigrateType::Movable, &Immovable).expect("free");
        inner.adopt(page(700), order(1));
        let owner = Nested { world, inner: &inner, asked: Cell::new(0) };
        world.alloc_range(range(600, 800), MigrateType::Movable, &owner).expect("one of them has it");
        assert_eq!(owner.asked.get(), 1);
        inner.check();
    });
}

/// The owner frees the blocks that the range waits for, during the call.
#[test]
fn the_owner_frees_what_is_being_moved() {
    struct Freeing<'w, 'a, 'o>(&'o StampingOwner<'w, 'a, TestMachine>, Cell<u32>);
    impl Owner for Freeing<'_, '_, '_> {
        fn isolate(&self, pfn: Pfn) -> Option<Order> {
            self.1.set(self.1.get() + 1);
            if self.1.get().is_multiple_of(2) {
                self.0.free(self.0.at(pfn)?);
            }
            self.0.isolate(pfn)
        }
        fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
            self.0.move_block(from, to, order)
        }
        fn put_back(&self, pfn: Pfn, order: Order) {
            self.0.put_back(pfn, order);
        }
    }
    zone(LINUX_6_18, 4096, |world| {
        let inner = StampingOwner::new(world);
        let first = (0..100).map(|_| inner.alloc(&movable(0)).expect("memory")).map(|id| inner.place(id)).min();
        let first = first.expect("a hundred").0 - BASE;
        world
            .alloc_range(range(first, first + 100), MigrateType::Movable, &Freeing(&inner, Cell::new(0)))
            .expect("free");
        inner.check();
        assert_eq!(inner.pages(), 50);
    });
}

/// Memory goes offline and comes back: meanwhile it is neither present nor managed; marks and bounds follow.
#[test]
fn offline_and_online() {
    zone(LINUX_6_18, 1 << 18, |world| {
        world.recompute();
        let before = (world.at(0).stats(), world.pageset(0, CpuId(0)).state().high_max);
        let owner = StampingOwner::new(world);
        let blocks: Vec<_> = (0..3000).map(|_| owner.alloc(&movable(0)).expect("memory")).collect();
        blocks.iter().step_by(2).for_each(|&id| assert!(owner.free(id)));
        let gone = range(300, (1 << 17) + 10);
        world.offline(gone, &owner).expect("all of it moves");
        owner.check();
        let books = world.at(0).audit().expect("the audit passes");
        let stats = world.at(0).stats();
        assert_eq!((stats.managed, books.in_use), ((1 << 18) - gone.pages, 1500));
        assert!(stats.watermarks.low < before.0.watermarks.low);
        assert!(world.pageset(0, CpuId(0)).state().high_max < before.1);
        assert!(world.pageset(0, CpuId(0)).state().high_max > 0, "pagesets keep pages again");
        assert!(world.zoneinfo().to_string().contains(&format!("present  {}\n", (1 << 18) - gone.pages)));
        assert!(owner.blocks().iter().all(|(_, block)| block.pfn < gone.start || block.pfn >= gone.end()));
        let error = world.free(page(5000), Order::ZERO).expect_err("it is gone");
        assert_eq!(error.reason, WrongFree::NotAllocated(PageState::Inside));
        let error = world.alloc_range(range(100, 301), MigrateType::Movable, &owner).expect_err("it is gone");
        assert_eq!(error, RangeError { pfn: page(300), obstacle: Obstacle::Offline });
        // A part comes back, then the rest.
        world.online(range(1000, 1001)).expect("it was taken off line");
        assert_eq!(world.online(gone), Err(MapError::Overlap { start: gone.start, other: page(1000) }));
        world.online(range(300, 1000)).expect("off line");
        world.online(range(1001, gone.end().0 - BASE)).expect("off line");
        blocks.iter().skip(1).step_by(2).for_each(|&id| assert!(owner.free(id)));
        world.drain_all();
        let after = world.at(0).stats();
        assert_eq!((after.managed, after.nr_free_pages, after.watermarks), (1 << 18, 1 << 18, before.0.watermarks));
        assert_eq!(world.pageset(0, CpuId(0)).state().high_max, before.1);
        assert_eq!(free_blocks(world), [(10, MigrateType::Movable, 256)], "all memory has merged");
    });
}

/// All pages of a zone may go offline.
#[test]
fn a_zone_without_memory() {
    zone(LINUX_6_18, 4096, |world| {
        world.offline(range(0, 4096), &Immovable).expect("all is free");
        let stats = world.at(0).stats();
        assert_eq!((stats.managed, stats.nr_free_pages), (0, 0));
        let error = world.alloc(&movable(0)).expect_err("no page");
        assert!(matches!(error, AllocError::OutOfMemory(shortage) if shortage.free_pages == 0), "{error}");
        world.online(range(0, 4096)).expect("off line");
        assert_eq!(free_blocks(world), [(10, MigrateType::Movable, 4)]);
        assert!(world.alloc(&movable(0)).is_ok());
    });
}

/// An immovable block keeps its memory online; earlier bounds apply again.
#[test]
fn offline_may_fail() {
    zone(LINUX_6_18, 4096, |world| {
        world.recompute();
        let bounds = world.pageset(0, CpuId(0)).state().high_max;
        let pfn = world.alloc(&movable(0)).expect("memory");
        let error = world.offline(range(0, 4096), &Immovable).expect_err("a page stays");
        assert_eq!(error, RangeError { pfn, obstacle: Obstacle::InUse(Order::ZERO) });
        assert_eq!(
            error.to_string(),
            format!("cannot take the range: the owner does not release the block of order 0 at {pfn}")
        );
        assert_eq!((world.at(0).stats().managed, world.pageset(0, CpuId(0)).state().high_max), (4096, bounds));
        world.free(pfn, Order::ZERO).expect("in use");
    });
}

/// Pages move to zones of the same kind or below on their node, since their requests may have excluded higher zones.
#[test]
fn pages_move_to_no_higher_zone() {
    let low = PageRange::new(Pfn(1 << 19), 2048);
    let high = range(0, 2048);
    let zones = [
        ZoneSpec { node: NodeId(0), kind: ZoneKind::Dma32, span: low, ranges: &[low] },
        ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: high, ranges: &[high] },
    ];
    build(&Config::new(&zones, &[NodeId(0)]), |world| {
        for zone in 0..2 {
            world.at(zone).set_watermarks(NO_MARKS, [0; 4]);
        }
        let owner = StampingOwner::new(world);
        let request = Request { highest: ZoneKind::Dma32, ..movable(0) };
        for _ in 0..2000 {
            owner.alloc(&request).expect("memory");
        }
        let error = world.offline(low, &owner).expect_err("only 48 pages are free there");
        assert!(matches!(error.obstacle, Obstacle::NoPlace(_)), "{error}");
        assert!(owner.blocks().iter().all(|(_, block)| world.zone_of(block.pfn).map(|zone| zone.number()) == Some(0)));
        world.alloc_range(high, MigrateType::Movable, &owner).expect("all is free");
        owner.check();
        world.at(0).audit().expect("the audit passes");
        world.at(1).audit().expect("the audit passes");
    });
}

/// An owner that ends the operation at its n-th chance.
struct Impatient<'w, O> {
    owner: &'w O,
    chances: Cell<u32>,
}

impl<O: Owner> Owner for Impatient<'_, O> {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        self.owner.isolate(pfn)
    }

    fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
        self.owner.move_block(from, to, order)
    }

    fn put_back(&self, pfn: Pfn, order: Order) {
        self.owner.put_back(pfn, order);
    }

    fn keep_going(&self) -> bool {
        let left = self.chances.get();
        self.chances.set(left.saturating_sub(1));
        left > 0
    }
}

/// A range and memory that goes offline, ended at every chance: nothing is allocated, lost or offline, and the pageblocks have
/// their types.
#[test]
fn the_owner_ends_a_range_at_any_step() {
    for offline in [false, true] {
        zone(LINUX_6_18, 16384, |world| {
            let owner = StampingOwner::new(world);
            let ids: Vec<_> = (0..200).map(|_| owner.alloc(&movable(0)).expect("memory")).collect();
            ids.iter().step_by(3).for_each(|&id| assert!(owner.free(id)));
            let wanted = range(8192 - 300, 16384 - 100);
            let (before, types_before) = (world.at(0).stats().managed, types(world, 16384));
            let mut chances = 0;
            loop {
                let impatient = Impatient { owner: &owner, chances: Cell::new(chances) };
                let result = if offline {
                    world.offline(wanted, &impatient)
                } else {
                    world.alloc_range(wanted, MigrateType::Movable, &impatient)
                };
                owner.check();
                let books = world.at(0).audit().expect("the audit passes");
                match result {
                    Ok(()) => break,
                    Err(error) => assert_eq!(error.obstacle, Obstacle::Cancelled),
                }
                assert_eq!(books.in_use, owner.pages());
                assert_eq!((world.at(0).stats().managed, types(world, 16384)), (before, types_before.clone()));
                chances += 1;
            }
            assert!(chances >= 8, "at least once for each 1,024 pages: {chances}");
        });
    }
}

/// A compaction ends where its owner wants.
#[test]
fn the_owner_ends_a_compaction() {
    zone(LINUX_6_18, 16384, |world| {
        let owner = StampingOwner::new(world);
        let ids: Vec<_> = (0..8000).map(|_| owner.alloc(&movable(0)).expect("memory")).collect();
        ids.iter().step_by(2).for_each(|&id| assert!(owner.free(id)));
        world.drain_all();
        let scanned = |chances| {
            let impatient = Impatient { owner: &owner, chances: Cell::new(chances) };
            let report = world.at(0).compact(None, CompactMode::Sync, &impatient);
            owner.check();
            (report.outcome, report.moved)
        };
        assert_eq!(scanned(0), (CompactOutcome::Contended, 0));
        let (outcome, moved) = scanned(2);
        assert_eq!(outcome, CompactOutcome::Contended);
        assert!((1..=1024).contains(&moved), "two pageblocks at most: {moved}");
        assert_eq!(scanned(u32::MAX).0, CompactOutcome::Complete);
    });
}
