//! No lock is held for more than 512 pages of work under the default rules, whatever the call.
//!
//! Every lock of this machine looks at the tags of all pages when it is taken and released. The work of a hold is the number of blocks
//! that moved between the free lists, the pagesets and their users. Calls that go over a range only to read it are
//! counted by their holds: at least one for each 512 pages.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::owner::StampingOwner;
use crate::support::{Known, movable};
use pageset::machine::Access;
use pageset::pcp::Pageset;
use pageset::policy::{Bounds, Watermarks};
use pageset::{
    Alloc, Allocator, Block, CachedZone, CompactMode, Config, CpuId, Free, FreeTo, Immovable, Machine, Metadata,
    MigrateType, NodeId, Order, PageRange, Pfn, RawLock, Region, RegionRule, SpinLock, Tuning, ZoneKind, ZoneMetadata,
    ZoneSpec,
};

const PAGES: u64 = 1 << 15;
const MOST: usize = 512;

thread_local! {
    static TAGS: RefCell<&'static [AtomicU8]> = const { RefCell::new(&[]) };
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// Since the last look: the most work of a hold, and the holds of zone locks and of pagesets' locks from other calls.
    static LONGEST: Cell<usize> = const { Cell::new(0) };
    static ZONE_HOLDS: Cell<usize> = const { Cell::new(0) };
    static PAGESET_HOLDS: Cell<usize> = const { Cell::new(0) };
}

/// A lock that measures its holds.
#[derive(Debug, Default)]
struct Measuring {
    lock: SpinLock,
    tags: RefCell<Vec<u8>>,
}

impl Measuring {
    fn began(&self) {
        let mut tags = self.tags.borrow_mut();
        tags.clear();
        TAGS.with_borrow(|now| tags.extend(now.iter().map(|tag| tag.load(Relaxed))));
    }
}

impl RawLock for Measuring {
    fn lock(&self) {
        // One thread: a lock that is held would never be free.
        assert!(self.lock.try_lock(), "taken twice");
        self.began();
    }

    fn try_lock(&self) -> bool {
        let free = self.lock.try_lock();
        if free {
            self.began();
        }
        free
    }

    fn unlock(&self) {
        let before = self.tags.borrow();
        let work = TAGS.with_borrow(|now| {
            now.iter().zip(before.iter()).filter(|(now, before)| moved(**before, now.load(Relaxed))).count()
        });
        LONGEST.set(LONGEST.get().max(work));
        self.lock.unlock();
    }
}

/// Whether a block changed hands or its list's type. A free block that merges with one that moved does not count.
fn moved(before: u8, now: u8) -> bool {
    // Bits 4 and 5 of a tag: 1 is free, 2 and 3 are in use and in a pageset. Bits 6 and 7: the type.
    let [was, is] = [before, now].map(|tag| tag >> 4 & 3);
    before != now && (was >= 2 || is >= 2 || was == 1 && is == 1 && (before ^ now) >> 6 != 0)
}

struct Watching;

impl Machine for Watching {
    type Lock = Measuring;

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn lock_pageset(&self, lock: &Measuring, _cpu: CpuId) {
        PAGESET_HOLDS.set(PAGESET_HOLDS.get() + 1);
        lock.lock();
    }

    fn probe(&self, access: Access) {
        if let Access::ZoneLock { .. } = access {
            ZONE_HOLDS.set(ZONE_HOLDS.get() + 1);
        }
    }
}

type World<'a> = Allocator<'a, Watching>;

