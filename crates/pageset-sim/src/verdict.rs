//! What a result says, and how far to trust it: of one workload on one machine, of a study of many, and of a comparison with
//! published values.
//!
//! The control of a run is the first row's rules with as many tasks. The control of a comparison is the published base.

use std::fmt;

use indexmap::IndexSet;
use pageset_statistics::verdict::{Kind, Trust};
use pageset_statistics::{CONFIDENCE, Compared, compare, geometric_mean};

use crate::compare::result::{CompareResult, Effect};
use crate::run::{RunResult, RunRow};

/// The number of seeds from which a spread means something. A guess.
const SEEDS_MIN: usize = 3;
/// Measured time below which a simulation may depend on its begin. A guess: results after 0.5 s and after 1.5 s
/// differ on some machines. Unit: nanoseconds.
const MEASURED_NS_MIN: u64 = 500_000_000;

/// A row next to its control.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'r> {
    /// The first row's rules with the same number of tasks.
    pub control: &'r RunRow,
    /// The row.
    pub row: &'r RunRow,
    /// The row's score to the control's.
    pub ratio: f64,
    /// How the row's scores differ from the control's.
    pub differs: Compared,
}

fn pairs(result: &RunResult) -> Vec<Pair<'_>> {
    let Some(first) = result.rows.first() else { return Vec::new() };
    let control =
        |row: &RunRow| result.rows.iter().find(|other| other.tasks == row.tasks && other.rules == first.rules);
    let scores = |row: &RunRow| row.samples.iter().map(|sample| sample.score).collect::<Vec<_>>();
    let pair = |row| {
        let control = control(row).filter(|control| !std::ptr::eq(*control, row))?;
        let (score, own) = (row.score?, control.score?);
        let differs = compare(&scores(control), &scores(row), CONFIDENCE);
        (own.mean > 0.0).then_some(Pair { control, row, ratio: score.mean / own.mean, differs })
    };
    result.rows.iter().filter_map(pair).collect()
}

