//! The costs that all machines share, set on the rows of all of them but one, for each machine in turn.
//!
//! Each machine's row is simulated at the same places of the costs' ranges. A [surface](super::surface) follows these rows, and all
//! fits use the surfaces only. The result of each is then simulated.

use super::surface::{COSTS, Place, Surface, halton};
use super::{Goal, Settings, Target, simulate};
use crate::machine::{Cycles, Machine, Rate, Shared, Slowdown};
use crate::run::RunError;

/// Standard error of a score before a pace is fitted, as a logarithm: clocks under load differ from base clocks by as much. A
/// guess.
const SCORE_ERROR: f64 = 0.15;
/// Standard error of contention in percentage points. It is published in whole points; the model is coarser. A guess.
const POINTS_ERROR: f64 = 2.0;
/// The middle of the costs' ranges: cycles of a fault, cycles of a page on the LRU, load of lines. Round numbers near the shipped
/// costs, which had seen all rows; but the same ones whichever row is left out.
const MIDDLE: [f64; COSTS] = [1700.0, 100.0, 1.9];
/// Half the width of each range, as a logarithm: from 0.70 to 1.42 of the middle. Surfaces through ranges of 0.45 were 14 points off
/// simulated rows in a corner, on two machines.
const HALF_WIDTH: f64 = 0.35;
/// How strongly fits are held to the middle, as a standard error of each logarithm: so weakly that it matters only where the rows
/// hardly determine a cost. A guess.
const MIDDLE_ERROR: f64 = 1.0;
/// Simulations of each machine. A surface has ten unknowns, and single runs scatter by several points.
const SAMPLES: usize = 48;
/// A search starts from this many places, since there may be several nearest ones.
const STARTS: usize = 8;
/// The first and the last step of a search, as parts of half a range.
const SEARCH: (f64, f64) = (0.25, 1e-6);

/// A machine, and the costs that are set on the rows of all others. All rows are simulated at pace 1.
#[derive(Clone, PartialEq, Debug)]
pub struct LeftOut {
    /// The machine's name.
    pub machine: String,
    /// The costs that are set on all other machines.
    pub shared: Shared,
    /// Whether one of these costs is at the limit of the range in which it was searched, so that the fit would go further: 0.70 to
    /// 1.42 times the middle of the range, which docs/archive/accuracy.md names.
    pub at_limit: bool,
    /// The standard deviation of simulated rows around the machine's surface: chance, and what the surface cannot follow. Unit:
    /// percentage points of zone lock and of LRU lock contention.
    pub scatter: [f64; 2],
    /// The row with these costs on the surface through all the machine's simulations, which averages over chance.
    pub expected: Target,
    /// The row simulated with these costs: a prediction.
    pub predicted: Target,
}

struct Surfaces<'a> {
    goals: &'a [Goal],
    of: Vec<Surface>,
}