/// A zone of two regions with two CPUs, whose pagesets may keep 6,000 pages each.
fn world(tuning: Tuning, test: impl FnOnce(&World<'_>)) {
    let ranges = [PageRange::new(Pfn(0), PAGES)];
    let spec = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config { tuning, pageset_capacity: 6000, ..Config::new(&spec, &[NodeId(0); 2]) };
    let (common, size) = (config.metadata_size().expect("valid"), config.zone_metadata_size(0).expect("valid"));
    // The locks see the tags, so these live as long as the program.
    let tags: &'static [AtomicU8] = (0..size.tags).map(|_| AtomicU8::new(0)).collect::<Vec<_>>().leak();
    TAGS.set(&tags[..PAGES as usize]);
    CPU.set(0);
    let words: Vec<AtomicU32> = (0..size.words).map(|_| AtomicU32::new(0)).collect();
    let pagesets: Vec<Pageset<Measuring>> = (0..size.pagesets).map(|_| Pageset::default()).collect();
    let common: Vec<AtomicU32> = (0..common.words).map(|_| AtomicU32::new(0)).collect();
    let regions: Vec<Region<Measuring>> = (0..size.regions).map(|_| Region::default()).collect();
    let metadata = ZoneMetadata { tags, words: &words, pagesets: &pagesets, regions: &regions };
    let mut zones = [CachedZone::new(metadata)];
    let metadata = Metadata { words: &common, zones: &mut zones };
    let world = Allocator::new(Watching, &config, metadata).expect("the map is valid");
    world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
    keep(&world, 6000);
    test(&world);
}

fn keep(world: &World<'_>, high: u32) {
    world.at(0).set_bounds(Bounds { batch: 63, high_min: high, high_max: high }).expect("room");
}

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// Allocates blocks until `blocks` are there or memory is out.
fn take(world: &World<'_>, of: u8, blocks: usize) -> Vec<Block> {
    let got = (0..blocks).map_while(|_| world.alloc(&movable(of)).ok());
    got.map(|pfn| Block { pfn, order: order(of) }).collect()
}

fn free(world: &World<'_>, blocks: impl IntoIterator<Item = Block>) {
    blocks.into_iter().for_each(|Block { pfn, order }| world.free(pfn, order).expect("in use"));
}

/// Runs a call and checks its holds. Returns the longest hold's work, the holds of zone locks, and the pagesets' locks taken from
/// anywhere.
fn measure(what: &str, call: impl FnOnce()) -> (usize, usize, usize) {
    LONGEST.set(0);
    ZONE_HOLDS.set(0);
    PAGESET_HOLDS.set(0);
    call();
    assert!(LONGEST.get() <= MOST, "{what}: {} pages in one hold", LONGEST.get());
    (LONGEST.get(), ZONE_HOLDS.get(), PAGESET_HOLDS.get())
}

#[test]
fn refills_drains_and_bulk_calls() {
    world(Tuning::default(), |world| {
        let mut blocks = Vec::new();
        let (work, ..) = measure("refills of single pages", || blocks = take(world, 0, 12_000));
        assert!(work > 400, "refills have grown to {work} pages");
        // Every other page first, so that no two merge.
        let (odd, even): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.pfn.0 % 2 == 1);
        CPU.set(1);
        let (work, ..) = measure("drains after frees", || free(world, odd.into_iter().chain(even)));
        assert!(work > 400, "drains have grown to {work} pages");
        let (work, ..) = measure("a drain of a CPU", || world.drain_cpu(CpuId(1)));
        assert!(work > 400, "{work} pages");
        measure("a drain of all", || world.drain_all());
        for of in 1..=Order::MAX.get() {
            let mut blocks = Vec::new();
            measure("refills of blocks", || blocks = take(world, of, 1 << (13 - of)));
            assert_eq!(blocks.len(), 1 << (13 - of));
            measure("drains of blocks", || free(world, blocks));
        }
        let mut pages = [Pfn(0); 9000];
        let mut got = 0;
        let (work, ..) = measure("a bulk allocation", || {
            got = world.alloc_bulk(&movable(0), &mut pages).expect("memory");
        });
        assert!(work > 400, "{work} pages");
        let blocks: Vec<_> = pages[..got].iter().map(|&pfn| Block { pfn, order: Order::ZERO }).collect();
        let (odd, even): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.pfn.0 % 2 == 1);
        measure("a bulk free", || world.free_bulk(&odd).expect("in use"));
        let pages: Vec<_> = even.iter().map(|block| block.pfn).collect();
        measure("a bulk free of one order", || {
            world.free_bulk_of(Order::ZERO, &pages).expect("in use");
        });
        // The deferred frees of many blocks, in one call.
        let blocks = take(world, 0, 3000);
        blocks.iter().for_each(|block| {
            world.free_with(Free::block(block.pfn, block.order).to(FreeTo::Deferred)).expect("in use")
        });
        measure("deferred frees", || world.drain_all());
    });
}

