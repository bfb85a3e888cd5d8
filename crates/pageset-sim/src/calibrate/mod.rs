//! Fits to published rows of page_fault1: the pace of one machine, and the costs that all machines share.
//!
//! A machine's [`pace`](crate::machine::Fitted) is the only number that is fitted to that machine, and only to a score. The
//! [shared costs](crate::machine::Shared) are set on the rows of all machines together. [`share`] also sets them without each
//! machine in turn, which tells how well they predict a machine that was left out.
//!
//! | module | contents |
//! | --- | --- |
//! | `goal` | the published row of a machine |
//! | `least_squares` | the method of least squares |
//! | `surface` | a machine's row as a function of the shared costs |
//! | `shared` | the fit of the shared costs |
//! | `result` | the results |

mod goal;
mod least_squares;
mod result;
mod shared;
mod surface;

use std::fmt;

use pageset::Tuning;

use crate::era::Era;
use crate::machine::{Fitted, Machine, PACES, Rate};
use crate::run::{Outcome, Run, RunError};
use crate::sweep::{BySeed, Effort, run_seeds};
pub use goal::{Goal, GoalError, Target};
use pageset_statistics::Spread;
pub use result::{Calibration, SharedFit, Simulated};
pub use shared::{Judged, Sharing, share};

/// The schema of [`Calibration`].
pub const SCHEMA: &str = "pageset.calibrate/2";
/// The schema of [`SharedFit`].
pub const SHARED_SCHEMA: &str = "pageset.share/3";

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

/// The state of a fit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fit {
    /// The fitted number.
    pub fitted: Fitted,
    /// The simulated row with it.
    pub simulated: Target,
}

/// Maximum of simulations of a fit. Two usually suffice, because the score is nearly in inverse proportion to the pace.
const SIMULATIONS: usize = 4;
/// The fit ends when the score is this near to the published one, as the logarithm of their ratio: less than the differences
/// between seeds.
const LAST_OFF: f64 = 0.002;

/// Fits the pace of a machine to a score, starting from its present pace. Calls `on_better` for each simulation that is nearer.
pub fn fit(
    machine: &Machine,
    goal: &Goal,
    settings: &Settings<'_>,
    keep_on: impl Fn() -> bool + Sync,
    mut on_better: impl FnMut(&Fit),
) -> Result<Fit, RunError> {
    let (mut pace, mut best) = (machine.fitted.pace.get(), None::<(f64, Fit)>);
    for _ in 0..SIMULATIONS {
        let fitted = Fitted { pace: rounded(pace).unwrap_or(machine.fitted.pace) };
        let trial = [Machine { fitted, ..machine.clone() }];
        let simulated =
            simulate(&trial, &[*goal], settings, &keep_on, &|_, _| {})?.pop().ok_or(RunError::Interrupted)?;
        let off = (simulated.score / goal.row.score).ln();
        if best.is_none_or(|(least, _)| off.abs() < least) {
            let fit = Fit { fitted, simulated };
            best = Some((off.abs(), fit));
            on_better(&fit);
        }
        if off.abs() < LAST_OFF || !off.is_finite() {
            break;
        }
        pace = fitted.pace.get() * off.exp();
    }
    best.map(|(_, fit)| fit).ok_or(RunError::Interrupted)
}

/// A pace as it is printed, with four digits after the point.
fn rounded(pace: f64) -> Option<Rate> {
    Rate::try_from((1e4 * pace).round() / 1e4).ok().filter(|pace| PACES.contains(&pace.get()))
}

/// Simulates the rows of machines. Contention is that of the simulation, also where none was published. `heard` gets the numbers of
/// finished and of all simulations.
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
        contention_pct: Some([mean(outcomes, Outcome::zone_pct), mean(outcomes, Outcome::lru_pct)]),
    };
    let rows: Vec<Target> = goals.iter().zip(&outcomes).map(reached).collect();
    match rows.iter().zip(machines).find(|(row, _)| row.score <= 0.0) {
        Some((_, machine)) => Err(RunError::NoWork { machine: machine.name.clone() }),
        None => Ok(rows),
    }
}

#[cfg(test)]
mod tests;
