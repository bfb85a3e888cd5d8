//! The cards by tables: what each input says, and when there is no verdict.

use std::path::Path;

use pageset_bench::report::{MachineFacts, Report, Row};
use pageset_sim::run::RunResult;
use pageset_trace::Trace;
use pageset_trace::advise::{Advice, AdviceSet, Trust};
use pageset_trace::measure::{How, Measured, ReplayResult};
use pageset_trace::replay::{Level, Totals};
use serde_json::json;

use super::*;
use crate::rules::Chosen;

/// The result of a shipped recording under two sets of rules.
fn replayed() -> ReplayResult {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sock-q1.events.zst");
    let trace = Trace::open(&path).unwrap();
    let names = ["kernel", "linux-5.18"].map(str::to_owned);
    let chosen = Chosen::parse(&names, &[], true).unwrap();
    let how = How { level: Level::Reconstructed, only: Vec::new() };
    Measured::new(&trace, &chosen, &how, &mut |_| {}).unwrap().result
}

#[test]
fn a_replay_is_judged_against_the_kernels_own_rules() {
    type Change = fn(&mut ReplayResult);
    let cases: [(Change, Kind, Trust, &str); 9] = [
        (|_| {}, Kind::Same, Trust::Fair, "linux-5.18 takes the zone lock no less often"),
        (|result| result.kernel.known = true, Kind::Same, Trust::High, "no less often"),
        (|result| half(result, 0.5), Kind::Differs, Trust::Fair, "takes the zone lock 0.50 times as often"),
        // Less than the noise.
        (|result| half(result, 0.96), Kind::Same, Trust::Fair, "no less often"),
        // A row that lacks memory is no choice.
        (
            |result| {
                half(result, 0.5);
                result.rules[1].failed = 7;
            },
            Kind::Same,
            Trust::Fair,
            "run short of memory",
        ),
        (|result| result.trace.facts.loss = vec![lost()], Kind::Same, Trust::Low, "no less often"),
        // The control is missing, or fails.
        (|result| result.rules.retain(|row| !row.is_kernel), Kind::None, Trust::Low, "No verdict"),
        (|result| result.kernel.totals.refills *= 2, Kind::None, Trust::Low, "No verdict"),
        (|result| result.rules.truncate(1), Kind::Same, Trust::Fair, "The replay follows the kernel"),
    ];
    let result = replayed();
    for (i, (change, kind, trust, text)) in cases.into_iter().enumerate() {
        let mut changed = result.clone();
        change(&mut changed);
        let card = replay::replay(&changed);
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{i}: {card:?}");
        assert!(card.verdict.text.contains(text), "{i}: {card:?}");
        assert!(card.figures.iter().all(|figure| figure.value.is_some()), "{i}: {card:?}");
    }
    // Without a verdict no replay's number is shown.
    let mut failed = result.clone();
    failed.kernel.totals.refills *= 2;
    let card = replay::replay(&failed);
    assert!(card.verdict.why.contains("refills differ from the kernel's by -50.0 %"), "{card:?}");
    assert!(card.figures.iter().all(|figure| figure.note == "as recorded"), "{card:?}");
    // Warnings about the recording are in the card.
    assert_eq!(replay::replay(&result).warnings[..result.warnings.len()], result.warnings);
}

fn half(result: &mut ReplayResult, times: f64) {
    let own = result.rules[0].zone_lock_acquisitions_per_1000_operations;
    result.rules[1].zone_lock_acquisitions_per_1000_operations = own * times;
}

fn lost() -> pageset_trace::facts::Loss {
    pageset_trace::facts::Loss { overrun: 5, ..Default::default() }
}

#[test]
fn a_recording_is_judged_by_its_rate() {
    let recorded = |refills, seconds, known, lost| replay::Recorded {
        name: "r".to_owned(),
        kernel: Totals { refills, refill_pages: 63 * refills, drains: 0, drain_pages: 0 },
        seconds,
        cpus: 2,
        operations: 100_000,
        held_max: None,
        kernel_known: known,
        lost_events: lost,
        warnings: Vec::new(),
    };
    for (refills, seconds, known, lost, kind, trust) in [
        (4000, 2.0, true, false, Kind::Differs, Trust::High),
        (3999, 2.0, true, false, Kind::Same, Trust::High),
        (4000, 0.5, true, false, Kind::Differs, Trust::Fair),
        (4000, 2.0, false, false, Kind::Differs, Trust::Fair),
        (4000, 2.0, true, true, Kind::None, Trust::Low),
    ] {
        let card = replay::recording(recorded(refills, seconds, known, lost));
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{card:?}");
        assert_eq!(card.figures[1].value, Some(refills as f64 / 100.0));
    }
    let none = replay::Recorded { operations: 0, ..recorded(0, 2.0, true, false) };
    assert_eq!(replay::recording(none).verdict.kind, Kind::None);
}

