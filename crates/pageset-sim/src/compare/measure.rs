//! The measures of a simulation, and the value of a column from measures.

use crate::run::Outcome;

/// A measure of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Operations a second.
    Score,
    /// Operations of the workload's second kind a second.
    SecondScore,
    /// Seconds per operation.
    Time,
    /// Mean duration of the timed requests for a huge page, in ns.
    HugeNs,
    /// Wait for zone locks, in per cent of the time that the tasks did not sleep.
    ZonePct,
    /// As [`Self::ZonePct`], for refills of pagesets only.
    ZoneAllocPct,
    /// As [`Self::ZonePct`], for drains of pagesets only.
    ZoneFreePct,
    /// Wait for LRU locks, in per cent of the time that the tasks did not sleep.
    LruPct,
    /// Wait for zone and LRU locks, in per cent of the time that the tasks did not sleep.
    LocksPct,
    /// Drains by frees of orders 1 to 3 although the pageset had room, per second.
    HighOrderDrains,
    /// The same, per operation.
    HighOrderDrainsOfWork,
    /// Pages taken from zones, per second.
    FromZone,
    /// The same, per operation.
    FromZoneOfWork,
    /// Lines from memory or another socket among the lines from outside the core, in per cent.
    MissPct,
    /// Pages drained as whole clusters among all drained pages, in per cent.
    ClusterPct,
    /// Operations of the first kind among those of both kinds, in per cent: successes, if the second kind is failures.
    SuccessPct,
}

impl Measure {
    pub(super) fn of(self, outcome: &Outcome) -> f64 {
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
            Self::LocksPct => outcome.zone_pct() + outcome.lru_pct(),
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

/// How a column follows from a measure of an experiment and from that of its base.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum How {
    /// The measure itself.
    Itself,
    /// Relative to the base, multiplied by the base's value in the unit of the table.
    Ratio(f64),
    /// The increase over the base, in per cent.
    ChangePct,
    /// The same increase over the mean of the base's seeds.
    ChangeOfMeanPct,
}

/// The value of a column from simulations. Numbers are indices in [`super::Table::experiments`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Value {
    /// The measure.
    pub measure: Measure,
    /// How the value follows from it.
    pub how: How,
    /// The experiment.
    pub of: usize,
    /// Its base; the experiment, if it needs none.
    pub to: usize,
}

impl Value {
    /// A measure of an experiment.
    pub(super) const fn itself(measure: Measure, of: usize) -> Value {
        Value { measure, how: How::Itself, of, to: of }
    }

    /// The value for one seed. `seed` gives that seed's measure of an experiment, `mean` the mean over all seeds.
    pub(super) fn eval(self, seed: impl Fn(usize) -> f64, mean: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let (value, to) = (seed(self.of), self.to);
        Some(match self.how {
            How::Itself => value,
            How::Ratio(base) => base * value / seed(to),
            How::ChangePct => 100.0 * (value / seed(to) - 1.0),
            How::ChangeOfMeanPct => 100.0 * (value / mean(to)? - 1.0),
        })
    }

    /// The experiments that [`Self::eval`] reads seed by seed.
    pub(super) fn needs(self) -> [usize; 2] {
        [self.of, if self.how == How::ChangeOfMeanPct { self.of } else { self.to }]
    }
}
