//! Mixes of all operations, by three threads on two CPUs, under schedules chosen by a scheduler: at every lock, every
//! read of the current CPU, every touch of shared memory and every round of a wait. All shared words are atomics, so
//! nothing else is needed.
//!
//! `PAGESET_SCHEDULES` is the number of schedules per preset and scheduler, `PAGESET_PRESET` the only preset. A failure
//! prints the one command that replays it, which has a test of its own.

use crate::support::Known;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use crate::decode::RECORD;
use crate::mix::{BASE, CAPACITY, CPUS, HOLE, Mix, PAGES, Shared, check_end};
use crate::ops::Op;
use crate::watched::{Scheduled, fault, is_planted, plant, run_on};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::{Bounds, Preset};
use pageset::{Allocator, Config, CpuId, NodeId, PageRange, Pfn, RegionRule, Tuning, ZoneKind, ZoneSpec};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Runner, thread};

/// One thread more than CPUs.
const THREADS: u32 = CPUS + 1;

/// Presets that differ in the locks they take, and when.
const PRESETS: [&str; 9] = [
    "merge-skip",
    "clusters",
    "linux-4.19",
    "linux-5.14",
    "linux-5.18",
    "linux-6.15",
    "linux-6.18",
    "linux-6.19",
    "pageset",
];

/// Schedules per preset and scheduler.
const SCHEDULES: usize = 1500;

/// One thread's part: operations from the scheduler's random numbers, so that a seed reproduces them.
fn part(world: &Allocator<'_, Scheduled>, shared: &Shared, thread: u32) {
    run_on(CpuId(thread % CPUS));
    let mut mix = Mix::new(world, shared);
    for _ in 0..6 {
        let mut record = [0; RECORD];
        thread_rng().fill_bytes(&mut record);
        mix.step(Op::decode(&record), run_on);
        if is_planted(fault::FREES_THEN_TAKES) && thread_rng().next_u32().is_multiple_of(2) {
            let theirs = shared.mail().last().copied();
            if let Some(block) = theirs {
                shared.let_go(block);
                world.free(block.pfn, block.order).expect("it is in use");
                shared.mail().retain(|&other| other != block);
            }
        } else {
            mix.post(thread_rng().next_u32().is_multiple_of(2));
        }
    }
    mix.finish();
}

/// One schedule: the threads, then the audit.
fn schedule(preset: &Preset) {
    let range = PageRange::new(Pfn(BASE), PAGES);
    let span = PageRange::new(range.start, PAGES + HOLE.pages);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[range] }];
    let cpus = [NodeId(0); CPUS as usize];
    // The zone is too small for a region of each CPU, so their number is given.
    let backing = preset.tuning.backing;
    let per_cpu = backing.regions() == RegionRule::PerCpu;
    let regions = if per_cpu { RegionRule::Fixed(CPUS) } else { RegionRule::One };
    let tuning = Tuning { backing: backing.with_regions(regions), ..preset.tuning };
    let config = Config { tuning, pageset_capacity: CAPACITY, ..Config::new(&zones, &cpus) };
    let metadata = OwnedMetadata::<Scheduled>::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Scheduled, &config, metadata.lend(&mut zones)).expect("the map is valid");
    // High is large enough that pages stay, and small enough that some drains happen.
    world.at(0).set_bounds(Bounds { batch: 2, high_min: 4, high_max: 4 }).expect("room");
    let shared = Shared::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, shared) = (&world, &shared);
            scope.spawn(move || part(world, shared, thread));
        }
    });
    check_end(&world, &shared);
}

/// The scheduler: uniformly random, or by priorities that change at few points, which finds bugs that need few switches
/// sooner.
#[derive(Clone, Copy, Debug)]
enum Chooser {
    Random,
    Priorities,
}

/// The parameters of a search: equal values find the same failure again.
#[derive(Clone, Copy)]
struct Search {
    chooser: Chooser,
    seed: u64,
    schedules: usize,
}

impl Search {
    fn from_env(chooser: Chooser) -> Self {
        let (seed, schedules) = crate::watched::seed_and_schedules(SCHEDULES);
        Search { chooser, seed, schedules }
    }

    /// Explores schedules of one preset until one fails. Returns its message.
    fn explore(self, preset: &'static str) -> Result<(), String> {
        let Self { chooser, seed, schedules } = self;
        println!("{preset}: {schedules} schedules, {chooser:?}, seed {seed}");
        let mut config = crate::watched::config();
        // A schedule has some thousand steps. A planted bug may make a list circular.
        config.max_steps = shuttle::MaxSteps::FailAfter(200_000);
        let preset = Preset::find(preset).expect("a preset");
        let one = move || schedule(preset);
        let run = AssertUnwindSafe(|| match chooser {
            Chooser::Random => Runner::new(RandomScheduler::new_from_seed(seed, schedules), config).run(one),
            // Three changes of priority: most bugs need no more.
            Chooser::Priorities => Runner::new(PctScheduler::new_from_seed(seed, 3, schedules), config).run(one),
        });
        catch_unwind(run).map(|_| ()).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into())).unwrap_or_default()
        })
    }
}

