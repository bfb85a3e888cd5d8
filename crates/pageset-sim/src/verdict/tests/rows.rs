//! Results that do not exist, for the tests of verdicts and of the cards that show them.

use pageset_statistics::Spread;
use serde_json::{Value, json};

use super::RunResult;

/// A row of a simulation: the score of each seed.
pub(super) fn row(rules: &str, tasks: u32, scores: &[f64]) -> Value {
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

pub(super) fn simulated(machine: &str, measured_ns: u64, rows: &[Value]) -> RunResult {
    serde_json::from_value(json!({
        "schema": "pageset.run/1", "workload": "w", "unit": "pages", "machine": machine, "measured_ns": measured_ns,
        "warm_up_ns": 0, "seeds": 3, "rows": rows
    }))
    .unwrap()
}

pub(super) const SECOND: u64 = 1_000_000_000;
