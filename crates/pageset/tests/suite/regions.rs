//! Zones of several regions: where requests are served, what merges, how long a lock is held.

use std::sync::{Condvar, Mutex, OnceLock};
use std::thread::ThreadId;

use crate::support::{Behaving, Behaviour, Known, World, build, movable};
use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::{Access, Line};
use pageset::policy::presets::{LINUX_4_16, LINUX_6_18, PAGESET, PAGESET_LISTS};
use pageset::policy::{Backing, Bounds, FallbackRule, Holds};
use pageset::{
    Alloc, AllocFrom, Allocator, Block, Config, CpuId, Free, FreeTo, LockPath, MapError, MigrateType, NodeId, Order,
    PageRange, Pfn, RegionRule, Request, Tuning, ZoneKind, ZoneSpec,
};

const BASE: u64 = 1 << 20;
/// Pages of a region: 16 blocks of the largest order.
const REGION: u64 = 1 << 14;

/// A zone of four regions and two CPUs.
fn four_regions<R>(test: impl FnOnce(&World<'_>) -> R) -> R {
    let ranges = [PageRange::new(Pfn(BASE), 4 * REGION)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning {
        backing: PAGESET_LISTS.backing.with_regions(RegionRule::Fixed(4)),
        batch_scale_max: 5,
        high_share: 0,
        ..PAGESET_LISTS
    };
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) }, test)
}

fn region(pfn: Pfn) -> u64 {
    (pfn.0 - BASE) / REGION
}

fn take_all(world: &World<'_>, request: &Request) -> Vec<Pfn> {
    std::iter::from_fn(|| world.alloc(request).ok()).collect()
}

#[test]
fn each_cpu_has_its_region() {
    four_regions(|world| {
        assert_eq!(world.at(0).region_count(), 4);
        for (cpu, expected) in [(0, 0), (1, 2)] {
            world.machine().run_on(cpu);
            for order in [0, 3, 5, 9, 10] {
                let pfn = world.alloc(&movable(order)).expect("memory");
                assert_eq!(region(pfn), expected, "CPU {cpu}, order {order}");
            }
        }
    });
}

/// One CPU gets the pages of all regions, and goes on where it found the last ones.
#[test]
fn an_empty_region_is_left_for_the_next() {
    four_regions(|world| {
        let request = Request { watermarks: false, ..movable(0) };
        let pages = take_all(world, &request);
        assert_eq!(pages.len() as u64, 4 * REGION);
        let mut regions: Vec<_> = pages.iter().map(|&pfn| region(pfn)).collect();
        regions.dedup();
        assert_eq!(regions, [0, 1, 2, 3]);
        // The pages of one region come back: the next request finds them.
        let back = pages.into_iter().filter(|&pfn| region(pfn) == 1);
        back.for_each(|pfn| world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::Buddy)).expect("in use"));
        assert_eq!(region(world.alloc(&request).expect("memory")), 1);
        world.at(0).audit().expect("the audit passes");
    });
}

/// Freed pages merge in the region that they are from, also if another CPU frees them.
#[test]
fn pages_return_to_their_regions() {
    four_regions(|world| {
        let whole = |world: &World<'_>| world.at(0).free_blocks(Order::MAX, MigrateType::Movable);
        let before = whole(world);
        let mut blocks = vec![];
        for cpu in [0, 1] {
            world.machine().run_on(cpu);
            for order in [0, 0, 0, 1, 2, 3, 4, 7, 9, 10] {
                for _ in 0..200 >> order.min(7) {
                    let pfn = world.alloc(&movable(order)).expect("memory");
                    blocks.push(Block { pfn, order: Order::new(order).expect("an order") });
                }
            }
        }
        // In an order that mixes the regions.
        blocks.sort_by_key(|block| block.pfn.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for (i, block) in blocks.into_iter().enumerate() {
            world.machine().run_on(i as u32 % 2);
            world.free(block.pfn, block.order).expect("in use");
        }
        world.drain_all();
        assert_eq!(whole(world), before, "all blocks are whole again");
        world.at(0).audit().expect("the audit passes");
    });
}

/// A request for another type takes a whole pageblock of another region before a part of a pageblock of its own.
#[test]
fn types_mix_last() {
    four_regions(|world| {
        // The first region has free pages in pageblocks in use only.
        let pages: Vec<_> = take_all_of_region(world);
        pages
            .iter()
            .step_by(2)
            .for_each(|&pfn| world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::Buddy)).expect("in use"));
        let pfn = world.alloc(&Request::new(Order::ZERO, MigrateType::Unmovable)).expect("memory");
        assert_eq!((region(pfn), world.at(0).stats().steals), (1, 0));
        assert_eq!(world.pageblock_type(pfn), Some(MigrateType::Unmovable));
    });
}

