//! `pageset-lab compare --all-tables`: every built-in table: a summary, and each value as CSV or JSON.

use std::collections::HashMap;
use std::fmt::Write as _;

use pageset_sim::compare::page::{BOUNDS, Counts, Page};
use pageset_sim::compare::seen::Seen;
use pageset_sim::compare::{SHIPPED, Table};
use pageset_sim::machine::Machine;

use crate::columns::{numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::options::Effort;

/// Simulates the rows of all built-in tables that have one of `machines` and one of `words`, and prints what they come to. An empty list
/// selects all rows.
pub(super) fn run(machines: &[String], words: &[String], effort: &Effort) -> Result<Exit, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, error);
    let mut tables: Vec<(Table, HashMap<&'static str, Machine>)> = Vec::new();
    for (name, text) in SHIPPED {
        let mut table = Table::parse(name, text).map_err(|error| failed(&error))?;
        // A table without such rows is left out.
        if table.select(machines, words, &[]).is_ok() && !table.rows.is_empty() {
            let machines = table.machines().map_err(|error| failed(&error))?;
            tables.push((table, machines));
        }
    }
    if tables.is_empty() {
        let names = machines.iter().chain(words).map(String::as_str).collect::<Vec<_>>().join(", ");
        let tables: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        return Err(Failure::new(Exit::Usage, format!("no row of {} has all of {names}", tables.join(", "))));
    }
    let batch = Batch::begin(effort)?;
    // All runs together, so that no thread waits for the longest run of a table.
    let how = |workload, machine, tuning, era| effort.compared(workload, machine, tuning, era);
    let runs: Vec<Vec<_>> = tables.iter().map(|(table, machines)| table.runs(machines, &how)).collect();
    let mut outcomes = batch.run(&runs.concat()).into_iter();
    let seeds = effort.of_each().seeds;
    let compared = tables.iter().zip(&runs).map(|((table, _), runs)| {
        let outcomes = outcomes.by_ref().take(runs.len()).collect();
        table.compare(runs, outcomes, seeds)
    });
    let page = Page::new(compared);
    let rows = page
        .tables
        .iter()
        .flat_map(|table| table.values.iter().map(|value| (vec![("table", table.comparison.table.clone())], value)));
    batch.give(&page, |page, _| text(page), rows)
}

/// What the values of each table come to, and how to get the values.
fn text(page: &Page) -> String {
    let (change, points) = BOUNDS;
    let heads = [
        "table",
        "values",
        "nearer than nothing",
        "than the forecast",
        "than all baselines",
        "signs right",
        "shares near",
    ];
    let mut table = numbers(heads.into_iter(), 0..1);
    let mut line = |name: &str, counts: Counts| {
        let of = |part: u32, all: u32| format!("{part} of {all}");
        table.add_row([
            name.to_owned(),
            counts.values.to_string(),
            of(counts.nearer_than_nothing, counts.with_nothing),
            of(counts.nearer_than_forecast, counts.with_forecast),
            of(counts.nearer_than_all, counts.with_any),
            of(counts.right_signs, counts.changes),
            of(counts.near_shares, counts.shares),
        ]);
    };
    for table in &page.tables {
        line(&table.comparison.table, table.counts);
    }
    let all = || page.tables.iter().flat_map(|table| &table.values);
    line("all", Counts::of(all()));
    line("all, unseen values", Counts::of(all().filter(|value| value.seen == Seen::Unseen)));
    let mut text = trimmed(&table);
    for table in &page.tables {
        let [nothing, forecast, both, cells] = table.comparison.cells_won();
        if cells > 0 {
            let _ = writeln!(
                text,
                "\nMean errors of each machine of {}: nearer than doing nothing in {nothing} of {cells} cells, than the line in \
                 {forecast}, than both in {both}",
                table.comparison.table
            );
        }
    }
    let _ = writeln!(
        text,
        "\nnothing: the baseline that repeats the base; forecast: the line in 1/batch, or Amdahl's law\n\
         signs: of published changes above {change} %; shares near: within {points} points\n\
         --csv=FILE writes each value next to its prediction"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexmap::IndexMap;
    use pageset_sim::compare::Kind;
    use serde_json::json;

    #[test]
    fn the_summary_counts_signs_and_shares() {
        let columns = |values: [f64; 2]| ["score", "zone_pct"].into_iter().zip(values).collect::<IndexMap<_, _>>();
        let row = json!({
            "state": "m", "tasks": 63,
            "kinds": { "score": Kind::Amount, "zone_pct": Kind::Share },
            "published": columns([11_000.0, 40.0]),
            "simulated": columns([10_500.0, 51.0]),
            "deviation": columns([0.0; 2]),
            "do_nothing": columns([10_000.0, 50.0]),
            "simulations": [],
        });
        let comparison = json!({
            "schema": "s", "table": "mine.csv", "measured_ns": 2_000_000_000_u64, "warm_up_ns": 500_000_000, "seeds": [1],
            "rows": [row],
        });
        let page = Page::new([serde_json::from_value(comparison).expect("a comparison")].into_iter());
        let text = text(&page);
        let words: Vec<&str> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(words.join(" "), "mine.csv 2 1 of 2 0 of 0 1 of 2 1 of 1 0 of 1", "{text}");
        assert!(text.contains("all, unseen values") && text.contains("changes above 3 %"), "{text}");
    }
}
