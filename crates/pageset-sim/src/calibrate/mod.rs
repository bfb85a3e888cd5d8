//! Fits a machine's costs to published rows of page_fault1, and to guesses where the rows do not determine them.
//!
//! The fit uses up to three numbers: the score and both locks' contention of one row, or the scores of two rows. A row
//! without lock contention does not determine the costs of locks. Two costs are therefore also tied to a guess,
//! weighted with its standard error, which gives the most likely costs. The search is the Levenberg-Marquardt method on
//! the logarithms of the costs. Broyden's updates of the slopes reduce most steps to one simulation.

mod goal;
mod least_squares;
mod result;

use std::fmt;

use pageset::Tuning;

use crate::era::Era;
use crate::machine::{Calibrated, Machine, Ns};
use crate::run::{Outcome, Run, RunError};
use crate::statistics::Spread;
use crate::sweep::{BySeed, Effort, run_seeds};
pub use goal::{Cost, Goal, GoalError, Target};
use least_squares::{damped_step, errors, update};
pub use result::Calibration;

/// The schema of [`Calibration`].
pub const SCHEMA: &str = "pageset.calibrate/1";

/// Creates the run of a machine under a set of rules in an era.
pub type HowToRun<'s> = &'s dyn for<'m> Fn(&'m Machine, Tuning, Era) -> Run<'m>;

/// The settings of a fit.
#[derive(Clone)]
pub struct Settings<'s> {
    /// Creates the run of a row; tasks and seed are set later. Use the same runs as comparisons do.
    pub run: HowToRun<'s>,
    /// Seeds of each simulation, and threads to run them on.
    pub effort: Effort,
    /// Limit of simulations.
    pub max_simulations: usize,
}

impl fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("effort", &self.effort)
            .field("max_simulations", &self.max_simulations)
            .finish_non_exhaustive()
    }
}

/// The state of a fit.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The costs.
    pub costs: Calibrated,
    /// Standard error of each cost in the order of [`Cost::ALL`], relative to the cost, from the slopes over the next
    /// 20 %. 0 for a cost that is not fitted, NaN where rows and guesses do not determine it. `None` before the end of
    /// the fit.
    pub errors: Option<[f64; COSTS]>,
    /// The simulated rows with these costs.
    pub simulated: Vec<Target>,
}

const COSTS: usize = 3;
/// One number per cost, in the order of [`Cost::ALL`].
type Vector = [f64; COSTS];
/// Residuals of the rows, then one residual per cost for its guess.
const RESIDUALS: usize = ROW_RESIDUALS + COSTS;
const ROW_RESIDUALS: usize = 3;
/// The deviations of a simulation, in standard errors.
type Residuals = [f64; RESIDUALS];
/// The derivative of each residual by the logarithm of each cost.
type Slopes = [Vector; RESIDUALS];

/// Ranges of the costs in ns, far wider than any machine, which bound the search.
const RANGES: [(f64, f64); COSTS] = [(50.0, 20_000.0), (5.0, 1000.0), (1.0, 1000.0)];
/// The guess of each cost before its machine's row is known: a value in ns, and the standard error of its logarithm.
/// The values are geometric means over the four machines whose rows determine both costs, with contention of at least 7
/// points of either lock (lkp-skl-4sp1, lkp-bdw-ex1, lkp-bdw-ep2, lkp-hsw-ep2). These have 64 to 113 ns and 41 to 45
/// ns. The error 0.1 is the difference of their clocks. A fault needs no guess, because every score determines it.
const GUESSES: [Option<(f64, f64)>; COSTS] = [None, Some((85.0, 0.3)), Some((43.0, 0.1))];
/// Standard error of a published score, relative to the score. Specification: `simulation.md`, "How to judge accuracy
/// honestly": 0.3 to 0.5 % a run.
const SCORE_ERROR: f64 = 0.005;
/// Standard error of published contention in percentage points, which is published in whole points.
const POINTS_ERROR: f64 = 0.5;
/// Initial damping factor of the diagonal.
const FIRST_DAMPING: f64 = 0.1;
/// The step along each logarithm for measuring slopes, well above the noise of a run.
const FIRST_STEP: f64 = 0.2;
/// The largest step along each logarithm.
const LARGEST_STEP: f64 = 0.6;
/// The search ends when all steps are below this, which is less than the differences between seeds.
const LAST_STEP: f64 = 0.01;