/// Explores all presets; a failure says how to replay it.
fn hold(test: &str, chooser: Chooser) {
    let search = Search::from_env(chooser);
    let only = env::var("PAGESET_PRESET").ok();
    for preset in PRESETS.into_iter().filter(|preset| only.as_deref().is_none_or(|only| only == *preset)) {
        if let Err(what) = search.explore(preset) {
            let Search { seed, schedules, .. } = search;
            panic!(
                "{what}\n\nreplay with\nSHUTTLE_RANDOM_SEED={seed} PAGESET_SCHEDULES={schedules} PAGESET_PRESET={preset} \
                 cargo test -p pageset --all-features --test suite -- --include-ignored --exact mixes::{test}\n"
            );
        }
    }
}

#[test]
fn schedules_at_random_pass_the_audit() {
    hold("schedules_at_random_pass_the_audit", Chooser::Random);
}

#[test]
fn schedules_by_priorities_pass_the_audit() {
    hold("schedules_by_priorities_pass_the_audit", Chooser::Priorities);
}

/// These schedulers find the bug, within the number of schedules that the tests above run. Each search has a thread of its own: after a
/// failure the scheduler keeps what was unwinding, and the next search on its thread fails, or finds nothing, for that reason.
fn is_found(fault: u8, choosers: &[Chooser]) {
    for &chooser in choosers {
        let finds = |seed| {
            let search = move || {
                let _planted = plant(fault);
                Search { chooser, seed, schedules: SCHEDULES }.explore("linux-6.18").is_err()
            };
            std::thread::spawn(search).join().expect("a failure is caught")
        };
        assert!((1..=PRESETS.len() as u64).any(finds), "{chooser:?}: a planted bug is not found");
    }
}

#[test]
fn a_broken_try_lock_is_found() {
    is_found(fault::LIES, &[Chooser::Random, Chooser::Priorities]);
}

/// Only at random: it needs a switch between two accesses that follow one another, and three changes of priority among some thousand
/// steps hit none in 66,000 schedules.
#[test]
fn a_lock_that_looks_and_then_locks_is_found() {
    is_found(fault::LOOKS_THEN_LOCKS, &[Chooser::Random]);
}

#[test]
fn a_thread_that_frees_what_another_frees_too_is_found() {
    is_found(fault::FREES_THEN_TAKES, &[Chooser::Random, Chooser::Priorities]);
}

/// Must fail: [`the_printed_command_replays`] runs it.
#[test]
#[ignore = "its bug is planted; run by the test below"]
fn planted() {
    let _planted = plant(fault::LIES);
    hold("planted", Chooser::Random);
}

/// The printed command, run as printed, fails in the same way at the same schedule.
#[test]
fn the_printed_command_replays() {
    let run = |settings: &[(&str, &str)], arguments: &[&str]| {
        let program = env::current_exe().expect("this test's program");
        let output = Command::new(program).args(arguments).envs(settings.iter().copied()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "the planted bug was not found: {said}");
        said
    };
    // The identity of a schedule: shuttle prints all its choices between the two lines.
    let schedule = |said: &str| {
        let from = said.find("failing schedule:").expect("shuttle tells the schedule");
        let to = said[from..].find("pass that string").expect("and ends it");
        said[from..from + to].to_owned()
    };
    // One preset, since inconsistent metadata may cause an endless loop under another.
    let given = [("SHUTTLE_RANDOM_SEED", "7"), ("PAGESET_SCHEDULES", "600"), ("PAGESET_PRESET", "linux-6.18")];
    let first = run(&given, &["--include-ignored", "--exact", "mixes::planted"]);
    let (_, command) = first.split_once("replay with\n").expect("a command");
    let command = command.lines().next().expect("one line");
    let (settings, cargo) = command.split_once(" cargo test ").expect("settings, then cargo test");
    let settings: Vec<_> = settings.split(' ').map(|pair| pair.split_once('=').expect("NAME=VALUE")).collect();
    assert_eq!(settings, given);
    let (_, arguments) = cargo.split_once(" -- ").expect("arguments of the test");
    let again = run(&settings, &arguments.split_whitespace().collect::<Vec<_>>());
    assert_eq!(schedule(&first), schedule(&again));
}
