//! Depots: batches of blocks that pass from a CPU that frees to a CPU that allocates, and when they go back.

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};

use crate::support::{Behaving, Behaviour, Known, World, build, movable};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::{PAGESET, PAGESET_LISTS};
use pageset::policy::{Bounds, Watermarks};
use pageset::{
    Alloc, AllocFrom, Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, RawLock,
    RegionRule, Request, SpinLock, Tuning, Wait, ZoneKind, ZoneSpec,
};

const BASE: u64 = 1 << 20;
/// Pages of a region. Its depot holds a 32nd: 1,024.
const REGION: u64 = 1 << 15;

/// A zone of two regions, and two CPUs.
fn two_regions<R>(tuning: Tuning, test: impl FnOnce(&World<'_>) -> R) -> R {
    let ranges = [PageRange::new(Pfn(BASE), 2 * REGION)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { backing: tuning.backing.with_regions(RegionRule::Fixed(2)), ..tuning };
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) }, |world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 300, high_max: 300 }).expect("room");
        test(world)
    })
}

/// CPU 0 allocates blocks, CPU 1 frees them.
fn stream(world: &World<'_>, order: u8, blocks: usize) {
    for _ in 0..blocks {
        world.machine().run_on(0);
        let pfn = world.alloc(&movable(order)).expect("memory");
        world.machine().run_on(1);
        world.free(pfn, Order::new(order).expect("an order")).expect("in use");
    }
}

/// Nearly all pages of a stream come from the depot of the allocating CPU's region, where the freeing CPU leaves them.
#[test]
fn a_stream_bypasses_the_free_lists() {
    for order in [0, 3, 5] {
        let [with, without] = [true, false].map(|depot| {
            two_regions(Tuning { backing: PAGESET_LISTS.backing.with_stores(depot, false), ..PAGESET_LISTS }, |world| {
                stream(world, order, 20_000 >> order);
                let stats = world.at(0).stats();
                world.at(0).audit().expect("the audit passes");
                let pages = stats.pagesets.refill_pages - stats.depot_out_pages;
                (pages + stats.pagesets.drain_pages - stats.depot_in_pages, stats.lock_refill + stats.lock_drain)
            })
        });
        assert!(with.0 * 5 < without.0, "order {order}: pages through the free lists: {with:?}, {without:?}");
        assert!(10 * with.1 <= 11 * without.1, "order {order}: holds: {with:?}, {without:?}");
    }
}

/// Pageblocks go to the free lists at once, where every CPU finds them.
#[test]
fn pageblocks_are_not_left_in_depots() {
    for (order, left) in [(7, true), (9, false), (10, false)] {
        two_regions(PAGESET, |world| {
            stream(world, order, 60);
            assert_eq!(world.at(0).stats().depot_in_pages > 0, left, "order {order}");
            world.at(0).audit().expect("the audit passes");
        });
    }
}

/// To two of the largest drains, also in a large region where refills take much.
#[test]
fn a_depot_holds_two_drains() {
    let ranges = [PageRange::new(Pfn(BASE), 1 << 18)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { backing: PAGESET.backing.with_regions(RegionRule::One), ..PAGESET };
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) }, |world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 300, high_max: 300 }).expect("room");
        let mut most = 0;
        for _ in 0..3 {
            stream(world, 0, 5000);
            world.machine().run_on(0);
            let pages: Vec<_> = (0..5000).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
            for pfn in pages {
                world.free(pfn, Order::ZERO).expect("in use");
                most = most.max(world.at(0).stats().depot);
            }
        }
        assert!((504..=1008).contains(&most), "{most} pages");
    });
}

