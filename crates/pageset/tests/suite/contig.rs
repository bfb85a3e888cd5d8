//! Runs of any number of pages, at any alignment, and frees of any part of them.

use crate::layouts::BASE;
use crate::owner::StampingOwner;
use crate::support::{Known, World, build, movable, one_zone};
use pageset::policy::Watermarks;
use pageset::policy::presets::{LINUX_6_18, PAGESET};
use pageset::{
    Alloc, AllocError, Config, Immovable, MigrateType, NodeId, Order, Owner as _, PageRange, Pfn, Request, Wait,
    WrongFree, ZoneKind, ZoneSpec,
};

const UNMOVABLE: Request = Request::new(Order::ZERO, MigrateType::Unmovable);
const NO_MARKS: Watermarks = Watermarks { min: 0, low: 0, high: 0 };

fn in_use(world: &World<'_>) -> u64 {
    world.at(0).audit().expect("balanced books").in_use
}

#[test]
fn any_length_and_alignment() {
    for tuning in [LINUX_6_18, PAGESET] {
        one_zone(tuning, (1 << 16) + 11, 1, |world| {
            let lengths =
                [(1, 1), (3, 1), (3, 16), (5, 8), (1000, 1), (1, 1024), (1025, 1), (1500, 2048), (5000, 4096)];
            for (pages, align) in lengths {
                let [first, second] = [(); 2].map(|()| {
                    world
                        .alloc_with(Alloc::new(&UNMOVABLE).pages(pages).aligned(align).owner(&Immovable))
                        .expect("memory")
                });
                assert_eq!((first.0 % align, second.0 % align), (0, 0), "{pages} pages, align {align}");
                assert!(first.0.abs_diff(second.0) >= pages, "two runs overlap");
                assert_eq!(in_use(world), 2 * pages, "the rest of a block is free");
                // In pieces, from the end.
                for piece in (0..pages.div_ceil(7)).rev() {
                    let at = piece * 7;
                    world.free_range(PageRange::new(first.offset(at), 7.min(pages - at))).expect("in use");
                }
                assert_eq!(world.free_range(PageRange::new(first, pages)).expect_err("is free").pfn, first);
                assert_eq!(in_use(world), pages);
                world.free_range(PageRange::new(second, pages)).expect("in use");
            }
            world.drain_all();
            assert_eq!((in_use(world), world.at(0).stats().nr_free_pages), (0, (1 << 16) + 11));
        });
    }
}

#[test]
fn a_run_with_a_free_page_is_refused_whole() {
    one_zone(LINUX_6_18, 4096, 1, |world| {
        let run = world.alloc_with(Alloc::new(&UNMOVABLE).pages(6).owner(&Immovable)).expect("memory");
        world.free_range(PageRange::new(run.offset(4), 1)).expect("in use");
        assert_eq!(world.free_range(PageRange::new(run, 6)).expect_err("one page is free").pfn, run.offset(4));
        assert_eq!(in_use(world), 5);
        world.free_range(PageRange::new(run, 4)).expect("still in use");
        world.free_range(PageRange::new(run.offset(5), 1)).expect("still in use");
        for (start, pages) in [(run, 0), (Pfn(BASE - 1), 2), (Pfn(u64::MAX), 2), (Pfn(BASE), u64::MAX)] {
            assert!(world.free_range(PageRange::new(start, pages)).is_err(), "{pages} pages at {start}");
        }
        let beyond = world.alloc_with(Alloc::new(&UNMOVABLE).pages(4096).owner(&Immovable)).expect("all of the zone");
        let error = world.free_range(PageRange::new(beyond, 4097)).expect_err("the run ends with the zone");
        assert_eq!((error.pfn, error.reason), (beyond.offset(4096), WrongFree::NotOurs));
        assert_eq!(in_use(world), 4096);
    });
}

#[test]
fn what_is_no_run_is_refused() {
    one_zone(LINUX_6_18, 4096, 1, |world| {
        for (pages, align_pages) in [(0, 1), (1, 0), (1, 3), (u64::MAX, u64::MAX)] {
            let error = world
                .alloc_with(Alloc::new(&UNMOVABLE).pages(pages).aligned(align_pages).owner(&Immovable))
                .expect_err("no such run");
            assert_eq!(error, AllocError::Run { pages, align_pages });
            let text = format!("cannot allocate a run of {pages} pages at a multiple of {align_pages}; allowed:");
            assert!(error.to_string().starts_with(&text), "{error}");
        }
        for (pages, align_pages) in [(4097, 1), (u64::MAX, 1), (2048, 1 << 63), (1, 1 << 21)] {
            let error = world
                .alloc_with(Alloc::new(&UNMOVABLE).pages(pages).aligned(align_pages).owner(&Immovable))
                .expect_err("too large");
            assert_eq!(error, AllocError::NoRun { pages, align_pages });
        }
        let isolated = Request { migratetype: MigrateType::Isolate, ..UNMOVABLE };
        for pages in [3, 3000] {
            let error =
                world.alloc_with(Alloc::new(&isolated).pages(pages).owner(&Immovable)).expect_err("not ordinary");
            assert_eq!(error, AllocError::Migratetype(MigrateType::Isolate));
            let nowhere = Request { node: Some(NodeId(9)), ..UNMOVABLE };
            let error =
                world.alloc_with(Alloc::new(&nowhere).pages(pages).owner(&Immovable)).expect_err("no such node");
            assert_eq!(error, AllocError::Node(NodeId(9)));
        }
        let hasty = Request { wait: Wait::Nothing, ..UNMOVABLE };
        let error = world.alloc_with(Alloc::new(&hasty).pages(1025).owner(&Immovable)).expect_err("a search waits");
        assert_eq!(error, AllocError::NoRun { pages: 1025, align_pages: 1 });
        assert_eq!(in_use(world), 0);
    });
}

