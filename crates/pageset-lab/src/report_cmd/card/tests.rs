//! The cards show what the libraries judge: a text for each verdict.

use pageset_bench::report::{MachineFacts, Report, Row};
use pageset_report::page::card::{Kind, Trust};
use pageset_sim::run::RunResult;
use serde_json::json;

use super::*;

/// A row of a simulation: the score of each seed.
fn row(rules: &str, tasks: u32, scores: &[f64]) -> serde_json::Value {
    let spread = pageset_statistics::Spread::of(scores);
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
fn a_run_has_a_sentence_for_each_verdict() {
    let base = row("old", 4, &[100.0, 101.0, 99.0]);
    for (rows, kind, text) in [
        (
            vec![base.clone(), row("new", 4, &[150.0, 151.0, 149.0])],
            Kind::Differs,
            "new does 1.50 times the work of old",
        ),
        (vec![base.clone(), row("new", 4, &[80.0, 81.0, 79.0])], Kind::Same, "No other row does more work than old"),
        (vec![base.clone(), row("new", 4, &[140.0, 70.0, 100.0])], Kind::Same, "beyond the spread of the seeds"),
        (
            vec![base.clone(), row("old", 8, &[150.0; 3])],
            Kind::Differs,
            "old does 1.50 times the work with 2 times the tasks",
        ),
        (vec![base.clone()], Kind::Same, "old on 4 tasks waits 100 % of its time"),
        (vec![row("old", 4, &[]), row("new", 4, &[150.0; 3])], Kind::None, "No verdict"),
        (vec![row("old", 4, &[100.0]), row("new", 4, &[150.0])], Kind::None, "No verdict"),
        (vec![], Kind::None, "No verdict"),
    ] {
        let card = simulation::run(&simulated("m", SECOND, &rows));
        assert_eq!(card.verdict.kind, kind, "{card:?}");
        assert!(card.verdict.text.contains(text), "{card:?}");
    }
    // A short measurement is a reason, and a seed that has not ended a warning.
    let card = simulation::run(&simulated("m", SECOND / 10, &[base, row("new", 4, &[150.0, 150.0])]));
    assert_eq!(card.sure.trust, Trust::Fair);
    assert!(card.sure.reasons.iter().any(|reason| reason.contains("only 0.1 s were measured")), "{card:?}");
    assert_eq!(card.warnings, ["new, 4 tasks: only 2 of 3 seeds have ended"]);
}

/// What an allocation from a list costs is an input: the card says that most allocations need nothing from the zone.
#[test]
fn a_hit_in_the_pageset_is_no_figure() {
    let with = |rules: &str, p99: u64| {
        let mut row = row(rules, 4, &[100.0, 101.0, 99.0]);
        row["alloc_ns"] = json!({"p50": 1, "p99": p99, "p999": 9000, "max": 10_000});
        row
    };
    let third = |old: u64, new: u64| {
        let card = simulation::run(&simulated("m", SECOND, &[with("old", old), with("new", new)]));
        let [_, _, third] = card.figures;
        (third.value, third.note)
    };
    let found = "found in the pageset, without the zone; old: at most 8,831 ns";
    assert_eq!(third(8831, 1), (None, found.to_owned()));
    assert_eq!(third(1, 8831).0, Some(8831.0));
}

#[test]
fn a_study_shows_its_cells() {
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
    // A study of one seed has no winner in large type.
    let single = simulated("a", SECOND, &[row("old", 4, &[100.0]), row("new", 4, &[102.0])]);
    let verdict = simulation::study(&[single.clone(), single]).verdict;
    assert_eq!(verdict.kind, Kind::None);
    assert!(verdict.why.contains("1.02 times the work of old on average; one seed does not tell"), "{verdict:?}");
}

#[test]
fn a_comparison_shows_what_is_met() {
    let column = |change: f64| json!({"change_pct": change});
    let card = |published: f64, errors: serde_json::Value| {
        let row = json!({
            "batch": 63, "kinds": {"change_pct": "change"}, "published": column(published), "simulated": column(7.0),
            "deviation": column(0.1), "do_nothing": column(0.0), "simulations": []
        });
        let result = json!({
            "schema": "pageset.compare/1", "table": "t", "measured_ns": SECOND, "warm_up_ns": 0, "seeds": [1, 2, 3],
            "rows": [row], "notes": ["n"], "mean_absolute_errors": errors
        });
        compare::compare(&serde_json::from_value(result).unwrap())
    };
    let errors = json!([{
        "machine": "m", "rows": 2, "simulated": {"change_pct": 1.0, "zone_contention_pct": 9.0},
        "do_nothing": {"change_pct": 2.0, "zone_contention_pct": 2.0}, "line": {"change_pct": 3.0, "zone_contention_pct": 3.0}
    }]);
    for (published, errors, text) in [
        (8.0, json!([]), "meets 1 of 1 published effects"),
        (1.0, json!([]), "No verdict"),
        (8.0, errors, "in 1 of 2 cells"),
    ] {
        let card = card(published, errors);
        assert!(card.verdict.text.contains(text), "{card:?}");
        assert_eq!(card.warnings, ["n"]);
    }
}

#[test]
fn a_benchmark_has_a_sentence_for_each_verdict() {
    let measured = |who: &str, ns: f64| Row {
        who: who.to_owned(),
        pattern: "hot".to_owned(),
        threads: 1,
        ns_per_pair: vec![ns; 9],
        asleep: Vec::new(),
        discarded: 0,
        discarded_samples: Vec::new(),
        not_pinned: 0,
        failed: None,
        ratio_to_floor_b: None,
    };
    let [floor, ours, slow, fast] =
        [("floor b", 4.0), ("pageset", 8.0), ("peer", 16.0), ("peer", 5.0)].map(|(who, ns)| measured(who, ns));
    for (rows, text) in [
        (vec![&floor, &ours], "takes 2.00 times as long as the lowest possible cost"),
        (vec![&floor, &ours, &slow], "the fastest in 1 of 1 figures"),
        (vec![&floor, &ours, &fast], "the fastest in 0 of 1 figures"),
        (vec![&ours], "No verdict"),
        (vec![&floor], "No verdict"),
    ] {
        let machine = MachineFacts { processor: "P".into(), kernel: "K".into(), cpus: 2 };
        let rows = rows.into_iter().cloned().collect();
        let schema = "pageset.bench/1".to_owned();
        let card = bench::bench(&Report { schema, machine, window_ns: 1, rounds: 9, interrupted: false, rows });
        assert!(card.verdict.text.contains(text), "{card:?}");
        assert!(text == "No verdict" || card.figures[0].value == Some(8.0), "{card:?}");
    }
}
