//! The published row of a machine: what a fit aims at.

use pageset::Tuning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{BASE_BATCH, SHIPPED, TASKS_MACHINE, TableError, sweep, tasks};
use crate::era::Era;
use crate::machine::Machine;

/// The values of one row, published or simulated.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Target {
    /// Number of tasks.
    pub tasks: u32,
    /// Operations a second.
    pub score: f64,
    /// The time spent waiting for zone locks and for LRU locks, in percent; null if it was not published.
    pub contention_pct: Option<[f64; 2]>,
}

/// The row of page_fault1 that a machine is fitted to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goal {
    /// The published values.
    pub row: Target,
    /// The rules of the row.
    pub tuning: Tuning,
    /// The era of the row's kernel.
    pub era: Era,
}

/// The reason why a machine cannot be fitted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GoalError {
    /// A shipped table is damaged.
    #[error(transparent)]
    Table(#[from] TableError),
    /// No row was published for the machine.
    #[error("{file} has no row of batch {BASE_BATCH} of a machine {machine}")]
    NoRow {
        /// The name of the table.
        file: &'static str,
        /// The name of the machine.
        machine: String,
    },
}

impl Goal {
    /// The published row of a machine: batch 31, or the row with the most processes.
    pub fn of(machine: &Machine) -> Result<Goal, GoalError> {
        let is_of_tasks = machine.name == TASKS_MACHINE;
        let (file, text) = SHIPPED[usize::from(is_of_tasks)];
        let no_row = || GoalError::NoRow { file, machine: machine.name.clone() };
        if is_of_tasks {
            let rows = tasks::rows(file, text)?;
            let last = rows.iter().max_by_key(|row| row.tasks).ok_or_else(no_row)?;
            let row = Target { tasks: last.tasks, score: last.published[0], contention_pct: None };
            return Ok(Goal { row, tuning: last.tuning, era: last.era });
        }
        let rows = sweep::rows(file, text)?;
        let row = rows.iter().find(|row| row.machine == machine.name && row.batch == BASE_BATCH).ok_or_else(no_row)?;
        let [score, _, zone_pct, lru_pct, _] = row.values;
        let row = Target { tasks: machine.topology().cpus(), score, contention_pct: Some([zone_pct, lru_pct]) };
        let (tuning, era) = sweep::rules(BASE_BATCH);
        Ok(Goal { row, tuning, era })
    }
}
