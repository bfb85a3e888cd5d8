//! Tables of effects: what a rule changes under a workload on a machine.
//!
//! A table's lines name experiments, which are run once each however many lines need them; a line's columns are measures
//! of them, most relative to a base. Costs are those of the machines, fitted to none of these tables.

//!
//! | module | what lives there |
//! | --- | --- |
//! | `cells` | a table's cells, and the names in them |
//! | `measure` | what is read off a simulation |
//! | `verdict` | whether an effect came out |
//! | `batches`, `merge_skip`, `series`, `single_pass` | the tables: what each of their words means |

mod batches;
mod cells;
mod measure;
mod merge_skip;
mod series;
mod single_pass;
mod verdict;

use std::collections::BTreeSet;

use pageset::Tuning;

pub use measure::{Measure, Value};
pub use verdict::{Effect, Kind, NEAR_POINTS, SMALL_CHANGE_PCT, Verdict};

use super::TableError;
use crate::era::Era;
use crate::run::Outcome;
use crate::statistics::Spread;
use cells::{Cells, known, machine};

/// One simulation, of all seeds.
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
    /// Tasks, at most as many as CPUs; these where none are given.
    pub tasks: Option<u32>,
}

/// One column of a line.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its name in the table.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// What was published, unless it was left out.
    pub published: Option<f64>,
    /// The published base.
    pub do_nothing: Option<f64>,
    /// How it is simulated.
    pub value: Value,
}

/// One line of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct EffectRow {
    /// Its key columns: names and words.
    pub keys: Vec<(String, String)>,
    /// Its other columns.
    pub columns: Vec<Column>,
    /// What is simulated otherwise than the table says.
    pub note: Option<String>,
}

/// A table of effects, and what has to be simulated for it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EffectTable {
    /// All simulations.
    pub experiments: Vec<Experiment>,
    /// All lines.
    pub rows: Vec<EffectRow>,
}

/// A line and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparedEffects {
    /// Its key columns.
    pub keys: Vec<(String, String)>,
    /// Its other columns, those that were simulated.
    pub effects: Vec<Effect>,
    /// The experiments that these are of: places in [`EffectTable::experiments`].
    pub experiments: Vec<usize>,
}

impl EffectTable {
    /// The first lines of the tables that can be read.
    pub const HEADERS: [&'static str; 4] = [batches::HEADER, merge_skip::HEADER, series::HEADER, single_pass::HEADER];

    /// Whether this is a table of effects: it begins as one.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        Self::HEADERS.contains(&text.lines().next().unwrap_or_default().trim_end())
    }

    /// Reads a table; `file` is its name in messages.
    ///
    /// # Errors
    /// What is wrong in which line.
    pub fn parse(file: &str, text: &str) -> Result<EffectTable, TableError> {
        let add = match text.lines().next().unwrap_or_default().trim_end() {
            batches::HEADER => batches::add,
            merge_skip::HEADER => merge_skip::add,
            series::HEADER => series::add,
            single_pass::HEADER => single_pass::add,
            _ => return Err(TableError::unknown_kind(file)),
        };
        let mut table = EffectTable::default();
        let mut lines = Vec::new();
        for record in csv::Reader::from_reader(text.as_bytes()).into_records() {
            let wrong = |line, what| TableError { file: file.to_owned(), line, what };
            let record = record.map_err(|error| {
                wrong(error.position().map(csv::Position::line), "not as many columns as the first line has".to_owned())
            })?;
            lines.push((record.position().map(csv::Position::line), record));
        }
        for (line, record) in &lines {
            let cells = Cells { record, all: &lines };
            add(&mut table, &cells).map_err(|what| TableError { file: file.to_owned(), line: *line, what })?;
        }
        if table.rows.is_empty() {
            return Err(TableError { file: file.to_owned(), line: None, what: "no rows".to_owned() });
        }
        // A share needs no base.
        table.retain(|_| true);
        Ok(table)
    }

    /// Keeps the lines for which `wanted` holds, and the experiments that these need.
    pub fn retain(&mut self, wanted: impl Fn(&EffectRow) -> bool) {
        self.rows.retain(wanted);
        let mut kept = Vec::new();
        for column in self.rows.iter_mut().flat_map(|row| &mut row.columns) {
            let mut place = |old: &mut usize| {
                let new = kept.iter().position(|kept| kept == old).unwrap_or_else(|| {
                    kept.push(*old);
                    kept.len() - 1
                });
                *old = new;
            };
            match &mut column.value {
                Value::Of(_, of) => place(of),
                Value::Ratio { of, to, .. } | Value::ChangePct { of, to, .. } => [of, to].into_iter().for_each(place),
            }
        }
        self.experiments = kept.iter().map(|&old| self.experiments[old].clone()).collect();
    }

    /// Reads the columns off the simulations: for each experiment the outcomes of all seeds, or none where it was not run.
    #[must_use]
    pub fn compare(&self, outcomes: &[Vec<Outcome>]) -> Vec<ComparedEffects> {
        let effect = |column: &Column| {
            let value = column.value;
            let seeds = value.needs().into_iter().map(|number| outcomes[number].len()).min().unwrap_or(0);
            let of_seed = |seed: usize| value.eval(|number| value.measure().of(&outcomes[number][seed]));
            let simulated = Spread::of(&(0..seeds).map(of_seed).collect::<Vec<_>>())?;
            Some(Effect { column: column.clone(), simulated })
        };
        let rows = self.rows.iter().map(|row| {
            let effects: Vec<Effect> = row.columns.iter().filter_map(effect).collect();
            let experiments: BTreeSet<usize> = effects.iter().flat_map(|effect| effect.column.value.needs()).collect();
            ComparedEffects { keys: row.keys.clone(), effects, experiments: experiments.into_iter().collect() }
        });
        rows.filter(|row| !row.effects.is_empty()).collect()
    }

    /// The place of an experiment, which is added if it is new.
    fn experiment(&mut self, experiment: Experiment) -> usize {
        match self.experiments.iter().position(|known| *known == experiment) {
            Some(place) => place,
            None => {
                self.experiments.push(experiment);
                self.experiments.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests;
