//! The costs that all machines share, set on the rows of all of them together.
//!
//! The unknowns are the logarithms of the costs: a fault, a page on the LRU, and one load factor of lines for each group of
//! machines whose descriptions have the same one. Gauss-Newton steps bring the simulated rows near the published ones. Then each
//! machine in turn is left out, and the costs are fitted to the other machines, from round numbers.

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
/// The most trials of a fit without one machine. A guess, like [`REFIT_STEP`].
const REFIT_STEPS: usize = 10;
/// The largest step of these fits along each logarithm: their start is further away.
const REFIT_STEP: f64 = 0.15;
/// Where the fits without one machine start: cycles of a fault, cycles of a page on the LRU, load of lines. Round numbers near earlier
/// fits, so not blind; but what a fit finds from here does not depend on the row that it leaves out.
const NEUTRAL: (f64, f64, f64) = (1500.0, 100.0, 2.0);
/// How strongly these fits are held to their start, as a standard error of each logarithm: so weakly that it matters only where the
/// other machines hardly determine a cost. A guess.
const NEUTRAL_ERROR: f64 = 1.0;
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
    /// Steps of the fit to the other machines, which starts from round numbers.
    pub steps: usize,
}

/// A point of the search.
struct Point {
    /// The logarithms of the costs.
    at: Vec<f64>,
    /// The simulated rows.
    rows: Vec<Target>,
    /// The slopes of all residuals.
    slopes: Vec<Slopes>,
}

/// The machines and rows of a fit.
struct Trials<'a> {
    machines: &'a [Machine],
    groups: Vec<usize>,
    goals: &'a [Goal],
    settings: &'a Settings<'a>,
    keep_on: &'a (dyn Fn() -> bool + Sync),
}

impl Trials<'_> {
    /// The number of costs.
    fn unknowns(&self) -> usize {
        COSTS + self.groups.iter().max().map_or(0, |last| last + 1)
    }

    /// The machine at `place` with the costs of a point.
    fn machine(&self, place: usize, at: &[f64]) -> Machine {
        with(&self.machines[place], at, self.groups[place])
    }

    /// The rows of all machines at each point.
    fn rows(&self, points: &[Vec<f64>]) -> Result<Vec<Vec<Target>>, RunError> {
        if self.machines.is_empty() {
            return Err(RunError::Interrupted);
        }
        let (mut trials, mut rows) = (Vec::new(), Vec::new());
        for at in points {
            trials.extend((0..self.machines.len()).map(|place| self.machine(place, at)));
            rows.extend_from_slice(self.goals);
        }
        let all = simulate(&trials, &rows, self.settings, self.keep_on)?;
        Ok(all.chunks(self.machines.len()).map(<[Target]>::to_vec).collect())
    }

    /// The rows at a point, and their slopes from one step along each cost.
    fn point(&self, at: Vec<f64>) -> Result<Point, RunError> {
        let mut points = vec![at.clone()];
        for unknown in 0..at.len() {
            let mut next = at.clone();
            next[unknown] += SLOPE_STEP;
            points.push(next);
        }
        let mut rows = self.rows(&points)?.into_iter();
        let Some(here) = rows.next() else { return Err(RunError::Interrupted) };
        let residuals = residuals(self.goals, &here);
        let stepped: Vec<Vec<f64>> = rows.map(|rows| self::residuals(self.goals, &rows)).collect();
        let slopes = (0..residuals.len())
            .map(|row| stepped.iter().map(|moved| (moved[row] - residuals[row]) / SLOPE_STEP).collect())
            .collect();
        Ok(Point { at, rows: here, slopes })
    }
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

