use pageset::policy::PRESETS;

use super::*;
use crate::engine::PlantedBug;

fn interleaving(tuning: Tuning, seed: u64) -> Interleaving {
    Interleaving { tuning, high_fraction: 0, cpus: 4, rounds: 20, operations: 8, seed }
}

#[test]
fn invariants_hold_under_all_presets() {
    for (seed, preset) in PRESETS.iter().enumerate() {
        let tried = interleaving(preset.tuning, seed as u64).run();
        let tried = tried.unwrap_or_else(|failure| panic!("{}, seed {seed}: {failure:?}", preset.name));
        assert_eq!(tried.operations, 20 * 8 * 4);
        assert!(tried.switches > tried.operations, "{}: too few switches between CPUs: {tried:?}", preset.name);
    }
}

#[test]
fn equal_seeds_give_equal_interleavings() {
    let switches = |seed| interleaving(Tuning::default(), seed).run().unwrap().switches;
    assert_eq!(switches(1), switches(1));
    assert_ne!(switches(1), switches(2));
}

#[test]
fn planted_bugs_are_found() {
    for plant in [PlantedBug::ZoneLockShared, PlantedBug::WaiterForgotten] {
        let run = |seed| interleaving(Tuning::default(), seed).run_on(|engine| engine.plant(plant));
        let found = (1..=200).find_map(|seed| match run(seed) {
            Err(Failure::Violation(violation)) => Some((seed, violation)),
            Err(failure) => panic!("{failure:?}"),
            Ok(_) => None,
        });
        let (seed, first) = found.unwrap_or_else(|| panic!("{plant:?} must be found by one of 200 seeds"));
        let Err(Failure::Violation(again)) = run(seed) else {
            panic!("{plant:?}: seed {seed} does not fail again");
        };
        assert_eq!(first.to_string(), again.to_string());
    }
}

#[test]
fn a_violation_names_its_round() {
    let run = |seed| interleaving(Tuning::default(), seed).run_on(|engine| engine.plant(PlantedBug::WaiterForgotten));
    let rounds: Vec<u32> = (1..=20)
        .filter_map(|seed| match run(seed) {
            Err(Failure::Violation(found)) if found.what.contains("never end") => Some(found.round),
            _ => None,
        })
        .collect();
    assert!(rounds.iter().any(|round| *round > 0), "{rounds:?}");
}
