//! The costs that all machines share, set on the rows of all of them together.
//!
//! The unknowns are the logarithms of the costs: a fault, a page on the LRU, and one load factor of lines for each group of
//! machines whose descriptions have the same one. Gauss-Newton steps bring the simulated rows near the published ones. Then each
//! machine in turn is left out, and the costs are fitted again to the other machines.

use super::least_squares::{Slopes, step};
use super::{Goal, Settings, Target, simulate};
use crate::machine::{Cycles, Machine, Shared, Slowdown};
use crate::run::RunError;

/// Standard error of a score before a pace is fitted, as a logarithm: clocks under load differ from base clocks by as much. A
/// guess.
const SCORE_ERROR: f64 = 0.15;
/// Standard error of contention in percentage points. It is published in whole points; the model is coarser. A guess.
const POINTS_ERROR: f64 = 2.0;
/// The step along each logarithm for measuring slopes, well above the noise of a run.
const SLOPE_STEP: f64 = 0.06;
/// The largest step along each logarithm. Where both locks are near their limit, contention is far from linear in the costs.
const LARGEST_STEP: f64 = 0.08;
/// The search ends when all steps are below this.
const LAST_STEP: f64 = 0.005;
/// The most steps.
const STEPS: usize = 6;
/// The most trials of a fit without one machine. It starts from the costs of all machines, which are near.
const REFIT_STEPS: usize = 4;
/// The number of costs in front of the load factors.
const COSTS: usize = 2;

/// The result of a fit of the shared costs.
#[derive(Clone, PartialEq, Debug)]
pub struct Sharing {
    /// The shared costs of each machine.
    pub shared: Vec<Shared>,
    /// The simulated rows with these costs.
    pub simulated: Vec<Target>,
    /// For each machine, what follows without its row.
    pub left_out: Vec<LeftOut>,
}

/// The prediction of a machine that was left out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LeftOut {
    /// The machine's shared costs, set on the other machines.
    pub shared: Shared,
    /// The machine's row, simulated with these costs.
    pub simulated: Target,
    /// Steps of the fit to the other machines. 0: no tried step brought the others nearer than the costs of all machines, or
    /// nothing else determines the costs. Such a prediction uses costs that had seen the machine's own row.
    pub steps: usize,
}

/// A point of the search.
struct Point {
    /// Sum of the squares of the residuals.
    size: f64,
    /// The logarithms of the costs.
    at: Vec<f64>,
    /// The simulated rows.
    rows: Vec<Target>,
    /// The slopes of all residuals.
    slopes: Vec<Slopes>,
}

/// For each machine, the number of its group: machines with equal load factors are one group.
#[must_use]
pub fn transfer_groups(machines: &[Machine]) -> Vec<usize> {
    let mut loads: Vec<f64> = Vec::new();
    let group = |machine: &Machine| {
        let load = machine.shared.transfer_load.get();
        loads.iter().position(|known| *known == load).unwrap_or_else(|| {
            loads.push(load);
            loads.len() - 1
        })
    };
    machines.iter().map(group).collect()
}

/// Sets the shared costs of machines on their rows, starting from their present costs. Calls `heard` with the simulated rows of
/// each step.
///
/// # Errors
/// A simulation failed, or the caller stopped it, or there is no machine.
pub fn share(
    machines: &[Machine],
    goals: &[Goal],
    settings: &Settings<'_>,
    keep_on: impl Fn() -> bool + Sync,
    mut heard: impl FnMut(&[Target]),
) -> Result<Sharing, RunError> {
    if machines.is_empty() {
        return Err(RunError::Interrupted);
    }
    let groups = transfer_groups(machines);
    let unknowns = COSTS + groups.iter().max().map_or(0, |last| last + 1);
    let mut at = start(machines, &groups, unknowns);
    let simulate_at = |points: &[Vec<f64>]| -> Result<Vec<Vec<Target>>, RunError> {
        let (mut trials, mut rows) = (Vec::new(), Vec::new());
        for at in points {
            trials.extend(machines.iter().zip(&groups).map(|(machine, group)| with(machine, at, *group)));
            rows.extend_from_slice(goals);
        }
        let all = simulate(&trials, &rows, settings, &keep_on)?;
        Ok(all.chunks(machines.len()).map(<[Target]>::to_vec).collect())
    };
    let mut best: Option<Point> = None;
    for _ in 0..STEPS {
        // The point itself, and one step along each cost.
        let mut points = vec![at.clone()];
        for unknown in 0..unknowns {
            let mut next = at.clone();
            next[unknown] += SLOPE_STEP;
            points.push(next);
        }
        let mut rows = simulate_at(&points)?.into_iter();
        let Some(here) = rows.next() else { return Err(RunError::Interrupted) };
        heard(&here);
        let residuals = residuals(goals, &here);
        let stepped: Vec<Vec<f64>> = rows.map(|rows| self::residuals(goals, &rows)).collect();
        let slopes: Vec<Slopes> = (0..residuals.len())
            .map(|row| stepped.iter().map(|moved| (moved[row] - residuals[row]) / SLOPE_STEP).collect())
            .collect();
        let size = residuals.iter().map(|r| r * r).sum::<f64>();
        let next = step(unknowns, slopes.iter().zip(residuals.iter().copied()));
        if best.as_ref().is_none_or(|best| size < best.size) {
            best = Some(Point { size, at: at.clone(), rows: here, slopes });
        }
        let Some(next) = next.filter(|step| step.iter().any(|step| step.abs() > LAST_STEP)) else { break };
        at = moved(&at, &next);
    }
    let Some(best) = best else { return Err(RunError::Interrupted) };
    let refits = refit_without_each(&best, goals, simulate_at)?;
    let left_out = machines.iter().zip(&groups).zip(refits).enumerate().map(|(place, ((machine, group), refit))| {
        let (shared, steps) = (with(machine, &refit.at, *group).shared, refit.steps);
        LeftOut { shared, simulated: refit.rows[place], steps }
    });
    Ok(Sharing {
        left_out: left_out.collect(),
        shared: machines.iter().zip(&groups).map(|(machine, group)| with(machine, &best.at, *group).shared).collect(),
        simulated: best.rows,
    })
}

