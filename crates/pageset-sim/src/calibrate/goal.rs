//! The goal of a fit: published rows, and the costs that these rows determine.

use pageset::Tuning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::COSTS;
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
    /// Zone lock and LRU lock contention in per cent, if known.
    pub contention_pct: Option<[f64; 2]>,
}

/// A calibrated cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// [`Calibrated::fault_ns`](crate::machine::Calibrated::fault_ns).
    Fault,
    /// [`Calibrated::transfer_ns`](crate::machine::Calibrated::transfer_ns).
    Transfer,
    /// [`Calibrated::lru_page_ns`](crate::machine::Calibrated::lru_page_ns).
    LruPage,
}

impl Cost {
    /// All costs.
    pub const ALL: [Cost; COSTS] = [Cost::Fault, Cost::Transfer, Cost::LruPage];

    /// The cost's key in a machine description.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Cost::Fault => "fault_ns",
            Cost::Transfer => "transfer_ns",
            Cost::LruPage => "lru_page_ns",
        }
    }
}

/// The goal of a fit, in addition to the guesses.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    /// The rows, one or two.
    pub rows: Vec<Target>,
    /// The costs that the rows determine; the other costs stay unchanged.
    pub costs: Vec<Cost>,
    /// The rules of the rows.
    pub tuning: Tuning,
    /// The era of the rows' kernel.
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
    /// The published rows for a machine: the row of batch 31, or the rows with the fewest and the most tasks.
    ///
    /// # Errors
    /// No row was published for the machine.
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
