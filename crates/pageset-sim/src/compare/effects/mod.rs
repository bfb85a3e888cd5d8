//! Tables of effects: what a rule changes under a workload on a machine.
//!
//! A table's lines name experiments, which are run once each however many lines need them; a line's columns are measures
//! of them, most relative to a base. Costs are those of the machines, fitted to none of these tables.

mod batches;
mod merge_skip;
mod series;
mod single_pass;

use pageset::Tuning;

use super::TableError;
use crate::run::Outcome;
use crate::statistics::Spread;
use crate::workload::Workload;

/// One simulation, of all seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// The workload's name.
    pub workload: &'static str,
    /// The machine's name.
    pub machine: &'static str,
    /// The rules.
    pub tuning: Tuning,
    /// Tasks: as many as CPUs where none are given, never more.
    pub tasks: Option<u32>,
}

/// What is read off a simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Operations a second.
    Score,
    /// Operations of the workload's second kind a second.
    SecondScore,
    /// Seconds for an operation.
    Time,
    /// How long a timed request for a huge page took, in ns.
    HugeNs,
    /// Waiting for zone locks, in percent of the time that tasks did not sleep.
    ZonePct,
    /// Of it, to fill pagesets.
    ZoneAllocPct,
    /// Of it, to drain them.
    ZoneFreePct,
    /// Waiting for LRU locks.
    LruPct,
    /// Drains by frees of orders 1 to 3, a second.
    HighOrderDrains,
    /// The same, for an operation.
    HighOrderDrainsOfWork,
    /// Pages taken from zones, a second.
    FromZone,
    /// The same, for an operation.
    FromZoneOfWork,
    /// Lines from memory among those from outside the core, in percent.
    MissPct,
    /// Pages drained as whole clusters among all that were drained, in percent.
    ClusterPct,
    /// Operations among those of both kinds, in percent: successes, where the second kind is failures.
    SuccessPct,
}

impl Measure {
    fn of(self, outcome: &Outcome) -> f64 {
        let moved = outcome.moved;
        let (work, seconds) = (outcome.operations[0] as f64, outcome.time.seconds());
        match self {
            Self::Score => outcome.score(),
            Self::SecondScore => outcome.second_score(),
            Self::Time => 1.0 / outcome.score(),
            Self::HugeNs => outcome.huge_request_time.map_or(f64::NAN, |time| 1e9 * time.seconds()),
            Self::ZonePct => outcome.zone_pct(),
            Self::ZoneAllocPct => outcome.zone_path_pct(&[0]),
            Self::ZoneFreePct => outcome.zone_path_pct(&[1]),
            Self::LruPct => outcome.lru_pct(),
            Self::HighOrderDrains => moved.high_order_drains as f64 / seconds,
            Self::HighOrderDrainsOfWork => moved.high_order_drains as f64 / work,
            Self::FromZone => moved.from_zone as f64 / seconds,
            Self::FromZoneOfWork => moved.from_zone as f64 / work,
            Self::MissPct => outcome.cache_miss_pct(),
            Self::ClusterPct => 100.0 * moved.drained_as_clusters as f64 / moved.drained as f64,
            Self::SuccessPct => 100.0 * work / (work + outcome.operations[1] as f64),
        }
    }
}

/// How a column's value comes of simulations; numbers are places in [`EffectTable::experiments`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A measure as it is.
    Of(Measure, usize),
    /// A measure relative to a base's, times what the base is in the table.
    Ratio {
        /// What is measured.
        measure: Measure,
        /// Where.
        of: usize,
        /// Relative to where.
        to: usize,
        /// The base in the table's unit.
        base: f64,
    },
    /// How much larger a measure is than a base's, in percent.
    ChangePct {
        /// What is measured.
        measure: Measure,
        /// Where.
        of: usize,
        /// Relative to where.
        to: usize,
    },
}

impl Value {
    fn eval(self, outcome: impl Fn(usize) -> f64) -> f64 {
        match self {
            Self::Of(_, of) => outcome(of),
            Self::Ratio { of, to, base, .. } => base * outcome(of) / outcome(to),
            Self::ChangePct { of, to, .. } => 100.0 * (outcome(of) / outcome(to) - 1.0),
        }
    }

    const fn measure(self) -> Measure {
        match self {
            Self::Of(measure, _) | Self::Ratio { measure, .. } | Self::ChangePct { measure, .. } => measure,
        }
    }