/// What a run or a sweep says.
#[derive(Clone, Copy, Debug)]
pub enum OfRun<'r> {
    /// No row can be compared with the first one.
    Apart,
    /// The control has no result.
    NoControl(&'r RunRow),
    /// There is one row, and nothing to compare it with.
    Alone(&'r RunRow),
    /// There is one set of rules: its rows with the fewest and with the most tasks.
    Scales(&'r RunRow, &'r RunRow),
    /// The best row with the most tasks, where contention is highest.
    Best(Pair<'r>),
}

impl<'r> OfRun<'r> {
    /// The verdict on a result.
    pub fn of(result: &'r RunResult) -> OfRun<'r> {
        let rows = &result.rows;
        let Some(first) = rows.first() else { return OfRun::Apart };
        if first.score.is_none() {
            return OfRun::NoControl(first);
        }
        let most_tasks = rows.iter().map(|row| row.tasks).max().unwrap_or(0);
        let at_most = pairs(result).into_iter().filter(|pair| pair.row.tasks == most_tasks);
        if let Some(best) = at_most.max_by(|a, b| a.ratio.total_cmp(&b.ratio)) {
            return OfRun::Best(best);
        }
        let ended = || rows.iter().filter(|row| row.score.is_some());
        match (ended().min_by_key(|row| row.tasks), ended().max_by_key(|row| row.tasks)) {
            _ if rows.len() == 1 => OfRun::Alone(first),
            (Some(few), Some(many)) if rows.iter().all(|row| row.rules == first.rules) => OfRun::Scales(few, many),
            _ => OfRun::Apart,
        }
    }

    /// The kind of the verdict.
    pub const fn kind(&self) -> Kind {
        match self {
            OfRun::Apart | OfRun::NoControl(_) => Kind::None,
            OfRun::Alone(_) => Kind::Same,
            OfRun::Scales(..) => Kind::Differs,
            OfRun::Best(pair) => match pair.differs {
                Compared::UnknownNoise => Kind::None,
                Compared::Higher => Kind::Differs,
                Compared::Lower | Compared::Equal | Compared::Noise => Kind::Same,
            },
        }
    }
}

/// What a study says: the rules that do the most work on average, next to the first set of rules.
#[derive(Clone, Debug)]
pub struct OfStudy<'r> {
    /// The first set of rules.
    pub control: &'r str,
    /// The best rules, and the geometric mean of their ratios.
    pub best: Option<(&'r str, f64)>,
    /// The cells of the best rules: machines, workloads and numbers of tasks.
    pub cells: Vec<Pair<'r>>,
}

impl<'r> OfStudy<'r> {
    /// The verdict on the results of a study.
    pub fn of(results: &'r [RunResult]) -> OfStudy<'r> {
        let mut cells: Vec<Pair<'_>> = results.iter().flat_map(pairs).collect();
        let names: IndexSet<&str> = cells.iter().map(|pair| pair.row.rules.as_str()).collect();
        let mean = |name: &str| {
            let of_name = cells.iter().filter(|pair| pair.row.rules == name);
            geometric_mean(&of_name.map(|pair| pair.ratio).collect::<Vec<_>>())
        };
        let best = names.into_iter().filter_map(|name| Some((name, mean(name)?))).max_by(|a, b| a.1.total_cmp(&b.1));
        let control = results.iter().find_map(|result| result.rows.first()).map_or("", |row| row.rules.as_str());
        cells.retain(|pair| best.is_some_and(|best| pair.row.rules == best.0));
        OfStudy { control, best, cells }
    }

    /// The number of cells that differ from their control like this.
    pub fn count(&self, differs: Compared) -> usize {
        self.cells.iter().filter(|pair| pair.differs == differs).count()
    }

    /// The kind of the verdict.
    pub fn kind(&self) -> Kind {
        match self.count(Compared::Higher) + self.count(Compared::Lower) {
            0 if self.best.is_none() || self.count(Compared::UnknownNoise) > 0 => Kind::None,
            0 => Kind::Same,
            _ => Kind::Differs,
        }
    }
}

/// What a comparison with published values says. The control of a sweep of batches is the two baselines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfComparison {
    /// The published effects that the simulation meets.
    pub holds: usize,
    /// Those that it misses.
    pub misses: usize,
    /// The mean errors that a sweep of batches compares with its baselines.
    pub cells: usize,
    /// Those of the simulation that are smaller than both baselines'.
    pub won: usize,
    /// The mean error of changes and shares. Unit: points.
    pub error: Option<f64>,
    /// The mean error of taking the base. Unit: points.
    pub error_of_base: Option<f64>,
}

impl OfComparison {
    /// The verdict on a comparison.
    pub fn of(result: &CompareResult) -> OfComparison {
        let effects: Vec<Effect> = result.rows.iter().flat_map(|row| row.effects().map(|(_, effect)| effect)).collect();
        let count = |wanted: bool| effects.iter().filter(|effect| effect.holds() == Some(wanted)).count();
        let [_, _, won, cells] = result.cells_won();
        let error = |of: fn(&Effect) -> Option<f64>| {
            let errors: Vec<f64> = effects.iter().filter_map(of).map(f64::abs).collect();
            (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
        };
        OfComparison {
            holds: count(true),
            misses: count(false),
            cells,
            won,
            error: error(|effect| Some(effect.simulated_change()? - effect.published_change()?)),
            error_of_base: error(Effect::published_change),
        }
    }

    /// The kind of the verdict.
    pub const fn kind(&self) -> Kind {
        match (self.cells, self.holds + self.misses) {
            (0, 0) => Kind::None,
            (0, _) if self.misses == 0 => Kind::Same,
            (cells, _) if cells > 0 && self.won == cells => Kind::Same,
            _ => Kind::Differs,
        }
    }
}

/// What weakens a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weakness {
    /// A simulation failed.
    Failed,
    /// A row has one seed, or none.
    OneSeed,
    /// A row has so many seeds.
    FewSeeds(usize),
    /// So little time was measured. Unit: nanoseconds.
    Short(u64),
    /// So many rows have not settled.
    Unsettled(usize),
    /// Most published effects are missed.
    MostMissed,
    /// A simulation is no measurement of a machine.
    Simulated,
}

impl Weakness {
    fn of_seeds(seeds: usize) -> Option<Weakness> {
        match seeds {
            0 | 1 => Some(Weakness::OneSeed),
            SEEDS_MIN.. => None,
            few => Some(Weakness::FewSeeds(few)),
        }
    }

    /// What weakens the results of simulations.
    pub fn of_runs(results: &[RunResult]) -> Vec<Weakness> {
        let rows = results.iter().flat_map(|result| &result.rows);
        let seeds = rows.map(|row| row.samples.len()).filter(|seeds| *seeds > 0).min().unwrap_or(0);
        let measured_ns = results.iter().map(|result| result.measured_ns).min().unwrap_or(0);
        let short = (measured_ns < MEASURED_NS_MIN).then_some(Weakness::Short(measured_ns));
        let rows = results.iter().flat_map(|result| &result.rows);
        let unsettled = rows.filter(|row| row.settled == Some(false)).count();
        let unsettled = (unsettled > 0).then_some(Weakness::Unsettled(unsettled));
        unsettled.into_iter().chain(Weakness::of_seeds(seeds)).chain(short).chain([Weakness::Simulated]).collect()
    }

    /// What weakens a comparison.
    pub fn of_comparison(result: &CompareResult) -> Vec<Weakness> {
        let OfComparison { holds, misses, .. } = OfComparison::of(result);
        let seeds = result.simulations().map(|simulation| simulation.seeds.len()).min().unwrap_or(result.seeds.len());
        let failed = result.notes.iter().any(|note| note.starts_with("not simulated")).then_some(Weakness::Failed);
        let missed = (misses > holds).then_some(Weakness::MostMissed);
        failed.into_iter().chain(Weakness::of_seeds(seeds)).chain(missed).collect()
    }

    /// The trust that it leaves.
    pub const fn trust(self) -> Trust {
        match self {
            Weakness::Failed | Weakness::OneSeed | Weakness::Unsettled(_) | Weakness::MostMissed => Trust::Low,
            Weakness::FewSeeds(_) | Weakness::Short(_) | Weakness::Simulated => Trust::Fair,
        }
    }
}

/// Prints a sentence without its full stop.
impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weakness::Failed => f.write_str("a simulation failed"),
            Weakness::OneSeed => f.write_str("one seed for a row: its spread is unknown"),
            Weakness::FewSeeds(seeds) => write!(f, "only {seeds} seeds for a row"),
            Weakness::Unsettled(1) => f.write_str("1 row has not settled"),
            Weakness::Unsettled(rows) => write!(f, "{rows} rows have not settled"),
            Weakness::Short(ns) => write!(f, "only {} s were measured: a longer run may differ", *ns as f64 / 1e9),
            Weakness::MostMissed => f.write_str("most published effects are missed"),
            Weakness::Simulated => f.write_str("simulated, not measured on a machine"),
        }
    }
}

/// Rows with seeds that have not ended, and the number of seeds that have.
pub fn unfinished(result: &RunResult) -> impl Iterator<Item = (&RunRow, usize)> {
    let ended = result.rows.iter().map(|row| (row, row.samples.len()));
    ended.filter(|(_, ended)| *ended < result.seeds as usize || *ended == 0)
}

#[cfg(test)]
mod tests;