impl<'a> Surfaces<'a> {
    /// Simulates each machine at all places. `heard` gets the numbers of finished and of all simulations.
    fn sample(
        machines: &[Machine],
        goals: &'a [Goal],
        settings: &Settings<'_>,
        keep_on: &(dyn Fn() -> bool + Sync),
        heard: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Self, RunError> {
        let (mut trials, mut rows) = (Vec::new(), Vec::new());
        for place in (0..SAMPLES).map(halton) {
            trials.extend(machines.iter().map(|machine| with(machine, costs(&place))));
            rows.extend_from_slice(goals);
        }
        let simulated = simulate(&trials, &rows, settings, keep_on, heard)?;
        let samples_of = |machine: usize| -> Vec<(Place, Target)> {
            let of_machine = simulated.iter().skip(machine).step_by(machines.len());
            of_machine.enumerate().map(|(number, row)| (halton(number), *row)).collect()
        };
        let of = (0..machines.len()).map(|machine| Surface::through(&samples_of(machine)));
        // The places determine a surface.
        let of = of.collect::<Option<Vec<_>>>().filter(|of| !of.is_empty()).ok_or(RunError::Interrupted)?;
        Ok(Surfaces { goals, of })
    }

    /// How far costs are from explaining the rows of all machines but one, and from the middle.
    fn far(&self, at: &Place, without: usize) -> f64 {
        let off = |machine: usize| -> f64 {
            let row = self.of[machine].at(at);
            residuals(&self.goals[machine], &row).iter().map(|residual| residual.powi(2)).sum()
        };
        let held = at.iter().map(|at| (at * HALF_WIDTH / MIDDLE_ERROR).powi(2)).sum::<f64>();
        (0..self.of.len()).filter(|machine| *machine != without).map(off).sum::<f64>() + held
    }

    /// The costs that explain the rows of all machines but one best, as places in their ranges.
    fn fit(&self, without: usize) -> Place {
        let with_size = |at: Place| (self.far(&at, without), at);
        let mut starts: Vec<(f64, Place)> = (0..SAMPLES).map(halton).map(with_size).collect();
        starts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        starts.truncate(STARTS);
        let ends = starts.into_iter().map(|start| descend(start, |at| self.far(at, without)));
        ends.min_by(|(a, _), (b, _)| a.total_cmp(b)).map_or([0.0; COSTS], |(_, at)| at)
    }
}

/// Goes down from a place within the ranges: one cost up or down, by less and less.
fn descend<const N: usize>((mut least, mut at): (f64, [f64; N]), far: impl Fn(&[f64; N]) -> f64) -> (f64, [f64; N]) {
    let mut reach = SEARCH.0;
    while reach > SEARCH.1 {
        let mut found = false;
        for (cost, step) in (0..N).flat_map(|cost| [(cost, reach), (cost, -reach)]) {
            let mut next = at;
            next[cost] = (next[cost] + step).clamp(-1.0, 1.0);
            let size = far(&next);
            if size < least {
                (least, at, found) = (size, next, true);
            }
        }
        if !found {
            reach /= 2.0;
        }
    }
    (least, at)
}

/// Predicts each machine with costs that are set on the rows of the others. `heard` gets the numbers of finished and of all
/// simulations. One machine alone is predicted from the middle of the ranges.
///
/// # Errors
/// A simulation failed, or the caller stopped it, or there is no machine.
pub fn leave_one_out(
    machines: &[Machine],
    goals: &[Goal],
    settings: &Settings<'_>,
    keep_on: impl Fn() -> bool + Sync,
    heard: impl Fn(usize, usize) + Sync,
) -> Result<Vec<LeftOut>, RunError> {
    let each = machines.len() * settings.effort.seeds as usize;
    let (sampled, all) = (SAMPLES * each, (SAMPLES + 1) * each);
    let surfaces = Surfaces::sample(machines, goals, settings, &keep_on, &|ended, _| heard(ended, all))?;
    let without: Vec<Place> = (0..machines.len()).map(|machine| surfaces.fit(machine)).collect();
    let trials: Vec<Machine> = machines.iter().zip(&without).map(|(machine, at)| with(machine, costs(at))).collect();
    let predicted = simulate(&trials, goals, settings, &keep_on, &|ended, _| heard(sampled + ended, all))?;
    let left_out = |(place, machine): (usize, &Machine)| LeftOut {
        machine: machine.name.clone(),
        shared: costs(&without[place]),
        at_limit: without[place].iter().any(|at| at.abs() >= 1.0),
        scatter: surfaces.of[place].scatter,
        expected: surfaces.of[place].at(&without[place]),
        predicted: predicted[place],
    };
    Ok(machines.iter().enumerate().map(left_out).collect())
}

/// The costs at a place, rounded as printed.
fn costs(place: &Place) -> Shared {
    let [fault, lru, load] = std::array::from_fn(|cost| MIDDLE[cost] * (HALF_WIDTH * place[cost]).exp());
    // The ranges of the costs lie within those of their types.
    let cycles = |cycles: f64| Cycles::try_from(cycles.round()).unwrap_or(Cycles::none());
    Shared {
        fault_cycles: cycles(fault),
        lru_page_cycles: cycles(lru),
        transfer_load: Slowdown::try_from((1e3 * load).round() / 1e3).unwrap_or(Slowdown::none()),
    }
}

/// A machine with these costs, at pace 1.
fn with(machine: &Machine, shared: Shared) -> Machine {
    let mut machine = Machine { shared, ..machine.clone() };
    machine.fitted.pace = Rate::ONE;
    machine
}

/// Score, zone lock and LRU lock, off the published values in standard errors.
fn residuals(goal: &Goal, row: &Target) -> [f64; 3] {
    let points = |lock: usize| (row.contention_pct[lock] - goal.row.contention_pct[lock]) / POINTS_ERROR;
    [(row.score / goal.row.score).ln() / SCORE_ERROR, points(0), points(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_place_of_a_valley_within_the_ranges_is_found() {
        let across = |at: &[f64; 2]| 1e3 * (at[0] + at[1] - 0.2).powi(2) + (at[0] - at[1] - 0.6).powi(2);
        let (size, at) = descend((f64::INFINITY, [-0.8, 0.9]), across);
        assert!(size < 1e-4 && (at[0] - 0.4).abs() < 0.01 && (at[1] + 0.2).abs() < 0.01, "{size} at {at:?}");
        let outside = |at: &[f64; 1]| (at[0] - 3.0).powi(2);
        assert_eq!(descend((f64::INFINITY, [0.0]), outside), (4.0, [1.0]));
    }

    #[test]
    fn a_wrong_row_bends_no_fit_without_it() {
        // Four machines, whose rows depend on the costs in different ways. The middle pulls a little.
        let truth = |machine: usize, [fault, lru, load]: Place| {
            let strength = 1.0 + machine as f64 / 2.0;
            let odds = 2.0 * strength * load - 3.0 * lru / strength + 0.3 * fault;
            let zone = 60.0 / (1.0 + (-odds).exp());
            Target {
                tasks: 4,
                score: 1e6 * (-0.3 * fault - 0.1 * strength * load).exp(),
                contention_pct: [zone, 60.0 - zone],
            }
        };
        let hidden = [0.3, -0.4, 0.5];
        let goal = Goal::of(&crate::machine::find("lkp-sb02").unwrap().unwrap()).unwrap().unwrap();
        let mut goals: Vec<Goal> = (0..4).map(|machine| Goal { row: truth(machine, hidden), ..goal }).collect();
        goals[3].row.score *= 2.0;
        let samples = |machine: usize| (0..SAMPLES).map(move |number| (halton(number), truth(machine, halton(number))));
        let of = (0..4).map(|machine| Surface::through(&samples(machine).collect::<Vec<_>>()).unwrap()).collect();
        let surfaces = Surfaces { goals: &goals, of };
        let off = |at: &Place| at.iter().zip(&hidden).map(|(at, hidden)| (at - hidden).abs()).fold(0.0, f64::max);
        let (without, with) = (surfaces.fit(3), surfaces.fit(0));
        assert!(off(&without) < 0.15, "{without:?}");
        assert!(off(&with) > 0.2, "{with:?}");
    }

    #[test]
    fn a_fit_of_what_is_no_number_ends() {
        assert!(descend((f64::NAN, [0.0]), |_| f64::NAN).0.is_nan());
    }

    #[test]
    fn the_middle_of_the_ranges_has_round_costs() {
        let Shared { fault_cycles, lru_page_cycles, transfer_load } = costs(&[0.0; COSTS]);
        assert_eq!([fault_cycles.get(), lru_page_cycles.get(), transfer_load.get()], MIDDLE);
        let highest = costs(&[1.0; COSTS]);
        assert_eq!([highest.fault_cycles.get(), highest.transfer_load.get()], [2412.0, 2.696]);
    }
}
