//! Bulk calls: the same pages as with single calls, under fewer holds of the pageset's lock. Specification 2.3, 2.5.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::support::{Behaving, Behaviour, Known, World, build, movable, one_zone};
use pageset::admin::stats::ZoneStats;
use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::{Access, Line};
use pageset::policy::presets::*;
use pageset::policy::{Bounds, ListRule, PRESETS, PcpState, Tuning, Watermarks};
use pageset::{
    AllocError, Allocator, Block, Config, CpuId, LockPath, Machine, MigrateType, NodeId, Order, PageRange, PageState,
    Pfn, RawLock, Request, SpinLock, WrongFree, ZoneKind, ZoneSpec,
};
use proptest::prelude::*;

fn single(pfn: Pfn) -> Block {
    Block { pfn, order: Order::ZERO }
}

/// Two nodes. The first has two small zones, so that one reaches its marks while the other still has pages.
fn two_nodes<R>(tuning: Tuning, test: impl FnOnce(&World<'_>) -> R) -> R {
    let range = |start, pages| [PageRange::new(Pfn(start), pages)];
    let ranges = [range(0, 1024), range(1024, 2048), range(1 << 20, 2048)];
    let zone = |node, kind, at: usize| ZoneSpec { node: NodeId(node), kind, span: ranges[at][0], ranges: &ranges[at] };
    let specs = [zone(0, ZoneKind::Dma, 0), zone(0, ZoneKind::Normal, 1), zone(1, ZoneKind::Normal, 2)];
    let config = Config { tuning, pageset_capacity: 800, ..Config::new(&specs, &[NodeId(0), NodeId(1)]) };
    build(&config, |world| {
        for (zone, high) in [(0, 60), (1, 200), (2, 200)] {
            world.at(zone).set_bounds(Bounds { batch: 15, high_min: high, high_max: 2 * high }).expect("room");
            world.at(zone).set_watermarks(Watermarks { min: 100, low: 250, high: 400 }, [0; ZoneKind::COUNT]);
        }
        test(world)
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    RunOn(u32),
    Take(u8, usize, MigrateType),
    Give(usize, usize),
    /// Blocks of other orders among the pages, and pageblocks whose pages no pageset keeps.
    Large(u8),
    Isolate(u64),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(&MigrateType::ALL[..3]);
    prop_oneof![
        1 => (0..2_u32).prop_map(Step::RunOn),
        6 => (1..700_usize, kind.clone()).prop_map(|(pages, kind)| Step::Take(0, pages, kind)),
        3 => (1..10_u8, 1..700_usize, kind).prop_map(|(order, pages, kind)| Step::Take(order, pages, kind)),
        6 => (any::<usize>(), 1..700_usize).prop_map(|(from, blocks)| Step::Give(from, blocks)),
        2 => (1..10_u8).prop_map(Step::Large),
        1 => (0..6_u64).prop_map(Step::Isolate),
        1 => Just(Step::Tick),
    ]
}

type Picture = (Vec<ZoneStats>, Vec<(PcpState, [u32; pageset::policy::lists::LISTS])>, Vec<u32>);

fn picture(world: &World<'_>) -> Picture {
    let zones = || 0..world.zones().len();
    let pagesets = zones().flat_map(|zone| (0..2).map(move |cpu| (zone, CpuId(cpu))));
    let lists = zones().flat_map(|zone| Order::all().flat_map(move |order| MigrateType::ALL.map(|t| (zone, order, t))));
    (
        zones().map(|zone| world.at(zone).stats()).collect(),
        pagesets.map(|(zone, cpu)| (world.pageset(zone, cpu).state(), world.pageset(zone, cpu).lists())).collect(),
        lists.map(|(zone, order, t)| world.at(zone).free_blocks(order, t)).collect(),
    )
}

/// Runs steps with calls of at most `most` pages. Returns the allocated blocks in order, and the state of the world
/// after each step.
fn carry_out(tuning: Tuning, steps: &[Step], most: usize) -> (Vec<Block>, Vec<Picture>) {
    two_nodes(tuning, |world| {
        let (mut all, mut live, mut pictures) = (vec![], vec![], vec![]);
        for step in steps {
            match *step {
                Step::RunOn(cpu) => world.machine().run_on(cpu),
                Step::Take(order, pages, migratetype) => {
                    let request = Request::new(Order::new(order).expect("an order"), migratetype);
                    let blocks = pages.div_ceil(1 << order);
                    let mut into = vec![Pfn(0); blocks];
                    let mut got = 0;
                    while got < blocks {
                        let end = blocks.min(got + most);
                        match world.alloc_bulk(&request, &mut into[got..end]) {
                            Ok(more) => got += more,
                            Err(AllocError::OutOfMemory { .. }) => break,
                            Err(error) => panic!("{error}"),
                        }
                        if got < end {
                            break;
                        }
                    }
                    let taken = into[..got].iter().map(|&pfn| Block { pfn, order: request.order });
                    all.extend(taken.clone());
                    live.extend(taken);
                }
                Step::Give(from, blocks) => {
                    let from = from % (live.len() + 1);
                    let end = live.len().min(from + blocks);
                    let given: Vec<_> = live.drain(from..end).collect();
                    given.chunks(most).for_each(|blocks| world.free_bulk(blocks).expect("all are in use"));
                }
                Step::Large(order) => {
                    if let Ok(pfn) = world.alloc(&movable(order)) {
                        let at = live.len() / 2;
                        live.insert(at, Block { pfn, order: Order::new(order).expect("an order") });
                    }
                }
                Step::Isolate(pageblock) => {
                    let pfn = Pfn(512 * pageblock);
                    let now = world.pageblock_type(pfn).expect("the page is in the zone");
                    let to = if now == MigrateType::Isolate { MigrateType::Movable } else { MigrateType::Isolate };
                    world.set_pageblock_type(pfn, to).expect("the page is in the zone");
                }
                Step::Tick => {
                    world.tick();
                }
            }
            pictures.push(picture(world));
        }
        for zone in 0..world.zones().len() {
            world.at(zone).audit().expect("the audit passes");
        }
        (all, pictures)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The number of pages per call does not change which pages move, nor when.
    #[test]
    fn large_calls_move_the_same_pages_as_small_ones(steps in prop::collection::vec(step(), 1..40)) {
        for preset in PRESETS {
            let (pages, pictures) = carry_out(preset.tuning, &steps, 1);
            for most in [33, usize::MAX] {
                let (others, other_pictures) = carry_out(preset.tuning, &steps, most);
                prop_assert_eq!(&pages, &others, "{}, calls of {}", preset.name, most);
                for (i, (one, other)) in pictures.iter().zip(&other_pictures).enumerate() {
                    prop_assert_eq!(one, other, "{}, calls of {}, step {}", preset.name, most, i);
                }
            }
        }
    }
}

/// A machine that counts the accesses to pagesets, and whose CPU may change at each read.
#[derive(Default)]
struct Counting {
    pagesets: AtomicU32,
    drains: AtomicU32,
    looks: AtomicU32,
    cpus: u32,
}

impl Behaviour for Counting {
    fn cpu(&self) -> CpuId {
        CpuId((self.looks.fetch_add(1, Relaxed) + 1) % self.cpus)
    }

    fn probe(&self, access: Access) {
        match access {
            Access::Touch(Line::Pageset { .. }) => _ = self.pagesets.fetch_add(1, Relaxed),
            Access::ZoneLock { path: LockPath::Drain, .. } => _ = self.drains.fetch_add(1, Relaxed),
            _ => {}
        }
    }
}

fn counting(tuning: Tuning, cpus: u32, test: impl FnOnce(&Allocator<'_, Behaving<'_>>, &Counting)) {
    let ranges = [PageRange::new(Pfn(1 << 20), 1 << 16)];
    let specs = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let nodes = vec![NodeId(0); cpus as usize];
    let config = Config { tuning, pageset_capacity: 4000, ..Config::new(&specs, &nodes) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let machine = Counting { cpus, ..Counting::default() };
    let world = Allocator::new(Behaving(&machine), &config, metadata.lend(&mut zones)).expect("the map is valid");
    test(&world, &machine);
    world.at(0).audit().expect("the audit passes");
}

#[test]
fn a_hold_of_the_pageset_serves_a_run() {
    // By hand: 126 pages in the pageset are one run; the 127th needs a refill; the rest of that refill is a run.
    counting(LINUX_5_18, 1, |world, machine| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 4000, high_max: 4000 }).expect("room");
        let mut pages = [Pfn(0); 200];
        let holds = |pages: &mut [Pfn]| {
            let before = machine.pagesets.load(Relaxed);
            assert_eq!(world.alloc_bulk(&movable(0), pages), Ok(pages.len()));
            machine.pagesets.load(Relaxed) - before
        };
        assert_eq!(holds(&mut pages[..126]), 4, "two refills of 63, each with what is left of it");
        world.free_bulk(&pages[..126].iter().copied().map(single).collect::<Vec<_>>()).expect("allocated");
        assert_eq!(holds(&mut pages), 5, "126, 1 and 62, 1 and 10");
    });
    // 32 blocks per hold, 31 from 6.10 on. Specification 9.
    let kernels =
        [(LINUX_4_19, 32), (LINUX_5_18, 32), (LINUX_6_7, 32), (LINUX_6_16, 31), (LINUX_6_18, 31), (LINUX_6_19, 31)];
    for (tuning, run) in kernels.into_iter().chain([(PAGESET, 512)]) {
        counting(tuning, 1, |world, machine| {
            world.at(0).set_bounds(Bounds { batch: 63, high_min: 4000, high_max: 4000 }).expect("room");
            let mut pages = [Pfn(0); 248];
            assert_eq!(world.alloc_bulk(&movable(0), &mut pages), Ok(248));
            let before = machine.pagesets.load(Relaxed);
            world.free_bulk(&pages.map(single)).expect("allocated");
            assert_eq!(machine.pagesets.load(Relaxed) - before, 248_u32.div_ceil(run), "{run} a hold");
            assert_eq!(machine.drains.load(Relaxed), 0);
        });
    }
}

/// A drain in chunks releases the lock and takes it again, and the run goes on.
#[test]
fn a_run_goes_on_after_a_drain() {
    for (tuning, drain_holds) in [(LINUX_6_18, 1), (LINUX_6_19, 9)] {
        counting(tuning, 1, |world, machine| {
            world.at(0).set_bounds(Bounds { batch: 10, high_min: 100, high_max: 100 }).expect("room");
            let mut pages = [Pfn(0); 110];
            assert_eq!(world.alloc_bulk(&movable(0), &mut pages), Ok(110));
            world.drain_all();
            let blocks = pages.map(single);
            world.free_bulk(&blocks[..99]).expect("allocated");
            let (runs, drains) = (machine.pagesets.load(Relaxed), machine.drains.load(Relaxed));
            // By hand: the first free reaches high and drains clamp(100 freed in a row, 10, 90); the next ten pages
            // stay.
            world.free_bulk(&blocks[99..]).expect("allocated");
            assert_eq!(world.pageset(0, CpuId(0)).state().count, 100 - 90 + 10);
            assert_eq!(
                (machine.pagesets.load(Relaxed) - runs, machine.drains.load(Relaxed) - drains),
                (1, drain_holds)
            );
        });
    }
}

/// The CPU changes at every read. Each run stays on the CPU that it began on.
#[test]
fn the_cpu_may_change_at_every_read() {
    for preset in PRESETS {
        counting(preset.tuning, 3, |world, _| {
            world.at(0).set_bounds(Bounds { batch: 7, high_min: 20, high_max: 60 }).expect("room");
            let mut pages = [Pfn(0); 500];
            for round in 0..20_u32 {
                let got = world.alloc_bulk(&movable(0), &mut pages).expect("memory");
                assert_eq!(got, 500);
                let mut sorted = pages;
                sorted.sort_unstable();
                assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]), "{}: a page twice", preset.name);
                // CPUs go offline and online between the calls; one always stays online.
                match round % 4 {
                    0 => world.cpu_offline(CpuId(round % 3)).expect("others are left"),
                    2 => world.cpu_online(CpuId((round - 2) % 3)).expect("it went"),
                    _ => {}
                }
                world.free_bulk(&pages.map(single)).expect("allocated");
                let books = world.at(0).audit().expect("the audit passes");
                assert_eq!((books.in_use, books.free + books.cached), (0, 1 << 16));
                for cpu in (0..3).map(CpuId).filter(|&cpu| !world.is_cpu_online(cpu)) {
                    assert_eq!(world.pageset(0, cpu).state().count, 0, "{}: {cpu} is offline", preset.name);
                }
            }
        });
    }
}