/// To a share of the region, and to what refills took lately.
#[test]
fn a_depot_is_limited() {
    two_regions(PAGESET, |world| {
        let free_many = || {
            world.machine().run_on(0);
            let pages: Vec<_> = (0..6000).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
            pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
            world.at(0).stats().depot
        };
        assert!((63..=124).contains(&free_many()), "nobody took pages from it before");
        stream(world, 0, 2000);
        world.drain_all();
        assert!((512..=1024).contains(&free_many()), "refills took 2,000 pages");
        for _ in 0..40 {
            let _ = world.tick();
        }
        world.drain_all();
        assert!(free_many() < 512, "the demand is old");
        let stats = world.at(0).stats();
        let books = world.at(0).audit().expect("the audit passes");
        assert_eq!(books.cached, stats.depot + stats.pagesets.count);
    });
}

/// Pages that no refill needs go back. A tick frees those that were there at the tick before.
#[test]
fn idle_pages_go_back() {
    two_regions(PAGESET, |world| {
        stream(world, 0, 2000);
        let depot = || world.at(0).stats().depot;
        assert!(depot() > 0);
        world.machine().run_on(0);
        assert!(world.tick(), "there is more to do");
        // The ticks of one of two online CPUs: each looks after one of the two depots.
        for _ in 0..3 {
            let _ = world.tick();
        }
        assert_eq!(depot(), 0);
        assert!(!world.tick(), "nothing is left to do");
        world.at(0).audit().expect("the audit passes");
    });
}

/// The depot of an offline CPU's region: other CPUs' ticks look after it.
#[test]
fn depots_do_not_depend_on_one_cpu() {
    two_regions(PAGESET, |world| {
        stream(world, 0, 2000);
        world.machine().run_on(1);
        world.cpu_offline(CpuId(0)).expect("it is online");
        assert!(world.at(0).stats().depot > 0);
        for _ in 0..3 {
            let _ = world.tick();
        }
        assert_eq!(world.at(0).stats().depot, 0);
    });
}

/// No allocation fails for pages in depots, and no block stays in parts for them.
#[test]
fn depots_give_way_to_requests() {
    two_regions(PAGESET, |world| {
        stream(world, 0, 2000);
        assert!(world.at(0).stats().depot > 0);
        world.machine().run_on(0);
        let request = Request { watermarks: false, ..movable(0) };
        let all = std::iter::from_fn(|| world.alloc(&request).ok()).count() as u64;
        let stats = world.at(0).stats();
        assert_eq!((stats.depot, all + stats.pagesets.count), (0, 2 * REGION), "CPU 1 is drained, too");
    });
    // A request for a block that a depot has in parts only, and under rules that leave other CPUs their pages.
    two_regions(Tuning { drain_for_requests: false, ..PAGESET }, |world| {
        world.at(0).set_watermarks(Watermarks { min: 0, low: 0, high: 0 }, [0; 4]);
        let request = |order| Request { watermarks: false, wait: Wait::Lock, ..movable(order) };
        stream(world, 0, 2000);
        world.machine().run_on(0);
        let all: Vec<_> = std::iter::from_fn(|| world.alloc(&request(0)).ok()).collect();
        world.drain_all();
        world.machine().run_on(1);
        all[..700].iter().for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let stats = world.at(0).stats();
        let is_free = |order| world.at(0).free_blocks(order, MigrateType::Movable) > 0;
        assert!(stats.depot > 200 && !Order::all().skip(8).any(is_free), "{stats:?}");
        world.machine().run_on(0);
        world.alloc(&request(8)).expect("the pages of the depot merge");
        assert_eq!(world.at(0).stats().depot, 0);
        world.at(0).audit().expect("the audit passes");
    });
    two_regions(PAGESET, |world| {
        let whole = |world: &World<'_>| world.at(0).free_blocks(Order::MAX, MigrateType::Movable);
        let before = whole(world);
        stream(world, 0, 2000);
        world.drain_all();
        assert_eq!((whole(world), world.at(0).stats().depot), (before, 0));
        stream(world, 0, 2000);
        world.at(0).disable_pagesets();
        assert_eq!((whole(world), world.at(0).stats().depot), (before, 0), "and disabled pagesets leave nothing there");
        stream(world, 0, 2000);
        assert_eq!((whole(world), world.at(0).stats().depot), (before, 0));
    });
}

