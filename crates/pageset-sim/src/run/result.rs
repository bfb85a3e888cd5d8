//! The result of one workload on one machine, over sets of rules, numbers of tasks and seeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, Outcome, Run};
use crate::engine::{LockStats, PathStats};
use crate::era::Era;
use crate::os::History;
use pageset_statistics::{Spread, interval_95};

/// The schema of [`RunResult`].
pub const SCHEMA: &str = "pageset.run/1";

/// The result of `pageset-lab sim`.
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
    /// Virtual time before the measurement; the shortest, if the end of the warm-up was detected.
    pub warm_up_ns: u64,
    /// Precision at which a measurement ended: half the width of the 95 % interval of the score in per cent, and of
    /// contention in percentage points. 0 if the full time was measured.
    #[serde(default)]
    pub precision_pct: f64,
    /// The past of the memory.
    #[serde(default)]
    pub history: History,
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
    /// Half-widths of the 95 % intervals of the means: over the seeds, or over time if there is one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Figures>,
    /// Whether all seeds have settled. Missing for a workload that ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
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
    /// How steady the measurement is. Missing for a workload that ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<SteadinessOf>,
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

/// How well a measurement stands for the steady state.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct SteadinessOf {
    /// Virtual time before the measurement.
    pub warm_up_ns: u64,
    /// Measured virtual time.
    pub measured_ns: u64,
    /// Half-widths of the 95 % intervals of the means over time.
    pub interval: Figures,
    /// The second half of the measurement less the first half.
    pub drift: Figures,
    /// Whether nothing drifts by more than chance gives, and all intervals are within the precision.
    pub settled: bool,
}

impl SteadinessOf {
    pub(crate) fn of(outcome: &Outcome) -> Option<SteadinessOf> {
        outcome.steadiness.map(|found| SteadinessOf {
            warm_up_ns: found.warm_up.whole_ns(),
            measured_ns: outcome.time.whole_ns(),
            interval: found.interval,
            drift: found.drift,
            settled: found.settled,
        })
    }
}

/// The half-widths of the 95 % intervals of the means of `outcomes`: over the seeds, or over time if there is one seed.
/// `None` if neither is known.
pub(crate) fn interval(outcomes: &[(u64, Outcome)]) -> Option<Figures> {
    if let [(_, only)] = outcomes {
        return only.steadiness.map(|found| found.interval);
    }
    let of = |of: fn(&Outcome) -> f64| interval_95(&outcomes.iter().map(|(_, o)| of(o)).collect::<Vec<_>>());
    let score = Spread::of(&outcomes.iter().map(|(_, o)| o.score()).collect::<Vec<_>>())?.mean;
    let figures = Figures {
        score_pct: 100.0 * of(Outcome::score)? / score,
        zone_points: of(Outcome::zone_pct)?,
        lru_points: of(Outcome::lru_pct)?,
    };
    // A score of 0 has no width in per cent.
    Some(figures).filter(|figures| figures.score_pct.is_finite())
}

/// Whether all outcomes have settled. `None` if no outcome can settle.
pub(crate) fn settled(outcomes: &[(u64, Outcome)]) -> Option<bool> {
    let each = || outcomes.iter().filter_map(|(_, outcome)| outcome.steadiness);
    each().next().map(|_| each().all(|found| found.settled))
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
            steadiness: SteadinessOf::of(outcome),
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
            interval: interval(outcomes),
            settled: settled(outcomes),
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
    /// A result without rows, of runs like `run`.
    #[must_use]
    pub fn new(run: &Run<'_>, seeds: u32) -> RunResult {
        let Run { workload, machine, .. } = run;
        RunResult {
            schema: SCHEMA.to_owned(),
            workload: workload.title(),
            unit: workload.unit.to_owned(),
            second_unit: workload.second_unit.map(str::to_owned),
            machine: machine.name.clone(),
            about: machine.about.clone(),
            measured_ns: run.time.whole_ns(),
            warm_up_ns: run.warm_up.whole_ns(),
            precision_pct: run.precision_pct.unwrap_or(0.0),
            history: run.history,
            seeds,
            rows: Vec::new(),
        }
    }
}