/// All pages of the first region.
fn take_all_of_region(world: &World<'_>) -> Vec<Pfn> {
    world.at(0).set_bounds(Bounds { batch: 1, high_min: 0, high_max: 0 }).expect("room");
    (0..REGION).map(|_| world.alloc(&movable(0)).expect("memory")).inspect(|&pfn| assert_eq!(region(pfn), 0)).collect()
}

/// A drain of 2,000 pages and a refill of as many hold a lock for 512 pages at a time.
#[test]
fn holds_are_short() {
    four_regions(|world| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 2000, high_max: 4200 }).expect("room");
        let pages: Vec<_> = (0..8000).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        let stats = world.at(0).stats();
        assert!(stats.pagesets.refill_pages <= 512 * stats.lock_refill, "{stats:?}");
        assert!(stats.pagesets.refill_pages / stats.pagesets.refills > 512, "some refills are larger: {stats:?}");
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        world.drain_cpu(CpuId(0));
        let stats = world.at(0).stats();
        assert!(stats.pagesets.drain_pages - stats.depot_in_pages <= 512 * stats.lock_drain, "{stats:?}");
        assert_eq!(stats.pagesets.count, 0);
    });
}

#[test]
fn a_region_has_whole_blocks() {
    let count = |regions, pages, cpus| {
        let ranges = [PageRange::new(Pfn(BASE), pages)];
        let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
        let cpus = vec![NodeId(0); cpus];
        let tuning = Tuning { backing: PAGESET.backing.with_regions(regions), ..PAGESET };
        Config { tuning, ..Config::new(&zones, &cpus) }.zone_metadata_size(0).map(|size| size.regions)
    };
    for (rule, pages, cpus, expected) in [
        (RegionRule::One, 1 << 20, 8, 1),
        (RegionRule::PerCpu, 1 << 20, 8, 8),
        (RegionRule::PerCpu, 1 << 20, 6, 8),
        // 64 MiB each.
        (RegionRule::PerCpu, 1 << 16, 192, 4),
        (RegionRule::PerCpu, 4096, 8, 1),
        (RegionRule::PerCpu, 1 << 20, 1, 1),
        (RegionRule::Fixed(1), 1 << 20, 8, 1),
        (RegionRule::Fixed(3), 1 << 20, 8, 4),
        (RegionRule::Fixed(1024), 1 << 20, 1, 1024),
    ] {
        assert_eq!(count(rule, pages, cpus), Ok(expected), "{rule:?}, {pages} pages, {cpus} CPUs");
    }
    let error = count(RegionRule::Fixed(5), 4096, 2).expect_err("4096 pages are 4 blocks of 4 MiB");
    assert_eq!(error, MapError::Regions { start: Pfn(BASE), given: 5, allowed: 4 });
    assert_eq!(error.to_string(), "the zone at 0x100000 is to have 5 regions; allowed: 1 to 4, 4 MiB each");
    let none = LINUX_6_18.backing.with_regions(RegionRule::Fixed(0));
    let several = LINUX_6_18.backing.with_regions(RegionRule::PerCpu);
    for (tuning, expected) in [
        (Tuning { backing: none, ..LINUX_6_18 }, "regions is 0"),
        (Tuning { backing: several, fallback: FallbackRule::Steal, ..LINUX_6_18 }, "regions = one"),
    ] {
        let text = tuning.check().expect_err("invalid rules").to_string();
        assert!(text.contains(expected), "{text}");
    }
    let holds = Holds::Chunked;
    let second_name = Tuning { backing: Backing::Regions { count: RegionRule::One, holds }, ..LINUX_6_18 };
    let text = second_name.check().expect_err("as Backing::Kernel").to_string();
    assert!(text.contains("Backing::Kernel"), "{text}");
    // The rules of history have one region.
    assert_eq!(LINUX_4_16.backing.with_regions(RegionRule::PerCpu), LINUX_4_16.backing);
}