    /// The experiments that it needs.
    fn needs(self) -> [usize; 2] {
        match self {
            Self::Of(_, of) => [of, of],
            Self::Ratio { of, to, .. } | Self::ChangePct { of, to, .. } => [of, to],
        }
    }
}

/// What a column holds, and so how its error counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Something whose change relative to the base matters, and first of all its sign.
    Amount,
    /// Percent of some whole: errors are in percentage points.
    Share,
    /// A change in percent, relative to a base that is 0.
    Change,
}

/// One column of a line.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its name in the table.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// What was published, unless it was left out.
    pub published: Option<f64>,
    /// The published base.
    pub do_nothing: Option<f64>,
    /// How it is simulated.
    pub value: Value,
}

/// One line of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct EffectRow {
    /// Its key columns: names and words.
    pub keys: Vec<(String, String)>,
    /// Its other columns.
    pub columns: Vec<Column>,
}

/// A table of effects, and what has to be simulated for it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EffectTable {
    /// All simulations.
    pub experiments: Vec<Experiment>,
    /// All lines.
    pub rows: Vec<EffectRow>,
}

/// A column and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    /// The column.
    pub column: Column,
    /// The mean over seeds and their deviation.
    pub simulated: Spread,
}

/// A line and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparedEffects {
    /// Its key columns.
    pub keys: Vec<(String, String)>,
    /// Its other columns, those that were simulated.
    pub effects: Vec<Effect>,
}

impl EffectTable {
    /// The first lines of the tables that can be read.
    pub const HEADERS: [&'static str; 4] = [batches::HEADER, merge_skip::HEADER, series::HEADER, single_pass::HEADER];

    /// Whether this is a table of effects: it begins as one.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        Self::HEADERS.contains(&text.lines().next().unwrap_or_default().trim_end())
    }

    /// Reads a table; `file` is its name in messages.
    ///
    /// # Errors
    /// What is wrong in which line.
    pub fn parse(file: &str, text: &str) -> Result<EffectTable, TableError> {
        let add = match text.lines().next().unwrap_or_default().trim_end() {
            batches::HEADER => batches::add,
            merge_skip::HEADER => merge_skip::add,
            series::HEADER => series::add,
            single_pass::HEADER => single_pass::add,
            _ => {
                let what = format!("a table of an unknown kind; its first line may be: {}", Self::HEADERS.join(" or "));
                return Err(TableError { file: file.to_owned(), line: Some(1), what });
            }
        };
        let mut table = EffectTable::default();
        let mut lines = Vec::new();
        for record in csv::Reader::from_reader(text.as_bytes()).into_records() {
            let wrong = |line, what| TableError { file: file.to_owned(), line, what };
            let record = record.map_err(|error| {
                wrong(error.position().map(csv::Position::line), "not as many columns as the first line has".to_owned())
            })?;
            lines.push((record.position().map(csv::Position::line), record));
        }
        for (line, record) in &lines {
            let cells = Cells { record, all: &lines };
            add(&mut table, &cells).map_err(|what| TableError { file: file.to_owned(), line: *line, what })?;
        }
        if table.rows.is_empty() {
            return Err(TableError { file: file.to_owned(), line: None, what: "no rows".to_owned() });
        }
        // A share needs no base.
        table.retain(|_| true);
        Ok(table)
    }

    /// Keeps the lines for which `wanted` holds, and the experiments that these need.
    pub fn retain(&mut self, wanted: impl Fn(&EffectRow) -> bool) {
        self.rows.retain(wanted);
        let mut kept = Vec::new();
        for column in self.rows.iter_mut().flat_map(|row| &mut row.columns) {
            let mut place = |old: &mut usize| {
                let new = kept.iter().position(|kept| kept == old).unwrap_or_else(|| {
                    kept.push(*old);
                    kept.len() - 1
                });
                *old = new;
            };
            match &mut column.value {
                Value::Of(_, of) => place(of),
                Value::Ratio { of, to, .. } | Value::ChangePct { of, to, .. } => [of, to].into_iter().for_each(place),
            }
        }
        self.experiments = kept.iter().map(|&old| self.experiments[old].clone()).collect();
    }

