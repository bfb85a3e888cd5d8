//! The result of runs of one workload on one machine, over sets of rules, numbers of tasks and seeds.

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

/// What `pageset run` and `pageset sweep` have measured.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// The workload's name.
    pub workload: String,
    /// What it counts.
    #[serde(default)]
    pub unit: String,
    /// The second thing that it counts, where there is one.
    pub second_unit: Option<String>,
    /// The machine's name.
    pub machine: String,
    /// What the machine is.
    #[serde(default)]
    pub about: String,
    /// Virtual time that was measured, at most.
    pub measured_ns: u64,
    /// Virtual time before it.
    pub warm_up_ns: u64,
    /// Seeds that each row was to be run with: 1 to this.
    #[serde(default)]
    pub seeds: u32,
    /// One for each set of rules and number of tasks.
    pub rows: Vec<RunRow>,
}

/// One set of rules with one number of tasks.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct RunRow {
    /// The name of the rules, with their changes.
    pub rules: String,
    /// The kernel's era; [`Era::default`] in results of before there was one.
    #[serde(default)]
    pub era: Era,
    /// Tasks.
    pub tasks: u32,
    /// Operations a second. Nothing where no seed was run to its end, as in all that follow.
    pub score: Option<Spread>,
    /// Operations of the second kind a second, where the workload has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_score: Option<Spread>,
    /// Waiting for zone locks, in percent of the time that the tasks did not sleep.
    pub zone_lock_pct: Option<Spread>,
    /// The same for LRU locks.
    pub lru_lock_pct: Option<Spread>,
    /// How long allocations took, those of all seeds together.
    pub alloc_ns: Option<AllocTimes>,
    /// One for each seed that was run to its end.
    pub samples: Vec<Sample>,
}

/// How long the half, 99 of 100, 999 of 1000, and all allocations took at most, in ns.
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
    /// Those of the second kind, where the workload has one.
    pub others: u64,
    /// Operations a second.
    pub score: f64,
    /// Pages taken from zones.
    pub from_zone: u64,
    /// Pages drained to zones.
    pub drained: u64,
    /// Drains by frees of orders 1 to 3 with room in the pageset.
    pub high_order_drains: u64,
    /// Lines from memory in percent of those that were in no cache of their core.
    pub cache_miss_pct: f64,
    /// Waiting for zone locks in percent.
    pub zone_lock_pct: f64,
    /// Waiting for LRU locks in percent.
    pub lru_lock_pct: f64,
    /// Zone locks of all nodes: refills, drains, and all that passes the pagesets by.
    pub zone_locks: Paths,
    /// LRU locks of all nodes: pages put on, and taken off.
    pub lru_locks: Paths,
}

/// The locks of all nodes together, by the path on which they were taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Sample says what each path is")]
pub struct Paths {
    pub alloc: PathSum,
    pub free: PathSum,
    pub direct: PathSum,
}

/// Holds of locks on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct PathSum {
    /// Holds.
    pub holds: u64,
    /// Those that were waited for.
    pub contended: u64,
    /// Waiting, all CPUs together.
    pub wait_ns: u64,
    /// Holding.
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
    /// A run under rules of this name, and its outcomes by seed.
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
            // All have the same bounds.
            let _ = all.add(&outcome.alloc_times);
        }
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| all.value_at_quantile(share));
        Some(AllocTimes { p50, p99, p999, max: all.max() })
    }
}

impl RunResult {
    /// The result of a workload on a machine, still without rows.
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
