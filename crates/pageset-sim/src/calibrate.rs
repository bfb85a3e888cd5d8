//! Fitting a machine's calibrated costs to published rows of page_fault1, and to nothing else.
//!
//! Up to three numbers are fitted to as many: to the score and both locks' contention of one row, or to the scores of two
//! rows. The search is Levenberg and Marquardt's on the logarithms of the costs, with Broyden's updates of the slopes, so
//! that most steps are one simulation.

use std::fmt;
use std::num::NonZeroUsize;

use pageset::Tuning;

use crate::machine::{Calibrated, Machine, Ns};
use crate::run::{Outcome, Run, RunError};
use crate::statistics::Spread;
use crate::sweep::run_all;

/// What was published of one row, or simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
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
}

/// What a fit is made to: as many numbers as there are costs to be found.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    /// The rows, one or two.
    pub rows: Vec<Target>,
    /// The costs that they tell; the others stay as they are.
    pub costs: Vec<Cost>,
    /// The rules of the rows.
    pub tuning: Tuning,
}

/// How a machine is simulated under some rules.
pub type HowToRun<'s> = &'s dyn for<'m> Fn(&'m Machine, Tuning) -> Run<'m>;

/// How the fit is to be made.
#[derive(Clone)]
pub struct Settings<'s> {
    /// How a row is simulated, but for its tasks and its seed. As in a comparison, or the fit is one of something else.
    pub run: HowToRun<'s>,
    /// Each simulation is run with these seeds.
    pub seeds: Vec<u64>,
    /// Simulations at most.
    pub most: usize,
    /// Threads to run them on.
    pub workers: NonZeroUsize,
}

impl fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("seeds", &self.seeds).field("most", &self.most).finish_non_exhaustive()
    }
}

/// Where a fit has come.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The costs.
    pub costs: Calibrated,
    /// What they lead to, row by row.
    pub simulated: Vec<Target>,
}

const COSTS: usize = 3;
type Vector = [f64; COSTS];
type Matrix = [Vector; COSTS];

/// Ranges of the costs in ns, far wider than any machine: a search must end somewhere.
const RANGES: [(f64, f64); COSTS] = [(50.0, 20_000.0), (5.0, 1000.0), (1.0, 1000.0)];
/// The first step in each logarithm: well above the noise of a run.
const FIRST_STEP: f64 = 0.2;
/// The largest step.
const LARGEST_STEP: f64 = 0.6;

impl Goal {
    /// How far a simulation is off, in units of what a fit should reach: half a percent of a score, half a percentage
    /// point of contention. What no row tells is never off.
    fn residuals(&self, simulated: &[Target]) -> Vector {
        let score = |(row, sim): (&Target, &Target)| 200.0 * (sim.score / row.score).ln();
        let shares = |(row, sim): (&Target, &Target)| {
            let (published, simulated) = row.contention_pct.zip(sim.contention_pct)?;
            Some((0..2).map(move |lock| 2.0 * (simulated[lock] - published[lock])))
        };
        let pairs = || self.rows.iter().zip(simulated);
        let mut all = pairs().map(score).chain(pairs().filter_map(shares).flatten());
        std::array::from_fn(|_| all.next().unwrap_or(0.0))
    }
}

fn costs_of(logs: &Vector) -> Vector {
    std::array::from_fn(|i| logs[i].exp().clamp(RANGES[i].0, RANGES[i].1))
}

