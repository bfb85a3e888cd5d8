//! The sections of JSON results of `sim` and `compare`.

use indexmap::IndexSet;
use pageset_sim::compare::Key;
use pageset_sim::compare::result::{Columns, CompareResult, CompareRow, MeanErrors};
use pageset_sim::run::{RunResult, RunRow, SteadinessOf};
use pageset_statistics::Spread;

use super::draw::{Bars, plain};
use super::sections::{BarSection, bars, strings};
use super::{Report, Section, card};

/// The note about whiskers in these charts.
const WHISKERS: &str = "Means over the seeds; whiskers: one standard deviation.";

/// Bars with whiskers.
fn with_spread(name: &str, values: impl Iterator<Item = Option<Spread>>) -> Bars {
    let values: Vec<Option<Spread>> = values.collect();
    let ends = |spread: Spread| (spread.mean - spread.deviation, spread.mean + spread.deviation);
    Bars {
        name: name.to_owned(),
        values: values.iter().map(|value| value.map(|spread| spread.mean)).collect(),
        whiskers: values.iter().map(|value| value.map(ends)).collect(),
    }
}

/// The value of a row that a chart shows.
type OfRow<'f> = &'f dyn Fn(&RunRow) -> Option<Spread>;

/// A row of `pageset-lab sim`, with the keys that distinguish it from other rows.
struct Row<'v> {
    /// Without their batch.
    rules: String,
    batch: Option<u64>,
    row: &'v RunRow,
}

impl Row<'_> {
    fn new(row: &RunRow) -> Row<'_> {
        let (mut rules, mut batch) = (Vec::new(), None);
        for word in row.rules.split(' ') {
            match word.strip_prefix("batch=").and_then(|pages| pages.parse().ok()) {
                Some(pages) => batch = Some(pages),
                None => rules.push(word),
            }
        }
        Row { rules: rules.join(" "), batch, row }
    }
}

/// The axis of a chart: the key that the groups of bars stand for.
#[derive(Clone, Copy)]
enum Axis {
    Batch,
    Tasks,
    Rules,
}

impl Axis {
    /// The most useful key in which the rows differ.
    fn of(rows: &[Row<'_>]) -> Axis {
        let differ = |of: fn(&Row<'_>) -> Option<u64>| rows.iter().any(|row| of(row) != of(&rows[0]));
        if differ(|row| row.batch) && rows.iter().all(|row| row.batch.is_some()) {
            Axis::Batch
        } else if differ(|row| Some(row.row.tasks.into())) {
            Axis::Tasks
        } else {
            Axis::Rules
        }
    }

    const fn against(self) -> &'static str {
        match self {
            Axis::Batch => "against batch",
            Axis::Tasks => "against the number of CPUs",
            Axis::Rules => "under each set of rules",
        }
    }

    fn category(self, row: &Row<'_>) -> String {
        match self {
            Axis::Batch => row.batch.map(|batch| batch.to_string()).unwrap_or_default(),
            Axis::Tasks => row.row.tasks.to_string(),
            Axis::Rules => full_name(row),
        }
    }

    fn series(self, row: &Row<'_>, one_number_of_tasks: bool) -> String {
        match self {
            Axis::Batch if one_number_of_tasks => row.rules.clone(),
            Axis::Batch => format!("{}, {} tasks", row.rules, row.row.tasks),
            Axis::Tasks => full_name(row),
            Axis::Rules => String::new(),
        }
    }
}

fn full_name(row: &Row<'_>) -> String {
    row.batch.map_or_else(|| row.rules.clone(), |batch| format!("{} batch={batch}", row.rules))
}

/// Names in the order of their first appearance.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    names.collect::<IndexSet<_>>().into_iter().collect()
}

