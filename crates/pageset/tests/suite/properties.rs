//! Any sequence of operations, under every preset: no page is allocated twice, the audit passes, errors change nothing,
//! and all memory merges in the end.
//!
//! A failure prints the seed with the command that replays it, and the shortest failing sequence as a regression test
//! to paste below.

use std::cell::Cell;
use std::env;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::decode::RECORD;
use crate::ops::{CMA, Map, Op, Scenario, Wrong};
use crate::support::presets;
use pageset::policy::{PRESETS, Preset};
use pageset::{CompactMode, MigrateType, ZoneKind};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

/// The parameters of a search: equal values find the same failure again.
#[derive(Clone, Copy, Debug)]
struct Search {
    seed: u64,
    /// Sequences per preset.
    cases: u32,
    /// The longest sequence, in operations.
    length: usize,
}

impl Search {
    /// A few sequences from a new seed, unless the environment sets the values.
    fn from_env() -> Self {
        let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
        Search {
            seed: number("PAGESET_SEED").unwrap_or_else(fresh),
            cases: number("PAGESET_CASES").map_or(12, |cases| cases as u32),
            length: number("PAGESET_LENGTH").map_or(60, |length| length as usize),
        }
    }
}

/// The number of shorter sequences to try after a failure. A sequence of 1000 operations shrinks fully within a few
/// thousand tries; a guess with a margin.
const SHRINKS: u32 = 20_000;

/// Prints as the settings that repeat the search.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, cases, length } = self;
        write!(f, "PAGESET_SEED={seed} PAGESET_CASES={cases} PAGESET_LENGTH={length}")
    }
}

/// Scenarios of one preset. Their operations are records of bytes, so that the fuzzer can produce each of them. A
/// failure shrinks by removing records and reducing bytes.
fn scenarios(preset: &'static str, length: usize) -> impl Strategy<Value = Scenario> {
    let records = prop::collection::vec(any::<[u8; RECORD]>(), 1..=length);
    (prop::sample::select(&Map::ALL[..]), records).prop_map(move |(map, records)| {
        let ops = records.iter().map(|record| Op::decode(record)).collect();
        Scenario { preset, map, ops }
    })
}

thread_local! {
    static SHRINKING: Cell<bool> = const { Cell::new(false) };
}

/// A failure: the command that replays it, and the regression test.
struct Failure {
    scenario: Scenario,
    report: String,
}