/// Memory runs out during a bulk call: the call returns the pages it got, and the next call fails.
#[test]
fn memory_runs_out_during_a_bulk_call() {
    for preset in PRESETS {
        one_zone(preset.tuning, 1000, 1, |world| {
            let request = Request { watermarks: false, ..movable(0) };
            let mut pages = [Pfn(0); 1500];
            assert_eq!(world.alloc_bulk(&request, &mut pages), Ok(1000), "{}", preset.name);
            let error = world.alloc_bulk(&request, &mut pages[1000..]).expect_err("nothing is left");
            let AllocError::OutOfMemory(shortage) = error else { panic!("{error}") };
            assert_eq!((shortage.order, shortage.free_pages), (Order::ZERO, 0));
            let books = world.at(0).audit().expect("the audit passes");
            assert_eq!((books.in_use, books.free, books.cached), (1000, 0, 0), "{}", preset.name);
            world.free_bulk(&pages[..1000].iter().copied().map(single).collect::<Vec<_>>()).expect("allocated");
            world.at(0).audit().expect("the audit passes");
        });
    }
}

thread_local! {
    static REFUSALS: Cell<u32> = const { Cell::new(0) };
}

/// A lock that fails some tries, as if another thread held it.
#[derive(Debug, Default)]
struct Refusing(SpinLock);