pub(crate) fn run(result: RunResult) -> Result<Report, String> {
    let RunResult { workload, machine, .. } = &result;
    let rows: Vec<Row<'_>> = result.rows.iter().map(Row::new).collect();
    if rows.is_empty() {
        return Err("the result has no rows".to_owned());
    }
    let axis = Axis::of(&rows);
    let one_number_of_tasks = rows.iter().all(|row| row.row.tasks == rows[0].row.tasks);
    let series_of = |row: &Row<'_>| axis.series(row, one_number_of_tasks);
    let mut categories = distinct(rows.iter().map(|row| axis.category(row)));
    if !matches!(axis, Axis::Rules) {
        categories.sort_by_key(|category| category.parse::<u64>().unwrap_or(u64::MAX));
    }
    let series = distinct(rows.iter().map(series_of));
    let find = |category: &String, series: &String| {
        rows.iter().find(|row| axis.category(row) == *category && series_of(row) == *series).map(|row| row.row)
    };
    let section = |question: String, note: &str, unit: &'static str, of: OfRow<'_>| {
        let bars_of = |series: &String| {
            let name = if series.is_empty() { unit } else { series };
            with_spread(name, categories.iter().map(|category| of(find(category, series)?)))
        };
        let names = matches!(axis, Axis::Rules);
        let series = series.iter().map(bars_of).collect();
        let (is_ordered, base) = (!names, (names && categories.len() > 1).then_some(0));
        bars(BarSection { question, note, unit, categories: &categories, series, is_ordered, base })
    };
    let against = axis.against();
    let mut sections =
        vec![section(format!("{workload} on {machine}: what is the score {against}?"), WHISKERS, "score", &|row| {
            row.score
        })];
    for (place, wait) in rows[0].row.waits().iter().enumerate() {
        let of = |row: &RunRow| row.waits()[place].pct;
        if place == 0 || rows.iter().any(|row| of(row.row).is_some_and(|spread| spread.mean > 0.0)) {
            let question =
                format!("{workload} on {machine}: how much time is spent waiting for {} locks {against}?", wait.name);
            sections.push(section(question, WHISKERS, "percent of the CPUs' time", &of));
        }
    }
    sections.push(section(
        format!("{workload} on {machine}: how long do 99 of 100 allocations take at most {against}?"),
        "All seeds together.",
        "ns",
        &|row| row.alloc_ns.map(|alloc| Spread { mean: alloc.p99 as f64, deviation: 0.0 }),
    ));
    let seeds = result.rows.iter().map(|row| row.samples.len()).max().unwrap_or(0);
    let mut facts = vec![simulated(
        &format!("{workload} on {machine}; "),
        result.measured_ns,
        result.warm_up_ns,
        &format!("at most {seeds} {}", if seeds == 1 { "seed" } else { "seeds" }),
    )];
    facts
        .extend(not_settled(result.rows.iter().flat_map(|row| &row.samples).filter_map(|one| one.steadiness.as_ref())));
    let title = format!("{workload} on {machine}");
    Ok(Report { title, cards: vec![card::simulation::run(&result)], facts, sections })
}

/// Describes the simulated time.
fn simulated(what: &str, measured_ns: u64, warm_up_ns: u64, seeds: &str) -> String {
    let [measured, warm_up] = [measured_ns, warm_up_ns].map(|ns| ns as f64 / 1e9);
    format!("Simulated: {what}{measured} s after {warm_up} s of warm-up, {seeds}.")
}

/// A warning about runs that have not settled.
fn not_settled<'r>(runs: impl Iterator<Item = &'r SteadinessOf>) -> Option<String> {
    let runs: Vec<bool> = runs.map(|run| run.settled).collect();
    let not = runs.iter().filter(|settled| !**settled).count();
    (not > 0).then(|| {
        format!(
            "{not} of {} simulations have not settled: another time of measurement gives other figures.",
            runs.len()
        )
    })
}

/// Key columns of a row: names and values.
type Own<'r> = Vec<(&'r String, &'r Key)>;

/// A row's key columns, sorted by name, and the index of the key for the chart's axis: a number if there is one, else
/// the last.
fn axis(row: &CompareRow) -> Result<(Own<'_>, usize), String> {
    let mut own: Own<'_> = row.keys.iter().collect();
    own.sort_by_key(|(name, _)| *name);
    let place = own.iter().position(|(_, key)| matches!(key, Key::Number(_))).or(own.len().checked_sub(1));
    Ok((own, place.ok_or("a row has no key column")?))
}