impl Goal {
    /// The residuals of a simulation with these logarithms of costs. Values that neither a row nor a guess determines
    /// have residual 0.
    fn residuals(&self, simulated: &[Target], logs: &Vector) -> Residuals {
        let score = |(row, sim): (&Target, &Target)| (sim.score / row.score).ln() / SCORE_ERROR;
        let shares = |(row, sim): (&Target, &Target)| {
            let (published, simulated) = row.contention_pct.zip(sim.contention_pct)?;
            Some((0..2).map(move |lock| (simulated[lock] - published[lock]) / POINTS_ERROR))
        };
        let pairs = || self.rows.iter().zip(simulated);
        let mut rows = pairs().map(score).chain(pairs().filter_map(shares).flatten());
        let mut all = [0.0; RESIDUALS];
        all[..ROW_RESIDUALS].fill_with(|| rows.next().unwrap_or(0.0));
        for (cost, guess, error) in self.guesses() {
            all[ROW_RESIDUALS + cost] = (logs[cost] - guess.ln()) / error;
        }
        all
    }

    /// The guesses of the costs to fit: index, value, error.
    fn guesses(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        self.costs.iter().filter_map(|&cost| {
            let (value, error) = GUESSES[cost as usize]?;
            Some((cost as usize, value, error))
        })
    }
}

fn costs_of(logs: &Vector) -> Vector {
    std::array::from_fn(|i| logs[i].exp().clamp(RANGES[i].0, RANGES[i].1))
}

/// The fitted costs, and the unchanged costs of `machine`.
fn calibrated(machine: &Machine, goal: &Goal, values: &Vector) -> Calibrated {
    // Rounded to a tenth of a nanosecond, as printed. `costs_of` keeps all values in range.
    let ns = |cost: Cost, before: Ns| {
        let value = (10.0 * values[cost as usize]).round() / 10.0;
        if goal.costs.contains(&cost) {
            Ns::try_from(value).unwrap_or_else(|_| unreachable!("the cost is in its range"))
        } else {
            before
        }
    };
    let before = machine.calibrated;
    Calibrated {
        fault_ns: ns(Cost::Fault, before.fault_ns),
        transfer_ns: ns(Cost::Transfer, before.transfer_ns),
        lru_page_ns: ns(Cost::LruPage, before.lru_page_ns),
    }
}

fn size(residuals: &Residuals) -> f64 {
    residuals.iter().map(|r| r * r).sum()
}

/// Fits the costs of a machine, starting from its present costs. Calls `on_better` for each better fit.
///
/// # Errors
/// A simulation failed, or the caller stopped it.
pub fn fit(
    machine: &Machine,
    goal: &Goal,
    settings: &Settings<'_>,
    keep_on: impl Fn() -> bool + Sync,
    mut on_better: impl FnMut(&Fit),
) -> Result<Fit, RunError> {
    let simulate = |points: &[Vector]| simulate(machine, goal, settings, points, &keep_on);
    let begin = machine.calibrated;
    let mut at: Vector = [begin.fault_ns, begin.transfer_ns, begin.lru_page_ns].map(|ns| ns.get().max(1.0).ln());
    let Some(mut best) = simulate(&[at])?.pop() else { return Err(RunError::Interrupted) };
    on_better(&best);
    let mut residuals = goal.residuals(&best.simulated, &at);
    // One step along each cost to fit. Nothing depends on the other costs.
    let slopes_at = |at: &Vector, residuals: &Residuals| {
        let points: Vec<Vector> = goal.costs.iter().map(|cost| stepped(at, *cost as usize)).collect();
        let mut slopes: Slopes = [[0.0; COSTS]; RESIDUALS];
        for ((cost, point), fit) in goal.costs.iter().zip(&points).zip(simulate(&points)?) {
            let moved = goal.residuals(&fit.simulated, point);
            (0..RESIDUALS).for_each(|row| slopes[row][*cost as usize] = (moved[row] - residuals[row]) / FIRST_STEP);
        }
        Ok::<_, RunError>(slopes)
    };
    let mut slopes = slopes_at(&at, &residuals)?;
    let mut used = 1 + goal.costs.len();
    // Whether the slopes are measured at this point, rather than updated by steps of the search.
    let (mut damping, mut measured) = (FIRST_DAMPING, true);
    while used < settings.max_simulations {
        let Some(step) = damped_step(&slopes, &residuals, damping) else { break };
        if step.iter().all(|step| step.abs() < LAST_STEP) {
            if measured {
                break;
            }
            (slopes, damping, measured) = (slopes_at(&at, &residuals)?, FIRST_DAMPING, true);
            used += goal.costs.len();
            continue;
        }
        let next: Vector = std::array::from_fn(|i| at[i] + step[i].clamp(-LARGEST_STEP, LARGEST_STEP));
        let Some(fit) = simulate(&[next])?.pop() else { break };
        used += 1;
        let moved = goal.residuals(&fit.simulated, &next);
        measured = false;
        update(&mut slopes, &std::array::from_fn(|i| next[i] - at[i]), &residuals, &moved);
        if size(&moved) < size(&residuals) {
            (at, residuals, best) = (next, moved, fit);
            damping /= 4.0;
            on_better(&best);
        } else {
            damping *= 6.0;
        }
    }
    if !measured {
        slopes = slopes_at(&at, &residuals)?;
    }
    best.errors = Some(errors(&slopes));
    Ok(best)
}

