use std::num::NonZeroUsize;

use super::*;
use crate::machine::{Cycles, Rate, Shared, Slowdown, find};
use crate::time::Time;
use crate::workload::Workload;

/// Short simulations of page_fault1.
fn how(machine: &Machine, tuning: Tuning, era: Era) -> Run<'_> {
    Run {
        workload: Workload::find("page_fault1").unwrap(),
        machine,
        tuning,
        era,
        high_fraction: 0,
        tasks: machine.topology().cpus(),
        warm_up: Time::from_seconds(0.02),
        time: Time::from_seconds(0.08),
        detect_warm_up: false,
        precision_pct: None,
        whole: false,
        seed: 1,
    }
}

fn settings() -> Settings<'static> {
    let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Settings { run: &how, effort: Effort { seeds: 1, workers } }
}

/// The rows that machines with hidden costs would have published.
fn published(hidden: &[Machine]) -> Vec<Goal> {
    let goals: Vec<Goal> = hidden.iter().map(|machine| Goal::of(machine).unwrap().unwrap()).collect();
    let rows = simulate(hidden, &goals, &settings(), &|| true, &|_, _| {}).unwrap();
    goals.into_iter().zip(rows).map(|(goal, row)| Goal { row, ..goal }).collect()
}

#[test]
fn the_hidden_shared_costs_of_machines_are_found() {
    // Two machines whose locks are busy determine the costs of locks, two others those of faults.
    let machines = ["lkp-hsw-ep2", "lkp-bdw-ep2", "lkp-sb02", "lkp-skl-d01"].map(|name| {
        let mut machine = find(name).unwrap().unwrap();
        machine.fitted.pace = Rate::ONE;
        machine
    });
    let hidden = machines.clone().map(|mut machine| {
        let before = machine.shared;
        machine.shared.fault_cycles = Cycles::try_from(0.8 * before.fault_cycles.get()).unwrap();
        machine.shared.lru_page_cycles = Cycles::try_from(0.9 * before.lru_page_cycles.get()).unwrap();
        machine.shared.transfer_load = Slowdown::try_from(1.1 * before.transfer_load.get()).unwrap();
        machine
    });
    let goals = published(&hidden);
    let all = leave_one_out(&machines, &goals, &settings(), || true, |_, _| {}).unwrap();
    // The two machines with idle locks add nothing about locks: without one of them, the costs are found.
    for (left_out, hidden) in all[2..].iter().zip(&hidden[2..]) {
        let (found, hidden) = (left_out.shared, hidden.shared);
        let off = [
            found.fault_cycles.get() / hidden.fault_cycles.get(),
            found.lru_page_cycles.get() / hidden.lru_page_cycles.get(),
            found.transfer_load.get() / hidden.transfer_load.get(),
        ];
        assert!(off.iter().all(|off| (off - 1.0).abs() < 0.05), "{off:?}");
    }
    // Rows of one model agree, so three of them predict the fourth.
    for (left_out, goal) in all.iter().zip(&goals) {
        let [predicted, expected, published] =
            [left_out.predicted, left_out.expected, goal.row].map(|row| row.contention_pct);
        let near = |row: [f64; 2]| (0..2).all(|lock| (row[lock] - published[lock]).abs() < 4.0);
        assert!(near(predicted) && near(expected), "{predicted:?}, {expected:?}, {published:?}");
        assert!(!left_out.at_limit, "{left_out:?}");
    }
}

#[test]
fn a_machine_that_was_left_out_does_not_bend_its_own_prediction() {
    let machines = ["lkp-sb02", "lkp-skl-d01", "lkp-hsw-d01"].map(|name| {
        let mut machine = find(name).unwrap().unwrap();
        machine.fitted.pace = Rate::ONE;
        machine
    });
    let hidden = machines.clone().map(|mut machine| {
        machine.shared.fault_cycles = Cycles::try_from(0.85 * machine.shared.fault_cycles.get()).unwrap();
        machine
    });
    let rows = published(&hidden);
    // Somebody measured the first machine wrongly: the costs of the others bend, its own do not.
    let mut goals = rows.clone();
    goals[0].row.score *= 2.0;
    let fit = |goals: &[Goal]| leave_one_out(&machines, goals, &settings(), || true, |_, _| {});
    let all = fit(&goals).unwrap();
    let off = |shared: Shared| (shared.fault_cycles.get() / hidden[0].shared.fault_cycles.get()).ln().abs();
    let (bent, predicted) = (off(all[1].shared), off(all[0].shared));
    assert!(predicted < 0.03 && bent > 2.0 * predicted, "{predicted} off, with a wrong machine {bent}");
    let score = all[0].predicted.score;
    assert!((score / rows[0].row.score).ln().abs() < 0.03, "{score}, {rows:?}");
    // Its own row does not matter at all, and no machine is an error.
    assert_eq!(fit(&rows).unwrap()[0], all[0]);
    assert!(matches!(leave_one_out(&[], &[], &settings(), || true, |_, _| {}), Err(RunError::Interrupted)));
    // No cost in its range makes faults as slow.
    rows.iter().zip(&mut goals).for_each(|(row, goal)| goal.row.score = 0.3 * row.row.score);
    let all = fit(&goals).unwrap();
    assert!(all.iter().all(|left_out| left_out.at_limit), "{all:?}");
}
