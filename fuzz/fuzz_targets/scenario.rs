//! Any sequence of operations under any preset, with the scenarios of the property tests. A failure is printed as a
//! regression test for `crates/pageset/tests/suite/properties.rs`.
#![no_main]

use std::cell::RefCell;
use std::panic;

use libfuzzer_sys::fuzz_target;
use pageset_fuzz::begin_with;

#[path = "../../crates/pageset/tests/support/decode.rs"]
mod decode;
#[path = "../../crates/pageset/tests/support/ops.rs"]
mod ops;
#[path = "../../crates/pageset/tests/support/mod.rs"]
mod support;

use ops::{Op, Scenario};
use pageset::policy::PRESETS;

thread_local! {
    static RUNNING: RefCell<Option<Scenario>> = const { RefCell::new(None) };
}

/// Prints the scenario that panics, then runs the panic hook of libFuzzer, which aborts.
fn print_failures() {
    let abort = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Some(scenario) = RUNNING.take() {
            eprintln!("\npaste\n{scenario}\n");
        }
        abort(info);
    }));
}

/// With the feature `planted`, the run loses a page after two certain operations in a row. Random bytes contain them once
/// in 7,000 records. In thirteen tries libFuzzer needed 1,000 to 17,000 runs.
#[cfg(feature = "planted")]
fn run(scenario: &Scenario) {
    let mut matched = 0;
    scenario.run_with(|world, op| {
        matched = match (matched, op) {
            (0, Op::Drain) => 1,
            (1, Op::HighFraction(_)) => 2,
            _ => 0,
        };
        if matched == 2 {
            let _lost = world.alloc(&pageset::Request { watermarks: false, ..support::movable(0) });
        }
    });
}

#[cfg(not(feature = "planted"))]
fn run(scenario: &Scenario) {
    scenario.run();
}

/// One input for each preset, with a record of each kind of operation.
fn seeds() -> impl Iterator<Item = Vec<u8>> {
    let records: Vec<u8> = Op::first_bytes().flat_map(|kind| [kind, 1, 2, 3, 4, 5, 6, 7]).collect();
    (0..PRESETS.len() as u8).map(move |preset| [&[preset, preset % 2], &records[..]].concat())
}

fn begin() {
    print_failures();
    begin_with(seeds());
}

fuzz_target!(init: begin(), |bytes: &[u8]| {
    let scenario = Scenario::decode(bytes);
    RUNNING.set(Some(scenario.clone()));
    run(&scenario);
    RUNNING.take();
});