fn setting(fraction: u32, locks: u64, in_force: bool) -> serde_json::Value {
    json!({
        "setting": fraction.to_string(), "high_fraction": fraction, "in_force": in_force, "operations": 1_000_000,
        "zone_lock_acquisitions": locks, "longest_hold_pages": 63, "moved_pages": 10, "held_pages_max": locks / 10,
        "high_order_pages_min": 5120, "short": 0
    })
}

fn advice(basis: &str, fraction: Option<u32>, trust: &str) -> Advice {
    serde_json::from_value(json!({
        "schema": "pageset.advise/1", "trace": "t", "duration_ns": 2_000_000_000_u64, "operations": 1_000_000,
        "kernel": {"release": null, "rules": "linux-6.18", "known": false, "disagreement": null, "high_fraction": 0},
        "cpus": 2, "managed_pages": 1_000_000, "gain": null, "price": null,
        "verdict": {"basis": basis, "high_fraction": fraction, "why": "it is so"},
        "sure": {"trust": trust, "reasons": ["a reason"]},
        "high_orders": {"begin_pages": null, "kernel_end_pages": null, "replay_end_pages": null},
        "settings": [setting(0, 40_000, true), setting(8, 10_000, false)], "other_kernels": [],
        "patterns": {
            "followed_pages": 0, "travelling_pct": 0.0, "bursts": 0, "burst_pct": 0.0, "burst_pages_max": 0,
            "high_order_pct": 0.0, "high_order_drains": 0, "hoarder": null
        },
        "named_patterns": []
    }))
    .unwrap()
}

#[test]
fn an_advice_has_the_numbers_of_its_setting() {
    for (basis, fraction, kind, text, first, note) in [
        ("gain", Some(8), Kind::Differs, "Set vm.percpu_pagelist_high_fraction = 8", 10.0, "now: 40, 0.25 times"),
        ("no-gain", None, Kind::Same, "Change nothing", 40.0, "in force"),
        ("not-felt", None, Kind::Same, "Change nothing", 40.0, "in force"),
        // The numbers are those of the recording.
        ("control-failed", None, Kind::None, "No verdict", 1_000_000.0, ""),
    ] {
        let card = advise::advise(&advice(basis, fraction, "low"));
        let figure = &card.figures[0];
        assert_eq!((card.verdict.kind, card.verdict.text.as_str()), (kind, text));
        assert_eq!((figure.value, figure.note.as_str()), (Some(first), note), "{basis}");
        assert_eq!((card.sure.trust, card.verdict.why.as_str()), (Trust::Low, "It is so"));
        assert!(card.warnings[0].contains("does not name its kernel"), "{card:?}");
    }
}

/// Two recordings of one name, one of which is left out: the verdict says its gain and price.
#[test]
fn a_joint_verdict_has_its_price() {
    let set: AdviceSet = serde_json::from_value(json!({
        "schema": "pageset.advise-set/1", "left_out": ["t"], "gain": "fewer locks", "price": "more pages",
        "verdict": {"basis": "gain", "high_fraction": 8, "why": "it is so"},
        "recordings": [advice("control-failed", None, "low"), advice("gain", Some(8), "high")]
    }))
    .unwrap();
    let card = advise::joint(&set);
    assert_eq!(card.verdict.why, "It is so. Gain: fewer locks. Price: more pages");
    assert_eq!((card.figures[0].value, card.sure.trust), (Some(1.0), Trust::High));
    let older = AdviceSet { gain: None, price: None, ..set };
    assert_eq!(advise::joint(&older).verdict.why, "It is so");
}

