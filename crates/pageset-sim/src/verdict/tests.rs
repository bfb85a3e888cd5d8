//! The verdicts by tables: what each result says, and when there is no verdict.

use pageset_statistics::Spread;
use serde_json::{Value, json};

use super::*;

/// A row of a simulation: the score of each seed.
fn row(rules: &str, tasks: u32, scores: &[f64]) -> Value {
    let spread = Spread::of(scores);
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

fn simulated(machine: &str, measured_ns: u64, rows: &[Value]) -> RunResult {
    serde_json::from_value(json!({
        "schema": "pageset.run/1", "workload": "w", "unit": "pages", "machine": machine, "measured_ns": measured_ns,
        "warm_up_ns": 0, "seeds": 3, "rows": rows
    }))
    .unwrap()
}

const SECOND: u64 = 1_000_000_000;

/// The trust that all weaknesses leave.
fn trust(found: Vec<Weakness>) -> Trust {
    found.into_iter().map(Weakness::trust).min().unwrap_or(Trust::High)
}

fn new(rows: &[Value]) -> RunResult {
    simulated("m", SECOND, rows)
}

#[test]
fn a_run_is_judged_against_its_first_row() {
    let base = row("old", 4, &[100.0, 101.0, 99.0]);
    let (better, worse) = (row("new", 4, &[150.0, 151.0, 149.0]), row("new", 4, &[80.0, 81.0, 79.0]));
    for (rows, kind, trusted) in [
        (vec![base.clone(), better], Kind::Differs, Trust::Fair),
        (vec![base.clone(), worse.clone()], Kind::Same, Trust::Fair),
        // Within the spread of the seeds.
        (vec![base.clone(), row("new", 4, &[140.0, 70.0, 100.0])], Kind::Same, Trust::Fair),
        // The rows with the most tasks decide.
        (vec![row("old", 1, &[9.0; 3]), base.clone(), row("new", 1, &[90.0; 3]), worse], Kind::Same, Trust::Fair),
        (vec![base.clone(), row("old", 8, &[150.0; 3])], Kind::Differs, Trust::Fair),
        (vec![base.clone()], Kind::Same, Trust::Fair),
        // The control has no result.
        (vec![row("old", 4, &[]), row("new", 4, &[150.0; 3])], Kind::None, Trust::Fair),
        // One seed does not tell a difference from noise.
        (vec![row("old", 4, &[100.0]), row("new", 4, &[150.0])], Kind::None, Trust::Low),
        // Two standard errors apart, and less than three seeds of so different noise can tell.
        (vec![row("old", 4, &[99.0, 100.0, 101.0]), row("new", 4, &[104.0, 110.0, 116.0])], Kind::Same, Trust::Fair),
        (vec![], Kind::None, Trust::Low),
    ] {
        let result = new(&rows);
        let judged = OfRun::of(&result);
        assert_eq!(
            (judged.kind(), trust(Weakness::of_runs(std::slice::from_ref(&result)))),
            (kind, trusted),
            "{judged:?}"
        );
    }
    let mut drifts = new(&[base.clone(), base.clone()]);
    drifts.rows[1].settled = Some(false);
    let found = Weakness::of_runs(&[drifts]);
    assert_eq!((found[0].to_string().as_str(), trust(found)), ("1 row has not settled", Trust::Low));
    let short = simulated("m", SECOND / 10, &[base, row("new", 4, &[150.0, 150.0])]);
    let unfinished: Vec<_> = unfinished(&short).map(|(row, ended)| (row.rules.as_str(), ended)).collect();
    assert_eq!(unfinished, [("new", 2)]);
    let found = Weakness::of_runs(&[short]);
    assert_eq!(found, [Weakness::FewSeeds(2), Weakness::Short(SECOND / 10), Weakness::Simulated]);
    assert_eq!(found[1].to_string(), "only 0.1 s were measured: a longer run may differ");
}

#[test]
fn a_study_counts_its_cells() {
    let on = |new: &[f64]| simulated("m", SECOND, &[row("old", 4, &[100.0, 101.0, 99.0]), row("new", 4, new)]);
    let results = [on(&[200.0, 201.0, 199.0]), on(&[50.0, 51.0, 49.0]), on(&[100.0, 99.0, 101.0])];
    let judged = OfStudy::of(&results);
    let (name, ratio) = judged.best.unwrap();
    assert!(name == "new" && (ratio - 1.0).abs() < 1e-9, "{judged:?}");
    assert_eq!((judged.kind(), judged.control, judged.cells.len()), (Kind::Differs, "old", 3));
    assert_eq!([Compared::Higher, Compared::Lower, Compared::Noise].map(|differs| judged.count(differs)), [1, 1, 1]);
    let same = [on(&[100.0, 99.0, 101.0])];
    assert_eq!(OfStudy::of(&same).kind(), Kind::Same);
    // Without another set of rules there is no verdict, and a study of one seed has no winner.
    assert_eq!(OfStudy::of(&[simulated("a", SECOND, &[row("old", 4, &[1.0])])]).kind(), Kind::None);
    let single = [simulated("a", SECOND, &[row("old", 4, &[100.0]), row("new", 4, &[102.0])])];
    assert_eq!(OfStudy::of(&single).kind(), Kind::None);
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
    let compare = |rows: &[Value], seeds: u64, notes: &[&str], errors: Value| -> CompareResult {
        let result = json!({
            "schema": "pageset.compare/1", "table": "t", "measured_ns": SECOND, "warm_up_ns": 0,
            "seeds": (1..=seeds).collect::<Vec<_>>(), "rows": rows, "notes": notes, "mean_absolute_errors": errors
        });
        serde_json::from_value(result).unwrap()
    };
    for (rows, seeds, notes, kind, trusted, met) in [
        (vec![row(8.0, 7.0), row(-8.0, -1.0)], 3, vec![], Kind::Same, Trust::High, (2, 0)),
        (vec![row(8.0, 7.0), row(-8.0, 1.0)], 3, vec![], Kind::Differs, Trust::High, (1, 1)),
        (vec![row(8.0, -7.0), row(1.0, 1.0)], 3, vec![], Kind::Differs, Trust::Low, (0, 1)),
        (vec![row(8.0, 7.0)], 1, vec![], Kind::Same, Trust::Low, (1, 0)),
        (vec![row(8.0, 7.0)], 2, vec![], Kind::Same, Trust::Fair, (1, 0)),
        (vec![row(8.0, 7.0)], 3, vec!["not simulated: w on m: x"], Kind::Same, Trust::Low, (1, 0)),
        // Nothing can be judged.
        (vec![row(1.0, 7.0)], 3, vec![], Kind::None, Trust::High, (0, 0)),
    ] {
        let result = compare(&rows, seeds, &notes, json!([]));
        let judged = OfComparison::of(&result);
        let weak = trust(Weakness::of_comparison(&result));
        assert_eq!((judged.kind(), weak, (judged.holds, judged.misses)), (kind, trusted, met), "{judged:?}");
    }
    // A sweep of batches is judged by its baselines.
    let errors = |simulated: f64| {
        json!([{
            "machine": "m", "rows": 2, "simulated": {"change_pct": 1.0, "zone_contention_pct": simulated},
            "do_nothing": {"change_pct": 2.0, "zone_contention_pct": 2.0},
            "line": {"change_pct": 3.0, "zone_contention_pct": 3.0}
        }])
    };
    for (simulated, won, kind) in [(9.0, 1, Kind::Differs), (1.0, 2, Kind::Same)] {
        let judged = OfComparison::of(&compare(&[row(8.0, 7.0)], 3, &[], errors(simulated)));
        assert_eq!((judged.cells, judged.won, judged.kind()), (2, won, kind));
        assert_eq!((judged.error, judged.error_of_base), (Some(1.0), Some(8.0)));
    }
}
