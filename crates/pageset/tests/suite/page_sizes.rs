//! What depends on the page size, the pageblock order and the largest order, without their default numbers.
//! `ci/page-sizes.sh` runs it with other values.

use crate::layouts::{every_other, laid_out, owner_of};
use crate::support::{Known, World, build, one_zone};
use pageset::policy::presets::{LINUX_4_16, LINUX_4_19, PAGESET};
use pageset::policy::sizes::{WatermarkRule, ZoneSize, zone_batch};
use pageset::policy::{Bounds, PRESETS, Watermarks};
use pageset::{
    AllocError, CompactMode, Config, Free, Immovable, MapError, MigrateType, NodeId, Order, PageRange, Pfn, Request,
    Tuning, ZoneKind, ZoneSpec,
};

const BASE: Pfn = Pfn(1 << 20);
const PAGEBLOCK: u64 = Order::PAGEBLOCK.pages();
const LARGEST: u64 = Order::MAX.pages();
const NOT_ORDINARY: [MigrateType; 3] = [MigrateType::HighAtomic, MigrateType::Cma, MigrateType::Isolate];

/// The pageblocks of the first largest block: the first, one in the middle and the last.
fn pageblocks() -> impl Iterator<Item = Pfn> {
    let all = LARGEST / PAGEBLOCK;
    let mut nth = vec![0, all / 2, all - 1];
    nth.dedup();
    nth.into_iter().map(|nth| BASE.offset(nth * PAGEBLOCK))
}

/// A request for a block without regard to marks.
fn block(order: Order, migratetype: MigrateType) -> Request {
    Request { watermarks: false, ..Request::new(order, migratetype) }
}

/// A zone of two largest blocks without marks.
fn small_zone<R>(tuning: Tuning, test: impl FnOnce(&World<'_>) -> R) -> R {
    one_zone(tuning, 2 * LARGEST, 1, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; ZoneKind::COUNT]);
        test(world)
    })
}

/// The free blocks of a type, by order from the pageblock's on.
fn free_blocks(world: &World<'_>, migratetype: MigrateType) -> Vec<u32> {
    let orders = Order::all().skip(Order::PAGEBLOCK.index());
    orders.map(|order| world.at(0).free_blocks(order, migratetype)).collect()
}

/// Checks that one pageblock of the first of two largest blocks is apart, with its own type, and all else is movable and
/// merged. Then checks that all merges again.
fn check_apart(world: &World<'_>, pageblock: Pfn, other: MigrateType, what: &str) {
    let audit = || world.at(0).audit().unwrap_or_else(|error| panic!("{what}: {error}"));
    audit();
    let orders = Order::MAX.index() - Order::PAGEBLOCK.index();
    // The largest block without one pageblock has one block of each smaller order. The other largest block is whole.
    let (mut rest, mut apart) = (vec![1; orders + 1], vec![0; orders + 1]);
    apart[0] += 1;
    assert_eq!(free_blocks(world, other), apart, "{what}: {other:?}");
    assert_eq!(free_blocks(world, MigrateType::Movable), rest, "{what}: beside {other:?}");
    world.set_pageblock_type(pageblock, MigrateType::Movable).expect("in the zone");
    rest.fill(0);
    rest[orders] = 2;
    assert_eq!(free_blocks(world, MigrateType::Movable), rest, "{what}: after {other:?}");
    audit();
}

#[test]
fn a_pageblock_of_a_freed_block_has_its_own_list() {
    for preset in PRESETS {
        for (other, pageblock) in NOT_ORDINARY.into_iter().flat_map(|other| pageblocks().map(move |at| (other, at))) {
            small_zone(preset.tuning, |world| {
                let request = block(Order::MAX, MigrateType::Movable);
                let blocks = [(); 2].map(|()| world.alloc(&request).expect("memory"));
                world.set_pageblock_type(pageblock, other).expect("in the zone");
                blocks.into_iter().for_each(|pfn| world.free(pfn, Order::MAX).expect("in use"));
                world.drain_all();
                check_apart(world, pageblock, other, preset.name);
            });
        }
    }
}

#[test]
fn a_free_block_is_split_around_a_pageblock() {
    for preset in PRESETS {
        for (other, pageblock) in MigrateType::ALL.into_iter().flat_map(|other| pageblocks().map(move |at| (other, at)))
        {
            if other != MigrateType::Movable {
                small_zone(preset.tuning, |world| {
                    world.set_pageblock_type(pageblock, other).expect("in the zone");
                    check_apart(world, pageblock, other, preset.name);
                });
            }
        }
    }
}

