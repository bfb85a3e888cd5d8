use pageset::tuning::PRESETS;

use super::*;
use crate::engine::Plant;

fn interleaving(tuning: Tuning, seed: u64) -> Interleaving {
    Interleaving { tuning, high_fraction: 0, cpus: 4, rounds: 20, operations: 8, seed }
}

#[test]
fn all_rules_hold_under_any_interleaving() {
    for (seed, preset) in PRESETS.iter().enumerate() {
        let tried = interleaving(preset.tuning, seed as u64).run();
        let tried = tried.unwrap_or_else(|failure| panic!("{}, seed {seed}: {failure:?}", preset.name));
        assert_eq!(tried.operations, 20 * 8 * 4);
        assert!(tried.switches > tried.operations, "{}: hardly anything was interleaved: {tried:?}", preset.name);
    }
}

#[test]
fn a_seed_is_an_interleaving() {
    let switches = |seed| interleaving(Tuning::default(), seed).run().unwrap().switches;
    assert_eq!(switches(1), switches(1));
    assert_ne!(switches(1), switches(2));
}

#[test]
fn planted_bugs_are_found() {
    for plant in [Plant::ZoneLockShared, Plant::WaiterForgotten] {
        let run = |seed| interleaving(Tuning::default(), seed).run_on(|engine| engine.plant(plant));
        let found = (1..=200).find_map(|seed| match run(seed) {
            Err(Failure::Violation(violation)) => Some((seed, violation)),
            Err(failure) => panic!("{failure:?}"),
            Ok(_) => None,
        });
        let (seed, first) = found.unwrap_or_else(|| panic!("{plant:?} is not found by 200 seeds"));
        let Err(Failure::Violation(again)) = run(seed) else {
            panic!("{plant:?}: seed {seed} does not fail again");
        };
        assert_eq!(first.to_string(), again.to_string());
    }
}
