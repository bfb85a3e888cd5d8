//! Interleavings of callers with CPUs that go offline and online, disabled pagesets, changes by an administrator, and
//! drains. The scheduler decides at every lock, every read of the current CPU, every touch of shared memory and every
//! round of a wait. A failure prints the seed with the command that replays it.

use crate::support::Known;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::watched::{Watched, fault, plant, point};
use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::Access;
use pageset::policy::{Backing, Bounds, Holds, PcpState, Preset};
use pageset::{
    Allocator, Block, Config, CpuId, Free, FreeTo, Immovable, Machine, MigrateType, NodeId, Obstacle, Order, PageRange,
    Pfn, Request, Tuning, ZoneKind, ZoneSpec,
};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Runner, thread};

const PAGES: u64 = 2048;
const CPUS: u32 = 2;

shuttle::thread_local! {
    static LOOKS: Cell<u32> = Cell::new(0);
}

/// The CPU changes at each read, so it changes within every call that reads it twice.
struct Restless;

impl Machine for Restless {
    type Lock = Watched;

    fn cpu(&self) -> CpuId {
        point();
        LOOKS.with(|looks| {
            looks.set(looks.get() + 1);
            CpuId(looks.get() % CPUS)
        })
    }

    fn probe(&self, _access: Access) {
        point();
    }

    fn relax(&self) {
        thread::yield_now();
    }
}

type World<'a> = Allocator<'a, Restless>;
type Part = fn(&World<'_>);

const SMALL: Bounds = Bounds { batch: 2, high_min: 6, high_max: 6 };

/// Allocates and frees by all calls that use pagesets.
fn caller(world: &World<'_>) {
    let movable = Request::new(Order::ZERO, MigrateType::Movable);
    let mut pages = [Pfn(0); 5];
    let got = world.alloc_bulk(&movable, &mut pages).expect("there is enough memory");
    let large = Request::new(Order::new(1).expect("an order"), MigrateType::Movable);
    let block = world.alloc(&large).expect("there is enough memory");
    world.free_with(Free::block(pages[0], Order::ZERO).to(FreeTo::PagesetUndrained)).expect("it was allocated");
    world.free(block, large.order).expect("it was allocated");
    let blocks: Vec<_> = pages[1..got].iter().map(|&pfn| Block { pfn, order: Order::ZERO }).collect();
    world.free_bulk(&blocks).expect("they were allocated");
}

fn states(world: &World<'_>) -> [PcpState; 2] {
    [0, 1].map(|cpu| world.pageset(0, CpuId(cpu)).state())
}

/// Runs the parts concurrently on a zone whose pagesets hold pages, then checks the audit and `after`.
fn schedule(tuning: Tuning, parts: [Part; 3], after: Part) {
    // Pagesets that claim pageblocks hold one for each CPU and type.
    let pages = if tuning.backing.claims() { 4 * PAGES } else { PAGES };
    let ranges = [PageRange::new(Pfn(1 << 20), pages)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config { tuning, pageset_capacity: 300, ..Config::new(&zones, &[NodeId(0); 2]) };
    let metadata = OwnedMetadata::<Restless>::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Restless, &config, metadata.lend(&mut zones)).expect("the map is valid");
    world.at(0).set_bounds(SMALL).expect("room");
    caller(&world);
    caller(&world);
    thread::scope(|scope| {
        for part in parts {
            let world = &world;
            scope.spawn(move || part(world));
        }
    });
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!((books.in_use, books.free + books.cached), (0, pages));
    after(&world);
    world.drain_all();
    world.at(0).audit().expect("the audit passes");
    assert_eq!(world.at(0).stats().nr_free_pages, pages);
}

const PRESETS: [&str; 9] = [
    "linux-4.19",
    "linux-5.14",
    "linux-5.18",
    "linux-6.18",
    "linux-6.19",
    "pcp-buddy",
    "pcp-buddy-try",
    "pcp-buddy-list",
    "pageset",
];
const SCHEDULES: usize = 400;

/// Explores schedules of all presets. `PAGESET_SCHEDULES` sets their number per preset.
fn explore(test: &str, parts: [Part; 3], after: Part) {
    let (seed, schedules) = crate::watched::seed_and_schedules(SCHEDULES);
    for preset in PRESETS {
        println!("{preset}: seed {seed}, {schedules} schedules");
        let run = || run(preset, seed, schedules, parts, after);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            eprintln!(
                "replay with\nSHUTTLE_RANDOM_SEED={seed} PAGESET_SCHEDULES={schedules} \
                 cargo test -p pageset --all-features --test suite hotplug_schedules::{test}"
            );
            resume_unwind(panic);
        }
    }
}

fn run(preset: &str, seed: u64, schedules: usize, parts: [Part; 3], after: Part) {
    let preset = Preset::find(preset).expect("a preset");
    // So that all that is drained goes to bitmaps, under that rule.
    let mut tuning = preset.tuning;
    if let Backing::Regions { holds: Holds::Short { depot, bitmaps: true }, .. } = &mut tuning.backing {
        *depot = false;
    }
    let scheduler = RandomScheduler::new_from_seed(seed, schedules);
    Runner::new(scheduler, crate::watched::config()).run(move || schedule(tuning, parts, after));
}

