//! The cards by tables: what each input says, and when there is no verdict.

use pageset_bench::report::{MachineFacts, Report, Row};
use pageset_report::page::card::Trust;
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
        // One seed does not tell a difference from noise.
        (vec![row("old", 4, &[100.0]), row("new", 4, &[150.0])], Kind::None, Trust::Low, "No verdict"),
        // Two standard errors apart, and less than three seeds of so different noise can tell.
        (
            vec![row("old", 4, &[99.0, 100.0, 101.0]), row("new", 4, &[104.0, 110.0, 116.0])],
            Kind::Same,
            Trust::Fair,
            "beyond the spread of the seeds",
        ),
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
    // A study of one seed has no winner in large type.
    let single = simulated("a", SECOND, &[row("old", 4, &[100.0]), row("new", 4, &[102.0])]);
    let verdict = simulation::study(&[single.clone(), single]).verdict;
    assert_eq!(verdict.kind, Kind::None);
    assert!(verdict.why.contains("1.02 times the work of old on average; one seed does not tell"), "{verdict:?}");
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