impl RawLock for Refusing {
    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        match REFUSALS.get() {
            0 => self.0.try_lock(),
            left => {
                REFUSALS.set(left - 1);
                false
            }
        }
    }

    fn unlock(&self) {
        self.0.unlock();
    }
}

struct Busy;

impl Machine for Busy {
    type Lock = Refusing;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// While the pageset is busy each page bypasses it, and the next page tries it again.
#[test]
fn a_busy_pageset_is_tried_again_for_each_page() {
    let ranges = [PageRange::new(Pfn(0), 1 << 16)];
    let specs = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    for preset in PRESETS {
        let config = Config { tuning: preset.tuning, ..Config::new(&specs, &[NodeId(0)]) };
        let metadata = OwnedMetadata::new(&config).expect("memory");
        let mut zones = metadata.zones();
        let world = Allocator::new(Busy, &config, metadata.lend(&mut zones)).expect("the map is valid");
        let mut pages = [Pfn(0); 10];
        REFUSALS.set(3);
        assert_eq!(world.alloc_bulk(&movable(0), &mut pages), Ok(10), "{}", preset.name);
        let stats = world.at(0).stats();
        assert_eq!((stats.direct_alloc_pages, stats.pagesets.pgalloc), (3, 7), "{}", preset.name);
        REFUSALS.set(4);
        world.free_bulk(&pages.map(single)).expect("allocated");
        let stats = world.at(0).stats();
        assert_eq!((stats.direct_free_pages, stats.pagesets.pgfree), (4, 6), "{}", preset.name);
        world.at(0).audit().expect("the audit passes");
    }
}

/// A page of an ISOLATE pageblock bypasses the pageset, and so does a block of an order without a list. The blocks
/// around them do not.
#[test]
fn uncacheable_blocks_bypass_the_pageset() {
    for preset in PRESETS.iter().filter(|preset| preset.tuning.lists != ListRule::AllOrders) {
        one_zone(preset.tuning, 1 << 16, 1, |world| {
            let pages = [(); 5].map(|()| world.alloc(&movable(0)).expect("memory"));
            let large = world.alloc(&movable(5)).expect("memory");
            let isolated = world.alloc(&Request::new(Order::ZERO, MigrateType::Unmovable)).expect("memory");
            let other = world.alloc(&Request::new(Order::ZERO, MigrateType::Unmovable)).expect("memory");
            world.set_pageblock_type(isolated, MigrateType::Isolate).expect("the page is in the zone");
            let [a, b, c, d, e] = pages.map(single);
            let large = Block { pfn: large, order: Order::new(5).expect("an order") };
            world.free_bulk(&[a, b, single(isolated), c, large, d]).expect("allocated");
            let passed = || (world.at(0).stats().direct_free_pages, world.at(0).stats().pagesets.pgfree);
            assert_eq!(passed(), (1 + 32, 4), "{}", preset.name);
            world.free(other, Order::ZERO).expect("allocated");
            world.free_bulk(&[e]).expect("allocated");
            assert_eq!(passed(), (2 + 32, 5), "{}", preset.name);
            world.at(0).audit().expect("the audit passes");
        });
    }
}

/// The wrong block may be at any place, and may be free, foreign or listed twice.
#[test]
fn one_wrong_block_fails_the_whole_bulk_free() {
    let seen = |world: &Allocator<'_, Behaving<'_>>| {
        (world.pageset(0, CpuId(0)).state(), world.pageset(0, CpuId(0)).lists(), world.at(0).stats())
    };
    counting(PAGESET, 1, |world, _| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 4000, high_max: 4000 }).expect("room");
        let mut pages = [Pfn(0); 200];
        assert_eq!(world.alloc_bulk(&movable(0), &mut pages), Ok(200));
        let mut blocks = pages.map(single);
        let free = world.alloc(&movable(0)).expect("memory");
        world.free(free, Order::ZERO).expect("in use");
        let before = seen(world);
        for at in 0..200 {
            let right = blocks[at];
            for (wrong, reason) in [
                (single(free), WrongFree::NotAllocated(PageState::Cached)),
                (single(Pfn(3)), WrongFree::NotOurs),
                (blocks[(at + 50) % 200], WrongFree::NotAllocated(PageState::Cached)),
            ] {
                blocks[at] = wrong;
                let error = world.free_bulk(&blocks).expect_err("one is wrong");
                assert_eq!((error.pfn, error.reason), (wrong.pfn, reason), "at {at}");
                assert_eq!(seen(world), before, "at {at}");
            }
            blocks[at] = right;
        }
        world.free_bulk(&blocks).expect("all are in use");
    });
}

