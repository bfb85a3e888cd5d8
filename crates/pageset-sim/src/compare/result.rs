//! The result of a comparison: published and simulated values, baselines, errors.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::{Column, Key, Keys, Kind, Layout, SWEEP_COLUMNS, Table};
use super::{BASE_BATCH, How, Measure, SCHEMA, Value};
use crate::era::Era;
use crate::run::{self, Figures, Run, RunError, SteadinessOf};
use crate::sweep::BySeed;
use crate::workload::Span;
use pageset_statistics::{Spread, interval_95};

/// The result of `pageset-lab compare` for a published table.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct CompareResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// The published table.
    pub table: String,
    /// The kind of the table's rows and columns: `batch-sweep`, `tasks` or `effects`.
    #[serde(default)]
    pub layout: Layout,
    /// The longest measured virtual time, as an upper limit.
    pub measured_ns: u64,
    /// The longest virtual time before a measurement.
    pub warm_up_ns: u64,
    /// Precision at which a measurement ends; 0 if the full time is measured.
    #[serde(default)]
    pub precision_pct: f64,
    /// The configured seeds of each experiment.
    pub seeds: Vec<u64>,
    /// The table's rows that were simulated.
    pub rows: Vec<CompareRow>,
    /// Deviations of the simulations from the table, and simulations that failed.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The means of the absolute errors, over all rows but the base.
    #[schemars(extend("as" = "error"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mean_absolute_errors: Vec<MeanErrors>,
}

/// Values by column.
pub type Columns<T = f64> = IndexMap<String, T>;

/// A row of the table.
#[derive(Clone, PartialEq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct CompareRow {
    /// The key columns.
    #[serde(flatten)]
    pub keys: Keys,
    /// The kind of each column: an `amount`, whose change counts; a `share`, whose error is in percentage points; or a
    /// `change` in percent.
    #[serde(default)]
    pub kinds: Columns<Kind>,
    /// The published values; missing where none was published.
    #[serde(default)]
    pub published: Columns,
    /// The mean over the seeds.
    #[serde(default)]
    pub simulated: Columns,
    /// The standard deviation of single simulations over the seeds.
    #[serde(default)]
    pub deviation: Columns,
    /// Half-widths of the 95 % intervals of the means: over the seeds, or over time if there is one seed. Missing where
    /// neither is known.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    pub interval: Columns,
    /// The baseline "do nothing": the published value of the base.
    #[serde(default)]
    pub do_nothing: Columns,
    /// For a sweep of batches: the line in 1/batch through the published base row and the machine's last row.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    pub line: Columns,
    /// For a table over tasks: Amdahl's law through the rows with the fewest and the most tasks.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    pub amdahl: Columns,
    /// The simulations of a row: machine, workload, tasks, seeds, and the measured time of each seed.
    #[serde(default)]
    pub simulations: Vec<Simulation>,
}

/// One simulated experiment.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Simulation {
    /// The machine's name.
    pub machine: String,
    /// The workload's name.
    pub workload: String,
    /// Number of tasks.
    pub tasks: u32,
    /// The kernel's era.
    #[serde(default)]
    pub era: Era,
    /// The seeds that ended.
    pub seeds: Vec<u64>,
    /// Virtual time before the measurement; the shortest, if the end of the warm-up was detected.
    pub warm_up_ns: u64,
    /// The longest simulated time to measure; null for a workload that ends by itself. Unit: nanoseconds.
    #[serde(default)]
    pub length_ns: Option<u64>,
    /// Measured virtual time of each seed.
    pub measured_ns: Vec<u64>,
    /// How steady the measurement of each seed is; empty for a workload that ends by itself.
    #[serde(default)]
    pub steadiness: Vec<SteadinessOf>,
    /// Half-widths of the 95 % intervals of score and contention: over the seeds, or over time if there is one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Figures>,
    /// Whether one node was simulated and stands for all nodes, which are identical and share nothing.
    pub one_node_for_all: bool,
}

/// Mean absolute errors over a machine's rows other than the base row.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct MeanErrors {
    /// The machine's name.
    pub machine: String,
    /// Number of rows.
    pub rows: usize,
    /// Errors of the simulation.
    pub simulated: Columns,
    /// Errors of the baseline "do nothing".
    pub do_nothing: Columns,
    /// Errors of the line in 1/batch.
    pub line: Columns,
}

