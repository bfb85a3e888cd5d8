//! `pageset-lab compare --all-tables`: every built-in table, on one page of Markdown.

use std::collections::HashMap;
use std::fmt::Write as _;

use pageset_sim::compare::page::{BOUNDS, Counts, Page, PageTable};
use pageset_sim::compare::result::{CompareRow, Effect, SMALLEST_SIGN_PCT, Verdict};
use pageset_sim::compare::seen::Seen;
use pageset_sim::compare::{Kind, SHIPPED, Table};
use pageset_sim::machine::Machine;

use crate::columns::grouped;
use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::options::Beside;

/// Simulates the rows of all built-in tables that have one of `machines` and one of `words`, and writes the page. An empty list
/// selects all rows.
pub(super) fn run(machines: &[String], words: &[String], beside: &Beside) -> Result<Exit, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, error);
    let mut tables: Vec<(Table, HashMap<&'static str, Machine>)> = Vec::new();
    for (name, text) in SHIPPED {
        let mut table = Table::parse(name, text).map_err(|error| failed(&error))?;
        // A table without such rows is not on the page.
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
    let batch = Batch::begin(&beside.effort)?;
    // All runs together, so that no thread waits for the longest run of a table.
    let how = |workload, machine, tuning, era| beside.run(workload, machine, tuning, era);
    let runs: Vec<Vec<_>> = tables.iter().map(|(table, machines)| table.runs(machines, &how)).collect();
    let mut outcomes = batch.run(&runs.concat()).into_iter();
    let seeds = beside.effort.of_each().seeds;
    let compared = tables.iter().zip(&runs).map(|((table, _), runs)| {
        let outcomes = outcomes.by_ref().take(runs.len()).collect();
        table.compare(runs, outcomes, seeds)
    });
    let page = Page::new(compared);
    let rows = page
        .tables
        .iter()
        .flat_map(|table| table.values.iter().map(|value| (vec![("table", table.comparison.table.clone())], value)));
    let chosen = machines
        .iter()
        .map(|name| format!(" --machine {name}"))
        .chain(words.iter().map(|word| format!(" --row {word}")));
    let options = beside.as_options() + &chosen.collect::<String>();
    batch.give(&page, |page, _| markdown(page, &options), rows)
}

/// The mark of a row with a simulation that has not settled.
const UNSETTLED: &str = "~";

/// The page.
fn markdown(page: &Page, options: &str) -> String {
    let (change, points) = BOUNDS;
    let seeds = page.tables.first().map_or(0, |table| table.comparison.seeds.len());
    let over = if seeds > 1 {
        "over the seeds, or over time where only one has ended"
    } else {
        "over time, of scores, their changes and shares of time"
    };
    let mut text = format!(
        "# All published tables, next to predictions\n\n\
         Written by `pageset-lab compare --all-tables {options}`. Do not edit it. Every built-in table runs with \
         the shipped machines. [accuracy.md](accuracy.md) says how the machines were fitted: in runs of up to 9 s, so a fitted score may be \
         some percent off in shorter ones.\n\n\
         A value is *published / predicted*, with half the width of the 95 % interval behind ±: {over}. **Bold** misses: a \
         predicted change that has the wrong sign or is below {SMALLEST_SIGN_PCT} %, where the published one is above {change} %; or a \
         share off by more than {points} points. `{UNSETTLED}` marks rows with a simulation that has not settled: with more time its means may move by more than the interval. The last column says what \
         the model had seen of the row's values:\n\n\
         | word | what had been seen |\n| --- | --- |\n\
         | base | the base of the changes: equal by definition, counted nowhere |\n\
         | fitted | the machine's one number was fitted to this value, so it is compared with no baseline |\n\
         | shared | costs of all machines were set on this value and those of other machines |\n\
         | chosen | a constant or a part of the model was chosen with this value in sight |\n\
         | unseen | nothing |\n\n\
         *Nothing* is the baseline that repeats the base. *Forecast* is the line in 1/batch or Amdahl's law, which know one row more \
         than the simulator. A value is not compared with a baseline that has it by definition.\n\n## In short\n\n"
    );
    text += &short(page);
    for table in &page.tables {
        text += &of_table(table);
    }
    text
}

/// What all tables come to.
fn short(page: &Page) -> String {
    let mut text = "| table | values | nearer than nothing | than the forecast | than all baselines | signs right | shares near |\n\
                    | --- | --: | --: | --: | --: | --: | --: |\n"
        .to_owned();
    let mut line = |name: &str, counts: Counts| {
        let Counts { values, with_nothing, with_forecast, with_any, changes, shares, .. } = counts;
        let _ = writeln!(
            text,
            "| {name} | {values} | {} of {with_nothing} | {} of {with_forecast} | {} of {with_any} | {} of {changes} | {} of {shares} |",
            counts.nearer_than_nothing,
            counts.nearer_than_forecast,
            counts.nearer_than_all,
            counts.right_signs,
            counts.near_shares,
        );
    };
    for table in &page.tables {
        line(&table.comparison.table, table.counts);
    }
    line("**all**", Counts::sum(page.tables.iter().map(|table| table.counts)));
    line("all, unseen values", Counts::sum(page.tables.iter().map(|table| table.unseen)));
    for table in &page.tables {
        if let Some([nothing, forecast, both, cells]) = table.cells_won() {
            let _ = writeln!(
                text,
                "\nMean errors of each machine of {} (its cells): nearer than doing nothing in {nothing} of {cells}, than the \
                 line in {forecast}, than both in {both}.",
                table.comparison.table
            );
        }
    }
    text
}

/// A table: a line for each row, and the mean errors of each column.
fn of_table(table: &PageTable) -> String {
    let result = &table.comparison;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut text = format!(
        "\n## {}\n\nSimulations of up to {} s, each after the warm-up of its workload, at most {} s, or to the end of the work.\n\n",
        result.table,
        seconds(result.measured_ns),
        seconds(result.warm_up_ns)
    );
    let keys: Vec<&str> =
        result.rows.first().map(|row| row.keys.keys().map(String::as_str).collect()).unwrap_or_default();
    let mut columns: Vec<&str> = Vec::new();
    for (column, _) in result.rows.iter().flat_map(CompareRow::effects) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let heads: Vec<&str> = keys.iter().copied().chain(columns.iter().copied()).chain(["seen"]).collect();
    let rules: Vec<&str> = keys.iter().map(|_| "---").chain(columns.iter().map(|_| "--:")).chain(["---"]).collect();
    let _ = writeln!(text, "| {} |\n| {} |", heads.join(" | "), rules.join(" | "));
    let mut values = table.values.iter().peekable();
    for row in &result.rows {
        let mut cells: Vec<String> = row.keys.values().map(ToString::to_string).collect();
        if let (true, Some(last)) = (row.is_unsettled(), cells.last_mut()) {
            *last += &format!(" {UNSETTLED}");
        }
        let mut seen: Vec<Seen> = Vec::new();
        for column in &columns {
            let Some(effect) = row.effect(column) else {
                cells.push(String::new());
                continue;
            };
            // The values have the order of rows and columns; values that were not published are missing.
            let judged = effect.published.and_then(|_| values.next());
            let interval = judged.and_then(|judged| judged.interval);
            cells.push(cell(&effect, interval));
            seen.extend(judged.map(|judged| judged.seen));
        }
        seen.sort_unstable();
        seen.dedup();
        cells.push(seen.into_iter().map(Seen::name).collect::<Vec<_>>().join(", "));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text += &errors(table, &columns);
    for note in &result.notes {
        let _ = write!(text, "\n* {note}");
    }
    if !result.notes.is_empty() {
        text.push('\n');
    }
    text
}

/// A published and a predicted value.
fn cell(effect: &Effect, interval: Option<f64>) -> String {
    let published = effect.published.map_or_else(|| "-".to_owned(), |value| number(effect.kind, value));
    let predicted = number(effect.kind, effect.simulated.mean);
    let within =
        interval.map(|width| format!(" ± {}", number(effect.kind, width).trim_start_matches('+'))).unwrap_or_default();
    match effect.verdict() {
        Verdict::Misses => format!("{published} / **{predicted}**{within}"),
        Verdict::Holds | Verdict::Open => format!("{published} / {predicted}{within}"),
    }
}

/// The mean absolute error of each column next to those of the baselines: of amounts in per cent of the published value, of shares
/// and changes in points.
fn errors(table: &PageTable, columns: &[&str]) -> String {
    let mut text = "\nMean absolute errors of values that are no base, of amounts in percent, of shares and changes in points. Those of a baseline leave out what it has by definition:\n\n\
                    | column | values | predicted | nothing | forecast |\n| --- | --: | --: | --: | --: |\n"
        .to_owned();
    for column in columns {
        let values: Vec<_> =
            table.values.iter().filter(|value| value.column == *column && value.seen != Seen::Base).collect();
        if values.is_empty() {
            continue;
        }
        let mean = |of: &dyn Fn(&pageset_sim::compare::page::Judged) -> Option<f64>| {
            let errors: Vec<f64> = values
                .iter()
                .filter_map(|value| {
                    let off = (of(value)? - value.published).abs();
                    let scale = if value.kind == Kind::Amount { 100.0 / value.published.abs() } else { 1.0 };
                    Some(off * scale).filter(|error| error.is_finite())
                })
                .collect();
            if errors.is_empty() {
                "-".to_owned()
            } else {
                format!("{:.1}", errors.iter().sum::<f64>() / errors.len() as f64)
            }
        };
        let _ = writeln!(
            text,
            "| {column} | {} | {} | {} | {} |",
            values.len(),
            mean(&|value| Some(value.predicted)),
            mean(&|value| value.do_nothing),
            mean(&|value| value.forecast),
        );
    }
    text
}

/// A number with as many digits as its kind needs.
fn number(kind: Kind, value: f64) -> String {
    match kind {
        Kind::Amount if value.abs() >= 1000.0 => grouped(value.round() as u64),
        Kind::Amount if value.abs() >= 10.0 => format!("{value:.1}"),
        Kind::Amount => format!("{value:.3}"),
        Kind::Share => format!("{value:.1}"),
        // A rounded zero has no sign.
        Kind::Change => format!("{value:+.1}").replace("+0.0", "0.0").replace("-0.0", "0.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexmap::IndexMap;
    use serde_json::json;

    /// The lines of a page of one table, whose only row has these values of an amount and a share.
    fn page(published: [Option<f64>; 2], simulated: [f64; 2], settled: bool) -> String {
        let columns = |values: [Option<f64>; 2]| -> IndexMap<_, _> {
            let named = ["score", "zone_pct"].into_iter().zip(values);
            named.filter_map(|(name, value)| Some((name, value?))).collect()
        };
        let figures = json!({ "score_pct": 1.0, "zone_points": 0.5, "lru_points": 0.5 });
        let steady =
            json!({ "warm_up_ns": 0, "measured_ns": 1, "interval": figures, "drift": figures, "settled": settled });
        let row = json!({
            "state": "m", "tasks": 63,
            "kinds": { "score": Kind::Amount, "zone_pct": Kind::Share },
            "published": columns(published),
            "simulated": columns(simulated.map(Some)),
            "deviation": { "score": 0.0, "zone_pct": 0.0 },
            "interval": { "score": 1_234.0, "zone_pct": 0.7 },
            "do_nothing": { "score": 10_000.0, "zone_pct": 50.0 },
            "simulations": [{
                "machine": "m", "workload": "page_fault1", "tasks": 4, "seeds": [1], "warm_up_ns": 0, "measured_ns": [1],
                "steadiness": [steady], "one_node_for_all": true,
            }],
        });
        let comparison = json!({
            "schema": "s", "table": "mine.csv", "measured_ns": 2_000_000_000_u64, "warm_up_ns": 500_000_000, "seeds": [1],
            "rows": [row],
        });
        markdown(&Page::new([serde_json::from_value(comparison).expect("a comparison")].into_iter()), "--seeds 1")
    }

    #[test]
    fn hand_made_rows_become_the_lines_of_the_page() {
        for (published, simulated, settled, line) in [
            (
                [Some(11_000.0), Some(40.0)],
                [10_500.0, 35.0],
                true,
                "| m | 63 | 11,000 / 10,500 ± 1,234 | 40.0 / 35.0 ± 0.7 | unseen |",
            ),
            // A wrong sign, a share that is 11 points off, and a run that has not settled.
            (
                [Some(11_000.0), Some(40.0)],
                [9_500.0, 51.0],
                false,
                "| m | 63 ~ | 11,000 / **9,500** ± 1,234 | 40.0 / **51.0** ± 0.7 | unseen |",
            ),
            // A value that was not published takes no other value's interval or word.
            ([None, Some(40.0)], [9_500.0, 35.0], true, "| m | 63 | - / 9,500 | 40.0 / 35.0 ± 0.7 | unseen |"),
            ([None, None], [9_500.0, 35.0], true, "| m | 63 | - / 9,500 | - / 35.0 |  |"),
        ] {
            let page = page(published, simulated, settled);
            assert!(page.contains(line), "{line}\nis not in\n{page}");
        }
    }

    #[test]
    fn the_summary_counts_signs_and_shares() {
        let page = page([Some(11_000.0), Some(40.0)], [10_500.0, 51.0], true);
        assert!(page.contains("| mine.csv | 2 | 1 of 2 | 0 of 0 | 1 of 2 | 1 of 1 | 0 of 1 |"), "{page}");
        assert!(page.contains("| score | 1 | 4.5 | 9.1 | - |"), "10,500 and 10,000 instead of 11,000\n{page}");
        assert!(
            page.contains("Simulations of up to 2 s, each after the warm-up of its workload, at most 0.5 s"),
            "{page}"
        );
        assert!(page.contains("Written by `pageset-lab compare --all-tables --seeds 1`."), "{page}");
        assert!(page.contains("has the wrong sign or is below 0.05 %"), "{page}");
    }

    #[test]
    fn a_rounded_zero_has_no_sign() {
        let texts = [-0.06, -0.04, 0.0, 0.04, 0.06].map(|value| number(Kind::Change, value));
        assert_eq!(texts, ["-0.1", "0.0", "0.0", "0.0", "+0.1"]);
    }
}