/// Sets the shared costs of machines on their rows, starting from their present costs, and predicts each machine
/// [from the others](leave_one_out). Calls `heard` with the simulated rows of each step.
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
    let trials = Trials { machines, groups: transfer_groups(machines), goals, settings, keep_on: &keep_on };
    let mut at = start(machines, &trials.groups, trials.unknowns());
    let mut best: Option<(f64, Point)> = None;
    for _ in 0..STEPS {
        let point = trials.point(at.clone())?;
        heard(&point.rows);
        let residuals = residuals(goals, &point.rows);
        let size = residuals.iter().map(|r| r * r).sum::<f64>();
        let next = step(at.len(), point.slopes.iter().zip(residuals.iter().copied()));
        if best.as_ref().is_none_or(|(least, _)| size < *least) {
            best = Some((size, point));
        }
        let Some(next) = next.filter(|step| step.iter().any(|step| step.abs() > LAST_STEP)) else { break };
        at = moved(&at, &next, LARGEST_STEP);
    }
    let Some((_, best)) = best else { return Err(RunError::Interrupted) };
    Ok(Sharing {
        left_out: leave_one_out(machines, goals, settings, &keep_on)?,
        shared: (0..machines.len()).map(|place| trials.machine(place, &best.at).shared).collect(),
        simulated: best.rows,
    })
}

/// A fit without the row of one machine.
struct Refit {
    /// The logarithms of the costs.
    at: Vec<f64>,
    /// The simulated rows, also that of the machine that was left out.
    rows: Vec<Target>,
    /// The slopes of all residuals, corrected after each trial.
    slopes: Vec<Slopes>,
    /// Sum of the squares of the residuals of the other machines, and of the distance from the start.
    size: f64,
    /// Accepted steps.
    steps: usize,
    /// The part of a step that is tried: halved after a rejected trial, and doubled after an accepted one, up to 1.
    damping: f64,
    ended: bool,
}

