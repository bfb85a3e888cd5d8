//! The sections of what `run`, `sweep` and `compare` wrote with --json.

use std::collections::BTreeMap;

use serde_json::Value;

use super::draw::{Bars, plain};
use super::json::{bars, list, number, strings, text};
use super::{Report, Section};

/// What whiskers are in all of these.
const WHISKERS: &str = "Means over the seeds; whiskers: one standard deviation.";

/// A mean over seeds and its standard deviation, as JSON has them.
#[derive(Clone, Copy)]
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(value: &Value) -> Option<Spread> {
        Some(Spread { mean: value["mean"].as_f64()?, deviation: value["deviation"].as_f64()? })
    }
}

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

/// A row of `pageset run` by what tells it from others.
struct Row<'v> {
    /// The rules without their batch.
    rules: String,
    batch: Option<u64>,
    tasks: u64,
    value: &'v Value,
}

impl Row<'_> {
    fn new(value: &Value) -> Result<Row<'_>, String> {
        let (mut rules, mut batch) = (Vec::new(), None);
        for word in text(value, "rules")?.split(' ') {
            match word.strip_prefix("batch=").and_then(|pages| pages.parse().ok()) {
                Some(pages) => batch = Some(pages),
                None => rules.push(word),
            }
        }
        Ok(Row { rules: rules.join(" "), batch, tasks: number(value, "tasks")? as u64, value })
    }
}

/// What a chart's groups of bars are, and the name of a row's place among them.
#[derive(Clone, Copy)]
enum Axis {
    Batch,
    Tasks,
    Rules,
}