/// A row of a simulation: the score of each seed.
fn row(rules: &str, tasks: u32, scores: &[f64]) -> serde_json::Value {
    let spread = pageset_sim::statistics::Spread::of(scores);
    let path = json!({"holds": 0, "contended": 0, "wait_ns": 0, "hold_ns": 0});
    let paths = json!({"alloc": path, "free": path, "direct": path});
    let sample = |(seed, score): (usize, &f64)| {
        json!({
            "seed": seed + 1, "operations": 1, "others": 0, "score": score, "from_zone": 0, "drained": 0,
            "high_order_drains": 0, "cache_miss_pct": 0.0, "zone_lock_pct": 0.0, "lru_lock_pct": 0.0,
            "zone_locks": paths, "lru_locks": paths
        })
    };
    json!({
        "rules": rules, "tasks": tasks, "score": spread, "zone_lock_pct": spread, "lru_lock_pct": spread,
        "alloc_ns": null, "samples": scores.iter().enumerate().map(sample).collect::<Vec<_>>()
    })
}

fn simulated(machine: &str, measured_ns: u64, rows: &[serde_json::Value]) -> RunResult {
    serde_json::from_value(json!({
        "schema": "pageset.run/1", "workload": "w", "unit": "pages", "machine": machine, "measured_ns": measured_ns,
        "warm_up_ns": 0, "seeds": 3, "rows": rows
    }))
    .unwrap()
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_simulation_is_judged_against_its_first_row() {
    let base = row("old", 4, &[100.0, 101.0, 99.0]);
    for (rows, kind, trust, text) in [
        (
            vec![base.clone(), row("new", 4, &[150.0, 151.0, 149.0])],
            Kind::Differs,
            Trust::Fair,
            "new does 1.50 times the work of old",
        ),
        (
            vec![base.clone(), row("new", 4, &[80.0, 81.0, 79.0])],
            Kind::Same,
            Trust::Fair,
            "No other row does more work than old",
        ),
        // Within the spread of the seeds.
        (
            vec![base.clone(), row("new", 4, &[140.0, 70.0, 100.0])],
            Kind::Same,
            Trust::Fair,
            "beyond the spread of the seeds",
        ),
        // The row with the most tasks decides.
        (
            vec![
                row("old", 1, &[9.0, 9.0, 9.0]),
                base.clone(),
                row("new", 1, &[90.0, 90.0, 90.0]),
                row("new", 4, &[50.0, 51.0, 49.0]),
            ],
            Kind::Same,
            Trust::Fair,
            "No other row",
        ),
        (
            vec![base.clone(), row("old", 8, &[150.0, 150.0, 150.0])],
            Kind::Differs,
            Trust::Fair,
            "old does 1.50 times the work with 2 times the tasks",
        ),
        (vec![base.clone()], Kind::Same, Trust::Fair, "old on 4 tasks waits 100 % of its time"),
        // The control has no result.
        (vec![row("old", 4, &[]), row("new", 4, &[150.0, 151.0, 149.0])], Kind::None, Trust::Fair, "No verdict"),
        (vec![row("old", 4, &[100.0]), row("new", 4, &[150.0])], Kind::Differs, Trust::Low, "1.50 times"),
        (vec![], Kind::None, Trust::Low, "No verdict"),
    ] {
        let card = simulation::run(&simulated("m", SECOND, &rows));
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{card:?}");
        assert!(card.verdict.text.contains(text), "{card:?}");
    }
    // A short measurement is a reason, and a seed that has not ended a warning.
    let card = simulation::run(&simulated("m", SECOND / 10, &[base, row("new", 4, &[150.0, 150.0])]));
    assert!(card.sure.reasons.iter().any(|reason| reason.contains("only 0.10 s were measured")), "{card:?}");
    assert_eq!(card.warnings, ["new, 4 tasks: only 2 of 3 seeds have ended"]);
}

#[test]
fn a_study_counts_its_cells() {
    let on = |machine: &str, new: &[f64]| {
        simulated(machine, SECOND, &[row("old", 4, &[100.0, 101.0, 99.0]), row("new", 4, new)])
    };
    let card = simulation::study(&[
        on("a", &[200.0, 201.0, 199.0]),
        on("b", &[50.0, 51.0, 49.0]),
        on("c", &[100.0, 99.0, 101.0]),
    ]);
    assert_eq!((card.verdict.kind, card.sure.trust), (Kind::Differs, Trust::Fair));
    assert_eq!(card.verdict.text, "new does 1.00 times the work of old on average");
    assert!(card.verdict.why.starts_with("Better in 1 and worse in 1 of 3 cells"), "{card:?}");
    let near = |figure: &Figure, wanted: f64| assert!((figure.value.unwrap() - wanted).abs() < 1e-9, "{figure:?}");
    card.figures.iter().zip([1.0, 0.5, 2.0]).for_each(|(figure, wanted)| near(figure, wanted));
    // One result is a run, and without another set of rules there is no verdict.
    assert!(simulation::study(&[on("a", &[200.0, 201.0, 199.0])]).verdict.text.contains("2.00 times the work"));
    let alone = simulated("a", SECOND, &[row("old", 4, &[1.0])]);
    assert_eq!(simulation::study(&[alone.clone(), alone]).verdict.kind, Kind::None);
}

#[test]
fn a_comparison_counts_what_is_met() {
    let column = |change: f64| json!({"change_pct": change});
    let row = |published: f64, simulated: f64| {
        json!({
            "batch": 63, "kinds": {"change_pct": "change"}, "published": column(published), "simulated": column(simulated),
            "deviation": column(0.1), "do_nothing": column(0.0), "simulations": []
        })
    };
    let compare = |rows: &[serde_json::Value], seeds: u64, notes: &[&str], errors: serde_json::Value| {
        let result = json!({
            "schema": "pageset.compare/1", "table": "t", "measured_ns": SECOND, "warm_up_ns": 0,
            "seeds": (1..=seeds).collect::<Vec<_>>(), "rows": rows, "notes": notes, "mean_absolute_errors": errors
        });
        compare::compare(&serde_json::from_value(result).unwrap())
    };
    let none = || json!([]);
    for (rows, seeds, notes, kind, trust, text) in [
        (vec![row(8.0, 7.0), row(-8.0, -1.0)], 3, vec![], Kind::Same, Trust::High, "meets 2 of 2 published effects"),
        (vec![row(8.0, 7.0), row(-8.0, 1.0)], 3, vec![], Kind::Differs, Trust::High, "meets 1 of 2"),
        (vec![row(8.0, -7.0), row(1.0, 1.0)], 3, vec![], Kind::Differs, Trust::Low, "meets 0 of 1"),
        (vec![row(8.0, 7.0)], 1, vec![], Kind::Same, Trust::Low, "meets 1 of 1"),
        (vec![row(8.0, 7.0)], 2, vec![], Kind::Same, Trust::Fair, "meets 1 of 1"),
        (vec![row(8.0, 7.0)], 3, vec!["not simulated: w on m: x"], Kind::Same, Trust::Low, "meets 1 of 1"),
        // Nothing can be judged.
        (vec![row(1.0, 7.0)], 3, vec![], Kind::None, Trust::High, "No verdict"),
    ] {
        let card = compare(&rows, seeds, &notes, none());
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{card:?}");
        assert!(card.verdict.text.contains(text), "{card:?}");
        assert_eq!(card.warnings, notes);
    }
    // A sweep of batches is judged by its baselines.
    let errors = json!([{
        "machine": "m", "rows": 2, "simulated": {"change_pct": 1.0, "zone_contention_pct": 9.0},
        "do_nothing": {"change_pct": 2.0, "zone_contention_pct": 2.0}, "line": {"change_pct": 3.0, "zone_contention_pct": 3.0}
    }]);
    let card = compare(&[row(8.0, 7.0)], 3, &[], errors);
    assert!(card.verdict.text.contains("in 1 of 2 cells"), "{card:?}");
    assert_eq!(card.figures[1].value, Some(1.0));
    assert_eq!(card.figures[2].value, Some(8.0));
}

#[test]
fn a_benchmark_is_judged_against_the_floor_and_peers() {
    let measured = |who: &str, pattern: &str, samples: &[f64], discarded: u32| Row {
        who: who.to_owned(),
        pattern: pattern.to_owned(),
        threads: 1,
        ns_per_pair: samples.to_vec(),
        asleep: Vec::new(),
        discarded,
        discarded_samples: Vec::new(),
        not_pinned: 0,
        failed: None,
        ratio_to_floor_b: None,
    };
    let (floor, ours) = (measured("floor b", "hot", &[4.0; 9], 0), measured("pageset", "hot", &[8.0; 9], 0));
    let peer = |ns: f64| measured("peer", "hot", &[ns; 9], 0);
    let bench = |rows: &[&Row]| {
        let machine = MachineFacts { processor: "P".into(), kernel: "K".into(), cpus: 2 };
        let rows = rows.iter().map(|row| (*row).clone()).collect();
        let (schema, window_ns) = ("pageset.bench/1".to_owned(), 1);
        bench::bench(&Report { schema, machine, window_ns, rounds: 9, interrupted: false, rows })
    };
    let (noisy, none) = (measured("pageset", "hot", &[8.0; 9], 1), measured("floor b", "hot", &[], 9));
    for (rows, kind, trust, text) in [
        (vec![&floor, &ours], Kind::Differs, Trust::High, "takes 2.00 times as long as the lowest possible cost"),
        (vec![&floor, &ours, &peer(16.0)], Kind::Same, Trust::High, "the fastest in 1 of 1 figures"),
        (vec![&floor, &ours, &peer(5.0)], Kind::Differs, Trust::High, "the fastest in 0 of 1 figures"),
        (vec![&floor, &noisy], Kind::Differs, Trust::Fair, "2.00 times"),
        // The control has no samples, or is missing.
        (vec![&none, &ours], Kind::None, Trust::Fair, "No verdict"),
        (vec![&ours], Kind::None, Trust::High, "No verdict"),
        (vec![&floor], Kind::None, Trust::Low, "No verdict"),
    ] {
        let card = bench(&rows);
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{card:?}");
        assert!(card.verdict.text.contains(text), "{card:?}");
        if kind != Kind::None {
            assert_eq!(card.figures[0].value, Some(8.0));
        }
    }
}

#[test]
fn looks_without_waits_have_no_verdict() {
    let looks = |looks, moved, wait| looks::Looks {
        looks,
        seconds: 10.0,
        managed: 1000.0,
        held_max: 50.0,
        pages_per_s_max: moved,
        wait_pct_max: wait,
        missing: vec!["m".to_owned()],
    };
    for (seen, kind, trust) in [
        (looks(20, Some(5.0), Some((1.5, 3))), Kind::Differs, Trust::High),
        (looks(20, Some(5.0), Some((0.9, 3))), Kind::Same, Trust::High),
        (looks(5, Some(5.0), Some((0.9, 3))), Kind::Same, Trust::Fair),
        (looks(2, Some(5.0), Some((0.9, 3))), Kind::Same, Trust::Low),
        (looks(20, Some(5.0), None), Kind::None, Trust::Low),
        (looks(20, None, None), Kind::None, Trust::Low),
    ] {
        let card = looks::looks(&seen);
        assert_eq!((card.verdict.kind, card.sure.trust), (kind, trust), "{card:?}");
        assert_eq!((card.figures[2].value, &*card.figures[2].note), (Some(50.0), "5 % of the memory"));
        assert_eq!(card.warnings, ["m"]);
    }
}

#[test]
fn ratios_have_three_digits_at_most() {
    for (value, control, text) in [
        (1.0, 2.0, Some("0.50")),
        (2.0, 2.0, Some("1.00")),
        (25.0, 2.0, Some("12.5")),
        (250_000.0, 2.0, Some("125,000")),
        (0.0, 2.0, Some("0")),
        (0.001, 2.0, Some("less than 0.01")),
        (1.0, 0.0, None),
        (0.0, 0.0, None),
    ] {
        assert_eq!(times(value, control).as_deref(), text, "{value} {control}");
    }
}

#[test]
fn figures_are_compared_with_their_control() {
    let figure = |value, control| Figure::against("most held", value, "pages", ("kernel", control)).note;
    assert_eq!(figure(1500.0, 3000.0), "kernel: 3,000, 0.50 times");
    assert_eq!(figure(3000.0, 3000.0), "as kernel");
    assert_eq!(figure(5.0, 0.0), "kernel: 0");
}

#[test]
fn the_worst_fault_decides_and_all_are_listed() {
    let fault = |found, trust, text: &str| (found, trust, text.to_owned());
    let judged = |fair, low| {
        let sure = trust([fault(fair, Trust::Fair, "few"), fault(low, Trust::Low, "lost")], "all is well");
        (sure.trust, sure.reasons.join("; "))
    };
    assert_eq!(judged(false, false), (Trust::High, "all is well".to_owned()));
    assert_eq!(judged(true, false), (Trust::Fair, "few".to_owned()));
    assert_eq!(judged(true, true), (Trust::Low, "few; lost".to_owned()));
}
