//! The result of `pageset-lab sim` as text.

use pageset_sim::run::RunResult;
use pageset_sim::time::Time;
use pageset_sim::workload::Length;
use pageset_statistics::Spread;

use crate::columns::{Fit, grouped, numbers, spread_pct};
use crate::report_cmd::card;
use crate::sim::options::{described, unsettled};

/// The importance of the columns: those with the largest number leave first.
const RANKS: [usize; 16] = [0, 12, 3, 13, 0, 6, 4, 1, 5, 2, 5, 9, 8, 10, 11, 7];

fn time(ns: u64) -> Time {
    Time::from_ns(ns as f64)
}

/// The verdict, a line that describes the run, the table below it, and the runs that have not settled.
pub(super) fn text(result: &RunResult, fit: Fit) -> String {
    let length = Length { warm_up: time(result.warm_up_ns), time: time(result.measured_ns) };
    let how = described(Some(length), result.precision_pct, result.seeds as usize);
    let answer = card::simulation::run(result).answer();
    let text = format!("{answer}\n{} on {} ({}), {how}\n\n", result.workload, result.machine, result.about);
    let unit = format!("{} a second", result.unit);
    let mut heads =
        vec!["rules", "era", "tasks", "seeds", &unit, "spread %", "+- %", "zone lock %", "+-", "LRU lock %", "+-"];
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
                let width = |width: Option<f64>| match width {
                    Some(width) if width.is_finite() => format!("{width:.1}"),
                    _ => "-".to_owned(),
                };
                cells.push(width(row.interval.map(|figures| figures.score_pct)));
                cells.extend(row.waits().iter().flat_map(|wait| [pct(wait.pct), width(wait.points)]));
                cells.extend(alloc.all().map(grouped));
                cells.extend(row.second_score.map(|second| grouped(second.mean.round() as u64)));
            }
            _ => cells.push("not run".to_owned()),
        }
        table.add_row(cells);
    }
    let named = result.rows.iter().flat_map(|row| {
        let name = |seed: u64| format!("{}, {} tasks, seed {seed}", row.rules, row.tasks);
        row.samples.iter().filter_map(move |sample| Some((name(sample.seed), sample.steadiness.as_ref()?)))
    });
    let named: Vec<_> = named.collect();
    let unsettled = unsettled(named.iter().map(|(name, found)| (name.as_str(), *found)));
    fit.prose(&text) + &fit.table(table, &RANKS) + &fit.prose(&unsettled)
}
