//! What a fit is made to: published rows, and the costs that they tell.

use pageset::Tuning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::COSTS;
use crate::compare::{BASE_BATCH, SHIPPED, TASKS_MACHINE, TableError, sweep, tasks};
use crate::era::Era;
use crate::machine::Machine;

/// What was published of one row, or simulated.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Target {
    /// Tasks.
    pub tasks: u32,
    /// Operations a second.
    pub score: f64,
    /// Zone lock and LRU lock contention in percent, where they are known.
    pub contention_pct: Option<[f64; 2]>,
}

/// A calibrated cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// [`Calibrated::fault_ns`].
    Fault,
    /// [`Calibrated::transfer_ns`].
    Transfer,
    /// [`Calibrated::lru_page_ns`].
    LruPage,
}

impl Cost {
    /// All of them.
    pub const ALL: [Cost; COSTS] = [Cost::Fault, Cost::Transfer, Cost::LruPage];

    /// Its key in a machine's description.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Cost::Fault => "fault_ns",
            Cost::Transfer => "transfer_ns",
            Cost::LruPage => "lru_page_ns",
        }
    }
}

/// What a fit is made to, beside the guesses.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    /// The rows, one or two.
    pub rows: Vec<Target>,
    /// The costs that they tell; the others stay as they are.
    pub costs: Vec<Cost>,
    /// The rules of the rows.
    pub tuning: Tuning,
    /// The era of the rows' kernel.
    pub era: Era,
}

/// Why a machine cannot be fitted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GoalError {
    /// A shipped table is damaged.
    #[error(transparent)]
    Table(#[from] TableError),
    /// No row was published of the machine.
    #[error("{file} has no row of batch {BASE_BATCH} of a machine {machine}")]
    NoRow {
        /// The table.
        file: &'static str,
        /// The machine.
        machine: String,
    },
}

impl Goal {
    /// The published rows that a machine is fitted to: that of batch 31, or those of fewest and of most tasks.
    ///
    /// # Errors
    /// No row was published of the machine.
    pub fn of(machine: &Machine) -> Result<Goal, GoalError> {
        let is_of_tasks = machine.name == TASKS_MACHINE;
        let (file, text) = SHIPPED[usize::from(is_of_tasks)];
        let no_row = || GoalError::NoRow { file, machine: machine.name.clone() };
        if is_of_tasks {
            let rows = tasks::rows(file, text)?;
            let ends = rows.iter().min_by_key(|row| row.tasks).zip(rows.iter().max_by_key(|row| row.tasks));
            let (first, last) = ends.ok_or_else(no_row)?;
            let target =
                |row: &tasks::TasksRow| Target { tasks: row.tasks, score: row.published[0], contention_pct: None };
            let costs = vec![Cost::Fault, Cost::LruPage];
            return Ok(Goal { rows: vec![target(first), target(last)], costs, tuning: first.tuning, era: first.era });
        }
        let rows = sweep::rows(file, text)?;
        let row = rows.iter().find(|row| row.machine == machine.name && row.batch == BASE_BATCH).ok_or_else(no_row)?;
        let [score, _, zone_pct, lru_pct, _] = row.values;
        let target = Target { tasks: machine.topology().cpus(), score, contention_pct: Some([zone_pct, lru_pct]) };
        let (tuning, era) = sweep::rules(BASE_BATCH);
        Ok(Goal { rows: vec![target], costs: Cost::ALL.into(), tuning, era })
    }
}
