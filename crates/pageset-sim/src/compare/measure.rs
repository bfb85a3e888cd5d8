//! What is read off a simulation, and how a column's value comes of it.

use crate::run::Outcome;

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
    /// Waiting for zone and LRU locks.
    LocksPct,
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

/// How a column's value comes of simulations; numbers are places in [`super::Table::experiments`].
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
    /// The same relative to the mean of the base's seeds.
    ChangeOfMeanPct {
        /// What is measured.
        measure: Measure,
        /// Where.
        of: usize,
        /// Relative to where.
        to: usize,
    },
}

impl Value {
    /// The value of one seed, from the measures of that seed and the means over seeds of experiments.
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

    /// The experiments whose seeds it needs one by one.
    pub(super) const fn needs(self) -> [usize; 2] {
        match self {
            Self::Of(_, of) | Self::ChangeOfMeanPct { of, .. } => [of, of],
            Self::Ratio { of, to, .. } | Self::ChangePct { of, to, .. } => [of, to],
        }
    }

    /// All experiments that it names, to be renumbered.
    pub(super) fn places(&mut self) -> Vec<&mut usize> {
        match self {
            Self::Of(_, of) => vec![of],
            Self::Ratio { of, to, .. } | Self::ChangePct { of, to, .. } | Self::ChangeOfMeanPct { of, to, .. } => {
                vec![of, to]
            }
        }
    }
}
