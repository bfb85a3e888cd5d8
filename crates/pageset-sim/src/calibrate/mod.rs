//! The costs that all machines share, set on published rows of page_fault1.
//!
//! A machine's [`pace`](crate::machine::Fitted) is the only number that is fitted to that machine, and only to a score. The
//! [shared costs](crate::machine::Shared) are set on rows of all machines together. [`leave_one_out`] sets them without each
//! machine in turn, which tells how well they predict a machine that was left out.
//!
//! | module | contents |
//! | --- | --- |
//! | `goal` | the published row of a machine |
//! | `least_squares` | the method of least squares |
//! | `surface` | a machine's row as a function of the shared costs |
//! | `shared` | the fits of the shared costs |

mod goal;
mod least_squares;
mod shared;
mod surface;

use std::fmt;

use pageset::Tuning;

use crate::era::Era;
use crate::machine::Machine;
use crate::run::{Outcome, Run, RunError};
use crate::sweep::{BySeed, Effort, run_seeds};
pub use goal::{Goal, Target};
use pageset_statistics::Spread;
pub use shared::{LeftOut, leave_one_out};

/// Creates the run of a machine under a set of rules in an era.
pub type HowToRun<'s> = &'s dyn for<'m> Fn(&'m Machine, Tuning, Era) -> Run<'m>;

/// The settings of a fit.
#[derive(Clone)]
pub struct Settings<'s> {
    /// Creates the run of a row; tasks and seed are set later. Use the same runs as comparisons do.
    pub run: HowToRun<'s>,
    /// Seeds of each simulation, and threads to run them on.
    pub effort: Effort,
}

impl fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("effort", &self.effort).finish_non_exhaustive()
    }
}

/// Simulates the rows of machines. `heard` gets the numbers of finished and of all simulations.
///
/// # Errors
/// A simulation failed, was stopped, or finished no operation.
fn simulate(
    machines: &[Machine],
    goals: &[Goal],
    settings: &Settings<'_>,
    keep_on: &(impl Fn() -> bool + Sync + ?Sized),
    heard: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Target>, RunError> {
    let runs: Vec<Run<'_>> = machines
        .iter()
        .zip(goals)
        .map(|(machine, goal)| Run { tasks: goal.row.tasks, ..(settings.run)(machine, goal.tuning, goal.era) })
        .collect();
    let outcomes = run_seeds(&runs, settings.effort, keep_on, heard);
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    if outcomes.iter().any(|seeds| seeds.len() < settings.effort.seeds as usize) {
        return Err(RunError::Interrupted);
    }
    let mean = |outcomes: &BySeed, of: fn(&Outcome) -> f64| {
        Spread::of(&outcomes.iter().map(|(_, outcome)| of(outcome)).collect::<Vec<_>>())
            .map_or(f64::NAN, |spread| spread.mean)
    };
    let reached = |(goal, outcomes): (&Goal, &BySeed)| Target {
        tasks: goal.row.tasks,
        score: mean(outcomes, Outcome::score),
        contention_pct: [mean(outcomes, Outcome::zone_pct), mean(outcomes, Outcome::lru_pct)],
    };
    let rows: Vec<Target> = goals.iter().zip(&outcomes).map(reached).collect();
    match rows.iter().zip(machines).find(|(row, _)| row.score <= 0.0) {
        Some((_, machine)) => Err(RunError::NoWork { machine: machine.name.clone() }),
        None => Ok(rows),
    }
}

#[cfg(test)]
mod tests;
