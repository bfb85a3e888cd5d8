//! The result of one workload on one machine, over sets of rules, numbers of tasks and seeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, Outcome, Run};
use crate::engine::{LockStats, PathStats};
use crate::era::Era;
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
    /// The operation that the workload counts.
    #[serde(default)]
    pub unit: String,
    /// The second operation that the workload counts; null if there is none.
    pub second_unit: Option<String>,
    /// The machine's name.
    pub machine: String,
    /// A description of the simulated machine.
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
    /// The number of runs of each row. The runs differ only in their random choices. The row shows their means.
    #[schemars(extend("bad" = "Fewer than five: the spread says little.", "todo" = "Use --seeds."))]
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
    /// The kernel's era in a simulation, named after its first release. The era sets what rules do not: the pages of an
    /// LRU batch, the LRU locks of memory groups, and the caches that count for a CPU's slice of the cache.
    #[schemars(extend("bad" = "Unlike the era of the kernel that the rows are compared with.", "todo" = "Use --era."))]
    #[serde(default)]
    pub era: Era,
    /// Number of tasks.
    pub tasks: u32,
    /// Operations per second of simulated time, of all tasks. In `pageset-lab compare`: the table's own measure of
    /// work.
    #[schemars(extend("unit" = "per second", "rank" = 1, "figure" = "score", "todo" = "As a second."))]
    pub score: Option<Spread>,
    /// Operations of the second kind per second, if the workload has one.
    #[schemars(extend("todo" = "As a second."))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_score: Option<Spread>,
    /// The time spent waiting for zone locks, in percent of the time that the tasks did not sleep. In JSON:
    /// `zone_lock_pct`.
    #[schemars(extend("heading" = "zone lock %", "unit" = "% of the CPUs' time", "rank" = 2,
        "figure" = "waiting for zone locks", "bad" = "Above ten: the zone lock is the limit.",
        "todo" = "Compare rules, and batches with `pageset-lab sim --set batch=31,63`."))]
    pub zone_lock_pct: Option<Spread>,
    /// The time spent waiting for the locks of the lists of pages in use (LRU), in percent of the time that the tasks
    /// did not sleep. In JSON: `lru_lock_pct`.
    #[schemars(extend("heading" = "LRU lock %",
        "bad" = "Growing while zone lock % falls: the contention has moved from one lock to the other.",
        "todo" = "Rules of pagesets do not help."))]
    pub lru_lock_pct: Option<Spread>,
    /// Half the widths of the 95 % intervals of the means: over the seeds, or over time for a single seed. In `diff`,
    /// the interval of the change.
    #[schemars(extend("as" = "+- %"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Figures>,
    /// Whether all seeds have settled. Missing for a workload that ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// The durations of allocations: the percentiles p50, p99 and p999, and max. Unit: nanoseconds.
    #[schemars(extend("as" = "p99"))]
    pub alloc_ns: Option<AllocTimes>,
    /// A member for each seed.
    pub samples: Vec<Sample>,
}

/// Quantiles of the durations of allocations, in ns: 50 %, 99 %, 99.9 % and the maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the struct's comment names them in order")]
pub struct AllocTimes {
    /// The median duration of an allocation, over all seeds. Unit: nanoseconds.
    #[schemars(extend("heading" = "alloc p50 ns"))]
    pub p50: u64,
    /// 99 of 100 allocations take at most this time; in `top`, 99 of 100 waits for zone locks. The slowest allocations
    /// wait for a lock, or refill. Unit: nanoseconds.
    #[schemars(extend("unit" = "ns", "rank" = 3, "figure" = "99 of 100 allocations take at most",
        "bad" = "Near max: every refill is slow, or waits.",
        "todo" = "Use a smaller batch or a smaller batch_scale_max, if single allocations must be fast."))]
    pub p99: u64,
    /// 999 of 1000 allocations take at most this time. In JSON: `p999`. Unit: nanoseconds.
    #[schemars(extend("heading" = "p99.9", "as" = "p99"))]
    pub p999: u64,
    /// The duration of the longest allocation. Unit: nanoseconds.
    #[schemars(extend("as" = "p99"))]
    pub max: u64,
}