/// The columns of a sweep of batches whose errors are judged.
pub const JUDGED: [&str; 3] = ["change_pct", "zone_contention_pct", "lru_contention_pct"];

/// The mean absolute errors of one column of a machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cell {
    /// Of the simulation.
    pub simulated: f64,
    /// Of the baseline "do nothing".
    pub do_nothing: f64,
    /// Of the line in 1/batch.
    pub line: f64,
}

impl Cell {
    /// Whether the simulation is nearer than both baselines.
    pub fn is_won(&self) -> bool {
        self.simulated < self.do_nothing.min(self.line)
    }
}

impl MeanErrors {
    /// The judged columns.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        JUDGED.into_iter().filter_map(|column| {
            let [simulated, do_nothing, line] =
                [&self.simulated, &self.do_nothing, &self.line].map(|errors| errors.get(column).copied());
            Some(Cell { simulated: simulated?, do_nothing: do_nothing?, line: line? })
        })
    }
}

/// Largest change without a meaningful sign, in per cent: published runs vary by as much.
pub const SMALL_CHANGE_PCT: f64 = 3.0;
/// Smallest simulated change with a sign, in per cent: a smaller one prints as 0.0, and may be a rounding error.
pub const SMALLEST_SIGN_PCT: f64 = 0.05;
/// Tolerance of a share in percentage points.
pub const NEAR_POINTS: f64 = 10.0;

/// The values of one column of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effect {
    /// The kind of the column.
    pub kind: Kind,
    /// The published values; missing where none was published.
    pub published: Option<f64>,
    /// The published base.
    pub do_nothing: Option<f64>,
    /// The forecast of the table.
    pub forecast: Option<f64>,
    /// Mean and deviation over the seeds.
    pub simulated: Spread,
}

impl Effect {
    /// The published change from the base: in per cent, or in percentage points for a share.
    pub fn published_change(&self) -> Option<f64> {
        Some(self.change(self.published?, self.do_nothing?))
    }

    /// The simulated change from the base.
    pub fn simulated_change(&self) -> Option<f64> {
        Some(self.change(self.simulated.mean, self.do_nothing?))
    }

    fn change(&self, value: f64, base: f64) -> f64 {
        match self.kind {
            Kind::Amount => 100.0 * (value / base - 1.0),
            Kind::Share | Kind::Change => value - base,
        }
    }

    /// Whether the simulation meets the published value: a share must be within [`NEAR_POINTS`], a change above
    /// [`SMALL_CHANGE_PCT`] must have the right sign. A simulated change below [`SMALLEST_SIGN_PCT`] has none. `None` if no value was
    /// published, or the published change is too small to have a sign.
    pub fn holds(&self) -> Option<bool> {
        let published = self.published?;
        if self.kind == Kind::Share {
            return Some((self.simulated.mean - published).abs() <= NEAR_POINTS);
        }
        let (published, simulated) = (self.published_change()?, self.simulated_change()?);
        let has_sign = published.abs() > SMALL_CHANGE_PCT;
        has_sign.then(|| (published > 0.0) == (simulated > 0.0) && simulated.abs() >= SMALLEST_SIGN_PCT)
    }
}

impl CompareRow {
    pub(super) fn add(&mut self, column: &Column, simulated: Spread, interval: Option<f64>, layout: Layout) {
        let insert = |columns: &mut Columns, value: Option<f64>| {
            columns.extend(value.map(|value| (column.name.clone(), value)));
        };
        insert(&mut self.published, column.published);
        insert(&mut self.simulated, Some(simulated.mean));
        insert(&mut self.deviation, Some(simulated.deviation));
        insert(&mut self.interval, interval);
        insert(&mut self.do_nothing, column.do_nothing);
        match layout {
            Layout::BatchSweep => insert(&mut self.line, column.forecast),
            Layout::Tasks => insert(&mut self.amdahl, column.forecast),
            Layout::Effects => {}
        }
        self.kinds.insert(column.name.clone(), column.kind);
    }

    /// The values of a column; `None` if the column was not simulated.
    pub fn effect(&self, column: &str) -> Option<Effect> {
        let of = |columns: &Columns| columns.get(column).copied();
        Some(Effect {
            kind: *self.kinds.get(column)?,
            published: of(&self.published),
            do_nothing: of(&self.do_nothing),
            forecast: of(&self.line).or(of(&self.amdahl)),
            simulated: Spread { mean: of(&self.simulated)?, deviation: of(&self.deviation)? },
        })
    }

