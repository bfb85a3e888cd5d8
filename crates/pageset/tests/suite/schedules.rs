//! Thousands of interleavings of three threads, chosen by a scheduler that decides at every lock, every read of the
//! current CPU and every touch of shared memory. All shared words are atomics, so nothing else is needed.
//!
//! A failure prints the seed with the command that replays it.

use crate::support::Known;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::watched::{Scheduled, fault, plant, run_on};
use pageset::admin::audit::AuditError;
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{BatchRule, Bounds, Preset, RegionRule, Tuning, Watermarks};
use pageset::{
    Alloc, Allocator, Block, Config, CpuId, Free, FreeTo, MigrateType, MoveError, NodeId, Order, Owner, PageRange, Pfn,
    Request, Urgency, Wait, ZoneKind, ZoneSpec,
};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Runner, thread};

const PAGES: u64 = 2048;
const BASE: u64 = 1 << 20;

/// One thread's part: its own blocks and blocks from the others, with three threads on two CPUs.
fn part(world: &Allocator<'_, Scheduled>, thread: u32, mail: &shuttle::sync::Mutex<Vec<Block>>) {
    run_on(CpuId(thread % 2));
    let alloc = |order: u8, migratetype| {
        let order = Order::new(order).expect("an order");
        let pfn = world.alloc(&Request::new(order, migratetype)).expect("there is enough memory");
        Block { pfn, order }
    };
    let free = |block: Block| world.free(block.pfn, block.order).expect("it was allocated");
    let first = alloc(0, MigrateType::Movable);
    let second = alloc(1, MigrateType::Movable);
    mail.lock().expect("no thread panics").push(first);
    match thread {
        0 => {
            world.tick();
            world.at(0).merge_skipped();
        }
        1 => world.drain_all(),
        _ => {
            world.set_pageblock_type(Pfn(BASE), MigrateType::Unmovable).expect("the page is in the zone");
            free(alloc(4, MigrateType::Unmovable));
        }
    }
    free(second);
    let theirs = mail.lock().expect("no thread panics").pop();
    if let Some(block) = theirs {
        free(block);
    }
    let mut pages = [Pfn(0); 3];
    let got =
        world.alloc_bulk(&Request::new(Order::ZERO, MigrateType::Movable), &mut pages).expect("there is enough memory");
    let blocks: Vec<_> = pages[..got].iter().map(|&pfn| Block { pfn, order: Order::ZERO }).collect();
    world.free_bulk(&blocks).expect("they were allocated");
}

/// One thread's part when memory is short: urgent blocks, pageblocks reserved and returned, boosted marks, and owners
/// that free their pages.
fn short(world: &Allocator<'_, Scheduled>, thread: u32, mail: &shuttle::sync::Mutex<Vec<Block>>) {
    struct Giving<'w, 'a>(&'w Allocator<'a, Scheduled>, &'w shuttle::sync::Mutex<Vec<Block>>);
    impl Owner for Giving<'_, '_> {
        fn isolate(&self, _pfn: Pfn) -> Option<Order> {
            None
        }

        fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
            Err(MoveError::Busy)
        }

        fn put_back(&self, _pfn: Pfn, _order: Order) {}

        fn reclaim(&self, _request: &Request) -> u64 {
            let block = self.1.lock().expect("no thread panics").pop();
            block.map_or(0, |block| {
                self.0.free(block.pfn, block.order).expect("it was allocated");
                block.order.pages()
            })
        }
    }
    run_on(CpuId(thread % 2));
    let take = |order: u8, migratetype, wait| {
        let order = Order::new(order).expect("an order");
        let request = Request { urgency: Urgency::High, wait, ..Request::new(order, migratetype) };
        let block =
            world.alloc_with(Alloc::new(&request).owner(&Giving(world, mail))).ok().map(|pfn| Block { pfn, order });
        mail.lock().expect("no thread panics").extend(block);
    };
    match thread {
        0 => take(4, MigrateType::Movable, Wait::Lock),
        1 => world.at(0).set_watermarks(Watermarks { min: 600, low: PAGES, high: PAGES }, [0; 4]),
        _ => take(9, MigrateType::Unmovable, Wait::Nothing),
    }
    take(8, MigrateType::Unmovable, Wait::Lock);
    take(9, MigrateType::Movable, Wait::Memory);
    world.at(0).decay_boost(100);
    take(0, MigrateType::Reclaimable, Wait::Memory);
    take(1, MigrateType::Unmovable, Wait::Nothing);
}

/// The third thread audits while the others work: it may find the zone busy, and never inconsistent.
fn audited(world: &Allocator<'_, Scheduled>, thread: u32, mail: &shuttle::sync::Mutex<Vec<Block>>) {
    if thread < 2 {
        return part(world, thread, mail);
    }
    run_on(CpuId(1));
    for _ in 0..3 {
        match world.at(0).audit() {
            Ok(books) => assert_eq!(books.free + books.cached + books.in_use, world.at(0).stats().managed),
            Err(AuditError::Busy { .. }) => {}
            Err(AuditError::Inconsistent(error)) => panic!("{error}"),
        }
    }
}

