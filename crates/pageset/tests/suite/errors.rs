//! Every error: it is reached, its message is exact, and nothing was built or changed.

use std::sync::atomic::{AtomicU8, AtomicU32};

use crate::support::{Known, TestMachine, movable, one_zone};
use pageset::alloc::owned::OwnedMetadata;
use pageset::alloc::shortage::{Nearest, Reason};
use pageset::pcp::Pageset;
use pageset::policy::{Bounds, Tuning, TuningError};
use pageset::{
    AllocError, Allocator, Block, CachedZone, Config, CpuId, Free, FreeError, FreeTo, MapError, Metadata, MigrateType,
    NodeId, Order, OutOfMemory, PageRange, PageState, Pfn, Region, Request, SpinLock, WrongFree, ZoneKind,
    ZoneMetadata, ZoneSpec,
};

const BASE: u64 = 1 << 20;

/// Pages of the largest span of a zone.
const LARGEST_SPAN: u64 = (1 << 32) - (1 << 23);

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

fn range(start: u64, pages: u64) -> PageRange {
    PageRange::new(Pfn(start), pages)
}

fn zone(node: u32, kind: ZoneKind, span: PageRange, ranges: &[PageRange]) -> ZoneSpec<'_> {
    ZoneSpec { node: NodeId(node), kind, span, ranges }
}

#[test]
fn invalid_maps_are_errors() {
    let normal = |span, ranges| zone(0, ZoneKind::Normal, span, ranges);
    let span = range(0, 4096);
    let cpu: &[NodeId] = &[NodeId(0)];
    let two = [range(0, 100), range(50, 100)];
    let empty = [range(10, 0)];
    let outside = [range(4000, 97)];
    let check = |zones: &[ZoneSpec<'_>], cpus: &[NodeId], error: MapError, message: &str| {
        let config = Config::new(zones, cpus);
        assert_eq!(config.metadata_size(), Err(error));
        assert_eq!(OwnedMetadata::<TestMachine>::new(&config).expect_err("the same"), error);
        assert_eq!(error.to_string(), message);
    };
    check(&[], cpu, MapError::Zones { zones: 0 }, "the map has 0 zones; allowed: 1 to 255");
    check(&[normal(span, &[]); 256], cpu, MapError::Zones { zones: 256 }, "the map has 256 zones; allowed: 1 to 255");
    check(&[normal(span, &[])], &[], MapError::Cpus { cpus: 0 }, "the machine has 0 CPUs; allowed: 1 to 65536");
    let far = [NodeId(5000)];
    check(&[normal(span, &[])], &far, MapError::Nodes { nodes: 5001 }, "the map has 5001 nodes; allowed: 1 to 1024");
    check(&[normal(range(7, 0), &[])], cpu, MapError::Empty { start: Pfn(7) }, "the range at 0x7 has no pages");
    check(&[normal(span, &empty)], cpu, MapError::Empty { start: Pfn(10) }, "the range at 0xa has no pages");
    let error = MapError::Overlap { start: Pfn(50), other: Pfn(0) };
    check(&[normal(span, &two)], cpu, error, "the range at 0x32 overlaps the one at 0x0");
    let other = zone(1, ZoneKind::Normal, range(4095, 100), &[]);
    let error = MapError::Overlap { start: Pfn(4095), other: Pfn(0) };
    check(&[normal(span, &[]), other], cpu, error, "the range at 0xfff overlaps the one at 0x0");
    let error = MapError::OutsideSpan { start: Pfn(4000) };
    check(&[normal(span, &outside)], cpu, error, "the range at 0xfa0 is not inside its zone's span");
    let next = zone(0, ZoneKind::Movable, range(4000, 4096), &[]);
    let error = MapError::Unaligned { start: Pfn(4000), multiple_bytes: 2 << 20 };
    let message = "the boundary at 0xfa0 is not a multiple of 2097152 bytes";
    check(&[normal(range(0, 4000), &[]), next], cpu, error, message);
    check(&[next, normal(range(0, 4000), &[])], cpu, error, message);
    for (start, pages) in [
        (0, 1 << 32),
        (0, (1 << 32) - 1),
        (0, LARGEST_SPAN + 1),
        (1 << 52, 1),
        (u64::MAX, 1),
        ((1 << 52) - 1, 2),
        (0, u64::MAX),
    ] {
        let error = MapError::TooLarge { start: Pfn(start), pages };
        let message = format!(
            "the span of {pages} pages at {start:#x} is too large; allowed: up to 2^32 - 2^23 pages, frames below 2^52"
        );
        check(&[normal(range(start, pages), &[])], cpu, error, &message);
    }
    let largest = [normal(range(0, LARGEST_SPAN), &[])];
    // A 32-bit machine has no room for the metadata.
    assert_eq!(Config::new(&largest, cpu).metadata_size().is_ok(), usize::BITS == 64);
    let zones = [normal(span, &[])];
    let good = Config::new(&zones, cpu);
    let distances = Config { distances: &[10, 20], ..good };
    let error = MapError::Distances { given: 2, expected: 1 };
    assert_eq!(distances.metadata_size(), Err(error));
    assert_eq!(error.to_string(), "2 distances were given; allowed: none, or 1, one for each pair of nodes");
    let tuning = Config { tuning: Tuning { batch_scale_max: 9, ..Tuning::default() }, ..good };
    let error = MapError::Tuning(TuningError::OutOfRange { field: "batch_scale_max", value: 9, allowed: "0 to 6" });
    assert_eq!(tuning.metadata_size(), Err(error));
    assert_eq!(error.to_string(), "batch_scale_max is 9; allowed: 0 to 6");
    let fraction = Config { high_fraction: 7, ..good };
    assert_eq!(fraction.metadata_size(), Err(MapError::Fraction(7)));
    assert_eq!(MapError::Fraction(7).to_string(), "the fraction is 7; allowed: 0 for none, or 8 and more");
}

