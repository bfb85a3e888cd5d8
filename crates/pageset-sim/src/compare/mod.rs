//! Published tables beside what the simulator makes of them.
//!
//! Every error stands beside two baselines: doing nothing, which repeats the base row, and a straight line through the
//! base row and the last. A simulator is worth something where it beats both.

mod effects;
mod records;
mod sweep_table;
mod tasks_table;

use std::fmt;

pub use effects::{
    Column, ComparedEffects, Effect, EffectRow, EffectTable, Experiment, Kind, Measure, NEAR_POINTS, SMALL_CHANGE_PCT,
    Value, Verdict,
};
pub use sweep_table::{BASE_BATCH, SWEEP_ERA, SweepRow, SweepTable};
pub use tasks_table::{TASKS_COLUMNS, TASKS_MACHINE, TasksRow, TasksTable, baselines};

use crate::statistics::Spread;

/// The columns that are compared, in the table's words.
pub const COLUMNS: [&str; 5] =
    ["score", "change_pct", "zone_contention_pct", "lru_contention_pct", "total_contention_pct"];

/// One value for each of [`COLUMNS`].
pub type Values = [f64; COLUMNS.len()];

/// One row: what was published, what was simulated, and the baselines.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// Which machine.
    pub machine: String,
    /// Which batch.
    pub batch: u32,
    /// What was published.
    pub published: Values,
    /// What was simulated: means over the seeds.
    pub simulated: Values,
    /// Standard deviations over the seeds of single simulations.
    pub deviation: Values,
    /// The published base row again.
    pub do_nothing: Values,
    /// The line in 1/batch through the published base row and the machine's last.
    pub line: Values,
}

/// What a simulation of a row gave, one for each seed: score, zone and LRU contention in percent.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulated(pub Vec<[f64; 3]>);

/// Mean absolute errors over a machine's rows other than the base row, by column.
#[derive(Clone, PartialEq, Debug)]
pub struct Errors {
    /// Which machine.
    pub machine: String,
    /// How many rows.
    pub rows: usize,
    /// Of the simulation.
    pub simulated: Values,
    /// Of doing nothing.
    pub do_nothing: Values,
    /// Of the line.
    pub line: Values,
}

/// A table that is damaged or of an unknown kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableError {
    pub(crate) file: String,
    pub(crate) line: Option<u64>,
    pub(crate) what: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for TableError {}

impl TableError {
    /// The first line is none that is known.
    fn unknown_kind(file: &str) -> Self {
        let what = format!("a table of an unknown kind; its first line may be\n  {}", headings().join("\n  "));
        TableError { file: file.to_owned(), line: Some(1), what }
    }
}

/// The first lines of all kinds of tables.
#[must_use]
pub fn headings() -> Vec<String> {
    let of_effects = EffectTable::HEADERS.into_iter().map(str::to_owned);
    [SweepTable::heading(), TasksTable::heading()].into_iter().chain(of_effects).collect()
}

/// The tables that come with the crate: names and texts.
pub const SHIPPED: &[(&str, &str)] = &[
    ("page_fault1-batch-sweep.csv", include_str!("../../reference/page_fault1-batch-sweep.csv")),
    ("page_fault1-1-to-40-tasks.csv", include_str!("../../reference/page_fault1-1-to-40-tasks.csv")),
    ("batch-31-63-127.csv", include_str!("../../reference/batch-31-63-127.csv")),
    ("merge-skip-and-clusters.csv", include_str!("../../reference/merge-skip-and-clusters.csv")),
    ("pcp-autotune-patch-by-patch.csv", include_str!("../../reference/pcp-autotune-patch-by-patch.csv")),
    ("single-pass-bulk-free.csv", include_str!("../../reference/single-pass-bulk-free.csv")),
];

