//! Zones, nodes and zonelists: the zone that serves a request, the zone of a page, marks and reserves.

use crate::support::{Known, World, build, movable, one_zone};
use pageset::policy::{Bounds, ListRule, Tuning, Watermarks};
use pageset::{
    AllocError, Config, MigrateType, NodeId, Order, PageRange, Pfn, Request, Urgency, Wait, WrongFree, ZoneKind,
    ZoneSpec, ZoneView,
};

fn spec(node: u32, kind: ZoneKind, span: PageRange, ranges: &[PageRange]) -> ZoneSpec<'_> {
    ZoneSpec { node: NodeId(node), kind, span, ranges }
}

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

#[test]
fn zones_may_meet_at_an_odd_pageblock() {
    let (low, high) = (PageRange::new(Pfn(0), 3 * 512), PageRange::new(Pfn(3 * 512), 5 * 512));
    let (low_ranges, high_ranges) = ([low], [high]);
    let zones = [spec(0, ZoneKind::Dma32, low, &low_ranges), spec(0, ZoneKind::Normal, high, &high_ranges)];
    build(&Config::new(&zones, &[NodeId(0)]), |world| {
        assert_eq!(
            (
                world.zone_of(Pfn(1535)).map(|zone| zone.number()),
                world.zone_of(Pfn(1536)).map(|zone| zone.number()),
                world.zone_of(Pfn(4096)).map(|zone| zone.number())
            ),
            (Some(0), Some(1), None)
        );
        assert_eq!((world.at(0).stats().managed, world.at(1).stats().managed), (3 * 512, 5 * 512));
        assert_eq!([world.at(0).span(), world.at(1).span()], [low, high]);
        let request = Request { zone: Some(1), watermarks: false, ..movable(0) };
        let mut pages = vec![];
        while let Ok(pfn) = world.alloc(&request) {
            pages.push(pfn);
        }
        assert_eq!(pages.len(), 5 * 512);
        for pfn in pages {
            assert!((1536..4096).contains(&pfn.0));
            world.free(pfn, Order::ZERO).expect("the zone that it came from");
        }
        world.drain_all();
        assert_eq!(world.at(1).audit().expect("the audit passes").free, 5 * 512);
        assert_eq!(world.at(0).stats().nr_free_pages, 3 * 512);
    });
}

/// Memory with holes of 64 GiB, and memory of two nodes in turn: a zone for each piece, and the holes cost nothing.
#[test]
fn a_node_may_have_several_zones_of_a_kind() {
    let pages = 1 << 15;
    let pieces = [0, 1 << 24, 2 << 24, 3 << 24].map(|start| [PageRange::new(Pfn(start), pages)]);
    let zones: [_; 4] = std::array::from_fn(|n| spec(n as u32 % 2, ZoneKind::Normal, pieces[n][0], &pieces[n]));
    let cpus = [NodeId(0), NodeId(1)];
    let config = Config::new(&zones, &cpus);
    let bytes = |config: &Config<'_>, zone| {
        let size = config.zone_metadata_size(zone).expect("a valid map");
        size.tags + 4 * size.words
    };
    let whole = [spec(0, ZoneKind::Normal, PageRange::new(Pfn(0), (3 << 24) + pages), &[])];
    let with_holes = bytes(&Config::new(&whole, &cpus), 0);
    let in_pieces: usize = (0..4).map(|zone| bytes(&config, zone)).sum();
    assert!(in_pieces < 12 * 4 * pages as usize && with_holes > 100 * in_pieces, "{in_pieces} of {with_holes} bytes");
    let on = |node| Request { node: Some(NodeId(node)), watermarks: false, ..movable(0) };
    for (node, order) in [(0, [0, 2, 1, 3]), (1, [1, 3, 0, 2])] {
        build(&config, |world| assert_eq!(serving_order(world, &on(node)), order));
    }
    build(&config, |world| {
        let free = |zone| world.at(zone).stats().nr_free_pages + world.at(zone).stats().pagesets.count;
        assert_eq!((0..4).map(free).sum::<u64>(), 4 * pages);
        let request = Request { this_node_only: true, ..on(1) };
        let mut taken: Vec<_> = std::iter::from_fn(|| world.alloc(&request).ok()).collect();
        taken.sort_unstable();
        let expected: Vec<_> = [1, 3].iter().flat_map(|&piece: &usize| (0..pages).map(move |n| (piece, n))).collect();
        let expected: Vec<_> = expected.into_iter().map(|(piece, n)| pieces[piece][0].start.offset(n)).collect();
        assert_eq!(taken, expected, "all pages of both pieces of the node");
        taken.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        world.drain_all();
        assert!((0..4).all(|zone| world.at(zone).audit().expect("balanced books").free == pages));
    });
}