#[test]
fn ticks_settings_and_cpus() {
    world(Tuning::default(), |world| {
        let fill = || {
            let blocks = take(world, 0, 9000);
            free(world, blocks.into_iter().rev());
            assert!(world.pageset(0, CpuId(0)).state().count > 4000);
        };
        fill();
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 100, high_max: 101 }).expect("room");
        let (work, ..) = measure("a tick", || _ = world.tick_cpu(CpuId(0)));
        assert!(work > 400, "a tick drains what is above high: {work} pages");
        measure("bounds", || keep(world, 6000));
        fill();
        measure("a CPU that goes offline", || world.cpu_offline(CpuId(0)).expect("another is left"));
        measure("a CPU that comes online", || world.cpu_online(CpuId(0)).expect("offline"));
        keep(world, 6000);
        fill();
        measure("disabled pagesets", || world.at(0).disable_pagesets());
        measure("enabled pagesets", || world.at(0).enable_pagesets().expect("disabled"));
        keep(world, 6000);
        fill();
        measure("a fraction", || world.set_high_fraction(100).expect("valid"));
        keep(world, 6000);
        // Everything is in use or in the pagesets, so a request drains them before it fails.
        fill();
        CPU.set(1);
        let mut all = Vec::new();
        measure("a request without memory", || all = take(world, 0, PAGES as usize));
        assert_eq!(all.len() as u64, PAGES);
        measure("the end of a process", || free(world, all));
        measure("types of pageblocks", || {
            for start in (0..PAGES).step_by(512) {
                world.set_pageblock_type(Pfn(start), MigrateType::Unmovable).expect("in the zone");
            }
        });
    });
}

#[test]
fn ranges_and_memory() {
    world(Tuning::default(), |world| {
        // Ranges that are free in single pages, and begin and end within a pageblock.
        for range in [PageRange::new(Pfn(0), PAGES), PageRange::new(Pfn(700), PAGES - 1000)] {
            let least = range.pages as usize / MOST;
            let blocks = take(world, 0, 20_000);
            let (odd, even): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.pfn.0 % 2 == 1);
            free(world, odd.into_iter().chain(even));
            let call = |what: &str, call: &dyn Fn()| {
                let (_, holds, _) = measure(what, call);
                assert!(holds >= least, "{what}: {holds} holds");
            };
            call("alloc_range", &|| world.alloc_range(range, MigrateType::Movable, &Immovable).expect("free"));
            let (_, holds, _) = measure("free_range", || world.free_with(Free::whole_blocks(range)).expect("in use"));
            assert!(holds >= least / 2, "one for each block: {holds}");
            call("offline", &|| world.offline(range, &Immovable).expect("free"));
            call("online", &|| world.online(range).expect("offline"));
            keep(world, 6000);
        }
        let run = world.alloc_with(Alloc::new(&movable(0)).pages(5000).owner(&Immovable)).expect("free");
        measure("alloc_contig", || {
            let other = world.alloc_with(Alloc::new(&movable(0)).pages(5000).owner(&Immovable)).expect("free");
            world.free_range(PageRange::new(other, 5000)).expect("in use");
        });
        measure("free_contig", || world.free_range(PageRange::new(run, 5000)).expect("in use"));
    });
}

#[test]
fn compaction() {
    world(Tuning { backing: Tuning::default().backing.with_regions(RegionRule::One), ..Tuning::default() }, |world| {
        let owner = StampingOwner::new(world);
        let blocks: Vec<_> = (0..PAGES).map_while(|_| owner.alloc(&movable(0))).collect();
        let freed = blocks.into_iter().enumerate().filter(|(number, _)| number % 4 != 0);
        freed.for_each(|(_, id)| assert!(owner.free(id)));
        world.drain_all();
        let mut moved = 0;
        measure("compaction", || moved = world.at(0).compact(None, CompactMode::Sync, &owner).moved);
        assert!(moved > 1000, "{moved} pages moved");
    });
}

/// An audit goes over a pageset in holds of at most 62 blocks, and holds the lock of a region for a few words.
#[test]
fn audits() {
    world(Tuning::default(), |world| {
        let blocks = take(world, 0, 9000);
        free(world, blocks);
        let kept = world.pageset(0, CpuId(0)).state().count as usize;
        assert!(kept > 4000);
        let (work, _, holds) = measure("an audit", || _ = world.at(0).audit().expect("the audit passes"));
        assert_eq!(work, 0);
        assert!(holds >= kept / 62, "{holds} holds for {kept} blocks");
    });
}