/// Under rules that cache all orders, a direct allocation and a direct free leave the pageset alone.
#[test]
fn direct_calls_bypass_the_pageset() {
    four_regions(|world| {
        for order in [0, 4, 9, 10] {
            let before = world.at(0).stats();
            let pfn = world.alloc_with(Alloc::new(&movable(order)).from(AllocFrom::Buddy)).expect("memory");
            world.free_with(Free::block(pfn, Order::new(order).expect("an order")).to(FreeTo::Buddy)).expect("in use");
            let after = world.at(0).stats();
            assert_eq!(after.pagesets, before.pagesets, "order {order}");
            assert_eq!(after.direct_alloc_pages - before.direct_alloc_pages, 1 << order);
            assert_eq!(after.direct_free_pages - before.direct_free_pages, 1 << order);
        }
    });
}

/// A machine that reports which regions drains lock. One thread waits inside its hold of the first region's lock.
#[derive(Default)]
struct BusyRegion {
    holder: OnceLock<ThreadId>,
    held: Flag,
    released: Flag,
    drains: Mutex<Vec<usize>>,
}

/// A condition that becomes true once.
#[derive(Default)]
struct Flag(Mutex<bool>, Condvar);

impl Flag {
    fn set(&self) {
        *self.0.lock().expect("no panic") = true;
        self.1.notify_all();
    }

    /// Waits for ten seconds at most: a test that would wait forever fails instead.
    fn wait(&self) {
        let limit = std::time::Duration::from_secs(10);
        drop(self.1.wait_timeout_while(self.0.lock().expect("no panic"), limit, |set| !*set).expect("no panic"));
    }
}

impl Behaviour for BusyRegion {
    fn cpu(&self) -> CpuId {
        CpuId(u32::from(self.holder.get() == Some(&std::thread::current().id())))
    }

    fn probe(&self, access: Access) {
        match access {
            Access::Touch(Line::Zone { region: 0, .. }) if self.cpu() == CpuId(1) => {
                self.held.set();
                self.released.wait();
            }
            Access::ZoneLock { region, path: LockPath::Drain, .. } => {
                let mut drains = self.drains.lock().expect("no panic");
                drains.push(region);
                if drains.ends_with(&[1, 0]) {
                    self.released.set();
                }
            }
            _ => {}
        }
    }
}

/// A drain goes on with another region while one is busy, and waits for that one last.
#[test]
fn a_busy_region_is_drained_last() {
    let ranges = [PageRange::new(Pfn(BASE), 4 * REGION)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning =
        Tuning { backing: PAGESET.backing.with_regions(RegionRule::Fixed(4)).with_stores(false, true), ..PAGESET };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let machine = BusyRegion::default();
    let world = Allocator::new(Behaving(&machine), &config, metadata.lend(&mut zones)).expect("the map is valid");
    let request = Request { watermarks: false, ..movable(0) };
    let pages: Vec<_> =
        std::iter::from_fn(|| world.alloc_with(Alloc::new(&request).from(AllocFrom::Buddy)).ok()).collect();
    let (first, second) = (pages[0], pages[REGION as usize]);
    assert_eq!((region(first), region(second)), (0, 1));
    world.free(first, Order::ZERO).expect("in use");
    world.free(second, Order::ZERO).expect("in use");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            machine.holder.set(std::thread::current().id()).expect("one holder");
            world.free_with(Free::block(pages[1], Order::ZERO).to(FreeTo::Buddy)).expect("in use");
        });
        machine.held.wait();
        world.drain_cpu(CpuId(0));
    });
    assert_eq!(*machine.drains.lock().expect("no panic"), [0, 1, 0]);
    assert_eq!(world.at(0).stats().nr_free_pages, 3);
}