/// A request that may wait for nothing takes from a depot, too.
#[test]
fn a_request_that_waits_for_nothing_takes_from_a_depot() {
    two_regions(PAGESET, |world| {
        stream(world, 0, 2000);
        world.machine().run_on(0);
        let before = world.at(0).stats();
        let request = Request { wait: Wait::Nothing, ..movable(0) };
        for _ in 0..before.pagesets.count + 100 {
            world.alloc(&request).expect("memory");
        }
        assert!(world.at(0).stats().depot_out_pages > before.depot_out_pages);
    });
}

/// A pageset that loses its CPU, or its right to keep pages, goes to the free lists.
#[test]
fn a_drain_on_request_leaves_nothing_in_a_depot() {
    two_regions(PAGESET, |world| {
        world.machine().run_on(1);
        let pages: Vec<_> = (0..200).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let depot = world.at(0).stats().depot;
        world.drain_cpu(CpuId(1));
        let stats = world.at(0).stats();
        assert_eq!((stats.depot, stats.pagesets.count), (depot, 0));
    });
}

/// Before a request fails, another CPU gives up what it keeps: single pages, and blocks that are large enough.
#[test]
fn other_cpus_give_way_to_requests() {
    let keep = |world: &World<'_>, order: u8, blocks: usize| {
        world.machine().run_on(1);
        let blocks: Vec<_> = (0..blocks).map(|_| world.alloc(&movable(order)).expect("memory")).collect();
        blocks.into_iter().for_each(|pfn| world.free(pfn, Order::new(order).expect("an order")).expect("in use"));
        world.machine().run_on(0);
    };
    for (drain_for_requests, wait, order, least, most) in [
        (true, Wait::Memory, 0, 2 * REGION, 2 * REGION),
        (true, Wait::Lock, 0, 2 * REGION, 2 * REGION),
        (true, Wait::Nothing, 0, 0, 2 * REGION - 100),
        (false, Wait::Memory, 0, 0, 2 * REGION - 100),
        (false, Wait::Lock, 0, 0, 2 * REGION - 100),
    ] {
        two_regions(Tuning { drain_for_requests, ..PAGESET }, |world| {
            keep(world, order, 200);
            let request = Request { watermarks: false, wait, ..movable(order) };
            let all = std::iter::from_fn(|| world.alloc(&request).ok()).count() as u64;
            assert!((least..=most).contains(&all), "{all} pages");
        });
    }
    two_regions(PAGESET, |world| {
        keep(world, 5, 3);
        let kept = world.pageset(0, CpuId(1)).state().count;
        let request = Request { watermarks: false, ..movable(0) };
        let all: Vec<_> =
            std::iter::from_fn(|| world.alloc_with(Alloc::new(&request).from(AllocFrom::Buddy)).ok()).collect();
        assert_eq!((all.len() as u64, world.pageset(0, CpuId(1)).state().count), (2 * REGION, 0), "{kept} were kept");
        // Without pages that could help, no pageset is touched; nor by a request that waits for nothing.
        keep(world, 0, 0);
        all[..64].iter().for_each(|&pfn| world.free(pfn, Order::ZERO).expect("in use"));
        world.machine().run_on(1);
        world.alloc(&Request { watermarks: false, ..movable(5) }).expect_err("single pages do not make it");
        assert_eq!(world.pageset(0, CpuId(0)).state().count, 64);
        world
            .alloc(&Request { watermarks: false, wait: Wait::Nothing, ..movable(0) })
            .expect_err("it waits for nothing");
        assert_eq!(world.pageset(0, CpuId(0)).state().count, 64);
    });
}

/// A machine that takes only the lock of the caller's own CPU without waiting.
struct OwnOnly;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// How many of the next tries to lock a region fail.
    static BUSY: Cell<u32> = const { Cell::new(0) };
}

impl Behaviour for OwnOnly {
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn try_lock_pageset(&self, lock: &SpinLock, cpu: CpuId) -> bool {
        cpu == self.cpu() && lock.try_lock()
    }
}

