//! Handlers that nothing keeps out: they come inside every lock, and their calls wait for nothing.
//!
//! The handler of these tests comes right after each lock is taken, by a wait or by a try, and right before each is released. A wait
//! for a lock that the interrupted code holds would last for ever, and fails the test.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::support::{Known, movable};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::{CLUSTERS_FREE, LINUX_6_19, PAGESET, PAGESET_LISTS};
use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{Bounds, Watermarks};
use pageset::{
    Allocator, Block, Config, CpuId, Free, FreeTo, Immovable, Machine, MigrateType, NodeId, Order, PageRange,
    PageState, Pfn, RawLock, RegionRule, Request, Tuning, ZoneKind, ZoneSpec,
};

thread_local! {
    /// What the handler does, while it may come.
    static HANDLER: Cell<Option<fn()>> = const { Cell::new(None) };
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    /// Locks that are held.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// How often the handler came, by the place and by the number of locks held, up to 2.
    static CAME: RefCell<[[u32; 3]; 3]> = const { RefCell::new([[0; 3]; 3]) };
    static WORLD: Cell<Option<&'static World>> = const { Cell::new(None) };
    /// The handler comes at each opportunity of this number, and whose turn it is.
    static EVERY: Cell<u32> = const { Cell::new(1) };
    static TURN: Cell<u32> = const { Cell::new(0) };
    /// Blocks that handlers allocated.
    static BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// The most handlers of a world.
const MOST: u32 = 3000;

/// Where the handler comes.
#[derive(Clone, Copy)]
enum Place {
    AfterLock,
    AfterTryLock,
    BeforeUnlock,
}

fn handler_may_come(place: Place) {
    // No handler comes within a handler.
    let Some(handler) = HANDLER.take() else { return };
    let turn = TURN.get();
    TURN.set((turn + 1) % EVERY.get());
    // A limit, for the interrupted code may complete the frees that handlers defer, as long as there are any.
    let came: u32 = CAME.with_borrow(|came| came.iter().flatten().sum());
    if turn > 0 || came >= MOST {
        HANDLER.set(Some(handler));
        return;
    }
    CAME.with_borrow_mut(|came| came[place as usize][HELD.get().min(2)] += 1);
    IN_HANDLER.set(true);
    handler();
    IN_HANDLER.set(false);
    HANDLER.set(Some(handler));
}

#[derive(Debug, Default)]
struct Lock(AtomicBool);

impl RawLock for Lock {
    fn lock(&self) {
        let by = if IN_HANDLER.get() { "a handler" } else { "the interrupted code" };
        assert!(!self.0.swap(true, SeqCst), "{by} waits for a lock that this CPU holds");
        HELD.set(HELD.get() + 1);
        handler_may_come(Place::AfterLock);
    }

    fn try_lock(&self) -> bool {
        let taken = !self.0.swap(true, SeqCst);
        if taken {
            HELD.set(HELD.get() + 1);
            handler_may_come(Place::AfterTryLock);
        }
        taken
    }

    fn unlock(&self) {
        handler_may_come(Place::BeforeUnlock);
        HELD.set(HELD.get() - 1);
        self.0.store(false, SeqCst);
    }
}

type World = Allocator<'static, OneCpu>;

struct OneCpu;

impl Machine for OneCpu {
    type Lock = Lock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn relax(&self) {
        panic!("waits for work of this CPU");
    }
}

/// The pages of the zone: 512 MiB.
const PAGES: u64 = 1 << 17;

/// An allocator of one zone and two CPUs. Each test leaks some.
fn world(tuning: Tuning, pages: u64) -> &'static World {
    let ranges: &'static [PageRange] = Box::leak(Box::new([PageRange::new(Pfn(0), pages)]));
    let zones = Box::leak(Box::new([ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges }]));
    let watermarks = WatermarkRule { boost_factor: WatermarkRule::KERNEL_BOOST_FACTOR, ..WatermarkRule::default() };
    let config = Config { tuning, watermarks, ..Config::new(zones, &[NodeId(0); 2]) };
    let metadata: &'static OwnedMetadata<OneCpu> = Box::leak(Box::new(OwnedMetadata::new(&config).expect("a map")));
    let world = Allocator::new(OneCpu, &config, metadata.lend(metadata.zones().leak())).expect("a map");
    let world = Box::leak(Box::new(world));
    WORLD.set(Some(world));
    world
}

fn interrupted() -> &'static World {
    WORLD.get().expect("the test made a world")
}

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// Every call of `NonBlocking`, for requests that pagesets, bitmaps, free lists and other types' pageblocks serve.
fn all_calls() {
    let world = interrupted().non_blocking();
    let keep = |pfn, order| BLOCKS.with_borrow_mut(|blocks| blocks.push(Block { pfn, order }));
    for of in [0, 3, 5, 9] {
        for migratetype in [MigrateType::Movable, MigrateType::Unmovable] {
            if let Ok(pfn) = world.alloc(&Request::new(order(of), migratetype)) {
                keep(pfn, order(of));
            }
        }
    }
    if let Ok(pfn) = world.alloc_pages(&movable(0), 3) {
        assert_eq!(world.block_of(pfn).expect("in use").1, PageState::Allocated);
        world.split(pfn, order(1), Order::ZERO).expect("in use");
        (0..3).for_each(|page| keep(pfn.offset(page), Order::ZERO));
    }
    // Those of earlier handlers too: all but a few, so that the memory does not run out.
    while let Some(block) = BLOCKS.with_borrow_mut(|blocks| (blocks.len() > 4).then(|| blocks.remove(0))) {
        world.free(block.pfn, block.order).expect("a handler allocated it");
    }
}