#[test]
fn spans_need_not_be_aligned() {
    // Like x86's DMA zone, which begins at frame 1; and an end inside a pageblock.
    let span = PageRange::new(Pfn(1), 5000);
    let ranges = [PageRange::new(Pfn(1), 158), PageRange::new(Pfn(256), 4745)];
    let zones = [spec(0, ZoneKind::Dma, span, &ranges)];
    build(&Config::new(&zones, &[NodeId(0)]), |world| {
        assert_eq!(
            (
                world.zone_of(Pfn(0)).map(|zone| zone.number()),
                world.zone_of(Pfn(5000)).map(|zone| zone.number()),
                world.zone_of(Pfn(5001)).map(|zone| zone.number())
            ),
            (None, Some(0), None)
        );
        let reason = world.free(Pfn(200), Order::ZERO).expect_err("a hole").reason;
        assert_eq!(reason, WrongFree::NotAllocated(pageset::PageState::Inside));
        let text = world.zoneinfo().to_string();
        assert!(text.contains("spanned  5000\n") && text.contains("start_pfn:           1\n"), "{text}");
        assert_eq!(world.at(0).audit().expect("the audit passes").free, 158 + 4745);
        for outside in [PageRange::new(Pfn(0), 1), PageRange::new(Pfn(5001), 1), PageRange::new(Pfn(200), u64::MAX)] {
            world.online(outside).expect_err("outside the span");
        }
    });
}

#[test]
fn a_pageblock_beyond_the_zone_is_not_claimed() {
    // Specification 1.6: "If the pageblock straddles the zone boundary: fail". The zone begins 100 pages into one.
    let span = PageRange::new(Pfn(100), 412);
    let ranges = [span];
    let zones = [spec(0, ZoneKind::Dma, span, &ranges)];
    build(&Config::new(&zones, &[NodeId(0)]), |world| {
        let request = Request { watermarks: false, ..Request::new(order(4), MigrateType::Unmovable) };
        world.alloc(&request).expect("stolen");
        let stats = world.at(0).stats();
        assert_eq!((stats.claims, stats.steals), (0, 1));
        assert_eq!(world.pageblock_type(Pfn(100)), Some(MigrateType::Movable));
    });
}

/// The zones that serve a request, in order, as each runs out.
fn serving_order(world: &World<'_>, request: &Request) -> Vec<usize> {
    let request = Request { order: Order::MAX, watermarks: false, ..*request };
    let mut zones = vec![];
    while let Ok(pfn) = world.alloc(&request) {
        zones.push(world.zone_of(pfn).map(|zone| zone.number()).expect("a zone"));
    }
    zones.dedup();
    zones
}

#[test]
fn zonelists() {
    // Three nodes with one block per zone; node 0's zones are listed from the highest to the lowest.
    let at = |block: u64| PageRange::new(Pfn(block * 1024), 1024);
    let ranges: Vec<[PageRange; 1]> = (0..5).map(|block| [at(block)]).collect();
    let zones = [
        spec(0, ZoneKind::Movable, at(0), &ranges[0]),
        spec(0, ZoneKind::Normal, at(1), &ranges[1]),
        spec(0, ZoneKind::Dma32, at(2), &ranges[2]),
        spec(1, ZoneKind::Normal, at(3), &ranges[3]),
        spec(2, ZoneKind::Normal, at(4), &ranges[4]),
    ];
    let cpus = [NodeId(0), NodeId(1), NodeId(2)];
    let any = movable(10);
    let below_movable = Request { highest: ZoneKind::Normal, ..any };
    let dma32 = Request { highest: ZoneKind::Dma32, ..any };
    let on = |node: u32| Request { node: Some(NodeId(node)), ..any };
    type Row<'r> = (&'static str, u32, &'static [u8], Request, &'r [usize]);
    let rows: [Row<'_>; 9] = [
        ("local zones from high to low, then nodes after us", 0, &[], any, &[0, 1, 2, 3, 4]),
        ("ties go to the nodes after us", 1, &[], any, &[3, 4, 0, 1, 2]),
        ("and around", 2, &[], any, &[4, 0, 1, 2, 3]),
        ("distance counts first", 0, &[10, 30, 20, 30, 10, 20, 20, 20, 10], any, &[0, 1, 2, 4, 3]),
        ("not above the highest allowed zone", 0, &[], below_movable, &[1, 2, 3, 4]),
        ("nodes without such a zone are passed by", 1, &[], dma32, &[2]),
        ("the node asked for is the first", 0, &[], on(2), &[4, 0, 1, 2, 3]),
        ("or the only one", 0, &[], Request { this_node_only: true, ..on(0) }, &[0, 1, 2]),
        ("or one zone", 0, &[], Request { zone: Some(2), ..any }, &[2]),
    ];
    for (name, cpu, distances, request, expected) in rows {
        build(&Config { distances, ..Config::new(&zones, &cpus) }, |world| {
            world.machine().run_on(cpu);
            if request == any {
                assert_eq!(world.zones_from_here().map(ZoneView::number).collect::<Vec<_>>(), expected, "{name}");
            }
            assert_eq!(serving_order(world, &request), expected, "{name}");
        });
    }
    build(&Config::new(&zones, &cpus), |world| {
        let nowhere = Request { this_node_only: true, highest: ZoneKind::Dma32, ..on(1) };
        assert_eq!(world.alloc(&nowhere), Err(AllocError::Node(NodeId(1))));
        assert_eq!(world.alloc(&on(3)), Err(AllocError::Node(NodeId(3))));
        assert_eq!(world.alloc(&on(u32::MAX)), Err(AllocError::Node(NodeId(u32::MAX))));
    });
}

