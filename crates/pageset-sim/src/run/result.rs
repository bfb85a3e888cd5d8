//! The result of one workload on one machine, over sets of rules, numbers of tasks and seeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Outcome, Run};
use crate::engine::{LockStats, PathStats};
use crate::era::Era;
use crate::machine::Machine;
use crate::statistics::Spread;
use crate::workload::{Length, Workload};

/// The schema of [`RunResult`].
pub const SCHEMA: &str = "pageset.run/1";

/// The result of `pageset run` and `pageset sweep`.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// The workload's name.
    pub workload: String,
    /// The unit of the operations.
    #[serde(default)]
    pub unit: String,
    /// The unit of the second kind of operations, if the workload has one.
    pub second_unit: Option<String>,
    /// The machine's name.
    pub machine: String,
    /// A description of the machine.
    #[serde(default)]
    pub about: String,
    /// Upper limit of the measured virtual time.
    pub measured_ns: u64,
    /// Virtual time before the measurement.
    pub warm_up_ns: u64,
    /// Number of configured seeds: each row runs with the seeds 1 to this number.
    #[serde(default)]
    pub seeds: u32,
    /// One row per set of rules and number of tasks.
    pub rows: Vec<RunRow>,
}

/// One set of rules with one number of tasks.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct RunRow {
    /// The name of the rules, with their changes.
    pub rules: String,
    /// The kernel's era; [`Era::default`] in older results, which have no era.
    #[serde(default)]
    pub era: Era,
    /// Number of tasks.
    pub tasks: u32,
    /// Operations a second. This value and all that follow are null if no seed has ended.
    pub score: Option<Spread>,
    /// Operations of the second kind a second, if the workload has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_score: Option<Spread>,
    /// Wait for zone locks, in per cent of the time that the tasks did not sleep.
    pub zone_lock_pct: Option<Spread>,
    /// Wait for LRU locks, in per cent of the time that the tasks did not sleep.
    pub lru_lock_pct: Option<Spread>,
    /// Durations of allocations, of all seeds together.
    pub alloc_ns: Option<AllocTimes>,
    /// One sample per seed that has ended.
    pub samples: Vec<Sample>,
}

/// Quantiles of the durations of allocations, in ns: 50 %, 99 %, 99.9 % and the maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the struct's comment names them in order")]
pub struct AllocTimes {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// One seed.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Sample {
    /// The seed.
    pub seed: u64,
    /// Operations in the measurement.
    pub operations: u64,
    /// Operations of the second kind; 0 if the workload has none.
    pub others: u64,
    /// Operations a second.
    pub score: f64,
    /// Pages taken from zones.
    pub from_zone: u64,
    /// Pages drained to zones.
    pub drained: u64,
    /// Drains by frees of orders 1 to 3 although the pageset had room.
    pub high_order_drains: u64,
    /// Lines from memory or another socket, in per cent of the lines that were not in the core's own caches.
    pub cache_miss_pct: f64,
    /// Wait for zone locks in per cent.
    pub zone_lock_pct: f64,
    /// Wait for LRU locks in per cent.
    pub lru_lock_pct: f64,
    /// Zone locks of all nodes: refills, drains, and operations that bypass the pagesets.
    pub zone_locks: Paths,
    /// LRU locks of all nodes: pages added, and pages removed.
    pub lru_locks: Paths,
}

/// The locks of all nodes together, by path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Sample says what each path is")]
pub struct Paths {
    pub alloc: PathSum,
    pub free: PathSum,
    pub direct: PathSum,
}

/// Lock holds on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct PathSum {
    /// Holds.
    pub holds: u64,
    /// Holds after a wait.
    pub contended: u64,
    /// Wait of all CPUs together.
    pub wait_ns: u64,
    /// Hold of all CPUs together.
    pub hold_ns: u64,
}

impl PathSum {
    fn of(locks: &[LockStats], paths: &[usize]) -> PathSum {
        let mut all = PathStats::default();
        for path in locks.iter().flat_map(|lock| paths.iter().map(|path| lock.paths[*path])) {
            all.holds += path.holds;
            all.contended += path.contended;
            all.wait += path.wait;
            all.hold += path.hold;
        }
        PathSum {
            holds: all.holds,
            contended: all.contended,
            wait_ns: all.wait.whole_ns(),
            hold_ns: all.hold.whole_ns(),
        }
    }
}

impl Sample {
    fn of(seed: u64, outcome: &Outcome) -> Sample {
        let paths = |locks: &[LockStats], direct: &[usize]| Paths {
            alloc: PathSum::of(locks, &[0]),
            free: PathSum::of(locks, &[1]),
            direct: PathSum::of(locks, direct),
        };
        Sample {
            seed,
            operations: outcome.operations[0],
            others: outcome.operations[1],
            score: outcome.score(),
            from_zone: outcome.moved.from_zone,
            drained: outcome.moved.drained,
            high_order_drains: outcome.moved.high_order_drains,
            cache_miss_pct: outcome.cache_miss_pct(),
            zone_lock_pct: outcome.zone_pct(),
            lru_lock_pct: outcome.lru_pct(),
            zone_locks: paths(&outcome.zone_locks, &[2, 3, 4]),
            lru_locks: paths(&outcome.lru_locks, &[]),
        }
    }
}

impl RunRow {
    /// The row of a run under rules of this name, from its outcomes by seed.
    #[must_use]
    pub fn new(rules: &str, run: &Run<'_>, outcomes: &[(u64, Outcome)]) -> RunRow {
        let spread = |of: fn(&Outcome) -> f64| Spread::of(&outcomes.iter().map(|(_, o)| of(o)).collect::<Vec<_>>());
        RunRow {
            rules: rules.to_owned(),
            era: run.era,
            tasks: run.tasks,
            score: spread(Outcome::score),
            second_score: run.workload.second_unit.and_then(|_| spread(Outcome::second_score)),
            zone_lock_pct: spread(Outcome::zone_pct),
            lru_lock_pct: spread(Outcome::lru_pct),
            alloc_ns: AllocTimes::of(outcomes),
            samples: outcomes.iter().map(|(seed, outcome)| Sample::of(*seed, outcome)).collect(),
        }
    }
}

impl AllocTimes {
    fn of(outcomes: &[(u64, Outcome)]) -> Option<AllocTimes> {
        let (first, rest) = outcomes.split_first()?;
        let mut all = first.1.alloc_times.clone();
        for (_, outcome) in rest {
            // All histograms have the same bounds, so `add` cannot fail.
            let _ = all.add(&outcome.alloc_times);
        }
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| all.value_at_quantile(share));
        Some(AllocTimes { p50, p99, p999, max: all.max() })
    }
}

impl RunResult {
    /// A result without rows.
    #[must_use]
    pub fn new(workload: &Workload, machine: &Machine, length: Length, seeds: u32) -> RunResult {
        RunResult {
            schema: SCHEMA.to_owned(),
            workload: workload.name.to_owned(),
            unit: workload.unit.to_owned(),
            second_unit: workload.second_unit.map(str::to_owned),
            machine: machine.name.clone(),
            about: machine.about.clone(),
            measured_ns: length.time.whole_ns(),
            warm_up_ns: length.warm_up.whole_ns(),
            seeds,
            rows: Vec::new(),
        }
    }
}