/// Runs a property over scenarios of one preset, starting from a seed.
fn check(test: &str, preset: &'static str, search: Search, property: impl Fn(&Scenario)) -> Result<(), Box<Failure>> {
    let config = Config {
        cases: search.cases,
        rng_seed: RngSeed::Fixed(search.seed),
        failure_persistence: None,
        max_shrink_iters: SHRINKS,
        ..Config::default()
    };
    // Shrinking fails hundreds of times. Only the last failure counts, and it is reported.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !SHRINKING.get() {
                loud(info);
            }
        }));
    });
    let run = |scenario: Scenario| {
        SHRINKING.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| property(&scenario))).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            TestCaseError::fail(text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into())).unwrap_or_default())
        });
        SHRINKING.set(false);
        result
    };
    match TestRunner::new(config).run(&scenarios(preset, search.length), run) {
        Ok(()) => Ok(()),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, scenario)) => {
            let replay = format!("{search} cargo test -p pageset --all-features --test suite properties::{test}");
            let report = format!("{reason}\n\nreplay with\n{replay}\n\nor paste\n{scenario}\n");
            Err(Box::new(Failure { scenario, report }))
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs the property of this file under some presets.
fn hold(test: &str, presets: &[Preset]) {
    let search = Search::from_env();
    println!("{search}");
    for preset in presets {
        let operations = Cell::new(0);
        let run = |scenario: &Scenario| {
            scenario.run();
            operations.set(operations.get() + scenario.ops.len());
        };
        if let Err(failure) = check(test, preset.name, search, run) {
            panic!("{}", failure.report);
        }
        println!("{}: {} operations", preset.name, operations.get());
    }
}

/// Runs one sequence. The printed regression tests call this.
#[allow(dead_code, reason = "used while a failure waits for its remedy")]
fn replay(preset: &'static str, map: Map, ops: &[Op]) {
    Scenario { preset, map, ops: ops.to_vec() }.run();
}

#[test]
fn any_sequence_before_5_18() {
    hold("any_sequence_before_5_18", presets("linux-4.16", "linux-5.18"));
}

#[test]
fn any_sequence_from_5_18_to_the_series() {
    hold("any_sequence_from_5_18_to_the_series", presets("linux-5.18", "linux-6.7"));
}

#[test]
fn any_sequence_from_6_7_on() {
    hold("any_sequence_from_6_7_on", presets("linux-6.7", ""));
}

/// A false property: its failure names the seed, the seed finds it again, and the printed regression test is the
/// shortest sequence.
#[test]
fn a_failure_can_be_replayed() {
    let planted = |scenario: &Scenario| {
        let ticks = scenario.ops.iter().filter(|&&op| op == Op::Tick).count();
        assert!(ticks < 2, "planted: {ticks} ticks");
    };
    let search = Search { seed: 7, cases: 200, length: 60 };
    let first = check("planted", "linux-6.18", search, planted).expect_err("two ticks in 200 sequences");
    assert!(first.report.contains(
        "PAGESET_SEED=7 PAGESET_CASES=200 PAGESET_LENGTH=60 cargo test -p pageset --all-features --test suite properties::planted"
    ));
    assert!(first.report.contains("planted: 2 ticks"), "{}", first.report);
    assert_eq!(first.scenario.ops, [Op::Tick, Op::Tick]);
    let paste = "#[test]\nfn regression() {\n    replay(\"linux-6.18\", Map::OneZone, &[\n        Op::Tick,\n        Op::Tick,\n    ]);\n}";
    assert!(first.report.contains(paste), "{}", first.report);
    let again = check("planted", "linux-6.18", search, planted).expect_err("the same seed");
    assert_eq!(first.scenario, again.scenario);
}

/// Every operation and every scenario has a byte encoding; records do not depend on each other.
#[test]
fn bytes_make_every_operation() {
    let mut found: Vec<_> = (0..=u8::MAX).map(|kind| mem::discriminant(&Op::decode(&[kind]))).collect();
    found.sort_by_key(|kind| format!("{kind:?}"));
    found.dedup();
    assert_eq!(found.len(), Op::KINDS);
    let mut first: Vec<_> = Op::first_bytes().map(|byte| mem::discriminant(&Op::decode(&[byte]))).collect();
    first.sort_by_key(|kind| format!("{kind:?}"));
    assert_eq!(first, found);
    let bytes = [15, 1, 5, 1, 2, 3, 4, 5, 6, 7, 0, 9, 9, 9];
    let scenario = Scenario::decode(&bytes);
    assert_eq!((scenario.preset, scenario.map), (PRESETS[15].name, Map::TwoNodes));
    assert_eq!(scenario.ops, [Op::decode(&bytes[2..10]), Op::Tick]);
    assert_eq!(Scenario::decode(&[]), Scenario { preset: PRESETS[0].name, map: Map::OneZone, ops: vec![] });
}

/// Operations print as their Rust source.
#[test]
fn operations_print_as_rust() {
    macro_rules! printed_as_written {
        ($($op:expr),* $(,)?) => {
            $(assert_eq!($op.to_string(), stringify!($op).split_whitespace().collect::<Vec<_>>().join(" "));)*
        };
    }
    printed_as_written![
        Op::RunOn(1),
        Op::Alloc { order: 3, migratetype: MigrateType::Movable, highest: ZoneKind::Movable, rights: 12, times: 2 },
        Op::AllocWith { order: 0, migratetype: MigrateType::Movable, rights: 0, gives: 3 },
        Op::NodeReclaim { node: 0, highest: ZoneKind::Dma32, on: true },
        Op::Wrong(Wrong::AskFor(MigrateType::Cma), 7),
        Op::Wrong(Wrong::Twice, 7),
        Op::Free { from: 1, times: 1, undrained: false },
        Op::AllocExact { pages: 3, migratetype: MigrateType::Movable, highest: ZoneKind::Dma, rights: 0 },
        Op::FreePart { nth: 1, first: 2, pages: 3 },
        Op::Tick,
        Op::CompactZone { zone: 1, order: 9, mode: CompactMode::Async, faults: 0 },
    ];
}

/// A page cached as one type whose pageblock then becomes CMA, before 6.10.
#[test]
fn a_cached_page_of_a_pageblock_that_becomes_cma() {
    replay(
        "series-1",
        Map::OneZone,
        &[
            Op::Alloc {
                order: 0,
                migratetype: MigrateType::Unmovable,
                highest: ZoneKind::Movable,
                rights: 0,
                times: 1,
            },
            Op::Online(61),
            Op::RunOn(0),
            Op::AllocBulk { order: 0, migratetype: MigrateType::Reclaimable, pages: 1 },
            Op::Free { from: 0, times: 2, undrained: false },
            Op::BlockType { pageblock: 47104, migratetype: MigrateType::Cma },
            Op::RunOn(0),
            Op::BlockType { pageblock: 9035, migratetype: MigrateType::Cma },
        ],
    );
}

/// A block of the largest order in use while one of its pageblocks becomes CMA, before 6.10.
#[test]
fn a_largest_block_of_which_half_becomes_cma() {
    replay(
        "linux-6.7",
        Map::OneZone,
        &[
            Op::Alloc {
                order: 10,
                migratetype: MigrateType::Movable,
                highest: ZoneKind::Movable,
                rights: 0,
                times: 50,
            },
            Op::Exhaust { order: 3, migratetype: MigrateType::Movable },
            Op::Online(0),
            Op::BlockType { pageblock: 40329, migratetype: MigrateType::Cma },
            Op::Free { from: 9042, times: 50, undrained: false },
            Op::Alloc {
                order: 0,
                migratetype: MigrateType::Unmovable,
                highest: ZoneKind::Movable,
                rights: CMA,
                times: 1,
            },
        ],
    );
}