impl Axis {
    /// That in which the rows differ most usefully.
    fn of(rows: &[Row<'_>]) -> Axis {
        let differ = |of: fn(&Row<'_>) -> Option<u64>| rows.iter().any(|row| of(row) != of(&rows[0]));
        if differ(|row| row.batch) && rows.iter().all(|row| row.batch.is_some()) {
            Axis::Batch
        } else if differ(|row| Some(row.tasks)) {
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
            Axis::Tasks => row.tasks.to_string(),
            Axis::Rules => full_name(row),
        }
    }

    fn series(self, row: &Row<'_>, one_number_of_tasks: bool) -> String {
        match self {
            Axis::Batch if one_number_of_tasks => row.rules.clone(),
            Axis::Batch => format!("{}, {} tasks", row.rules, row.tasks),
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
    names.fold(Vec::new(), |mut seen, name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
        seen
    })
}

/// Reports on one result of `pageset run` or `sweep`.
///
/// # Errors
/// What is missing in it.
pub(super) fn run(value: &Value) -> Result<Report, String> {
    let (workload, machine) = (text(value, "workload")?, text(value, "machine")?);
    let rows = list(value, "rows")?.iter().map(Row::new).collect::<Result<Vec<_>, _>>()?;
    if rows.is_empty() {
        return Err("there are no rows".to_owned());
    }
    let axis = Axis::of(&rows);
    let one_number_of_tasks = rows.iter().all(|row| row.tasks == rows[0].tasks);
    let series_of = |row: &Row<'_>| axis.series(row, one_number_of_tasks);
    let mut categories = distinct(rows.iter().map(|row| axis.category(row)));
    if !matches!(axis, Axis::Rules) {
        categories.sort_by_key(|category| category.parse::<u64>().unwrap_or(u64::MAX));
    }
    let series = distinct(rows.iter().map(series_of));
    let find = |category: &String, series: &String| {
        rows.iter().find(|row| axis.category(row) == *category && series_of(row) == *series).map(|row| row.value)
    };
    let section = |question: String, note: &str, unit: &'static str, of: &dyn Fn(&Value) -> Option<Spread>| {
        let bars_of = |series: &String| {
            let name = if series.is_empty() { unit } else { series };
            with_spread(name, categories.iter().map(|category| of(find(category, series)?)))
        };
        bars(&question, note, unit, &categories, series.iter().map(bars_of).collect())
    };
    let against = axis.against();
    let mut sections = vec![
        section(format!("{workload} on {machine}: how much is done {against}?"), WHISKERS, "score", &|row| {
            Spread::of(&row["score"])
        }),
        section(
            format!("{workload} on {machine}: how much time goes into waiting for zone locks {against}?"),
            WHISKERS,
            "per cent of the CPUs' time",
            &|row| Spread::of(&row["zone_lock_pct"]),
        ),
    ];
    if rows.iter().any(|row| Spread::of(&row.value["lru_lock_pct"]).is_some_and(|spread| spread.mean > 0.0)) {
        sections.push(section(
            format!("{workload} on {machine}: how much time goes into waiting for LRU locks {against}?"),
            WHISKERS,
            "per cent of the CPUs' time",
            &|row| Spread::of(&row["lru_lock_pct"]),
        ));
    }
    sections.push(section(
        format!("{workload} on {machine}: how long does the slowest allocation in a hundred take {against}?"),
        "All seeds together.",
        "ns",
        &|row| row["alloc_ns"]["p99"].as_f64().map(|mean| Spread { mean, deviation: 0.0 }),
    ));
    let seeds = rows.iter().map(|row| row.value["samples"].as_array().map_or(0, Vec::len)).max().unwrap_or(0);
    let facts = vec![format!(
        "Simulated: {} on {}; {} s after {} s of warming up, up to {seeds} seeds.",
        workload,
        machine,
        number(value, "measured_ns")? / 1e9,
        number(value, "warm_up_ns")? / 1e9,
    )];
    Ok(Report { title: format!("{workload} on {machine}"), facts, sections })
}

/// A row's own names by their keys: words and numbers, all else holds a value for each column or says how it was
/// simulated. And which of them the bars stand along: a number where there is one, else the last.
fn axis(row: &Value) -> Result<(Vec<(String, String)>, usize), String> {
    let members = row.as_object().ok_or("a row is no object")?;
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let own: Vec<(&String, &Value)> =
        members.iter().filter(|(_, value)| value.is_string() || value.is_number()).collect();
    let place = own.iter().position(|(_, value)| value.is_number()).or(own.len().checked_sub(1));
    let place = place.ok_or("a row has nothing that tells it from others")?;
    Ok((own.into_iter().map(|(key, value)| (key.clone(), shown(value))).collect(), place))
}

/// A column's name, for people.
fn spoken(column: &str) -> String {
    let column = column.replace('_', " ").replace("lru ", "LRU ");
    column.strip_suffix(" pct").map_or(column.clone(), |of| format!("{of} in per cent"))
}

/// Reports on one result of `pageset compare`.
///
/// # Errors
/// What is missing in it.
pub(super) fn compare(value: &Value) -> Result<Report, String> {
    let table = text(value, "table")?;
    // Sections by what their rows have in common, in the order of the table.
    let mut groups: Vec<(String, Vec<(String, &Value)>)> = Vec::new();
    let mut along = String::new();
    for row in list(value, "rows")? {
        let (mut own, place) = axis(row)?;
        let (key, category) = own.remove(place);
        along = key;
        let group = own.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, rows)) => rows.push((category, row)),
            None => groups.push((group, vec![(category, row)])),
        }
    }
    let mut sections = Vec::new();
    for (group, rows) in &groups {
        let columns = distinct(
            rows.iter()
                .flat_map(|(_, row)| row["published"].as_object().into_iter().flatten())
                .map(|(key, _)| key.clone()),
        );
        let categories: Vec<String> = rows.iter().map(|(category, _)| category.clone()).collect();
        for column in columns {
            let published = rows.iter().map(|(_, row)| row["published"][&column].as_f64());
            let published = Bars { name: "published".to_owned(), values: published.collect(), whiskers: Vec::new() };
            let spread = |row: &Value| {
                let mean = row["simulated"][&column].as_f64()?;
                Some(Spread { mean, deviation: row["deviation"][&column].as_f64().unwrap_or(0.0) })
            };
            let simulated = with_spread("simulated", rows.iter().map(|(_, row)| spread(row)));
            let of = if group.is_empty() { String::new() } else { format!("{group}: ") };
            let question = format!("{of}how near does the simulation come to the published {}?", spoken(&column));
            let note = format!("By {along}. {WHISKERS}");
            sections.push(bars(&question, &note, "published, simulated", &categories, vec![published, simulated]));
        }
    }
    if sections.is_empty() {
        return Err("there are no rows".to_owned());
    }
    sections.extend(errors(value));
    let seeds = list(value, "seeds")?.len();
    let facts = vec![format!(
        "Simulated: {} s after {} s of warming up, {seeds} seeds.",
        number(value, "measured_ns")? / 1e9,
        number(value, "warm_up_ns")? / 1e9
    )];
    Ok(Report { title: format!("Published and simulated: {table}"), facts, sections })
}

/// The mean errors, where the result has them.
fn errors(value: &Value) -> Option<Section> {
    let all = value["mean_absolute_errors"].as_array().filter(|all| !all.is_empty())?;
    let mut rows = Vec::new();
    for error in all {
        let machine = error["machine"].as_str().unwrap_or_default();
        let columns: BTreeMap<&String, &Value> = error["simulated"].as_object().into_iter().flatten().collect();
        for column in columns.into_keys() {
            let of = |way: &str| error[way][column].as_f64().map_or("-".to_owned(), plain);
            rows.push(vec![machine.to_owned(), spoken(column), of("simulated"), of("do_nothing"), of("line")]);
        }
    }
    Some(Section {
        question: "How large are the errors, beside those of doing nothing?".to_owned(),
        note: "Mean absolute errors over the rows but the base; of shares and changes in percentage points.".to_owned(),
        chart: None,
        heads: strings(&["machine", "column", "simulated", "doing nothing", "line in 1/batch"]),
        rows,
    })
}