    /// Reads the columns off the simulations: for each experiment the outcomes of all seeds, or none where it was not run.
    #[must_use]
    pub fn compare(&self, outcomes: &[Vec<Outcome>]) -> Vec<ComparedEffects> {
        let effect = |column: &Column| {
            let value = column.value;
            let seeds = value.needs().into_iter().map(|number| outcomes[number].len()).min().unwrap_or(0);
            let of_seed = |seed: usize| value.eval(|number| value.measure().of(&outcomes[number][seed]));
            let simulated = Spread::of(&(0..seeds).map(of_seed).collect::<Vec<_>>())?;
            Some(Effect { column: column.clone(), simulated })
        };
        let rows = self.rows.iter().map(|row| ComparedEffects {
            keys: row.keys.clone(),
            effects: row.columns.iter().filter_map(effect).collect(),
        });
        rows.filter(|row| !row.effects.is_empty()).collect()
    }

    /// The place of an experiment, which is added if it is new.
    fn experiment(&mut self, experiment: Experiment) -> usize {
        match self.experiments.iter().position(|known| *known == experiment) {
            Some(place) => place,
            None => {
                self.experiments.push(experiment);
                self.experiments.len() - 1
            }
        }
    }
}

/// What a comparison of one column says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The sign of the change, or the share within ten points, is right.
    Holds,
    /// It is not.
    Misses,
    /// Nothing was published, or a change too small to have a sign.
    Open,
}

/// A change up to this has no sign that could be right: the published runs vary by as much. In percent.
pub const SMALL_CHANGE_PCT: f64 = 3.0;
/// A share is right within so many percentage points.
pub const NEAR_POINTS: f64 = 10.0;

impl Effect {
    /// The published change from the base: in percent, or in points for a share.
    #[must_use]
    pub fn published_change(&self) -> Option<f64> {
        Some(self.change(self.column.published?, self.column.do_nothing?))
    }

    /// The simulated change from the base.
    #[must_use]
    pub fn simulated_change(&self) -> Option<f64> {
        Some(self.change(self.simulated.mean, self.column.do_nothing?))
    }

    fn change(&self, value: f64, base: f64) -> f64 {
        match self.column.kind {
            Kind::Amount => 100.0 * (value / base - 1.0),
            Kind::Share | Kind::Change => value - base,
        }
    }

    /// Whether it came out: a share within [`NEAR_POINTS`], of a change above [`SMALL_CHANGE_PCT`] its sign.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let Some(published) = self.column.published else { return Verdict::Open };
        let holds = match self.column.kind {
            Kind::Share => (self.simulated.mean - published).abs() <= NEAR_POINTS,
            Kind::Amount | Kind::Change => match (self.published_change(), self.simulated_change()) {
                (Some(p), Some(s)) if p.abs() > SMALL_CHANGE_PCT => (p > 0.0) == (s > 0.0) && s != 0.0,
                _ => return Verdict::Open,
            },
        };
        if holds { Verdict::Holds } else { Verdict::Misses }
    }
}

/// A line's cells, and all lines.
struct Cells<'c> {
    record: &'c csv::StringRecord,
    all: &'c [(Option<u64>, csv::StringRecord)],
}

impl<'c> Cells<'c> {
    fn word(&self, column: usize) -> &'c str {
        self.record.get(column).unwrap_or_default().trim()
    }

    /// A number; `~0` is 0, and an empty cell none.
    fn number(&self, column: usize, name: &str) -> Result<Option<f64>, String> {
        number(self.word(column), name)
    }
}

fn number(word: &str, name: &str) -> Result<Option<f64>, String> {
    if word.is_empty() {
        return Ok(None);
    }
    let number = word.trim_start_matches('~').parse().ok().filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| format!("{name}: {word}; allowed: a number, or nothing"))
}

/// The workload of this name, which a table's own list of workloads names.
fn known(name: &'static str) -> Result<&'static str, String> {
    Workload::find(name).map(|workload| workload.name).ok_or_else(|| format!("there is no workload {name}"))
}

/// The shipped machine that a table's word begins with the name of.
fn machine(word: &str) -> Result<&'static str, String> {
    let names = || crate::machine::SHIPPED.iter().map(|(name, _)| *name);
    names().find(|name| *name == word).ok_or_else(|| {
        format!("machine: there is no machine {word}; allowed: {}", names().collect::<Vec<_>>().join(", "))
    })
}

#[cfg(test)]
mod tests;
