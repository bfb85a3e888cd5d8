//! The result of `pageset-lab compare` as text: the verdict, a line that describes the simulations, and a table for each layout.

use std::fmt::Write as _;

use comfy_table::Table;
use pageset_sim::compare::result::{CompareResult, Effect, JUDGED, NEAR_POINTS, SMALL_CHANGE_PCT};
use pageset_sim::compare::{Kind, Layout};
use pageset_sim::era::Era;
use pageset_sim::run::SteadinessOf;
use pageset_sim::time::Time;
use pageset_sim::workload::Length;

use crate::columns::{Fit, grouped, numbers, spread_pct, trimmed};
use crate::report_cmd::card;
use crate::sim::options::{described, unsettled};

/// The whole text. Of the table of rows, the columns that do not fit leave.
pub(super) fn text(result: &CompareResult, fit: Fit) -> String {
    let body = match result.layout {
        Layout::BatchSweep => batch_sweep(result, fit),
        Layout::Tasks => tasks(result, fit),
        Layout::Effects => effects(result, fit),
    };
    let mut text = fit.prose(&(card::compare::compare(result).answer() + "\n" + &head(result))) + &body;
    text += &fit.prose(&unsettled_rows(result));
    for note in &result.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// A line for each simulation that has not settled.
fn unsettled_rows(result: &CompareResult) -> String {
    let mut named: Vec<(String, &SteadinessOf)> = Vec::new();
    for row in &result.rows {
        let keys: Vec<String> = row.keys.values().map(ToString::to_string).collect();
        for simulation in &row.simulations {
            for (seed, found) in simulation.seeds.iter().zip(&simulation.steadiness) {
                // A base belongs to many rows.
                if !named.iter().any(|(_, known)| std::ptr::eq(*known, found) || *known == found) {
                    named.push((format!("{} ({}, seed {seed})", keys.join(", "), simulation.workload), found));
                }
            }
        }
    }
    unsettled(named.iter().map(|(name, found)| (name.as_str(), *found)))
}

/// The line that describes the simulations.
fn head(result: &CompareResult) -> String {
    let time = |ns: u64| Time::from_ns(ns as f64);
    let mut lengths: Vec<Option<Length>> = Vec::new();
    let mut eras: Vec<Era> = Vec::new();
    for simulation in result.simulations() {
        let warm_up = time(simulation.warm_up_ns);
        lengths.push(simulation.length_ns.map(|ns| Length { warm_up, time: time(ns) }));
        eras.push(simulation.era);
    }
    lengths.dedup();
    eras.sort_unstable();
    eras.dedup();
    let length = lengths[..].first().copied().flatten().filter(|_| lengths.len() == 1);
    let eras: Vec<&str> = eras.into_iter().map(Era::name).collect();
    let described = described(length, result.precision_pct, result.seeds.len());
    format!("{}, {described}, era {}\n", result.table, eras.join(", "))
}

/// Each row with its columns side by side, and the mean errors.
fn batch_sweep(result: &CompareResult, fit: Fit) -> String {
    let mut text =
        "p published, s simulated; change of the score from batch 31 and contention in percent\n\n".to_owned();
    let heads = [
        "machine", "batch", "score p", "score s", "spread %", "change p", "change s", "zone p", "zone s", "LRU p",
        "LRU s",
    ];
    let mut table = numbers(heads.into_iter(), 0..1);
    for row in &result.rows {
        let pair = |column: &str| {
            let effect = row.effect(column);
            [effect.and_then(|effect| effect.published), effect.map(|effect| effect.simulated.mean)]
        };
        let shown = |value: Option<f64>, format: &dyn Fn(f64) -> String| value.map_or_else(|| "-".to_owned(), format);
        let mut cells: Vec<String> = row.keys.values().map(ToString::to_string).collect();
        cells.extend(pair("score").map(|score| shown(score, &|score| grouped(score.round() as u64))));
        let spread = row.effect("score").map(|effect| effect.simulated);
        cells.push(spread.map_or_else(|| "-".to_owned(), |spread| spread_pct(spread.deviation, spread.mean)));
        cells.extend(pair("change_pct").map(|change| shown(change, &|change| format!("{change:+.2}"))));
        for column in ["zone_contention_pct", "lru_contention_pct"] {
            cells.extend(pair(column).map(|pct| shown(pct, &|pct| format!("{pct:.1}"))));
        }
        table.add_row(cells);
    }
    text += &fit.table(table, &[0, 0, 6, 5, 7, 0, 0, 2, 1, 4, 3]);
    if !result.mean_absolute_errors.is_empty() {
        text += "\nMean absolute error over all rows but the base, in percentage points: simulated, doing nothing, line in \
                 1/batch\n\n";
        text += &trimmed(&mean_errors(result));
        let [nothing, line, both, cells] = result.cells_won();
        let _ = writeln!(
            text,
            "\nnearer than doing nothing in {nothing} of {cells} cells, than the line in {line}, than both in {both}"
        );
    }
    text
}

fn mean_errors(result: &CompareResult) -> Table {
    let heads = ["machine", "rows", "change", "nothing", "line", "zone", "nothing", "line", "LRU", "nothing", "line"];
    let mut table = numbers(heads.into_iter(), 0..1);
    for errors in &result.mean_absolute_errors {
        let mut cells = vec![errors.machine.clone(), errors.rows.to_string()];
        for column in JUDGED {
            let three = [&errors.simulated, &errors.do_nothing, &errors.line].map(|errors| errors.get(column));
            cells.extend(three.map(|pp| pp.map_or_else(|| "-".to_owned(), |pp| format!("{pp:.2}"))));
        }
        table.add_row(cells);
    }
    table
}

/// A line for each value of the table, sorted by column, and the mean errors of each column.
fn tasks(result: &CompareResult, fit: Fit) -> String {
    let machine = result.simulations().next().map_or("", |simulation| simulation.machine.as_str());
    let mut text = format!(
        "on {machine}; errors in percent: simulated, doing nothing (repeats the row of fewest tasks), Amdahl's law\n\n"
    );
    let heads = ["column", "kernel", "tasks", "published", "simulated", "spread %", "error", "nothing", "Amdahl"];
    let mut table = numbers(heads.into_iter(), 0..2);
    let mut summary = String::new();
    let mut columns: Vec<&str> = Vec::new();
    for (column, _) in result.rows.iter().flat_map(|row| row.effects()) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    for column in columns {
        let mut errors = Vec::new();
        for (row, effect) in result.rows.iter().filter_map(|row| Some((row, row.effect(column)?))) {
            let Effect { published: Some(published), simulated, do_nothing, forecast, .. } = effect else { continue };
            let error_pct = |of: f64| 100.0 * (of / published - 1.0);
            let three = [Some(simulated.mean), do_nothing, forecast].map(|of| of.map_or(f64::NAN, error_pct));
            let mut line = vec![column.to_owned()];
            line.extend(row.keys.values().map(ToString::to_string));
            line.extend([published, simulated.mean].map(|score| grouped(score.round() as u64)));
            line.push(spread_pct(simulated.deviation, simulated.mean));
            line.extend(three.map(|error| format!("{error:+.1}")));
            table.add_row(line);
            errors.push(three.map(f64::abs));
        }
        let mean = |i: usize| errors.iter().map(|three| three[i]).sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().map(|three| three[0]).fold(0.0, f64::max);
        let _ = writeln!(
            summary,
            "{column}: mean error {:.1} %, worst {worst:.1} %; doing nothing {:.1} %, Amdahl's law {:.1} %",
            mean(0),
            mean(1),
            mean(2)
        );
    }
    text += &fit.table(table, &[0, 0, 0, 2, 0, 4, 0, 3, 1]);
    text + "\n" + &summary
}

/// A line for each value of the table, and how many verdicts hold.
fn effects(result: &CompareResult, fit: Fit) -> String {
    let mut text =
        "p published, s simulated; change from the base in percent, for shares in percentage points\n\n".to_owned();
    let keys: Vec<&str> =
        result.rows.first().map(|row| row.keys.keys().map(String::as_str).collect()).unwrap_or_default();
    let heads = ["column", "p", "s", "spread", "error", "doing nothing", "change p", "change s", ""];
    let mut table = numbers(keys.iter().copied().chain(heads), 0..keys.len() + 1);
    let mut verdicts = Vec::new();
    for row in &result.rows {
        for (column, effect) in row.effects() {
            let mut cells: Vec<String> = row.keys.values().map(ToString::to_string).collect();
            cells.push(column.to_owned());
            cells.extend(cells_of(&effect));
            table.add_row(cells);
            verdicts.push((effect.kind == Kind::Share, effect.holds()));
        }
    }
    let count = |share: bool, holds: bool| verdicts.iter().filter(|counted| **counted == (share, Some(holds))).count();
    let (signs, wrong) = (count(false, true), count(false, false));
    let (near, far) = (count(true, true), count(true, false));
    let ranks = [vec![0; keys.len()], vec![0, 0, 0, 5, 3, 4, 2, 1, 0]].concat();
    text += &fit.table(table, &ranks);
    text + &format!(
        "\nchanges above {SMALL_CHANGE_PCT} %: {signs} of {} with the right sign\n\
         shares: {near} of {} within {NEAR_POINTS} points\n",
        signs + wrong,
        near + far
    )
}

fn cells_of(effect: &Effect) -> [String; 8] {
    let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let (published, simulated) = (effect.published, effect.simulated.mean);
    let verdict = effect.holds().map_or("", |holds| if holds { "holds" } else { "misses" });
    let change = |change: Option<f64>| change.map_or_else(|| "-".to_owned(), |change| format!("{change:+.1}"));
    [
        value(published),
        number(simulated),
        value(Some(effect.simulated.deviation).filter(|&deviation| deviation > 0.0)),
        value(published.map(|published| simulated - published)),
        value(effect.do_nothing.zip(published).map(|(base, published)| base - published)),
        change(effect.published_change()),
        change(effect.simulated_change()),
        verdict.to_owned(),
    ]
}

/// A number with about four significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