#[test]
fn memory_comes_online_with_the_types_of_its_pageblocks() {
    for preset in PRESETS {
        for (other, pageblock) in NOT_ORDINARY.into_iter().flat_map(|other| pageblocks().map(move |at| (other, at))) {
            let range = PageRange::new(BASE, 2 * LARGEST);
            let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[] };
            build(&Config { tuning: preset.tuning, ..Config::new(&[spec], &[NodeId(0)]) }, |world| {
                world.set_pageblock_type(pageblock, other).expect("in the zone's span");
                world.online(range).expect("not online");
                check_apart(world, pageblock, other, preset.name);
            });
        }
    }
}

/// A free block that leaves isolation is on the list of the new type, and is found there.
#[test]
fn isolation_ends_with_any_type() {
    for preset in PRESETS {
        for to in MigrateType::ALL {
            small_zone(preset.tuning, |world| {
                let all = || (0..2 * LARGEST).step_by(PAGEBLOCK as usize).map(|page| BASE.offset(page));
                for migratetype in [MigrateType::Isolate, to] {
                    all().for_each(|pfn| world.set_pageblock_type(pfn, migratetype).expect("in the zone"));
                    world.at(0).audit().unwrap_or_else(|error| panic!("{}, {to:?}: {error}", preset.name));
                    assert_eq!(world.at(0).free_blocks(Order::MAX, migratetype), 2, "{}, {to:?}", preset.name);
                }
                if to.is_ordinary() {
                    let pfn = world.alloc(&block(Order::MAX, to)).expect("a block of this type");
                    assert_eq!(world.pageblock_type(pfn), Some(to));
                }
                world.at(0).audit().unwrap_or_else(|error| panic!("{}, {to:?}: {error}", preset.name));
            });
        }
    }
}

#[test]
fn a_claim_takes_all_pageblocks_of_a_block() {
    for preset in PRESETS {
        small_zone(preset.tuning, |world| {
            let pfn = world.alloc(&block(Order::ZERO, MigrateType::Unmovable)).expect("memory").align_down(Order::MAX);
            for page in (0..LARGEST).step_by(PAGEBLOCK as usize) {
                let found = world.pageblock_type(pfn.offset(page));
                assert_eq!(found, Some(MigrateType::Unmovable), "{}: page {page}", preset.name);
            }
            world.at(0).audit().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        });
    }
}

/// Pageblocks that wait in a pageset merge completely, in whatever order they were freed.
#[test]
fn drained_pageblocks_merge() {
    for preset in PRESETS {
        let orders: [fn(&mut [Pfn]); 3] = [|_| {}, |blocks| blocks.reverse(), |blocks| blocks.rotate_left(1)];
        for arrange in orders {
            small_zone(preset.tuning, |world| {
                let high = 16 * LARGEST as u32;
                let bounds = Bounds { batch: 1, high_min: high, high_max: high };
                // Where the pagesets have no room, some blocks are drained earlier.
                let _ = world.at(0).set_bounds(bounds);
                let request = block(Order::PAGEBLOCK, MigrateType::Movable);
                let mut blocks: Vec<_> = std::iter::from_fn(|| world.alloc(&request).ok()).collect();
                assert_eq!(blocks.len() as u64, 2 * LARGEST / PAGEBLOCK, "{}", preset.name);
                arrange(&mut blocks);
                blocks.iter().for_each(|&pfn| world.free(pfn, Order::PAGEBLOCK).expect("in use"));
                world.drain_all();
                world.at(0).audit().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
                assert_eq!(world.at(0).free_blocks(Order::MAX, MigrateType::Movable), 2, "{}", preset.name);
            });
        }
    }
}

/// Ranges that begin and end inside a page, a pageblock or a largest block.
#[test]
fn ranges_that_cut_blocks() {
    for preset in PRESETS {
        for (first, pages) in [
            (0, LARGEST),
            (PAGEBLOCK / 2, LARGEST),
            (LARGEST - PAGEBLOCK, PAGEBLOCK),
            (LARGEST - 1, 2),
            (3, 2 * LARGEST - 7),
        ] {
            small_zone(preset.tuning, |world| {
                let range = PageRange::new(BASE.offset(first), pages);
                let what = format!("{}: {pages} pages from {first}", preset.name);
                world
                    .alloc_range(range, MigrateType::Unmovable, &Immovable)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(world.at(0).audit().expect("balanced books").in_use, pages, "{what}");
                world.free_with(Free::whole_blocks(range)).unwrap_or_else(|error| panic!("{what}: {error}"));
                world.at(0).merge_skipped();
                world.at(0).audit().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(world.at(0).free_blocks(Order::MAX, MigrateType::Movable), 2, "{what}");
            });
        }
    }
}

