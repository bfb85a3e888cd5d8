//! The result of `pageset run` as text.

use pageset_sim::run::RunResult;
use pageset_sim::statistics::Spread;

use crate::columns::{grouped, numbers, spread_pct, trimmed};

/// A line that describes the run, and the table below it.
pub(super) fn text(result: &RunResult) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let text = format!(
        "{} on {} ({}), {} s after {} s, seeds 1 to {}\n\n",
        result.workload,
        result.machine,
        result.about,
        seconds(result.measured_ns),
        seconds(result.warm_up_ns),
        result.seeds
    );
    let unit = format!("{} a second", result.unit);
    let mut heads = vec!["rules", "era", "tasks", "seeds", &unit, "spread %", "zone lock %", "LRU lock %"];
    heads.extend(["alloc p50 ns", "p99", "p99.9", "max"]);
    let second_unit = result.second_unit.as_ref().map(|unit| format!("{unit} a second"));
    heads.extend(second_unit.as_deref());
    let mut table = numbers(heads.into_iter(), 0..2);
    for row in &result.rows {
        let mut cells =
            vec![row.rules.clone(), row.era.to_string(), row.tasks.to_string(), row.samples.len().to_string()];
        match (row.score, row.alloc_ns) {
            (Some(score), Some(alloc)) => {
                cells.push(grouped(score.mean.round() as u64));
                cells.push(spread_pct(score.deviation, score.mean));
                let pct = |spread: Option<Spread>| format!("{:.1}", spread.map_or(0.0, |spread| spread.mean));
                cells.extend([row.zone_lock_pct, row.lru_lock_pct].map(pct));
                cells.extend([alloc.p50, alloc.p99, alloc.p999, alloc.max].map(grouped));
                cells.extend(row.second_score.map(|second| grouped(second.mean.round() as u64)));
            }
            _ => cells.push("not run".to_owned()),
        }
        table.add_row(cells);
    }
    text + &trimmed(&table)
}
