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

/// The value of a column from simulations. Numbers are indices in [`super::Table::experiments`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// The measure itself.
    Of(Measure, usize),
    /// A measure relative to that of a base, multiplied by the base's published value.
    Ratio {
        /// The measure.
        measure: Measure,
        /// The experiment.
        of: usize,
        /// The base experiment.
        to: usize,
        /// The base's value in the unit of the table.
        base: f64,
    },
    /// The increase of a measure over that of a base, in per cent.
    ChangePct {
        /// The measure.
        measure: Measure,
        /// The experiment.
        of: usize,
        /// The base experiment.
        to: usize,
    },
    /// The same increase over the mean of the base's seeds.
    ChangeOfMeanPct {
        /// The measure.
        measure: Measure,
        /// The experiment.
        of: usize,
        /// The base experiment.
        to: usize,
    },
}

impl Value {
    /// The value for one seed. `seed` gives that seed's measure of an experiment, `mean` the mean over all seeds.
    pub(super) fn eval(self, seed: impl Fn(usize) -> f64, mean: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        Some(match self {
            Self::Of(_, of) => seed(of),
            Self::Ratio { of, to, base, .. } => base * seed(of) / seed(to),
            Self::ChangePct { of, to, .. } => 100.0 * (seed(of) / seed(to) - 1.0),
            Self::ChangeOfMeanPct { of, to, .. } => 100.0 * (seed(of) / mean(to)? - 1.0),
        })
    }

    pub(super) const fn measure(self) -> Measure {
        match self {
            Self::Of(measure, _)
            | Self::Ratio { measure, .. }
            | Self::ChangePct { measure, .. }
            | Self::ChangeOfMeanPct { measure, .. } => measure,
        }
    }

    /// The experiments that [`Self::eval`] reads seed by seed.
    pub(super) const fn needs(self) -> [usize; 2] {
        match self {
            Self::Of(_, of) | Self::ChangeOfMeanPct { of, .. } => [of, of],
            Self::Ratio { of, to, .. } | Self::ChangePct { of, to, .. } => [of, to],
        }
    }

    /// All experiment indices, for renumbering.
    pub(super) fn experiments_mut(&mut self) -> Vec<&mut usize> {
        match self {
            Self::Of(_, of) => vec![of],
            Self::Ratio { of, to, .. } | Self::ChangePct { of, to, .. } | Self::ChangeOfMeanPct { of, to, .. } => {
                vec![of, to]
            }
        }
    }
}