fn stepped(at: &Vector, i: usize) -> Vector {
    let mut next = *at;
    next[i] += FIRST_STEP;
    next
}

fn simulate(
    machine: &Machine,
    goal: &Goal,
    settings: &Settings<'_>,
    points: &[Vector],
    keep_on: &(impl Fn() -> bool + Sync),
) -> Result<Vec<Fit>, RunError> {
    let with = |at| Machine { calibrated: calibrated(machine, goal, &costs_of(at)), ..machine.clone() };
    let machines: Vec<Machine> = points.iter().map(with).collect();
    let mut runs = Vec::new();
    for machine in &machines {
        for row in &goal.rows {
            let run = (settings.run)(machine, goal.tuning, goal.era);
            runs.push(Run { tasks: row.tasks, ..run });
        }
    }
    let outcomes = run_seeds(&runs, settings.effort, keep_on, |_, _| {});
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    if outcomes.iter().any(|seeds| seeds.len() < settings.effort.seeds as usize) {
        return Err(RunError::Interrupted);
    }
    let mean = |outcomes: &BySeed, of: fn(&Outcome) -> f64| {
        Spread::of(&outcomes.iter().map(|(_, outcome)| of(outcome)).collect::<Vec<_>>())
            .map_or(f64::NAN, |spread| spread.mean)
    };
    let reached = |(row, outcomes): (&Target, &BySeed)| Target {
        tasks: row.tasks,
        score: mean(outcomes, Outcome::score),
        contention_pct: Some([mean(outcomes, Outcome::zone_pct), mean(outcomes, Outcome::lru_pct)]),
    };
    let fits = machines.iter().zip(outcomes.chunks(goal.rows.len())).map(|(machine, outcomes)| Fit {
        costs: machine.calibrated,
        errors: None,
        simulated: goal.rows.iter().zip(outcomes).map(reached).collect(),
    });
    Ok(fits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Vector = [0.0; COSTS];

    #[test]
    fn a_cost_that_no_row_determines_is_unchanged() {
        // Two scores and the costs of faults and the LRU: transfers have neither slopes nor a residual.
        let slopes = [[2.0, 0.0, 1.0], [1.0, 0.0, 3.0], NONE, NONE, NONE, NONE];
        let step = damped_step(&slopes, &[4.0, -3.0, 0.0, 0.0, 0.0, 0.0], 0.0).unwrap();
        assert_eq!(step[1], 0.0);
        assert!(
            (2.0 * step[0] + step[2] + 4.0).abs() < 1e-4 && (step[0] + 3.0 * step[2] - 3.0).abs() < 1e-4,
            "{step:?}"
        );

        let target = |tasks, score| Target { tasks, score, contention_pct: None };
        let goal = Goal {
            rows: vec![target(1, 100.0), target(40, 1000.0)],
            costs: vec![Cost::Fault, Cost::LruPage],
            tuning: Tuning::default(),
            era: Era::default(),
        };
        let simulated = [target(1, 100.0), Target { contention_pct: Some([9.0, 9.0]), ..target(40, 1010.0) }];
        let residuals = goal.residuals(&simulated, &[1.0, 1.0, 43_f64.ln() + 0.2]);
        assert_eq!((residuals[0], residuals[2]), (0.0, 0.0));
        assert!((residuals[1] - 1.99).abs() < 0.01, "{residuals:?}");
        assert_eq!(residuals[3..5], [0.0, 0.0], "neither fault_ns nor a cost outside of the goal has a guess");
        assert!((residuals[5] - 2.0).abs() < 1e-9, "{residuals:?}");
        let machine = crate::machine::find("xeon-2s40").unwrap().unwrap();
        let costs = calibrated(&machine, &goal, &[1000.06, 1.0, 33.33]);
        assert_eq!([costs.fault_ns, costs.lru_page_ns].map(Ns::get), [1000.1, 33.3]);
        assert_eq!(costs.transfer_ns, machine.calibrated.transfer_ns);
    }
}