/// One thread's part.
type Part = fn(&Allocator<'_, Scheduled>, u32, &shuttle::sync::Mutex<Vec<Block>>);

/// One schedule: three threads, then the audit.
fn schedule(preset: &Preset, part: Part) {
    // Pagesets that claim pageblocks hold one for each CPU and type.
    let pages = if preset.tuning.backing.claims() { 8 * PAGES } else { PAGES };
    let ranges = [PageRange::new(Pfn(BASE), pages)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    // The zone-size formula gives such a small zone no clusters.
    let batch = if preset.tuning.backing.has_clusters() { BatchRule::Fixed(2) } else { preset.tuning.batch };
    // The zone is too small for a region per CPU.
    let backing = preset.tuning.backing;
    let regions = if backing.regions() == RegionRule::One { RegionRule::One } else { RegionRule::Fixed(2) };
    let tuning = Tuning { batch, backing: backing.with_regions(regions), ..preset.tuning };
    let watermarks = WatermarkRule { boost_factor: WatermarkRule::KERNEL_BOOST_FACTOR, ..WatermarkRule::default() };
    let config = Config { tuning, watermarks, pageset_capacity: 64, ..Config::new(&zones, &[NodeId(0), NodeId(0)]) };
    let metadata = OwnedMetadata::<Scheduled>::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Scheduled, &config, metadata.lend(&mut zones)).expect("the map is valid");
    // High is large enough that pages stay, and small enough that some drains happen.
    world.at(0).set_bounds(Bounds { batch: 2, high_min: 4, high_max: 4 }).expect("room");
    // Single pages on the free list, in clusters if there are any.
    let singles: Vec<_> = (0..9).map(|_| world.alloc(&Request::new(Order::ZERO, MigrateType::Movable))).collect();
    singles.into_iter().for_each(|pfn| {
        world.free_with(Free::block(pfn.expect("memory"), Order::ZERO).to(FreeTo::Buddy)).expect("allocated")
    });
    let mail = shuttle::sync::Mutex::new(vec![]);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (world, mail) = (&world, &mail);
            scope.spawn(move || part(world, thread, mail));
        }
    });
    for block in mail.into_inner().expect("no thread panics") {
        world.free(block.pfn, block.order).expect("it was allocated");
    }
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!((books.in_use, books.free + books.cached), (0, pages));
    world.drain_all();
    world.at(0).audit().expect("the audit passes");
    assert_eq!(world.at(0).stats().nr_free_pages, pages);
}

/// Explores some schedules of a preset, starting from a seed.
fn explore(preset: &'static str, part: Part, seed: u64, schedules: usize) {
    println!("{preset}: seed {seed}, {schedules} schedules");
    let preset = Preset::find(preset).expect("a preset");
    Runner::new(RandomScheduler::new_from_seed(seed, schedules), crate::watched::config())
        .run(move || schedule(preset, part));
}

const PRESETS: [&str; 12] = [
    "merge-skip",
    "clusters-free",
    "linux-4.19",
    "linux-5.14",
    "linux-5.18",
    "linux-6.18",
    "linux-6.19",
    "pcp-buddy",
    "pcp-buddy-try",
    "pcp-buddy-list",
    "pageset",
    "pageset-lists",
];
const SCHEDULES: usize = 600;

#[test]
fn every_schedule_passes_the_audit() {
    let (seed, schedules) = crate::watched::seed_and_schedules(SCHEDULES);
    for (preset, part) in PRESETS.into_iter().flat_map(|preset| [(preset, part as Part), (preset, short)]) {
        let run = AssertUnwindSafe(|| explore(preset, part, seed, schedules));
        if let Err(panic) = catch_unwind(run) {
            eprintln!(
                "replay with\nSHUTTLE_RANDOM_SEED={seed} PAGESET_SCHEDULES={schedules} cargo test -p pageset \
                 --all-features --test suite schedules::every"
            );
            resume_unwind(panic);
        }
    }
}

#[test]
fn an_audit_is_never_wrong_while_others_work() {
    let (seed, schedules) = crate::watched::seed_and_schedules(100);
    for preset in PRESETS {
        let run = AssertUnwindSafe(|| explore(preset, audited, seed, schedules));
        if let Err(panic) = catch_unwind(run) {
            eprintln!(
                "replay with\nSHUTTLE_RANDOM_SEED={seed} PAGESET_SCHEDULES={schedules} cargo test -p pageset \
                 --all-features --test suite schedules::an_audit"
            );
            resume_unwind(panic);
        }
    }
}

/// A lock that admits two threads is found, and the seed finds it again.
#[test]
fn a_broken_try_lock_is_found() {
    let _planted = plant(fault::LIES);
    let found = |seed| {
        let panic = catch_unwind(AssertUnwindSafe(|| explore("linux-6.18", part, seed, SCHEDULES)));
        let panic = panic.expect_err("two threads in one pageset");
        panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into()))
    };
    assert_eq!(found(1), found(1));
}