#[test]
fn ranges_in_bytes() {
    assert_eq!(PageRange::from_bytes(4096, 8192), Ok(range(1, 2)));
    let unaligned = MapError::Unaligned { start: Pfn(1), multiple_bytes: 4096 };
    assert_eq!(PageRange::from_bytes(4097, 8192), Err(unaligned));
    assert_eq!(PageRange::from_bytes(4096, 8191), Err(unaligned));
    assert_eq!(PageRange::from_bytes(4096, 0), Err(MapError::Empty { start: Pfn(1) }));
    assert_eq!(PageRange::from_bytes(4095, 0), Err(MapError::Unaligned { start: Pfn(0), multiple_bytes: 4096 }));
}

#[test]
fn metadata_of_the_wrong_size_is_an_error() {
    let ranges = [range(0, 4096)];
    let zones = [zone(0, ZoneKind::Normal, ranges[0], &ranges)];
    let config = Config::new(&zones, &[NodeId(0)]);
    let metadata = OwnedMetadata::<TestMachine>::new(&config).expect("memory");
    let (mut none, mut all) = ([], metadata.zones());
    let mut short = metadata.lend(&mut all);
    short.zones = &mut none;
    let error = Allocator::new(TestMachine::default(), &config, short).expect_err("no zones");
    assert_eq!(error, MapError::Metadata { zone: None, part: "zones", given: 0, expected: 1 });
    assert_eq!(error.to_string(), "the metadata's zones have length 0; metadata_size requires 1");

    let mut zones = metadata.zones();
    let mut short = metadata.lend(&mut zones);
    short.words = &short.words[1..];
    let expected = config.metadata_size().expect("the map is valid").words;
    let error = Allocator::new(TestMachine::default(), &config, short).expect_err("one less");
    assert_eq!(error, MapError::Metadata { zone: None, part: "words", given: expected - 1, expected });

    let (size, common) = (config.zone_metadata_size(0).expect("valid"), vec_of(expected, || AtomicU32::new(0)));
    let (tags, words) = (vec_of(size.tags, || AtomicU8::new(0)), vec_of(size.words, || AtomicU32::new(0)));
    let pagesets = vec_of(size.pagesets, Pageset::default);
    let regions: Vec<Region<SpinLock>> = (0..size.regions).map(|_| Region::default()).collect();
    let whole = ZoneMetadata { tags: &tags, words: &words, pagesets: &pagesets, regions: &regions };
    for (part, expected, short) in [
        ("tags", size.tags, ZoneMetadata { tags: &tags[1..], ..whole }),
        ("words", size.words, ZoneMetadata { words: &words[1..], ..whole }),
        ("pagesets", size.pagesets, ZoneMetadata { pagesets: &pagesets[1..], ..whole }),
        ("regions", size.regions, ZoneMetadata { regions: &regions[1..], ..whole }),
    ] {
        let mut zones = [CachedZone::new(short)];
        let short = Metadata { words: &common, zones: &mut zones };
        let error = Allocator::new(TestMachine::default(), &config, short).expect_err("one less");
        assert_eq!(error, MapError::Metadata { zone: Some(0), part, given: expected - 1, expected });
        let length =
            format!("the {part} of zone 0 have length {}; zone_metadata_size requires {expected}", expected - 1);
        assert_eq!(error.to_string(), length);
    }
    let mut zones = [CachedZone::new(whole)];
    let whole = Metadata { words: &common, zones: &mut zones };
    Allocator::new(TestMachine::default(), &config, whole).expect("nothing was written");
}