/// Two callers are in bulk calls while a CPU goes offline: no page stays there.
#[test]
fn a_cpu_goes_in_the_middle_of_bulk_calls() {
    explore(
        "a_cpu_goes_in_the_middle_of_bulk_calls",
        [caller, caller, |world| world.cpu_offline(CpuId(1)).expect("another is left")],
        |world| assert_eq!(states(world)[1].count, 0, "late callers leave nothing"),
    );
}

/// The CPU comes back at once: pages that are still there are kept like any others.
#[test]
fn a_cpu_goes_and_comes() {
    explore(
        "a_cpu_goes_and_comes",
        [caller, caller, |world| {
            world.cpu_offline(CpuId(1)).expect("another is left");
            world.tick();
            world.cpu_online(CpuId(1)).expect("it went");
        }],
        |world| assert!(states(world).iter().all(|state| state.high_max > 0)),
    );
}

/// Frees race with a disable: blocks that the drain misses go to the buddy.
#[test]
fn pagesets_are_disabled_under_callers() {
    explore(
        "pagesets_are_disabled_under_callers",
        [caller, caller, |world| {
            world.at(0).disable_pagesets();
            let kept = |state: &PcpState| state.count;
            // Callers in a call hold at most the pages that they are about to allocate or free.
            assert!(states(world).iter().map(kept).sum::<u32>() <= 4);
        }],
        |world| {
            assert_eq!(states(world).map(|state| state.count), [0, 0]);
            world.at(0).enable_pagesets().expect("disabled once");
        },
    );
}

/// Two concurrent disables, one of them undone: both have drained the pagesets, which stay disabled.
#[test]
fn two_disable_and_one_enables() {
    let disable: Part = |world| world.at(0).disable_pagesets();
    explore(
        "two_disable_and_one_enables",
        [disable, caller, |world| {
            world.at(0).disable_pagesets();
            world.at(0).enable_pagesets().expect("disabled");
        }],
        |world| {
            assert!(states(world).iter().all(|state| (state.count, state.high_max, state.batch) == (0, 0, 1)));
            world.at(0).enable_pagesets().expect("disabled once");
            world.at(0).enable_pagesets().expect_err("not disabled");
        },
    );
}

/// Each of two concurrent disables returns with empty pagesets, not only the first or the last.
#[test]
fn each_disable_drains() {
    let disable: Part = |world| {
        world.at(0).disable_pagesets();
        assert_eq!(states(world).map(|state| state.count), [0, 0]);
    };
    explore("each_disable_drains", [disable, disable, |world| world.drain_all()], |world| {
        (0..2).for_each(|_| world.at(0).enable_pagesets().expect("disabled twice"));
    });
}

/// Every drain of a zone returns with empty pagesets, with any number of concurrent drains, if no CPU frees.
#[test]
fn drains_at_once() {
    let drain: Part = |world| {
        world.at(0).drain_all();
        assert_eq!(states(world).map(|state| state.count), [0, 0]);
    };
    explore("drains_at_once", [drain, drain, |world| world.drain_all()], |_| {});
}

/// Fraction, marks and bounds change under callers, and a CPU goes offline: the bounds are those of the last change.
#[test]
fn an_administrator_under_callers() {
    explore(
        "an_administrator_under_callers",
        [
            caller,
            |world| world.cpu_offline(CpuId(0)).expect("another is left"),
            |world| {
                world.set_high_fraction(100).expect("allowed");
                world.recompute();
            },
        ],
        bounds_are_as_computed,
    );
}

fn bounds_are_as_computed(world: &World<'_>) {
    let bounds = || states(world).map(|state| (state.batch, state.high_min, state.high_max));
    let before = bounds();
    world.recompute();
    assert_eq!(before, bounds(), "an older change was the last to be written");
}

/// A page that moves between a pageset and a bitmap, and belongs to neither for a moment, is never taken for a page that is offline.
#[test]
fn ranges_meet_pages_that_move() {
    let range: Part = |world| {
        for _ in 0..2 {
            let range = PageRange::new(Pfn(1 << 20), 24);
            match world.alloc_range(range, MigrateType::Movable, &Immovable) {
                Ok(()) => world.free_with(Free::whole_blocks(range)).expect("allocated"),
                Err(error) => assert_ne!(error.obstacle, Obstacle::Offline, "{error}"),
            }
        }
    };
    explore("ranges_meet_pages_that_move", [caller, caller, range], |_| {});
}

/// Without the lock of changes an older change could be written last. That is found, and the seed finds it again.
#[test]
fn unordered_changes_are_found() {
    let _planted = plant(fault::OPEN);
    let parts: [Part; 3] = [
        |world| world.set_high_fraction(8).expect("allowed"),
        |world| world.set_high_fraction(50).expect("allowed"),
        |world| world.set_high_fraction(100).expect("allowed"),
    ];
    let found = |seed| {
        let run = || run("linux-6.18", seed, 2000, parts, bounds_are_as_computed);
        let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("an older change is written last");
        panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into()))
    };
    let message = found(1).expect("a message");
    assert!(message.contains("an older change"), "{message}");
    assert_eq!(found(1), Some(message));
}
