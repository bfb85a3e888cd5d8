//! Interleavings of refills from whole clusters with code that acts on a page's tag: changes of pageblock types,
//! merging, memory that comes online, drains. The scheduler decides at every lock, every touch of shared memory and
//! every round of a wait. A failure prints the seed with the command that replays it.
//!
//! The tests of `in_flight` show that a missing wait is found. A test below shows that a broken lock is found.

use crate::support::Known;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::watched::{Scheduled, fault, plant, run_on};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::{BatchRule, Bounds, Preset, Tuning};
use pageset::{
    Allocator, CompactMode, Config, CpuId, Free, FreeTo, Immovable, MigrateType, NodeId, Order, PageRange, Pfn,
    Request, ZoneKind, ZoneSpec,
};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Runner, thread};

const PAGES: u64 = 1024;
const BATCH: u32 = 4;

type World<'a> = Allocator<'a, Scheduled>;

/// Allocates more pages than a cluster has, and frees them to the free list.
fn takes(world: &World<'_>) {
    let mut pages = [Pfn(0); 6];
    for _ in 0..2 {
        let got =
            world.alloc_bulk(&Request::new(Order::ZERO, MigrateType::Movable), &mut pages).expect("enough memory");
        pages[..got]
            .iter()
            .for_each(|&pfn| world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::Buddy)).expect("allocated"));
    }
}

/// Changes a pageblock's type and restores it: its free pages change their lists.
fn retypes(world: &World<'_>) {
    for migratetype in [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Isolate, MigrateType::Movable] {
        world.set_pageblock_type(Pfn(0), migratetype).expect("the page is in the zone");
    }
}

fn merges(world: &World<'_>) {
    for _ in 0..2 {
        world.at(0).merge_skipped();
    }
}

/// Brings online the buddy of the last single page, which a refill may hold, and pages that merge with no other.
fn onlines(world: &World<'_>) {
    world.online(PageRange::new(Pfn(PAGES - 1), 1)).expect("the range is still a hole");
}

/// Drains batches of movable pages as clusters.
fn drains(world: &World<'_>) {
    let pages = [(); 5].map(|()| world.alloc(&Request::new(Order::ZERO, MigrateType::Movable)).expect("enough memory"));
    pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("allocated"));
    world.drain_all();
}

/// Compacts without success: the next request is deferred. Until then merging is skipped.
fn defers(world: &World<'_>) {
    let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    for _ in 0..3 {
        world.compact(&request, CompactMode::SyncLight, &Immovable);
    }
}

type Act = fn(&World<'_>);

const fn actors() -> [(&'static str, Act); 5] {
    [("retypes", retypes), ("merges", merges), ("onlines", onlines), ("drains", drains), ("defers", defers)]
}

/// One schedule: two threads that allocate, one that acts, then the audit.
fn schedule(tuning: Tuning, act: Act) {
    let ranges = [PageRange::new(Pfn(0), PAGES - 1)];
    let zones =
        [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: PageRange::new(Pfn(0), PAGES), ranges: &ranges }];
    // The zone-size formula gives such a small zone no clusters.
    let tuning = Tuning { batch: BatchRule::Fixed(BATCH), ..tuning };
    let config = Config { tuning, pageset_capacity: 64, ..Config::new(&zones, &[NodeId(0); 3]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Scheduled, &config, metadata.lend(&mut zones)).expect("the map is valid");
    world.at(0).set_bounds(Bounds { batch: BATCH, high_min: 8, high_max: 8 }).expect("room");
    // Single pages on the free list. The page whose buddy comes online later is at the head, so that each schedule
    // takes it.
    let singles =
        [(); 13].map(|()| world.alloc(&Request::new(Order::ZERO, MigrateType::Movable)).expect("enough memory"));
    world.drain_all();
    singles
        .iter()
        .rev()
        .for_each(|&pfn| world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::Buddy)).expect("allocated"));
    let parts: [Act; 3] = [takes, act, takes];
    thread::scope(|scope| {
        for (cpu, part) in (0..).zip(parts) {
            let world = &world;
            scope.spawn(move || {
                run_on(CpuId(cpu));
                part(world);
            });
        }
    });
    let managed = world.at(0).stats().managed;
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!((books.in_use, books.free + books.cached), (0, managed));
    world.drain_all();
    world.at(0).merge_skipped();
    world.at(0).audit().expect("the audit passes");
    assert_eq!(world.at(0).stats().nr_free_pages, managed);
}

/// Schedules of each actor under each set of rules, unless the environment sets the number.
const SCHEDULES: usize = 1000;

/// Explores some schedules. Returns the panic of a failing one.
fn explore(seed: u64, schedules: usize, tuning: Tuning, act: Act) -> thread::Result<()> {
    let runner = Runner::new(RandomScheduler::new_from_seed(seed, schedules), crate::watched::config());
    catch_unwind(AssertUnwindSafe(|| runner.run(move || schedule(tuning, act)))).map(drop)
}

#[test]
fn every_schedule_passes_the_audit() {
    let (seed, schedules) = crate::watched::seed_and_schedules(SCHEDULES);
    for preset in ["merge-skip", "clusters", "clusters-free"] {
        let tuning = Preset::find(preset).expect("a preset").tuning;
        for (name, act) in actors() {
            println!("{preset}, {name}: seed {seed}, {schedules} schedules");
            if let Err(panic) = explore(seed, schedules, tuning, act) {
                eprintln!(
                    "{preset}, {name}: replay with\nSHUTTLE_RANDOM_SEED={seed} PAGESET_SCHEDULES={schedules} cargo test \
                     -p pageset --all-features --test suite cluster_schedules"
                );
                resume_unwind(panic);
            }
        }
    }
}

/// Locks that admit two threads are found, whichever thread acts.
#[test]
fn a_broken_try_lock_is_found() {
    let tuning = Preset::find("clusters-free").expect("a preset").tuning;
    let _planted = plant(fault::OPEN);
    for (name, act) in actors() {
        let found = (0..10).any(|seed| explore(seed, SCHEDULES, tuning, act).is_err());
        assert!(found, "{name}: 10,000 schedules have not found it");
    }
}