fn vec_of<T>(len: usize, value: impl FnMut() -> T) -> Vec<T> {
    std::iter::repeat_with(value).take(len).collect()
}

#[test]
fn invalid_requests_are_errors() {
    one_zone(Tuning::default(), 1024, 1, |world| {
        let taken = world.alloc(&movable(9)).expect("memory");
        for (request, error, message) in [
            (
                movable(10),
                AllocError::OutOfMemory(OutOfMemory {
                    order: Order::MAX,
                    migratetype: MigrateType::Movable,
                    reason: Reason::Watermark,
                    nearest: Nearest {
                        zone: 0,
                        node: NodeId(0),
                        kind: ZoneKind::Normal,
                        free: 512,
                        for_others: 0,
                        mark: 64,
                        reserve: 0,
                    },
                    zones: 1,
                    free_pages: 512,
                    free_blocks: std::array::from_fn(|order| u32::from(order == 9)),
                    cached_pages: 0,
                }),
                "no Movable block of order 10: zone Normal of node 0 has 512 pages free, 0 of them unusable \
                 for this request; 1024 are needed above its min mark of 64 and reserve of 0; zones tried: 1, pages \
                 free there: 512, in blocks of order 0 to 10: 0 0 0 0 0 0 0 0 0 1 0; 0 more in pagesets",
            ),
            (
                Request::new(order(1), MigrateType::Isolate),
                AllocError::Migratetype(MigrateType::Isolate),
                "cannot allocate pages of type Isolate; allowed: Unmovable, Movable, Reclaimable",
            ),
            (
                Request { node: Some(NodeId(3)), ..movable(0) },
                AllocError::Node(NodeId(3)),
                "cannot allocate from node 3: it has no zone for this request",
            ),
            (
                Request { highest: ZoneKind::Dma, ..movable(0) },
                AllocError::Node(NodeId(0)),
                "cannot allocate from node 0: it has no zone for this request",
            ),
        ] {
            let before = world.at(0).stats();
            assert_eq!(world.alloc(&request), Err(error));
            assert_eq!(world.at(0).stats(), before);
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(world.alloc_bulk(&movable(0), &mut []), Ok(0));
        world.free(taken, order(9)).expect("was allocated");
    });
}

#[test]
fn wrong_frees() {
    let span = range(BASE, 8192);
    let ranges = [range(BASE, 4096)];
    let zones = [zone(0, ZoneKind::Normal, span, &ranges)];
    crate::support::build(&Config::new(&zones, &[NodeId(0)]), |world| {
        let big = world.alloc(&movable(5)).expect("memory");
        let [cached, other] = [(); 2].map(|()| world.alloc(&movable(0)).expect("memory"));
        world.free(cached, Order::ZERO).expect("was allocated");
        let at = |page: u64| Pfn(BASE + page);
        let state = PageState::Allocated;
        let rows = [
            (Pfn(5), 0, WrongFree::NotOurs, "cannot free page 0x5 as a block of order 0: it is in no zone"),
            (
                big.offset(1),
                5,
                WrongFree::Misaligned,
                "cannot free page 0x100001 as a block of order 5: no block of that order starts there",
            ),
            (
                at(5000),
                0,
                WrongFree::NotAllocated(PageState::Inside),
                "cannot free page 0x101388 as a block of order 0: it was never brought online",
            ),
            (
                at(1024),
                10,
                WrongFree::NotAllocated(PageState::Free),
                "cannot free page 0x100400 as a block of order 10: it is free",
            ),
            (
                cached,
                0,
                WrongFree::NotAllocated(PageState::Cached),
                "cannot free page 0x100020 as a block of order 0: it is free, in a pageset",
            ),
            (
                big,
                4,
                WrongFree::WrongOrder(order(5)),
                "cannot free page 0x100000 as a block of order 4: the block there has order 5",
            ),
            (
                big.offset(8),
                3,
                WrongFree::Inside { head: big, order: order(5), state },
                "cannot free page 0x100008 as a block of order 3: it is inside the block of order 5 at 0x100000, \
                 which is Allocated",
            ),
            (
                at(1025),
                0,
                WrongFree::Inside { head: at(1024), order: Order::MAX, state: PageState::Free },
                "cannot free page 0x100401 as a block of order 0: it is inside the block of order 10 at 0x100400, \
                 which is Free",
            ),
        ];
        for (pfn, of, reason, message) in rows {
            let before = (world.at(0).stats(), world.pageset(0, CpuId(0)).state());
            let error = world.free(pfn, order(of)).expect_err("wrong");
            assert_eq!((error.pfn, error.order, error.reason), (pfn, order(of), reason));
            assert_eq!(error.to_string(), message);
            assert_eq!(world.free_with(Free::block(pfn, order(of)).to(FreeTo::PagesetUndrained)), Err(error));
            let wrong = world.split(pfn, order(of), Order::ZERO).expect_err("wrong");
            let why = message.split_once(": ").expect("a reason").1;
            let no_split = format!("cannot split page {pfn}, a block of order {of}, into blocks of order 0: {why}");
            assert_eq!((wrong.to_string(), FreeError::from(wrong)), (no_split, error));
            let blocks = [Block { pfn: other, order: Order::ZERO }, Block { pfn, order: order(of) }];
            assert_eq!(world.free_bulk(&blocks), Err(error), "the valid block is not freed either");
            assert_eq!((world.at(0).stats(), world.pageset(0, CpuId(0)).state()), before);
        }
        let larger = world.split(big, order(5), order(6)).expect_err("larger");
        assert_eq!((larger.to, larger.reason), (order(6), WrongFree::WrongOrder(order(5))));
        assert_eq!(
            larger.to_string(),
            "cannot split page 0x100000, a block of order 5, into blocks of order 6: the block there has order 5"
        );
        let error = world.set_pageblock_type(Pfn(5), MigrateType::Cma).expect_err("the page is in no zone");
        assert_eq!(error.reason, WrongFree::NotOurs);
        world.free(big, order(5)).expect("still in use");
        world.free(other, Order::ZERO).expect("still in use");
        world.at(0).audit().expect("the audit passes");
    });
}

#[test]
fn invalid_limits_are_errors() {
    one_zone(Tuning::default(), 1 << 16, 1, |world| {
        let before = world.pageset(0, CpuId(0)).state();
        let capacity = |asked| match world.at(0).set_bounds(Bounds { batch: 1, high_min: 1, high_max: asked }) {
            Err(MapError::Capacity { asked, capacity }) => (asked, capacity),
            other => panic!("{other:?}"),
        };
        let (asked, room) = capacity(1 << 20);
        assert_eq!(
            MapError::Capacity { asked, capacity: room }.to_string(),
            format!("1048576 pages per CPU were requested; the pagesets have room for {room}")
        );
        assert_eq!(capacity(room + 1), (room + 1, room));
        let error = world.at(0).set_bounds(Bounds { batch: 0, high_min: 1, high_max: 1 }).expect_err("no batch");
        assert_eq!(error.to_string(), "batch is 0; allowed: 1 to 65536 pages");
        let error = world.at(0).set_bounds(Bounds { batch: 1, high_min: 2, high_max: 1 }).expect_err("crossed");
        assert_eq!(error.to_string(), "high_min is 2; allowed: at most high_max");
        assert_eq!(world.set_high_fraction(3), Err(MapError::Fraction(3)));
        assert_eq!(world.pageset(0, CpuId(0)).state(), before);
    });
    // The pagesets' capacity is below the fraction.
    let ranges = [range(0, 1 << 16)];
    let zones = [zone(0, ZoneKind::Normal, ranges[0], &ranges)];
    let config = Config { pageset_capacity: 1000, ..Config::new(&zones, &[NodeId(0)]) };
    crate::support::build(&config, |world| {
        let before = world.pageset(0, CpuId(0)).state();
        let error = world.set_high_fraction(8).expect_err("8192 pages");
        assert_eq!(error, MapError::Capacity { asked: 8192, capacity: 1064 });
        assert_eq!(world.pageset(0, CpuId(0)).state(), before);
        world.set_high_fraction(100).expect("655 pages");
        assert_eq!(world.pageset(0, CpuId(0)).state().high_max, 655);
    });
}