/// A column's name, for people.
fn spoken(column: &str) -> String {
    let column = column.replace('_', " ").replace("lru ", "LRU ");
    column.strip_suffix(" pct").map_or(column.clone(), |of| format!("{of} in percent"))
}

fn names<'c>(columns: impl Iterator<Item = &'c Columns>) -> Vec<String> {
    let mut names = distinct(columns.flat_map(Columns::keys).cloned());
    names.sort_unstable();
    names
}

pub(crate) fn compare(result: CompareResult) -> Result<Report, String> {
    // Group rows by their other keys, in the order of the table.
    let mut groups: Vec<(String, Vec<(String, &CompareRow)>)> = Vec::new();
    let mut along = "";
    for row in &result.rows {
        let (mut own, place) = axis(row)?;
        let (name, category) = own.remove(place);
        along = name;
        let group = own.into_iter().map(|(_, key)| key.to_string()).collect::<Vec<_>>().join(", ");
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, rows)) => rows.push((category.to_string(), row)),
            None => groups.push((group, vec![(category.to_string(), row)])),
        }
    }
    let mut sections = Vec::new();
    for (group, rows) in &groups {
        let categories: Vec<String> = rows.iter().map(|(category, _)| category.clone()).collect();
        for column in names(rows.iter().map(|(_, row)| &row.published)) {
            let published = rows.iter().map(|(_, row)| row.published.get(&column).copied());
            let published = Bars { name: "published".to_owned(), values: published.collect(), whiskers: Vec::new() };
            let spread = |row: &CompareRow| {
                let deviation = row.deviation.get(&column).copied().unwrap_or(0.0);
                Some(Spread { mean: *row.simulated.get(&column)?, deviation })
            };
            let simulated = with_spread("simulated", rows.iter().map(|(_, row)| spread(row)));
            let of = if group.is_empty() { String::new() } else { format!("{group}: ") };
            let question = format!("{of}how close is the simulation to the published {}?", spoken(&column));
            let note = format!("By {along}. {WHISKERS}");
            let (unit, categories, series) = ("published, simulated", &categories[..], vec![published, simulated]);
            let is_ordered = categories.iter().all(|category| category.parse::<f64>().is_ok());
            let section = BarSection { question, note: &note, unit, categories, series, is_ordered, base: None };
            sections.push(bars(section));
        }
    }
    if sections.is_empty() {
        return Err("the result has no rows".to_owned());
    }
    if !result.mean_absolute_errors.is_empty() {
        sections.push(errors(&result.mean_absolute_errors));
    }
    let seeds = format!("{} seeds", result.seeds.len());
    let mut facts = vec![simulated("", result.measured_ns, result.warm_up_ns, &seeds)];
    facts.extend(not_settled(result.simulations().flat_map(|simulation| &simulation.steadiness)));
    let title = format!("Published and simulated: {}", result.table);
    Ok(Report { title, cards: vec![card::compare::compare(&result)], facts, sections })
}

/// The mean errors of each machine and column.
fn errors(all: &[MeanErrors]) -> Section {
    let mut rows = Vec::new();
    for errors in all {
        for column in names([&errors.simulated].into_iter()) {
            let three = [&errors.simulated, &errors.do_nothing, &errors.line].map(|of| of.get(&column).copied());
            let mut row = vec![errors.machine.clone(), spoken(&column)];
            row.extend(three.map(|error| error.map_or("-".to_owned(), plain)));
            rows.push(row);
        }
    }
    Section {
        question: "How large are the errors, compared with doing nothing?".to_owned(),
        note: "Mean absolute errors over all rows but the base; for shares and changes in percentage points."
            .to_owned(),
        chart: None,
        heads: strings(&["machine", "column", "simulated", "doing nothing", "line in 1/batch"]),
        rows,
    }
}
