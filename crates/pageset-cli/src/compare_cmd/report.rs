//! The result of `pageset compare`, as text and as JSON.

use std::collections::BTreeMap;

use pageset_sim::compare::{COLUMNS, Compared, Errors, Values, errors};
use pageset_sim::era::Era;
use pageset_sim::run::{Outcome, Run};
use pageset_sim::time::Time;
use pageset_sim::workload::{Length, Span};
use serde::Serialize;

use super::Args;
use crate::columns::{grouped, numbers, spread_pct, trimmed};

/// The schema of the JSON form.
pub(super) const SCHEMA: &str = "pageset.compare/1";

/// Places in [`COLUMNS`].
const SCORE: usize = 0;
const CHANGE: usize = 1;
const ZONE: usize = 2;
const LRU: usize = 3;

/// What was simulated for a row: member `simulations`.
#[derive(Clone, Serialize)]
pub(super) struct Simulation {
    machine: String,
    workload: &'static str,
    tasks: u32,
    pub(super) era: Era,
    seeds: Vec<u64>,
    /// None for a workload that ends by itself.
    #[serde(skip)]
    pub(super) length: Option<Length>,
    warm_up_ns: u64,
    /// Of each seed.
    measured_ns: Vec<u64>,
    /// Whether all nodes' figures are those of one that was simulated.
    one_node_for_all: bool,
}

impl Simulation {
    /// A run and its outcomes by seed.
    pub(super) fn of((run, seeds): (&Run<'_>, &Vec<(u64, Outcome)>)) -> Self {
        let steady = run.workload.span == Span::Steady;
        let length = steady.then_some(Length { warm_up: run.warm_up, time: run.time });
        Simulation {
            machine: run.machine.name.clone(),
            workload: run.workload.name,
            tasks: run.tasks,
            era: run.era,
            seeds: seeds.iter().map(|(seed, _)| *seed).collect(),
            length,
            warm_up_ns: length.map_or(0, |length| length.warm_up.whole_ns()),
            measured_ns: seeds.iter().map(|(_, outcome)| outcome.time.whole_ns()).collect(),
            one_node_for_all: seeds.iter().any(|(_, outcome)| outcome.stands_for > 1),
        }
    }
}

/// The longest of some simulations: what a document says of all.
pub(super) fn longest<'s>(simulations: impl Iterator<Item = &'s Simulation>) -> Length {
    let none = Length { warm_up: Time::ZERO, time: Time::ZERO };
    simulations.filter_map(|simulation| simulation.length).fold(none, |longest, length| Length {
        warm_up: longest.warm_up.max(length.warm_up),
        time: longest.time.max(length.time),
    })
}

pub(super) struct Report<'r> {
    args: &'r Args,
    rows: Vec<(Compared, Simulation)>,
}

impl<'r> Report<'r> {
    pub(super) fn new(args: &'r Args, rows: Vec<(Compared, Simulation)>) -> Self {
        Report { args, rows }
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.args.head(&self.rows.iter().map(|(_, simulation)| simulation).collect::<Vec<_>>());
        text += "p published, s simulated; change of the score from batch 31 and contention in percent\n\n";
        let heads = [
            "machine", "batch", "score p", "score s", "spread %", "change p", "change s", "zone p", "zone s", "LRU p",
            "LRU s",
        ];
        let mut table = numbers(heads.into_iter(), 0..1);
        for (row, _) in &self.rows {
            let (p, s) = (&row.published, &row.simulated);
            let mut cells = vec![row.machine.clone(), row.batch.to_string()];
            cells.extend([p[SCORE], s[SCORE]].map(|score| grouped(score.round() as u64)));
            cells.push(spread_pct(row.deviation[SCORE], s[SCORE]));
            cells.extend([p[CHANGE], s[CHANGE]].map(|change| format!("{change:+.2}")));
            cells.extend([p[ZONE], s[ZONE], p[LRU], s[LRU]].map(|pct| format!("{pct:.1}")));
            table.add_row(cells);
        }
        text += &trimmed(&table);
        let errors = self.errors();
        if !errors.is_empty() {
            text += "\nMean absolute error over the other rows, in percentage points: simulated, doing nothing, line in 1/batch\n\n";
            text += &trimmed(&error_table(&errors));
        }
        text
    }

    fn errors(&self) -> Vec<Errors> {
        errors(&self.rows.iter().map(|(row, _)| row.clone()).collect::<Vec<_>>())
    }

    pub(super) fn json(&self) -> impl Serialize + use<> {
        let columns = |values: &Values| COLUMNS.iter().zip(values).map(|(name, value)| (*name, *value)).collect();
        let row = |(row, simulation): &(Compared, Simulation)| RowJson {
            machine: row.machine.clone(),
            batch: row.batch,
            published: columns(&row.published),
            simulated: columns(&row.simulated),
            deviation: columns(&row.deviation),
            do_nothing: columns(&row.do_nothing),
            line: columns(&row.line),
            simulations: [simulation.clone()],
        };
        let error = |error: &Errors| ErrorJson {
            machine: error.machine.clone(),
            rows: error.rows,
            simulated: columns(&error.simulated),
            do_nothing: columns(&error.do_nothing),
            line: columns(&error.line),
        };
        let length = longest(self.rows.iter().map(|(_, simulation)| simulation));
        Document {
            schema: SCHEMA,
            table: self.args.table.clone(),
            measured_ns: length.time.whole_ns(),
            warm_up_ns: length.warm_up.whole_ns(),
            seeds: self.args.beside.effort.seeds().collect(),
            rows: self.rows.iter().map(row).collect(),
            mean_absolute_errors: self.errors().iter().map(error).collect(),
        }
    }
}

fn error_table(errors: &[Errors]) -> comfy_table::Table {
    let heads = ["machine", "rows", "change", "nothing", "line", "zone", "nothing", "line", "LRU", "nothing", "line"];
    let mut table = numbers(heads.into_iter(), 0..1);
    for error in errors {
        let mut cells = vec![error.machine.clone(), error.rows.to_string()];
        for column in [CHANGE, ZONE, LRU] {
            let three = [error.simulated[column], error.do_nothing[column], error.line[column]];
            cells.extend(three.map(|pp| format!("{pp:.2}")));
        }
        table.add_row(cells);
    }
    table
}

type Columns = BTreeMap<&'static str, f64>;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    table: String,
    measured_ns: u64,
    warm_up_ns: u64,
    seeds: Vec<u64>,
    rows: Vec<RowJson>,
    mean_absolute_errors: Vec<ErrorJson>,
}

#[derive(Serialize)]
struct RowJson {
    machine: String,
    batch: u32,
    published: Columns,
    simulated: Columns,
    deviation: Columns,
    do_nothing: Columns,
    line: Columns,
    simulations: [Simulation; 1],
}

#[derive(Serialize)]
struct ErrorJson {
    machine: String,
    rows: usize,
    simulated: Columns,
    do_nothing: Columns,
    line: Columns,
}