#[test]
fn compaction_makes_a_pageblock() {
    laid_out(8, every_other, |world| {
        let owner = owner_of(world, (0..8 * PAGEBLOCK).filter(|&page| !every_other(page)));
        assert_eq!(free_blocks(world, MigrateType::Movable).iter().sum::<u32>(), 0);
        let report = world.at(0).compact(Some(Order::PAGEBLOCK), CompactMode::Sync, &owner);
        assert!(free_blocks(world, MigrateType::Movable).iter().sum::<u32>() > 0, "{report:?}");
    });
}

#[test]
fn sizes_follow_the_page_size() {
    const PAGES: u64 = 1 << 20;
    // Worked out by hand from specification 1.2 and 2.2. Columns: the page size in KiB; the batch with a cap of 512 and
    // of 1024 KiB; the min mark; the largest batch with a fraction.
    let (page_kib, small, large, min, fraction) = [(4, 31, 63, 2048, 96), (16, 7, 15, 1024, 112), (64, 1, 3, 512, 128)]
        .into_iter()
        .find(|row| 1024 * row.0 == Pfn::PAGE_BYTES)
        .expect("a page size");
    assert_eq!((zone_batch(PAGES, 512), zone_batch(PAGES, 1024)), (small, large), "{page_kib} KiB");
    let size = ZoneSize { managed: PAGES, low: PAGES / 64, cpus: 1 };
    assert_eq!(LINUX_4_19.bounds(size, 0).batch, large);
    assert_eq!(LINUX_4_16.bounds(size, 8).batch, fraction);
    let rule = WatermarkRule::default();
    assert_eq!(rule.marks(rule.reserve_kib(PAGES, 1), PAGES, PAGES, false).min, min);
    // Eleven pageblocks, where the zone is large enough: 5 % of it is the most.
    let rule = WatermarkRule { huge_pages: true, ..rule };
    let marks = rule.marks(rule.reserve_kib(PAGES, 1), PAGES, PAGES, false);
    assert_eq!(marks.min, (11 * PAGEBLOCK).min(PAGES / 20).max(min));
}

#[test]
fn addresses_follow_the_page_size() {
    let page = Pfn::PAGE_BYTES;
    assert_eq!(PageRange::from_bytes(3 * page, 2 * page), Ok(PageRange::new(Pfn(3), 2)));
    for (address, bytes) in [(page / 2, page), (page, page / 2)] {
        let error = MapError::Unaligned { start: Pfn(address / page), multiple_bytes: page };
        assert_eq!(PageRange::from_bytes(address, bytes), Err(error));
    }
    assert_eq!((Pfn::at_address(5 * page as usize), Pfn(5).address()), (Pfn(5), 5 * page as usize));
    // An address inside a page is a frame in no zone, also where the page is in one.
    let inside = Pfn::at_address(5 * page as usize + page as usize / 2);
    assert_eq!(inside.address(), 5 * page as usize + page as usize / 2);
    let last = (1 << (64 - page.ilog2())) - 1;
    assert!(inside > Pfn(last));
    for (start, allowed) in [(last, true), (last + 1, false)] {
        let span = PageRange::new(Pfn(start), 1);
        let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[] };
        assert_eq!(Config::new(&[spec], &[NodeId(0)]).metadata_size().is_ok(), allowed);
    }
}

#[test]
fn messages_name_the_orders_of_the_build() {
    small_zone(PAGESET, |world| {
        while world.alloc(&block(Order::ZERO, MigrateType::Movable)).is_ok() {}
        let text = world.alloc(&block(Order::ZERO, MigrateType::Movable)).expect_err("no memory").to_string();
        let none = " 0".repeat(Order::COUNT);
        assert!(text.contains(&format!("in blocks of order 0 to {}:{none};", Order::COUNT - 1)), "{text}");
    });
    let text = AllocError::Pages(0).to_string();
    assert!(text.ends_with(&format!("allowed: 1 to {LARGEST}")), "{text}");
}

/// The metadata of the largest span do not fit the address space of a 32-bit machine.
#[test]
fn a_span_must_have_room_for_its_metadata() {
    let has_room = |pages| {
        let span = PageRange::new(Pfn(0), pages);
        let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[] };
        match Config::new(&[spec], &[NodeId(0)]).metadata_size() {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, MapError::TooLarge { start: Pfn(0), pages });
                false
            }
        }
    };
    let is_64_bit = usize::BITS == 64;
    assert_eq!([1 << 27, 1 << 28, 1 << 31].map(has_room), [true, is_64_bit, is_64_bit]);
}