    /// Whether a simulation of the row has not settled.
    pub fn is_unsettled(&self) -> bool {
        self.simulations.iter().flat_map(|simulation| &simulation.steadiness).any(|found| !found.settled)
    }

    /// All simulated columns, in the order of the table.
    pub fn effects(&self) -> impl Iterator<Item = (&str, Effect)> {
        self.kinds.keys().filter_map(|column| Some((column.as_str(), self.effect(column)?)))
    }
}

impl Simulation {
    pub(super) fn of((run, seeds): (&Run<'_>, &BySeed)) -> Self {
        let steady = run.workload.span == Span::Steady;
        Simulation {
            machine: run.machine.name.clone(),
            workload: run.workload.name.to_owned(),
            tasks: run.tasks,
            era: run.era,
            seeds: seeds.iter().map(|(seed, _)| *seed).collect(),
            warm_up_ns: if steady { run.warm_up.whole_ns() } else { 0 },
            length_ns: steady.then(|| run.time.whole_ns()),
            measured_ns: seeds.iter().map(|(_, outcome)| outcome.time.whole_ns()).collect(),
            steadiness: seeds.iter().filter_map(|(_, outcome)| SteadinessOf::of(outcome)).collect(),
            interval: run::interval(seeds),
            one_node_for_all: seeds.iter().any(|(_, outcome)| outcome.stands_for > 1),
        }
    }
}

impl CompareResult {
    pub(super) fn new(
        table: &Table,
        rows: Vec<CompareRow>,
        simulations: &[Simulation],
        notes: Vec<String>,
        run: Option<&Run<'_>>,
        seeds: u32,
    ) -> Self {
        let mean_absolute_errors = if table.layout == Layout::BatchSweep { mean_errors(&rows) } else { Vec::new() };
        CompareResult {
            schema: SCHEMA.to_owned(),
            table: table.name.clone(),
            layout: table.layout,
            measured_ns: simulations.iter().filter_map(|simulation| simulation.length_ns).max().unwrap_or(0),
            warm_up_ns: simulations.iter().map(|simulation| simulation.warm_up_ns).max().unwrap_or(0),
            precision_pct: run.and_then(|run| run.precision_pct).unwrap_or(0.0),
            seeds: (1..=u64::from(seeds)).collect(),
            rows,
            notes,
            mean_absolute_errors,
        }
    }

    /// For a sweep of batches: the cells of its mean errors that are nearer than doing nothing, than the line, and than both, and
    /// their number.
    pub fn cells_won(&self) -> [usize; 4] {
        let cells: Vec<Cell> = self.mean_absolute_errors.iter().flat_map(MeanErrors::cells).collect();
        let won = |beats: fn(&Cell) -> bool| cells.iter().filter(|cell| beats(cell)).count();
        let (nothing, line) = (won(|cell| cell.simulated < cell.do_nothing), won(|cell| cell.simulated < cell.line));
        [nothing, line, won(Cell::is_won), cells.len()]
    }

