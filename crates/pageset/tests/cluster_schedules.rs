//! Interleavings of refills that take whole clusters with whoever acts on the look of a page: changes of pageblocks'
//! types, merging, memory that comes, drains. The scheduler decides at every lock, every touch of shared memory and in
//! every round of a wait. A failure prints the seed with the command that replays it.
//!
//! That a missing wait is found is shown beside the protocol, in `flight`.

use std::cell::Cell;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use pageset::owned::OwnedMetadata;
use pageset::tuning::{BatchRule, Bounds, Preset, Tuning};
use pageset::{
    Allocator, Config, CpuId, Line, Machine, MigrateType, NodeId, Order, PageRange, Pfn, RawLock, Request, ZoneKind,
    ZoneSpec,
};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::{Runner, thread};

const PAGES: u64 = 1024;
const BATCH: u32 = 4;

/// Where the scheduler may take another thread.
fn point() {
    shuttle::lazy_static! {
        static ref PLACE: AtomicUsize = AtomicUsize::new(0);
    }
    PLACE.load(SeqCst);
}

/// A lock whose every use the scheduler sees.
#[derive(Debug, Default)]
struct Watched(AtomicBool);

impl RawLock for Watched {
    fn lock(&self) {
        while !self.try_lock() {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.compare_exchange(false, true, SeqCst, SeqCst).is_ok()
    }

    fn unlock(&self) {
        self.0.store(false, SeqCst);
    }
}

shuttle::thread_local! {
    static CPU: Cell<u32> = Cell::new(0);
}

struct Scheduled;

impl Machine for Scheduled {
    type Lock = Watched;

    fn cpu(&self) -> CpuId {
        CpuId(CPU.with(Cell::get))
    }

    fn touch(&self, _line: Line) {
        point();
    }

    fn relax(&self) {
        thread::yield_now();
    }
}

type World<'a> = Allocator<'a, Scheduled>;

/// Takes more pages than a cluster has, and puts them back on the free list.
fn takes(world: &World<'_>) {
    let mut pages = [Pfn(0); 6];
    for _ in 0..2 {
        let got = world.alloc_bulk(&Request::new(Order::ZERO, MigrateType::Movable), &mut pages).expect("enough");
        pages[..got].iter().for_each(|&pfn| world.free_direct(pfn, Order::ZERO).expect("allocated"));
    }
}

/// Gives a pageblock another type and the first one back: its free pages change their lists.
fn retypes(world: &World<'_>) {
    for migratetype in [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Isolate, MigrateType::Movable] {
        world.set_pageblock_type(Pfn(0), migratetype).expect("ours");
    }
}

fn merges(world: &World<'_>) {
    for _ in 0..2 {
        world.merge_skipped(0);
    }
}

/// Brings the buddy of the last single page, which a refill may have, and pages that merge with nothing.
fn onlines(world: &World<'_>) {
    world.online(PageRange::new(Pfn(PAGES - 1), 1)).expect("a hole so far");
}

/// Drains batches of movable pages as clusters.
fn drains(world: &World<'_>) {
    let pages = [(); 5].map(|()| world.alloc(&Request::new(Order::ZERO, MigrateType::Movable)).expect("enough"));
    pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("allocated"));
    world.drain_all();
}

type Act = fn(&World<'_>);

const ACTORS: [(&str, Act); 4] = [("retypes", retypes), ("merges", merges), ("onlines", onlines), ("drains", drains)];

/// One schedule: two threads that take pages, one that acts, then the books.
fn schedule(tuning: Tuning, act: fn(&World<'_>)) {
    let ranges = [PageRange::new(Pfn(0), PAGES - 1)];
    let zones =
        [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: PageRange::new(Pfn(0), PAGES), ranges: &ranges }];
    // A zone as small as this would have no clusters.
    let tuning = Tuning { batch: BatchRule::Fixed(BATCH), ..tuning };
    let config = Config { tuning, pageset_capacity: 64, ..Config::new(&zones, &[NodeId(0); 3]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Scheduled, &config, metadata.lend(&mut zones)).expect("a good map");
    world.set_bounds(0, Bounds { batch: BATCH, high_min: 8, high_max: 8 }).expect("room");
    // Single pages on the free list; the one whose buddy is yet to come is at its head, so that each schedule has it.
    let singles = [(); 13].map(|()| world.alloc(&Request::new(Order::ZERO, MigrateType::Movable)).expect("enough"));
    world.drain_all();
    singles.iter().rev().for_each(|&pfn| world.free_direct(pfn, Order::ZERO).expect("allocated"));
    let parts: [fn(&World<'_>); 3] = [takes, act, takes];
    thread::scope(|scope| {
        for (cpu, part) in (0..).zip(parts) {
            let world = &world;
            scope.spawn(move || {
                CPU.with(|own| own.set(cpu));
                part(world);
            });
        }
    });
    let managed = world.zone_stats(0).managed;
    let books = world.audit(0).expect("the books add up");
    assert_eq!((books.in_use, books.free + books.cached), (0, managed));
    world.drain_all();
    world.merge_skipped(0);
    world.audit(0).expect("the books add up");
    assert_eq!(world.zone_stats(0).nr_free_pages, managed);
}

const SCHEDULES: usize = 1000;

#[test]
fn every_schedule_keeps_the_books() {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = env::var("SHUTTLE_RANDOM_SEED").map_or_else(|_| fresh(), |text| text.parse().expect("a number"));
    for preset in ["merge-skip", "clusters", "clusters-free"] {
        let tuning = Preset::find(preset).expect("a preset").tuning;
        for (name, act) in ACTORS {
            println!("{preset}, {name}: seed {seed}, {SCHEDULES} schedules");
            let mut config = shuttle::Config::new();
            config.stack_size = 1 << 18;
            let runner = Runner::new(RandomScheduler::new_from_seed(seed, SCHEDULES), config);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| runner.run(move || schedule(tuning, act)))) {
                eprintln!(
                    "{preset}, {name}: replay with\nSHUTTLE_RANDOM_SEED={seed} cargo test -p pageset --all-features \
                     --test cluster_schedules"
                );
                resume_unwind(panic);
            }
        }
    }
}
