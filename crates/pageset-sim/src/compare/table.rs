//! A published table: the simulations that its rows need, and how its columns follow from them.

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexMap;
use pageset::Tuning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BASE_BATCH, Value};
use crate::era::Era;
use crate::machine::{self, Machine, MachineError};
use crate::run::Run;
use crate::workload::Workload;

/// One simulation with all its seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// The workload's name.
    pub workload: &'static str,
    /// The machine's name.
    pub machine: &'static str,
    /// The rules.
    pub tuning: Tuning,
    /// The era of the table's kernels.
    pub era: Era,
    /// Number of tasks, at most the number of CPUs; `None` means one per CPU.
    pub tasks: Option<u32>,
}

/// The kind of a column, which decides how its error counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A quantity. Its change from the base counts, above all the sign.
    Amount,
    /// A percentage of a whole: errors are in percentage points.
    Share,
    /// A change in per cent, relative to a base that is 0.
    Change,
}

pub(super) const SWEEP_COLUMNS: [(&str, Kind); 5] = [
    ("score", Kind::Amount),
    ("change_pct", Kind::Change),
    ("zone_contention_pct", Kind::Share),
    ("lru_contention_pct", Kind::Share),
    ("total_contention_pct", Kind::Share),
];

/// One column of a row.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// The name in the table.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// The published value, if any.
    pub published: Option<f64>,
    /// The published base.
    pub do_nothing: Option<f64>,
    /// The forecast of the table, if it has one.
    pub forecast: Option<f64>,
    /// How the value follows from simulations.
    pub value: Value,
}

/// The value of a key column.
#[derive(Clone, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Key {
    /// A batch or a number of tasks.
    Number(u64),
    /// A machine, a workload or a kernel.
    Word(String),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Number(number) => number.fmt(f),
            Key::Word(word) => word.fmt(f),
        }
    }
}

/// Key columns, in the order of the table.
pub type Keys = IndexMap<String, Key>;

/// Two key columns that contain words.
pub(super) fn words(keys: [(&str, &str); 2]) -> Keys {
    keys.map(|(name, word)| (name.to_owned(), Key::Word(word.to_owned()))).into()
}

/// One row of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The key columns.
    pub keys: Keys,
    /// The other columns.
    pub columns: Vec<Column>,
    /// A deviation of the simulation from the table.
    pub note: Option<String>,
}

impl Row {
    fn batch(&self) -> Option<u64> {
        match self.keys.get("batch") {
            Some(Key::Number(batch)) => Some(*batch),
            _ => None,
        }
    }

    fn has(&self, word: &str) -> bool {
        self.keys.values().any(|key| key.to_string().contains(word))
    }
}

/// The layout of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// page_fault1 over batches; the forecast is a line in 1/batch.
    BatchSweep,
    /// page_fault1 over numbers of tasks; the forecast is Amdahl's law.
    Tasks,
    /// The effects of rules: columns of several kinds, without a forecast.
    #[default]
    Effects,
}

/// A table and the simulations that it needs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// The name in messages.
    pub name: String,
    /// The layout of rows and columns.
    pub layout: Layout,
    /// All simulations.
    pub experiments: Vec<Experiment>,
    /// All rows.
    pub rows: Vec<Row>,
}

/// Creates the run of an experiment.
pub type HowToRun<'h, 'm> = &'h dyn Fn(&'m Workload, &'m Machine, Tuning, Era) -> Run<'m>;

impl Table {
    /// Keeps the rows that have one of `machines` and one of `words` in a key column, and one of `batches`. An empty
    /// list keeps all rows. Base rows of a batch stay.
    ///
    /// # Errors
    /// The option that selects no row, and its value.
    pub fn select(&mut self, machines: &[String], words: &[String], batches: &[u32]) -> Result<(), String> {
        if !batches.is_empty() && self.rows.iter().all(|row| row.batch().is_none()) {
            return Err(format!("--batch: {} has no rows of a batch", self.name));
        }
        let missing = |option: &str, value: &str| Err(format!("--{option} {value}: no row of {} has it", self.name));
        for (option, words) in [("machine", machines), ("row", words)] {
            if let Some(word) = words.iter().find(|word| !self.rows.iter().any(|row| row.has(word))) {
                return missing(option, word);
            }
        }
        let is_of = |row: &Row, batch: u32| row.batch() == Some(batch.into());
        if let Some(batch) = batches.iter().find(|&&batch| !self.rows.iter().any(|row| is_of(row, batch))) {
            return missing("batch", &batch.to_string());
        }
        let any = |words: &[String], row: &Row| words.is_empty() || words.iter().any(|word| row.has(word));
        self.retain(|row| {
            let of_batch = batches.is_empty() || batches.iter().chain([&BASE_BATCH]).any(|&batch| is_of(row, batch));
            any(machines, row) && any(words, row) && of_batch
        });
        Ok(())
    }

    /// Keeps the rows for which `wanted` holds, and their experiments.
    pub(super) fn retain(&mut self, wanted: impl Fn(&Row) -> bool) {
        self.rows.retain(wanted);
        let mut kept = Vec::new();
        for column in self.rows.iter_mut().flat_map(|row| &mut row.columns) {
            for place in [&mut column.value.of, &mut column.value.to] {
                let old = *place;
                *place = kept.iter().position(|kept| *kept == old).unwrap_or_else(|| {
                    kept.push(old);
                    kept.len() - 1
                });
            }
        }
        self.experiments = kept.iter().map(|&old| self.experiments[old].clone()).collect();
    }

    /// The machines of all experiments, by name.
    pub fn machines(&self) -> Result<HashMap<&'static str, Machine>, MachineError> {
        let names: BTreeSet<&'static str> = self.experiments.iter().map(|experiment| experiment.machine).collect();
        names.into_iter().filter_map(|name| Some(machine::find(name)?.map(|machine| (name, machine)))).collect()
    }

    /// Creates a run for each experiment, on machines of [`Self::machines`].
    pub fn runs<'m>(&self, machines: &'m HashMap<&'static str, Machine>, how: HowToRun<'_, 'm>) -> Vec<Run<'m>> {
        let run_of = |experiment: &Experiment| {
            let workload = Workload::find(experiment.workload)?;
            let run = how(workload, machines.get(experiment.machine)?, experiment.tuning, experiment.era);
            Some(Run { tasks: experiment.tasks.unwrap_or(run.tasks), ..run })
        };
        // `parse` has checked all workloads and machines, so no experiment is dropped.
        self.experiments.iter().filter_map(run_of).collect()
    }

    /// The index of an experiment, which is added if it is new.
    pub(super) fn experiment(&mut self, experiment: Experiment) -> usize {
        match self.experiments.iter().position(|known| *known == experiment) {
            Some(place) => place,
            None => {
                self.experiments.push(experiment);
                self.experiments.len() - 1
            }
        }
    }
}