    /// The simulations of all rows.
    pub fn simulations(&self) -> impl Iterator<Item = &Simulation> {
        self.rows.iter().flat_map(|row| &row.simulations)
    }
}

/// The mean errors of each machine of a sweep of batches, in the order of the rows.
fn mean_errors(rows: &[CompareRow]) -> Vec<MeanErrors> {
    let base = Key::Number(BASE_BATCH.into());
    let mut machines: IndexMap<String, Vec<&CompareRow>> = IndexMap::new();
    for row in rows {
        let Some(machine) = row.keys.get("machine") else { continue };
        let of_machine = machines.entry(machine.to_string()).or_default();
        of_machine.extend(Some(row).filter(|row| row.keys.get("batch") != Some(&base)));
    }
    let of = |(machine, rows): (String, Vec<&CompareRow>)| {
        let error = |of: fn(&CompareRow) -> &Columns| -> Columns {
            let columns = SWEEP_COLUMNS.iter().filter_map(|(column, _)| {
                let off = |row: &&CompareRow| Some((of(row).get(*column)? - row.published.get(*column)?).abs());
                Some(((*column).to_owned(), Spread::of(&rows.iter().filter_map(off).collect::<Vec<_>>())?.mean))
            });
            columns.collect()
        };
        MeanErrors {
            machine,
            rows: rows.len(),
            simulated: error(|row| &row.simulated),
            do_nothing: error(|row| &row.do_nothing),
            line: error(|row| &row.line),
        }
    };
    machines.into_iter().filter(|(_, rows)| !rows.is_empty()).map(of).collect()
}

impl Table {
    /// Evaluates the columns from the outcomes of [`Self::runs`]. A failed run affects only its own rows, so that an
    /// hour of simulations is not lost.
    pub fn compare(&self, runs: &[Run<'_>], outcomes: Vec<Result<BySeed, RunError>>, seeds: u32) -> CompareResult {
        let mut notes: Vec<String> = self.rows.iter().filter_map(|row| row.note.clone()).collect();
        let outcomes: Vec<BySeed> = outcomes
            .into_iter()
            .zip(runs)
            .map(|(outcomes, run)| {
                outcomes.unwrap_or_else(|error| {
                    notes.push(format!("not simulated: {} on {}: {error}", run.workload.name, run.machine.name));
                    Vec::new()
                })
            })
            .collect();
        let simulations: Vec<Simulation> = runs.iter().zip(&outcomes).map(Simulation::of).collect();
        let mut rows = Vec::new();
        for row in &self.rows {
            let mut compared = CompareRow { keys: row.keys.clone(), ..CompareRow::default() };
            let mut needed = BTreeSet::new();
            for column in &row.columns {
                if let Some(simulated) = simulated(column.value, &outcomes) {
                    let interval = interval(column.value, &outcomes);
                    compared.add(column, simulated, interval, self.layout);
                    needed.extend(column.value.needs());
                }
            }
            if compared.simulated.is_empty() {
                let keys: Vec<String> = row.keys.values().map(Key::to_string).collect();
                notes.push(format!("no simulated values for {}", keys.join(", ")));
                continue;
            }
            compared.simulations = needed.into_iter().map(|place| simulations[place].clone()).collect();
            rows.push(compared);
        }
        CompareResult::new(self, rows, &simulations, notes, runs.first(), seeds)
    }
}

/// A value over the seeds that all its experiments have; `None` if an experiment has none.
fn simulated(value: Value, outcomes: &[BySeed]) -> Option<Spread> {
    Spread::of(&by_seed(value, outcomes)?)
}

/// Half the width of the 95 % interval of a value's mean: over the seeds, or over time if there is one seed and the value is a
/// score, a change of a score or a share of time.
fn interval(value: Value, outcomes: &[BySeed]) -> Option<f64> {
    let values = by_seed(value, outcomes)?;
    let Value { measure, how, of, to } = value;
    // Of a ratio, from the intervals of both sides; what is relative to itself has none.
    let of_both = |value: f64, of_one: &dyn Fn(usize) -> Option<f64>| {
        Some(if of == to { 0.0 } else { value * of_one(of)?.hypot(of_one(to)?) })
    };
    if how == How::ChangeOfMeanPct && values.len() > 1 {
        // The seeds' values have the scatter of one mean only; that of the base has its own.
        let relative = |place: usize| {
            let all: Vec<f64> = outcomes[place].iter().map(|(_, outcome)| measure.of(outcome)).collect();
            Some(interval_95(&all)? / Spread::of(&all)?.mean)
        };
        return of_both(100.0 + Spread::of(&values)?.mean, &relative);
    }
    let [only] = values[..] else { return interval_95(&values) };
    let figures = |place: usize| outcomes[place].first()?.1.steadiness.map(|found| found.interval);
    let score = |place: usize| figures(place).map(|figures| figures.score_pct / 100.0);
    match (how, measure) {
        // A time is the inverse of a score, and as precise.
        (How::Itself, Measure::Score | Measure::Time) => Some(only * score(of)?),
        (How::Itself, Measure::ZonePct) => Some(figures(of)?.zone_points),
        (How::Itself, Measure::LruPct) => Some(figures(of)?.lru_points),
        (How::ChangePct | How::ChangeOfMeanPct, Measure::Score) => of_both(100.0 + only, &score),
        (How::Ratio(_), Measure::Score | Measure::Time) => of_both(only, &score),
        _ => None,
    }
}

/// A value for each seed that all its experiments have; `None` if there is no such seed, or a seed has no value, as a ratio
/// to nothing.
fn by_seed(value: Value, outcomes: &[BySeed]) -> Option<Vec<f64>> {
    let measured = |place: usize, seed: u64| {
        let of_seed = outcomes[place].iter().find(|(other, _)| *other == seed);
        of_seed.map(|(_, outcome)| value.measure.of(outcome))
    };
    let mean = |place: usize| {
        let all: Vec<f64> = outcomes[place].iter().map(|(_, outcome)| value.measure.of(outcome)).collect();
        Spread::of(&all).map(|all| all.mean)
    };
    let [of, to] = value.needs();
    let seeds = outcomes[of].iter().map(|(seed, _)| *seed).filter(|&seed| measured(to, seed).is_some());
    let of_seed = |seed| {
        let value = value.eval(|place| measured(place, seed).unwrap_or(f64::NAN), mean);
        value.filter(|value| value.is_finite())
    };
    seeds.map(of_seed).collect::<Option<Vec<_>>>().filter(|values| !values.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_errors_match_a_calculation_by_hand() {
        let row = |machine: &str, batch: u64, [published, simulated, do_nothing, line]: [f64; 4]| {
            let one = |value: f64| Columns::from([("score".to_owned(), value)]);
            let keys = [("machine", Key::Word(machine.to_owned())), ("batch", Key::Number(batch))];
            CompareRow {
                keys: keys.map(|(name, key)| (name.to_owned(), key)).into(),
                published: one(published),
                simulated: one(simulated),
                do_nothing: one(do_nothing),
                line: one(line),
                ..CompareRow::default()
            }
        };
        // Machines may alternate.
        let rows = [
            row("a", 31, [100.0, 90.0, 100.0, 100.0]),
            row("a", 62, [110.0, 105.0, 100.0, 110.0]),
            row("b", 31, [5.0, 6.0, 5.0, 5.0]),
            row("a", 124, [120.0, 130.0, 100.0, 124.0]),
        ];
        let errors = mean_errors(&rows);
        assert_eq!(errors.len(), 1, "machine b has only its base row");
        assert_eq!((errors[0].machine.as_str(), errors[0].rows), ("a", 2));
        let score = |columns: &Columns| columns["score"];
        assert_eq!([&errors[0].simulated, &errors[0].do_nothing, &errors[0].line].map(score), [7.5, 15.0, 2.0]);
        assert_eq!(errors[0].cells().count(), 0, "the score itself is not judged");
        let cell = |simulated| Cell { simulated, do_nothing: 2.0, line: 1.0 };
        assert_eq!([0.9, 1.0, 1.5].map(|error| cell(error).is_won()), [true, false, false]);
    }

    #[test]
    fn verdicts_follow_sign_and_tolerance() {
        let effect = |kind, published, do_nothing, mean| Effect {
            kind,
            published,
            do_nothing: Some(do_nothing),
            forecast: None,
            simulated: Spread { mean, deviation: 0.0 },
        };
        for (kind, published, do_nothing, simulated, holds) in [
            (Kind::Amount, Some(110.0), 100.0, 100.5, Some(true)),
            (Kind::Amount, Some(110.0), 100.0, 99.0, Some(false)),
            (Kind::Amount, Some(110.0), 100.0, 100.0, Some(false)),
            (Kind::Amount, Some(110.0), 100.0, 100.0 + 1e-12, Some(false)),
            (Kind::Amount, Some(110.0), 100.0, 100.04, Some(false)),
            (Kind::Amount, Some(110.0), 100.0, 100.06, Some(true)),
            (Kind::Amount, Some(90.0), 100.0, 99.96, Some(false)),
            (Kind::Amount, Some(90.0), 100.0, 99.94, Some(true)),
            (Kind::Amount, Some(96.0), 100.0, 80.0, Some(true)),
            (Kind::Amount, Some(102.0), 100.0, 80.0, None),
            (Kind::Amount, None, 100.0, 80.0, None),
            (Kind::Share, Some(42.0), 35.0, 51.0, Some(true)),
            (Kind::Share, Some(42.0), 35.0, 53.0, Some(false)),
            (Kind::Change, Some(8.3), 0.0, 1.0, Some(true)),
            (Kind::Change, Some(-1.0), 0.0, 1.0, None),
        ] {
            let effect = effect(kind, published, do_nothing, simulated);
            assert_eq!(effect.holds(), holds, "{kind:?} {published:?} {simulated}");
        }
    }
}