/// A fit without the row of one machine.
struct Refit {
    /// The logarithms of the costs.
    at: Vec<f64>,
    /// The simulated rows, also that of the machine that was left out.
    rows: Vec<Target>,
    /// Sum of the squares of the residuals of the other machines.
    size: f64,
    /// Accepted steps.
    steps: usize,
    /// The part of a step that is tried: halved after a step that did not bring the others nearer.
    damping: f64,
    ended: bool,
}

/// Fits the costs without each machine in turn. Each fit starts from the costs of all machines and takes steps along their slopes,
/// as long as they bring the other machines nearer.
fn refit_without_each(
    all: &Point,
    goals: &[Goal],
    simulate_at: impl Fn(&[Vec<f64>]) -> Result<Vec<Vec<Target>>, RunError>,
) -> Result<Vec<Refit>, RunError> {
    let unknowns = all.at.len();
    let of_all = residuals(goals, &all.rows);
    let per_machine = of_all.len() / goals.len().max(1);
    let size_without = |residuals: &[f64], machine: usize| -> f64 {
        let others = residuals.iter().enumerate().filter(|(row, _)| row / per_machine != machine);
        others.map(|(_, residual)| residual.powi(2)).sum()
    };
    let start = |machine| Refit {
        at: all.at.clone(),
        rows: all.rows.clone(),
        size: size_without(&of_all, machine),
        steps: 0,
        damping: 1.0,
        ended: false,
    };
    let mut refits: Vec<Refit> = (0..goals.len()).map(start).collect();
    for _ in 0..REFIT_STEPS {
        let (mut tried, mut points) = (Vec::new(), Vec::new());
        for (machine, refit) in refits.iter_mut().enumerate().filter(|(_, refit)| !refit.ended) {
            let residuals = residuals(goals, &refit.rows);
            let others = all.slopes.iter().zip(residuals).enumerate();
            let others = others.filter(|(row, _)| row / per_machine != machine).map(|(_, row)| row);
            // Without another machine of the same group nothing determines a load factor, and the costs of all machines
            // remain.
            let step =
                step(unknowns, others).map(|step| step.iter().map(|part| part * refit.damping).collect::<Vec<_>>());
            match step.filter(|step| step.iter().any(|part| part.abs() > LAST_STEP)) {
                Some(step) => {
                    tried.push(machine);
                    points.push(moved(&refit.at, &step));
                }
                None => refit.ended = true,
            }
        }
        if tried.is_empty() {
            break;
        }
        let rows = simulate_at(&points)?;
        for ((machine, at), rows) in tried.into_iter().zip(points).zip(rows) {
            let size = size_without(&residuals(goals, &rows), machine);
            let refit = &mut refits[machine];
            if size < refit.size {
                *refit = Refit { at, rows, size, steps: refit.steps + 1, damping: refit.damping, ended: false };
            } else {
                refit.damping /= 2.0;
            }
        }
    }
    Ok(refits)
}

/// A point after a step, no part of which is larger than [`LARGEST_STEP`].
fn moved(at: &[f64], step: &[f64]) -> Vec<f64> {
    at.iter().zip(step).map(|(at, step)| at + step.clamp(-LARGEST_STEP, LARGEST_STEP)).collect()
}

/// The logarithms of the present costs. They start from the first machine.
fn start(machines: &[Machine], groups: &[usize], unknowns: usize) -> Vec<f64> {
    let mut at = vec![0.0; unknowns];
    for (machine, group) in machines.iter().zip(groups).rev() {
        at[0] = machine.shared.fault_cycles.get().max(1.0).ln();
        at[1] = machine.shared.lru_page_cycles.get().max(1.0).ln();
        at[COSTS + group] = machine.shared.transfer_load.get().ln();
    }
    at
}

/// A machine with the costs of a point, at pace 1.
fn with(machine: &Machine, at: &[f64], group: usize) -> Machine {
    let before = machine.shared;
    // Rounded as printed. The search stays in the ranges of these types; a value outside of them keeps the present cost.
    let cycles = |log: f64, before| Cycles::try_from(log.exp().round()).unwrap_or(before);
    let load = Slowdown::try_from((1e3 * at[COSTS + group].exp()).round() / 1e3);
    let mut machine = machine.clone();
    machine.shared = Shared {
        fault_cycles: cycles(at[0], before.fault_cycles),
        lru_page_cycles: cycles(at[1], before.lru_page_cycles),
        transfer_load: load.unwrap_or(before.transfer_load),
    };
    machine.fitted.pace = crate::machine::Rate::ONE;
    machine
}

/// Score, zone lock and LRU lock of each machine, off the published values in standard errors.
fn residuals(goals: &[Goal], simulated: &[Target]) -> Vec<f64> {
    let of = |(goal, simulated): (&Goal, &Target)| {
        let score = (simulated.score / goal.row.score).ln() / SCORE_ERROR;
        let points = goal.row.contention_pct.zip(simulated.contention_pct);
        let [zone, lru] = points.map_or([0.0; 2], |(published, simulated)| {
            [0, 1].map(|lock| (simulated[lock] - published[lock]) / POINTS_ERROR)
        });
        [score, zone, lru]
    };
    goals.iter().zip(simulated).flat_map(of).collect()
}