/// One seed.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Sample {
    /// The seed. The same seed gives the same run, to the nanosecond.
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
    /// Pages that refills took from zones.
    #[schemars(extend("heading" = "pages from zones", "better" = "lower", "per" = "1000 ops", "rank" = 4))]
    pub from_zone: u64,
    /// Pages that drains returned to zones.
    #[schemars(extend("heading" = "pages drained", "better" = "lower", "per" = "1000 ops", "rank" = 5))]
    pub drained: u64,
    /// Drains at the free of a block of orders 1 to 3 although the pageset had room.
    #[schemars(extend("bad" = "Near the number of such frees, as on 5.18 to 6.15.",
        "todo" = "Use a newer kernel. See `pageset explain high_threshold_616`."))]
    pub high_order_drains: u64,
    /// Lines from memory or another socket, in per cent of the lines that were not in the core's own caches.
    #[schemars(extend("heading" = "cache miss %", "unit" = "percent", "better" = "lower", "rank" = 3))]
    pub cache_miss_pct: f64,
    /// Wait for zone locks in per cent.
    #[schemars(extend("heading" = "zone lock %", "unit" = "percent", "as" = "zone lock %", "better" = "lower",
        "rank" = 1))]
    pub zone_lock_pct: f64,
    /// Wait for LRU locks in per cent.
    #[schemars(extend("heading" = "LRU lock %", "unit" = "percent", "as" = "LRU lock %", "better" = "lower",
        "rank" = 2))]
    pub lru_lock_pct: f64,
    /// The zone locks of all nodes, by path: `alloc` for refills, `free` for drains, `direct` for blocks that bypass
    /// the pagesets.
    #[schemars(extend("as" = "zone lock %"))]
    pub zone_locks: Paths,
    /// The LRU locks of all nodes: `alloc` for pages added to the lists, `free` for pages removed.
    #[schemars(extend("as" = "LRU lock %"))]
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
    #[schemars(extend("bad" = "Larger than `interval`: the run had not reached its steady state.",
        "todo" = "Use a longer --warm-up or --duration."))]
    pub drift: Figures,
    /// Whether nothing drifts by more than chance gives, and all intervals are within the precision (1 if the whole
    /// time was measured).
    #[schemars(extend("bad" = "False: another time of measurement gives another result.",
        "todo" = "Use a longer --duration or a larger --precision."))]
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
    /// Refills, or pages added to the LRU.
    pub alloc: PathSum,
    /// Drains, or pages removed from the LRU.
    pub free: PathSum,
    /// Blocks that bypass the pagesets: large blocks, and blocks of cached orders that an interrupt requested while the
    /// pageset was busy.
    pub direct: PathSum,
}

/// Lock holds on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct PathSum {
    /// Holds.
    pub holds: u64,
    /// How often a CPU had to wait for the lock.
    pub contended: u64,
    /// The time that all CPUs together waited for the lock. Unit: nanoseconds.
    #[schemars(extend("as" = "zone lock %"))]
    pub wait_ns: u64,
    /// The time that the lock was held. Unit: nanoseconds.
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

/// The waits for one kind of locks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LockWaits {
    /// The locks' name: `zone` or `LRU`.
    pub name: &'static str,
    /// The share of the tasks' time.
    pub pct: Option<Spread>,
    /// Half the width of its 95 % interval, in percentage points.
    pub points: Option<f64>,
}

impl RunRow {
    /// The waits for zone locks, and those for LRU locks.
    pub fn waits(&self) -> [LockWaits; 2] {
        let width = |of: fn(&Figures) -> f64| self.interval.as_ref().map(of);
        [
            LockWaits { name: "zone", pct: self.zone_lock_pct, points: width(|figures| figures.zone_points) },
            LockWaits { name: "LRU", pct: self.lru_lock_pct, points: width(|figures| figures.lru_points) },
        ]
    }

    /// The row of a run under rules of this name, from its outcomes by seed.
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
    /// All quantiles, in order.
    pub const fn all(&self) -> [u64; 4] {
        [self.p50, self.p99, self.p999, self.max]
    }

    /// The means of the quantiles of these runs, and the longest of all; `None` without runs.
    pub fn mean(all: &[AllocTimes]) -> Option<AllocTimes> {
        let mean = |of: fn(&AllocTimes) -> u64| all.iter().map(of).sum::<u64>().checked_div(all.len() as u64);
        Some(AllocTimes {
            p50: mean(|times| times.p50)?,
            p99: mean(|times| times.p99)?,
            p999: mean(|times| times.p999)?,
            max: all.iter().map(|times| times.max).max()?,
        })
    }

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
            seeds,
            rows: Vec::new(),
        }
    }
}