/// Calls of every kind: refills and drains, all ways past the pagesets, ticks, settings, ranges, hot-plug, compaction.
fn work(world: &World) {
    let request = |of: u8, migratetype| Request::new(order(of), migratetype);
    for of in [0, 2, 5, 9, 10] {
        for migratetype in [MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable] {
            let blocks = (0..160 >> of).map_while(|_| world.alloc(&request(of, migratetype)).ok());
            let blocks: Vec<_> = blocks.collect();
            for (i, block) in blocks.into_iter().enumerate() {
                match i % 3 {
                    0 => world.free(block, order(of)),
                    1 => world.free_with(Free::block(block, order(of)).to(FreeTo::Buddy)),
                    _ => world.free_with(Free::block(block, order(of)).to(FreeTo::Deferred)),
                }
                .expect("allocated");
            }
        }
    }
    world.tick();
    world.tick_cpu(CpuId(1));
    world.at(0).set_bounds(Bounds { batch: 7, high_min: 14, high_max: 14 }).expect("room");
    // In the middle of a region, whether there are 1, 2 or 8: handlers have blocks from its ends.
    let range = PageRange::new(Pfn(5 * PAGES / 16), 1024);
    if world.alloc_range(range, MigrateType::Movable, &Immovable).is_ok() {
        world.free_with(Free::whole_blocks(range)).expect("allocated");
    }
    // Refused where the arrays are too small for it.
    let _ = world.set_high_fraction(8);
    world.recompute();
    world.drain_all();
}

#[test]
fn calls_that_wait_for_nothing() {
    for rules in [PAGESET, PAGESET_LISTS, LINUX_6_19, CLUSTERS_FREE] {
        // The rules of history have one region.
        let several =
            [RegionRule::Fixed(2), RegionRule::Fixed(5)].into_iter().filter(|_| !rules.backing.has_clusters());
        for regions in [RegionRule::One].into_iter().chain(several) {
            let world = world(Tuning { backing: rules.backing.with_regions(regions), ..rules }, PAGES);
            EVERY.set(7);
            HANDLER.set(Some(all_calls));
            work(world);
            HANDLER.set(None);
            let [waited, tried, released] = CAME.take();
            // At each kind of place, and inside two locks: a refill or a drain.
            let all = [waited, tried, released];
            let came = all.map(|place| place.iter().sum::<u32>());
            assert!(came.iter().all(|&came| came > 5), "{rules:?}, {regions:?}: {all:?}");
            assert!(all.iter().map(|place| place[2]).sum::<u32>() > 5, "{rules:?}, {regions:?}: {all:?}");
            BLOCKS.take().iter().for_each(|block| world.free(block.pfn, block.order).expect("a handler allocated it"));
            world.drain_all();
            assert_eq!(world.at(0).audit().expect("balanced books").in_use, 0);
        }
    }
}

/// Requests that take part of another type's pageblock raise the boost of the marks. The handler does so inside the call that does.
#[test]
fn a_handler_raises_the_boost_inside_a_call_that_raises_it() {
    fn handler() {
        let _ = interrupted().non_blocking().alloc(&Request::new(Order::ZERO, MigrateType::Unmovable));
    }
    for regions in [RegionRule::One, RegionRule::Fixed(2), RegionRule::PerCpu] {
        let world = world(Tuning { backing: PAGESET.backing.with_regions(regions), ..PAGESET }, 1 << 16);
        world.at(0).set_watermarks(Watermarks { min: 0, low: 0, high: 1 << 12 }, [0; ZoneKind::COUNT]);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        let (huge, half) = (Order::PAGEBLOCK, order(Order::PAGEBLOCK.get() - 1));
        while world.alloc(&Request::new(huge, MigrateType::Movable)).is_ok() {}
        // A pageblock in each half of the zone, whatever its regions, is half free.
        for start in [0, 1 << 15] {
            world.split(Pfn(start), huge, half).expect("in use");
            world.free_with(Free::block(Pfn(start), half).to(FreeTo::Buddy)).expect("in use");
        }
        HANDLER.set(Some(handler));
        let page = world.alloc(&Request::new(Order::ZERO, MigrateType::Unmovable));
        HANDLER.set(None);
        assert!(page.is_ok(), "{regions:?}: {page:?}");
        assert!(world.at(0).stats().watermark_boost > 0, "{regions:?}: no boost");
        CAME.take();
    }
}