/// A request that cannot wait for a pageset skips the pagesets that it cannot lock.
#[test]
fn only_a_request_that_waits_for_memory_waits_for_pagesets() {
    let range = [PageRange::new(Pfn(0), 2 * REGION)];
    let spec = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range[0], ranges: &range }];
    let config = Config::new(&spec, &[NodeId(0); 2]);
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Behaving(&OwnOnly), &config, metadata.lend(&mut zones)).expect("the map is valid");
    CPU.set(1);
    let blocks: Vec<_> = (0..200).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
    blocks.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
    CPU.set(0);
    let kept = u64::from(world.pageset(0, CpuId(1)).state().count);
    let take = |wait| {
        let request = Request { watermarks: false, wait, ..movable(0) };
        std::iter::from_fn(|| world.alloc(&request).ok()).count() as u64
    };
    assert!(kept > 0);
    assert_eq!(take(Wait::Lock), 2 * REGION - kept);
    assert_eq!(take(Wait::Memory), kept);
}

/// A lock that another CPU seems to hold for the next [`BUSY`] tries.
#[derive(Debug, Default)]
struct Contended(SpinLock);

impl RawLock for Contended {
    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        let busy = BUSY.get();
        BUSY.set(busy.saturating_sub(1));
        busy == 0 && self.0.try_lock()
    }

    fn unlock(&self) {
        self.0.unlock();
    }
}

/// Two CPUs, which one thread takes turns on. Only the locks of regions are contended.
struct Turns;

impl Machine for Turns {
    type Lock = Contended;

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn try_lock_pageset(&self, lock: &Contended, _cpu: CpuId) -> bool {
        lock.0.try_lock()
    }
}

/// The pages that a ring of 512 pages touches, where CPU 0 allocates 200,000 pages and CPU 1 frees each after 512 others. At every other
/// refill of CPU 0, the first `busy` tries to lock a region fail.
fn touched_by_a_ring(busy: u32) -> usize {
    let range = [PageRange::new(Pfn(BASE), 2 * REGION)];
    let spec = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range[0], ranges: &range }];
    let config = Config::new(&spec, &[NodeId(0); 2]);
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Turns, &config, metadata.lend(&mut zones)).expect("the map is valid");
    let (mut ring, mut touched) = (VecDeque::new(), HashSet::new());
    let mut refills = 0;
    for _ in 0..200_000 {
        CPU.set(0);
        let is_empty = world.pageset(0, CpuId(0)).state().count == 0;
        refills += u32::from(is_empty);
        BUSY.set(if is_empty && refills % 2 == 0 { busy } else { 0 });
        let pfn = world.alloc(&movable(0)).expect("memory");
        BUSY.set(0);
        touched.insert(pfn);
        ring.push_back(pfn);
        CPU.set(1);
        if ring.len() > 512 {
            world.free(ring.pop_front().expect("a page"), Order::ZERO).expect("in use");
        }
    }
    CPU.set(1);
    ring.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
    assert!(refills > 300, "{refills} refills");
    let stats = world.at(0).stats();
    assert_eq!(world.at(0).audit().expect("the audit passes").cached, stats.depot + stats.pagesets.count);
    touched.len()
}

/// The CPU that allocates takes what the other one freed, though that one holds the lock of the region at times: briefly; as long as all
/// tries, so that it takes from the bitmaps; and longer, so that it takes a little from another region.
#[test]
fn a_ring_between_cpus_stays_small_where_locks_are_busy() {
    let quiet = touched_by_a_ring(0);
    assert!(quiet <= 1024, "{quiet} pages: the ring, and what each CPU keeps");
    for (busy, most) in [(1, quiet), (15, quiet), (16, 1152), (17, 1152), (40, 1152)] {
        let touched = touched_by_a_ring(busy);
        assert!(touched <= most, "{busy} tries fail: {touched} pages, not {quiet}");
    }
}
