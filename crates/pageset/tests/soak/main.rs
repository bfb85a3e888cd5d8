//! A fast soak: millions of random calls a second, in many small worlds with random zones, CPUs and rules.
//!
//! A world is a map, rules and sequences of calls, all drawn from its number. One thread runs it and changes its CPU, so its failures
//! repeat exactly; every fourth world has two threads. Every round of calls ends with an audit, and every world ends with all
//! memory free and merged. No page may have two owners at any time. A failure prints the command that repeats its world.
//!
//! `PAGESET_SOAK_OPERATIONS` is the number of calls (default: 2 million), `PAGESET_SEED` the number of the first world (default: the
//! time), `PAGESET_WORLD` the only world. `ci/soak.sh` runs an optimised build for longer.

mod plan;
mod rare;
mod work;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use world::Tally;

/// Calls of a world. A guess: enough to fill and empty the memory some dozens of times, few enough for many sets of rules.
const CALLS: u64 = 500_000;

/// A small random number generator. A seed determines its sequence.
pub(crate) struct Random(u64);

impl Random {
    /// The generator of a world and one of its threads.
    fn new(world: u64, stream: u64) -> Self {
        // Neighbouring numbers must not give similar sequences.
        let mut random = Random(world.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(stream << 56 | 0x5eed) | 1);
        (0..8).for_each(|_| {
            let _ = random.next();
        });
        random
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A failure of a world.
#[derive(Debug, PartialEq)]
struct Failure {
    world: u64,
    what: String,
}

impl Failure {
    fn command(&self) -> String {
        // Other builds run other numbers of calls.
        let (world, release) = (self.world, if cfg!(debug_assertions) { "" } else { " --release" });
        format!("PAGESET_WORLD={world} cargo test{release} -p pageset --all-features --test soak -- --nocapture soak")
    }
}

/// Runs one world of about `calls` calls.
fn run_world(world: u64, calls: u64, planted: bool) -> Result<Tally, Failure> {
    let plan = plan::Plan::new(&mut Random::new(world, 0));
    catch_unwind(AssertUnwindSafe(|| world::run(&plan, world, calls, planted))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Failure { world, what: format!("{}\n{plan}", text.unwrap_or_default()) }
    })
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("cannot read {name}={text}: it is not a number; try 1000000")))
}

#[test]
fn soak() {
    let only = number("PAGESET_WORLD");
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() << 20;
    let first = only.or_else(|| number("PAGESET_SEED")).unwrap_or_else(fresh);
    // Without optimisation a world takes a second.
    let calls = if cfg!(debug_assertions) { CALLS / 10 } else { CALLS };
    let most = number("PAGESET_SOAK_OPERATIONS").unwrap_or(if only.is_some() { 1 } else { 2_000_000 });
    println!("PAGESET_SEED={first} PAGESET_SOAK_OPERATIONS={most}");
    let (start, mut told, mut sum) = (Instant::now(), Instant::now(), Tally::default());
    for world in first.. {
        match run_world(world, calls, false) {
            Ok(tally) => sum += tally,
            Err(failure) => panic!("{}\n\nrepeat with\n{}\n", failure.what, failure.command()),
        }
        let is_end = sum.calls >= most;
        if is_end || told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            let seconds = start.elapsed().as_secs_f64();
            println!("{seconds:.0} s, {:.1} million calls a second: {sum:?}", sum.calls as f64 / seconds / 1e6);
        }
        if is_end {
            break;
        }
    }
}

/// A worker that loses a page: the audit notices it, and the world alone fails in the same way.
#[test]
fn a_failure_can_be_repeated() {
    let first = run_world(2, 20_000, true).expect_err("a page is lost");
    assert!(first.what.contains("pages in use"), "{}", first.what);
    assert_eq!(run_world(2, 20_000, true).expect_err("a page is lost"), first);
    assert!(first.command().starts_with("PAGESET_WORLD=2 cargo test "));
    run_world(2, 20_000, false).expect("nothing is lost");
}

/// The worlds have what they are to test.
#[test]
fn plans_differ() {
    let plans: Vec<_> = (0..600).map(|world| plan::Plan::new(&mut Random::new(world, 0))).collect();
    let share = |what: &dyn Fn(&plan::Plan) -> bool| plans.iter().filter(|plan| what(plan)).count();
    for (name, found) in [
        ("several zones", share(&|plan| plan.zones.len() > 1)),
        ("several nodes", share(&|plan| plan.zones.iter().any(|zone| zone.node.0 > 0))),
        ("one CPU", share(&|plan| plan.cpus.len() == 1)),
        ("regions", share(&|plan| plan.tuning.backing.regions() != pageset::RegionRule::One)),
        ("depots", share(&|plan| plan.tuning.backing.depot())),
        ("bitmaps", share(&|plan| plan.tuning.backing.bitmaps())),
        ("owners", share(&|plan| plan.tuning.backing.has_owners())),
        ("merges", share(&|plan| plan.tuning.backing.merges_in_pageset())),
        ("clusters", share(&|plan| plan.tuning.backing.has_clusters())),
    ] {
        assert!(found >= 20, "{name}: {found} of 600");
    }
}