/// The costs that are to be found, and those that stay.
fn calibrated(machine: &Machine, goal: &Goal, values: &Vector) -> Calibrated {
    // To a tenth of a nanosecond, as they are printed; in range, so that no number is refused.
    let ns = |cost: Cost, before: Ns| {
        let value = (10.0 * values[cost as usize]).round() / 10.0;
        if goal.costs.contains(&cost) {
            Ns::try_from(value).unwrap_or_else(|_| unreachable!("in range"))
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

fn size(residuals: &Vector) -> f64 {
    residuals.iter().map(|r| r * r).sum()
}

/// Fits the costs of a machine, beginning at those that it has. `told` hears of each better fit.
///
/// # Errors
/// A simulation could not be run, or it was told to stop.
pub fn fit(
    machine: &Machine,
    goal: &Goal,
    settings: &Settings<'_>,
    keep_on: impl Fn() -> bool + Sync,
    mut told: impl FnMut(&Fit),
) -> Result<Fit, RunError> {
    let simulate = |points: &[Vector]| simulate(machine, goal, settings, points, &keep_on);
    let begin = machine.calibrated;
    let mut at: Vector = [begin.fault_ns, begin.transfer_ns, begin.lru_page_ns].map(|ns| ns.get().max(1.0).ln());
    // The start, and a step along each cost that is to be found.
    let mut points = vec![at];
    points.extend(goal.costs.iter().map(|cost| stepped(&at, *cost as usize)));
    let mut first = simulate(&points)?.into_iter();
    let mut used = points.len();
    let Some(mut best) = first.next() else { return Err(RunError::Interrupted) };
    told(&best);
    let mut residuals = goal.residuals(&best.simulated);
    // Nothing follows from the others: no step is made along them.
    let mut slopes: Matrix = [[0.0; COSTS]; COSTS];
    for (cost, fit) in goal.costs.iter().zip(first) {
        let moved = goal.residuals(&fit.simulated);
        (0..COSTS).for_each(|row| slopes[row][*cost as usize] = (moved[row] - residuals[row]) / FIRST_STEP);
    }
    let mut damping = 0.1;
    while used < settings.most && residuals.iter().any(|r| r.abs() > 1.0) {
        let Some(step) = damped_step(&slopes, &residuals, damping) else { break };
        let next: Vector = std::array::from_fn(|i| at[i] + step[i].clamp(-LARGEST_STEP, LARGEST_STEP));
        let Some(fit) = simulate(&[next])?.pop() else { break };
        used += 1;
        let moved = goal.residuals(&fit.simulated);
        update(&mut slopes, &std::array::from_fn(|i| next[i] - at[i]), &residuals, &moved);
        if size(&moved) < size(&residuals) {
            (at, residuals, best) = (next, moved, fit);
            damping /= 4.0;
            told(&best);
        } else {
            damping *= 6.0;
        }
    }
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
            let run = (settings.run)(machine, goal.tuning);
            runs.extend(settings.seeds.iter().map(|&seed| Run { tasks: row.tasks, seed, ..run.clone() }));
        }
    }
    let outcomes = run_all(&runs, settings.workers, keep_on, |_| {}).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mean = |outcomes: &[Outcome], of: fn(&Outcome) -> f64| {
        Spread::of(&outcomes.iter().map(of).collect::<Vec<_>>()).map_or(f64::NAN, |spread| spread.mean)
    };
    let reached = |(row, outcomes): (&Target, &[Outcome])| Target {
        tasks: row.tasks,
        score: mean(outcomes, Outcome::score),
        contention_pct: Some([mean(outcomes, Outcome::zone_pct), mean(outcomes, Outcome::lru_pct)]),
    };
    let seeds = settings.seeds.len();
    let fits = machines.iter().zip(outcomes.chunks(seeds * goal.rows.len())).map(|(machine, outcomes)| Fit {
        costs: machine.calibrated,
        simulated: goal.rows.iter().zip(outcomes.chunks(seeds)).map(reached).collect(),
    });
    Ok(fits.collect())
}

/// Solves `(JᵀJ + damping diag(JᵀJ)) step = -Jᵀr`.
fn damped_step(slopes: &Matrix, residuals: &Vector, damping: f64) -> Option<Vector> {
    let mut system = [[0.0; COSTS + 1]; COSTS];
    for i in 0..COSTS {
        for j in 0..COSTS {
            system[i][j] = (0..COSTS).map(|row| slopes[row][i] * slopes[row][j]).sum();
        }
        system[i][i] = system[i][i] * (1.0 + damping) + 1e-9;
        system[i][COSTS] = -(0..COSTS).map(|row| slopes[row][i] * residuals[row]).sum::<f64>();
    }
    for i in 0..COSTS {
        let pivot = (i..COSTS).max_by(|a, b| system[*a][i].abs().total_cmp(&system[*b][i].abs()))?;
        system.swap(i, pivot);
        let row = system[i];
        if row[i].abs() < 1e-12 {
            return None;
        }
        for other in (0..COSTS).filter(|other| *other != i) {
            let factor = system[other][i] / row[i];
            (i..=COSTS).for_each(|column| system[other][column] -= factor * row[column]);
        }
    }
    Some(std::array::from_fn(|i| system[i][COSTS] / system[i][i]))
}

/// Broyden's update: the slopes agree with the last step.
fn update(slopes: &mut Matrix, step: &Vector, before: &Vector, after: &Vector) {
    let length: f64 = step.iter().map(|s| s * s).sum();
    if length < 1e-12 {
        return;
    }
    for row in 0..COSTS {
        let expected: f64 = (0..COSTS).map(|i| slopes[row][i] * step[i]).sum();
        let off = after[row] - before[row] - expected;
        (0..COSTS).for_each(|i| slopes[row][i] += off * step[i] / length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_solves_a_linear_problem() {
        let slopes = [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0]];
        let step = damped_step(&slopes, &[3.0, -2.0, 5.0], 0.0).unwrap();
        for (row, residual) in slopes.iter().zip([3.0, -2.0, 5.0]) {
            let reached: f64 = row.iter().zip(step).map(|(slope, step)| slope * step).sum();
            assert!((reached + residual).abs() < 1e-4, "{step:?}");
        }
    }

    #[test]
    fn a_cost_that_no_row_tells_stays() {
        // Two scores, fault and LRU costs: transfers have neither slopes nor a residual.
        let slopes = [[2.0, 0.0, 1.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]];
        let step = damped_step(&slopes, &[4.0, -3.0, 0.0], 0.0).unwrap();
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
        };
        let simulated = [target(1, 100.0), Target { contention_pct: Some([9.0, 9.0]), ..target(40, 1010.0) }];
        let residuals = goal.residuals(&simulated);
        assert_eq!((residuals[0], residuals[2]), (0.0, 0.0));
        assert!((residuals[1] - 1.99).abs() < 0.01, "{residuals:?}");
        let machine = crate::machine::find("xeon-2s40").unwrap().unwrap();
        let costs = calibrated(&machine, &goal, &[1000.06, 1.0, 33.33]);
        assert_eq!([costs.fault_ns, costs.lru_page_ns].map(Ns::get), [1000.1, 33.3]);
        assert_eq!(costs.transfer_ns, machine.calibrated.transfer_ns);
    }

    #[test]
    fn slopes_follow_what_a_step_did() {
        let mut slopes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let (step, before, after) = ([0.5, -0.2, 0.1], [1.0, 2.0, 3.0], [2.0, 1.0, 3.5]);
        update(&mut slopes, &step, &before, &after);
        for row in 0..COSTS {
            let told: f64 = (0..COSTS).map(|i| slopes[row][i] * step[i]).sum();
            assert!((told - (after[row] - before[row])).abs() < 1e-12);
        }
    }
}
