//! The published row of a machine: what a fit aims at.

use pageset::Tuning;

use crate::compare::{BASE_BATCH, SHIPPED, TableError, sweep};
use crate::era::Era;
use crate::machine::Machine;

/// The values of one row, published or simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Target {
    /// Number of tasks.
    pub tasks: u32,
    /// Operations a second.
    pub score: f64,
    /// The time spent waiting for zone locks and for LRU locks, in percent.
    pub contention_pct: [f64; 2],
}

/// The row of page_fault1 that costs are set on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goal {
    /// The published values.
    pub row: Target,
    /// The rules of the row.
    pub tuning: Tuning,
    /// The era of the row's kernel.
    pub era: Era,
}

impl Goal {
    /// The published row of a machine of the batch sweep: batch 31. `None` for other machines.
    ///
    /// # Errors
    /// The shipped table is damaged.
    pub fn of(machine: &Machine) -> Result<Option<Goal>, TableError> {
        let (file, text) = SHIPPED[0];
        let rows = sweep::rows(file, text)?;
        let row = rows.iter().find(|row| row.machine == machine.name && row.batch == BASE_BATCH);
        Ok(row.map(|row| {
            let [score, _, zone_pct, lru_pct, _] = row.values;
            let row = Target { tasks: machine.topology().cpus(), score, contention_pct: [zone_pct, lru_pct] };
            let (tuning, era) = sweep::rules(BASE_BATCH);
            Goal { row, tuning, era }
        }))
    }
}
