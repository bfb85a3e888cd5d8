//! Fitting the three calibrated costs of a machine to one published row, and to nothing else.
//!
//! Three numbers are fitted to three: score, zone lock and LRU lock contention of page_fault1 with a batch of 31. The
//! search is Levenberg and Marquardt's on the logarithms of the costs, with Broyden's updates of the slopes, so that most
//! steps are one simulation.

use std::num::NonZeroUsize;

use pageset::Tuning;

use crate::machine::{Calibrated, Machine, Ns};
use crate::run::{Run, RunError};
use crate::statistics::Spread;
use crate::sweep::run_all;
use crate::time::Time;
use crate::workload::Workload;

/// What was published of one row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Target {
    /// Operations a second.
    pub score: f64,
    /// Zone lock contention in percent.
    pub zone_pct: f64,
    /// LRU lock contention in percent.
    pub lru_pct: f64,
}

/// How the fit is to be made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The workload of the row, with all CPUs busy.
    pub workload: &'static Workload,
    /// The rules of the row.
    pub tuning: Tuning,
    /// Virtual time before each measurement.
    pub warm_up: Time,
    /// Virtual time of each measurement.
    pub time: Time,
    /// Each simulation is run with these seeds.
    pub seeds: Vec<u64>,
    /// Simulations at most.
    pub most: usize,
    /// Threads to run them on.
    pub workers: NonZeroUsize,
}

/// Where a fit has come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fit {
    /// The costs.
    pub costs: Calibrated,
    /// What they lead to.
    pub simulated: Target,
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

impl Target {
    /// How far a simulation is off, in units of what a fit should reach: half a percent of the score, half a percentage
    /// point of contention.
    fn residuals(&self, simulated: &Target) -> Vector {
        [
            200.0 * (simulated.score / self.score).ln(),
            2.0 * (simulated.zone_pct - self.zone_pct),
            2.0 * (simulated.lru_pct - self.lru_pct),
        ]
    }
}

fn costs_of(logs: &Vector) -> Vector {
    std::array::from_fn(|i| logs[i].exp().clamp(RANGES[i].0, RANGES[i].1))
}

fn calibrated(values: &Vector) -> Calibrated {
    // To a tenth of a nanosecond, as they are printed; in range, so that no number is refused.
    let ns = |value: f64| Ns::try_from((10.0 * value).round() / 10.0).unwrap_or_else(|_| unreachable!("in range"));
    Calibrated { fault_ns: ns(values[0]), transfer_ns: ns(values[1]), lru_page_ns: ns(values[2]) }
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
    target: &Target,
    settings: &Settings,
    keep_on: impl Fn() -> bool + Sync,
    mut told: impl FnMut(&Fit),
) -> Result<Fit, RunError> {
    let simulate = |points: &[Vector]| simulate(machine, settings, points, &keep_on);
    let begin = machine.calibrated;
    let mut at: Vector = [begin.fault_ns, begin.transfer_ns, begin.lru_page_ns].map(|ns| ns.get().max(1.0).ln());
    // The start, and a step along each cost.
    let mut points = vec![at];
    points.extend((0..COSTS).map(|i| stepped(&at, i)));
    let first = simulate(&points)?;
    let mut used = points.len();
    let mut best = first[0];
    told(&best);
    let mut residuals = target.residuals(&best.simulated);
    let mut slopes: Matrix = [[0.0; COSTS]; COSTS];
    for (i, fit) in first[1..].iter().enumerate() {
        let moved = target.residuals(&fit.simulated);
        (0..COSTS).for_each(|row| slopes[row][i] = (moved[row] - residuals[row]) / FIRST_STEP);
    }
    let mut damping = 0.1;
    while used < settings.most && residuals.iter().any(|r| r.abs() > 1.0) {
        let Some(step) = damped_step(&slopes, &residuals, damping) else { break };
        let next: Vector = std::array::from_fn(|i| at[i] + step[i].clamp(-LARGEST_STEP, LARGEST_STEP));
        let fit = simulate(&[next])?[0];
        used += 1;
        let moved = target.residuals(&fit.simulated);
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
    settings: &Settings,
    points: &[Vector],
    keep_on: &(impl Fn() -> bool + Sync),
) -> Result<Vec<Fit>, RunError> {
    let machines: Vec<Machine> =
        points.iter().map(|at| Machine { calibrated: calibrated(&costs_of(at)), ..machine.clone() }).collect();
    let run = |machine, &seed: &u64| Run {
        workload: settings.workload,
        machine,
        tuning: settings.tuning,
        high_fraction: 0,
        tasks: Machine::topology(machine).cpus(),
        warm_up: settings.warm_up,
        time: settings.time,
        precision_pct: None,
        whole: false,
        seed,
    };
    let runs: Vec<Run<'_>> =
        machines.iter().flat_map(|machine| settings.seeds.iter().map(move |seed| run(machine, seed))).collect();
    let outcomes = run_all(&runs, settings.workers, keep_on, |_| {}).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mean = |values: Vec<f64>| Spread::of(&values).map_or(f64::NAN, |spread| spread.mean);
    let fits = machines.iter().zip(outcomes.chunks(settings.seeds.len())).map(|(machine, outcomes)| Fit {
        costs: machine.calibrated,
        simulated: Target {
            score: mean(outcomes.iter().map(|outcome| outcome.score()).collect()),
            zone_pct: mean(outcomes.iter().map(|outcome| outcome.zone_pct()).collect()),
            lru_pct: mean(outcomes.iter().map(|outcome| outcome.lru_pct()).collect()),
        },
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