/// Predicts each machine with costs that are set on the rows of the others. Each of these fits starts from the same round numbers
/// and their slopes. After a step that does not bring the other machines nearer, the next is half as long, until one does. A cost that no other
/// machine determines keeps its round number.
///
/// # Errors
/// A simulation failed, or the caller stopped it, or there is no machine.
pub fn leave_one_out(
    machines: &[Machine],
    goals: &[Goal],
    settings: &Settings<'_>,
    keep_on: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<LeftOut>, RunError> {
    let trials = Trials { machines, groups: transfer_groups(machines), goals, settings, keep_on };
    let mut neutral = vec![NEUTRAL.2.ln(); trials.unknowns()];
    (neutral[0], neutral[1]) = (NEUTRAL.0.ln(), NEUTRAL.1.ln());
    let first = trials.point(neutral.clone())?;
    let per_machine = residuals(goals, &first.rows).len() / goals.len().max(1);
    let size_without = |rows: &[Target], at: &[f64], machine: usize| -> f64 {
        let residuals = residuals(goals, rows).into_iter().enumerate();
        let others = residuals.filter(|(row, _)| row / per_machine != machine).map(|(_, residual)| residual.powi(2));
        others.chain(at.iter().zip(&neutral).map(|(at, start)| ((at - start) / NEUTRAL_ERROR).powi(2))).sum()
    };
    let held: Vec<Slopes> = (0..neutral.len())
        .map(|cost| (0..neutral.len()).map(|other| f64::from(u8::from(other == cost)) / NEUTRAL_ERROR).collect())
        .collect();
    let start = |machine| Refit {
        at: neutral.clone(),
        rows: first.rows.clone(),
        slopes: first.slopes.clone(),
        size: size_without(&first.rows, &neutral, machine),
        steps: 0,
        damping: 1.0,
        ended: false,
    };
    let mut refits: Vec<Refit> = (0..goals.len()).map(start).collect();
    for _ in 0..REFIT_STEPS {
        let (mut tried, mut points) = (Vec::new(), Vec::new());
        for (machine, refit) in refits.iter_mut().enumerate().filter(|(_, refit)| !refit.ended) {
            let others = refit.slopes.iter().zip(residuals(goals, &refit.rows)).enumerate();
            let others = others.filter(|(row, _)| row / per_machine != machine).map(|(_, row)| row);
            let off = refit.at.iter().zip(&neutral).map(|(at, start)| (at - start) / NEUTRAL_ERROR);
            let step = step(neutral.len(), others.chain(held.iter().zip(off)))
                .map(|step| step.iter().map(|part| part * refit.damping).collect::<Vec<_>>());
            match step.filter(|step| step.iter().any(|part| part.abs() > LAST_STEP)) {
                Some(step) => {
                    tried.push(machine);
                    points.push(moved(&refit.at, &step, REFIT_STEP));
                }
                None => refit.ended = true,
            }
        }
        if tried.is_empty() {
            break;
        }
        let rows = trials.rows(&points)?;
        for ((machine, at), rows) in tried.into_iter().zip(points).zip(rows) {
            let size = size_without(&rows, &at, machine);
            let refit = &mut refits[machine];
            refit.correct_slopes(goals, &at, &rows);
            if size < refit.size {
                (refit.at, refit.rows, refit.size) = (at, rows, size);
                refit.steps += 1;
                refit.damping = (2.0 * refit.damping).min(1.0);
            } else {
                refit.damping /= 2.0;
            }
        }
    }
    let left_out = |(place, refit): (usize, Refit)| LeftOut {
        shared: trials.machine(place, &refit.at).shared,
        simulated: refit.rows[place],
        steps: refit.steps,
    };
    Ok(refits.into_iter().enumerate().map(left_out).collect())
}

impl Refit {
    /// Corrects the slopes by what a trial at `at` showed, along the direction of its step (Broyden's method).
    fn correct_slopes(&mut self, goals: &[Goal], at: &[f64], rows: &[Target]) {
        let step: Vec<f64> = at.iter().zip(&self.at).map(|(to, from)| to - from).collect();
        let length = step.iter().map(|part| part * part).sum::<f64>();
        // After a shorter step, the noise of the runs would outweigh what it tells.
        if length.sqrt() < SLOPE_STEP / 2.0 {
            return;
        }
        let changes = residuals(goals, rows).into_iter().zip(residuals(goals, &self.rows)).map(|(to, from)| to - from);
        for (slopes, change) in self.slopes.iter_mut().zip(changes) {
            let foreseen = slopes.iter().zip(&step).map(|(slope, part)| slope * part).sum::<f64>();
            for (slope, part) in slopes.iter_mut().zip(&step) {
                *slope += (change - foreseen) * part / length;
            }
        }
    }
}

/// A point after a step, no part of which is larger than `largest`.
fn moved(at: &[f64], step: &[f64], largest: f64) -> Vec<f64> {
    at.iter().zip(step).map(|(at, step)| at + step.clamp(-largest, largest)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::find;

    #[test]
    fn corrected_slopes_foresee_the_trial_that_corrected_them() {
        let goals = [Goal::of(&find("lkp-sb02").unwrap().unwrap()).unwrap()];
        let row = |score, zone, lru| Target { tasks: 4, score, contention_pct: Some([zone, lru]) };
        let (here, there) = (vec![row(1e6, 2.0, 3.0)], vec![row(2e6, 5.0, 1.0)]);
        let mut refit = Refit {
            at: vec![0.0, 0.0],
            rows: here.clone(),
            slopes: vec![vec![1.0, 2.0]; 3],
            size: 0.0,
            steps: 0,
            damping: 1.0,
            ended: false,
        };
        refit.correct_slopes(&goals, &[0.001, 0.0], &there);
        assert_eq!(refit.slopes, vec![vec![1.0, 2.0]; 3], "a short step tells nothing");
        refit.correct_slopes(&goals, &[0.3, 0.4], &there);
        let changes = residuals(&goals, &there).into_iter().zip(residuals(&goals, &here)).map(|(to, from)| to - from);
        for (slopes, change) in refit.slopes.iter().zip(changes) {
            assert!((0.3 * slopes[0] + 0.4 * slopes[1] - change).abs() < 1e-9, "{slopes:?}, {change}");
            // Across the step nothing was learnt.
            assert!((0.4 * slopes[0] - 0.3 * slopes[1] - (0.4 - 0.6)).abs() < 1e-9, "{slopes:?}");
        }
    }
}