/// Two free pageblocks that are neighbours, in no block of the largest order.
#[test]
fn a_run_that_fits_no_block() {
    one_zone(LINUX_6_18, 4096, 1, |world| {
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        for start in [0, 1536, 2560, 3584] {
            world.alloc_range(PageRange::new(Pfn(BASE + start), 1), MigrateType::Movable, &Immovable).expect("free");
        }
        let aligned = world.alloc_with(Alloc::new(&UNMOVABLE).pages(700).aligned(1024).owner(&Immovable));
        assert!(aligned.is_err(), "{aligned:?}: nothing is free at a multiple of 1,024");
        assert!(world.alloc_with(Alloc::new(&UNMOVABLE).pages(700)).is_err());
        assert_eq!(world.alloc_with(Alloc::new(&UNMOVABLE).pages(700).owner(&Immovable)), Ok(Pfn(BASE + 512)));
    });
}

/// Pages in pagesets keep their blocks from merging: a search drains them.
#[test]
fn cached_pages_are_part_of_a_run() {
    for tuning in [LINUX_6_18, PAGESET] {
        one_zone(tuning, 4096, 2, |world| {
            world.at(0).set_watermarks(NO_MARKS, [0; 4]);
            let pages: Vec<_> = std::iter::from_fn(|| world.alloc(&movable(0)).ok()).collect();
            pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
            assert!(world.at(0).stats().pagesets.count > 0);
            let run =
                world.alloc_with(Alloc::new(&UNMOVABLE).pages(4096).owner(&Immovable)).expect("all is free or cached");
            assert_eq!(run, Pfn(BASE));
            assert_eq!(in_use(world), 4096);
        });
    }
}

/// One page in use in each pageblock: a run is free only after its owner moved some.
#[test]
fn blocks_move_out_of_a_run() {
    one_zone(LINUX_6_18, 8192, 1, |world| {
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        let owner = StampingOwner::new(world);
        for start in (BASE..BASE + 8192).step_by(512) {
            assert!(world.alloc_at(Pfn(start + 77), Order::ZERO));
            owner.adopt(Pfn(start + 77), Order::ZERO);
        }
        // An unmovable page, which no search may try to move.
        let fixed = Pfn(BASE + 512 + 100);
        world.alloc_range(PageRange::new(fixed, 1), MigrateType::Unmovable, &Immovable).expect("free");
        assert!(Immovable.isolate(fixed).is_none() && owner.moves());
        let error = world
            .alloc_with(Alloc::new(&UNMOVABLE).pages(1536).owner(&Immovable))
            .expect_err("each pageblock has a page in use");
        assert_eq!(error, AllocError::NoRun { pages: 1536, align_pages: 1 });
        let run = world.alloc_with(Alloc::new(&UNMOVABLE).pages(1536).owner(&owner)).expect("pages can move");
        assert_eq!(run, Pfn(BASE + 1024), "the first run without the unmovable page");
        assert_eq!(in_use(world), 16 + 1 + 1536);
    });
}

#[test]
fn zones_and_nodes_of_the_request() {
    let ranges = [PageRange::new(Pfn(BASE), 4096), PageRange::new(Pfn(BASE + 4096), 4096)];
    let zone = |node, range: &'static PageRange| ZoneSpec {
        node: NodeId(node),
        kind: ZoneKind::Normal,
        span: *range,
        ranges: std::slice::from_ref(range),
    };
    let ranges: &'static [PageRange; 2] = Box::leak(Box::new(ranges));
    let zones = [zone(0, &ranges[0]), zone(1, &ranges[1])];
    build(&Config { tuning: LINUX_6_18, ..Config::new(&zones, &[NodeId(0)]) }, |world| {
        let on = |node, this_node_only| Request { node: Some(NodeId(node)), this_node_only, ..UNMOVABLE };
        let run = |request: &Request| world.alloc_with(Alloc::new(request).pages(3000).owner(&Immovable));
        assert_eq!(run(&on(1, false)), Ok(Pfn(BASE + 4096)));
        assert!(run(&on(1, true)).is_err(), "the node has no second run");
        assert_eq!(run(&on(1, false)), Ok(Pfn(BASE)), "another node's memory");
    });
}