#[test]
fn marks_reserves_and_rights() {
    // The pages that a request may take from a zone of 4096, in single pages and in blocks that bypass the pagesets
    // (order 4), with marks set by hand.
    let span = PageRange::new(Pfn(0), 4096);
    let ranges = [span];
    let zones = [spec(0, ZoneKind::Normal, span, &ranges)];
    let marks = Watermarks { min: 800, low: 1600, high: 2400 };
    let plain = Request { highest: ZoneKind::Normal, ..movable(4) };
    let urgent = Request { urgency: Urgency::High, ..plain };
    let atomic = Request { wait: Wait::Lock, ..urgent };
    let rows = [
        // The first attempt uses the low mark, the second the min mark; the test is free - 15 > min.
        ("min", plain, [0; 4], 800_u64),
        ("non-blocking alone has no rights", Request { wait: Wait::Lock, ..plain }, [0; 4], 800),
        ("high priority takes a half", urgent, [0; 4], 400),
        ("and a quarter of the rest with non-blocking", atomic, [0; 4], 300),
        (
            "the reserve of the highest zone is added",
            Request { highest: ZoneKind::Movable, ..plain },
            [0, 0, 0, 500],
            1300,
        ),
        ("and only of that", plain, [0, 0, 0, 500], 800),
        ("rights do not touch the reserve", Request { highest: ZoneKind::Movable, ..urgent }, [0, 0, 0, 500], 900),
        ("no marks, no reserves", Request { watermarks: false, ..plain }, [9; 4], 0),
    ];
    let tuning = Tuning { lists: ListRule::HugeByMobility, ..Tuning::default() };
    for (name, request, reserve, floor) in rows {
        build(&Config { tuning, ..Config::new(&zones, &[NodeId(0)]) }, |world| {
            world.at(0).set_watermarks(marks, reserve);
            while world.alloc(&request).is_ok() {}
            let left = world.at(0).stats().nr_free_pages;
            // The first failure is at free - 15 <= floor.
            assert_eq!(left, if floor == 0 { 0 } else { floor.div_ceil(16) * 16 }, "{name}");
        });
    }
}

#[test]
fn an_order_needs_a_free_block() {
    // Specification 1.3: for order > 0 a list of the order or above must have a block. Quirk 4.8 builds on this.
    let span = PageRange::new(Pfn(0), 1024);
    let ranges = [PageRange::new(Pfn(0), 1), PageRange::new(Pfn(512), 256)];
    let zones = [spec(0, ZoneKind::Normal, span, &ranges)];
    build(&Config::new(&zones, &[NodeId(0)]), |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        world.alloc(&movable(8)).expect("the one block of that order");
        world.alloc(&movable(1)).expect_err("a single page is left");
        assert!(world.alloc(&movable(0)).is_ok());
    });
}

/// As a zone empties page by page, the fast path's record of it never exceeds the test at the high mark: the audit
/// compares the two.
#[test]
fn no_zone_below_its_high_mark_has_plenty() {
    one_zone(Tuning::default(), 16_384, 1, |world| {
        world.at(0).set_bounds(Bounds::DISABLED).expect("the pagesets have room");
        let marks = Watermarks { min: 1000, low: 2000, high: 4000 };
        world.at(0).set_watermarks(marks, [0, 0, 700, 1500]);
        let request = Request { watermarks: false, ..movable(0) };
        let mut pages = vec![];
        while let Ok(pfn) = world.alloc(&request) {
            if pfn.0 % 16 == 0 {
                world.at(0).audit().expect("the audit passes");
            }
            pages.push(pfn);
        }
        // Half of the zone is free, without two adjacent pages.
        pages.iter().step_by(2).for_each(|&pfn| world.free(pfn, Order::ZERO).expect("it is in use"));
        world.at(0).audit().expect("the audit passes");
    });
}