/// Puts simulations beside a table's rows. `simulated` has one for each of `rows`, all of which are of machines whose base
/// row is among them.
#[must_use]
pub fn compare(rows: &[SweepRow], simulated: &[Simulated]) -> Vec<Compared> {
    let base_of = |row: &SweepRow| rows.iter().position(|other| other.is_base_of(row));
    let mut compared = Vec::new();
    for (row, sim) in rows.iter().zip(simulated) {
        let Some(base) = base_of(row) else { continue };
        let last = rows.iter().rfind(|other| other.machine == row.machine).unwrap_or(row);
        let base_score = mean(simulated[base].0.iter().map(|values| values[0]));
        let values = |[score, zone, lru]: [f64; 3]| [score, 100.0 * (score / base_score - 1.0), zone, lru, zone + lru];
        let all: Vec<Values> = sim.0.iter().map(|one| values(*one)).collect();
        let spread = |column: usize| Spread::of(&all.iter().map(|values| values[column]).collect::<Vec<_>>());
        compared.push(Compared {
            machine: row.machine.clone(),
            batch: row.batch,
            published: row.values,
            simulated: std::array::from_fn(|column| spread(column).map_or(f64::NAN, |spread| spread.mean)),
            deviation: std::array::from_fn(|column| spread(column).map_or(f64::NAN, |spread| spread.deviation)),
            do_nothing: rows[base].values,
            line: line(&rows[base], last, row.batch),
        });
    }
    compared
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    Spread::of(&values.collect::<Vec<_>>()).map_or(f64::NAN, |spread| spread.mean)
}

/// The line in 1/batch through two rows.
fn line(base: &SweepRow, last: &SweepRow, batch: u32) -> Values {
    let at = |batch: u32| 1.0 / f64::from(batch);
    let span = at(last.batch) - at(base.batch);
    let share = if span == 0.0 { 0.0 } else { (at(batch) - at(base.batch)) / span };
    std::array::from_fn(|column| base.values[column] + share * (last.values[column] - base.values[column]))
}

/// The errors of each machine, in the order of the rows.
#[must_use]
pub fn errors(compared: &[Compared]) -> Vec<Errors> {
    let groups = compared.chunk_by(|a, b| a.machine == b.machine);
    let of = |rows: &[Compared]| -> Option<Errors> {
        let rows: Vec<&Compared> = rows.iter().filter(|row| row.batch != BASE_BATCH).collect();
        let error = |of: fn(&Compared) -> &Values| -> Values {
            std::array::from_fn(|column| mean(rows.iter().map(|row| (of(row)[column] - row.published[column]).abs())))
        };
        Some(Errors {
            machine: rows.first()?.machine.clone(),
            rows: rows.len(),
            simulated: error(|row| &row.simulated),
            do_nothing: error(|row| &row.do_nothing),
            line: error(|row| &row.line),
        })
    };
    groups.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(machine: &str, batch: u32, values: Values) -> SweepRow {
        SweepRow { machine: machine.to_owned(), batch, values }
    }

    #[test]
    fn baselines_and_errors_by_hand() {
        let rows = [
            row("a", 31, [100.0, 0.0, 60.0, 10.0, 70.0]),
            row("a", 62, [110.0, 10.0, 20.0, 40.0, 60.0]),
            row("a", 124, [120.0, 20.0, 0.0, 70.0, 70.0]),
            row("b", 31, [5.0, 0.0, 1.0, 2.0, 3.0]),
        ];
        let simulated = [
            Simulated(vec![[90.0, 59.0, 10.0], [110.0, 61.0, 12.0]]),
            Simulated(vec![[105.0, 24.0, 40.0]]),
            Simulated(vec![[130.0, 2.0, 60.0]]),
            Simulated(vec![[6.0, 1.0, 2.0]]),
        ];
        let compared = compare(&rows, &simulated);
        let expected = [100.0, 0.0, 60.0, 11.0, 71.0];
        let near = |(a, b): (&f64, f64)| (a - b).abs() < 1e-9;
        assert!(compared[0].simulated.iter().zip(expected).all(near), "{:?}", compared[0].simulated);
        assert!((compared[0].deviation[0] - 200_f64.sqrt()).abs() < 1e-9);
        assert_eq!(compared[1].do_nothing, rows[0].values);
        assert!((compared[1].simulated[1] - 5.0).abs() < 1e-9, "relative to the simulated base row");
        // 1/62 lies two thirds of the way from 1/31 to 1/124.
        assert!((compared[1].line[2] - 20.0).abs() < 1e-9, "{:?}", compared[1].line);
        let errors = errors(&compared);
        assert_eq!(errors.len(), 1, "machine b has nothing but its base row");
        assert_eq!(errors[0].rows, 2);
        assert!((errors[0].simulated[2] - 3.0).abs() < 1e-9);
        assert!((errors[0].do_nothing[2] - 50.0).abs() < 1e-9);
        assert!((errors[0].line[2] - 0.0).abs() < 1e-9);
    }
}