/// Two zones share a section, most of which is the second one's. One call frees pages of the first zone, the last of them there.
#[test]
fn a_call_for_pages_in_a_section_of_two_zones() {
    for preset in PRESETS {
        let ranges = [[PageRange::new(Pfn(0x464), 13_891)], [PageRange::new(Pfn(0x3c01), 8000)]];
        let zone = |at: usize| ZoneSpec {
            node: NodeId(at as u32),
            kind: ZoneKind::Normal,
            span: ranges[at][0],
            ranges: &ranges[at],
        };
        let zones = [zone(0), zone(1)];
        let config = Config { tuning: preset.tuning, ..Config::new(&zones, &[NodeId(0); 2]) };
        build(&config, |world| {
            // The pageset of the second zone has room.
            let other = Request { node: Some(NodeId(1)), this_node_only: true, ..movable(0) };
            let pages: Vec<_> = (0..200).map(|_| world.alloc(&other).expect("memory")).collect();
            pages.into_iter().for_each(|page| world.free(page, Order::ZERO).expect("was allocated"));
            let request = Request { this_node_only: true, ..movable(0) };
            let mut pages: Vec<_> = std::iter::from_fn(|| world.alloc(&request).ok()).collect();
            assert!(pages.len() > 13_000, "{}", preset.name);
            pages.sort_unstable();
            // The zone has plenty again before the call.
            let last = pages.split_off(pages.len() - 1000);
            pages.into_iter().for_each(|page| world.free(page, Order::ZERO).expect("was allocated"));
            let blocks: Vec<_> = last.into_iter().map(single).collect();
            world.free_bulk(&blocks).expect("all are in use");
            for zone in 0..2 {
                let books = world.at(zone).audit().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
                assert_eq!(books.in_use, 0, "{}", preset.name);
            }
        });
    }
}

/// Bulk calls take the zone's lock once where the pagesets keep nothing, and give the pages of single calls.
#[test]
fn bulk_calls_without_pagesets_take_the_zone_lock_once() {
    let pages_and_holds = |most: usize| {
        one_zone(Tuning::default(), 1 << 16, 1, |world| {
            world.at(0).disable_pagesets();
            let holds = || world.at(0).stats().lock_acquisitions();
            let (mut pages, before) = ([Pfn(0); 96], holds());
            for part in pages.chunks_mut(most) {
                assert_eq!(world.alloc_bulk(&movable(0), part), Ok(part.len()));
            }
            let taken = holds();
            pages.chunks(most).for_each(|part| world.free_bulk_of(Order::ZERO, part).expect("in use"));
            assert_eq!(world.at(0).stats().nr_free_pages, 1 << 16);
            (pages, taken - before, holds() - taken)
        })
    };
    let (alone, together) = (pages_and_holds(1), pages_and_holds(96));
    assert_eq!((together.0, together.1, together.2), (alone.0, 1, 1));
    assert_eq!((alone.1, alone.2), (96, 96));
}
