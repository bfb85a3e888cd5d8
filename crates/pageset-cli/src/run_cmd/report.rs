//! The result of `pageset run`, as text and as JSON.

use pageset_sim::engine::{LockStats, PathStats};
use pageset_sim::era::Era;
use pageset_sim::machine::Machine;
use pageset_sim::run::Outcome;
use pageset_sim::statistics::Spread;
use pageset_sim::workload::{Length, Workload};
use serde::Serialize;

use crate::columns::{grouped, numbers, spread_pct, trimmed};
use crate::sim::options::Effort;

/// The schema of the JSON form.
const SCHEMA: &str = "pageset.run/1";

/// All rows, and what they have in common.
pub(super) struct Report<'r> {
    workload: &'r Workload,
    machine: &'r Machine,
    effort: &'r Effort,
    rows: Vec<Row>,
}

/// One set of rules with one number of tasks.
pub(super) struct Row {
    rules: String,
    era: Era,
    tasks: u32,
    outcomes: Vec<(u64, Outcome)>,
}

impl Row {
    /// One with its outcomes by seed.
    pub(super) fn new(rules: &str, era: Era, tasks: u32, outcomes: Vec<(u64, Outcome)>) -> Self {
        Row { rules: rules.to_owned(), era, tasks, outcomes }
    }

    pub(super) fn rules(&self) -> &str {
        &self.rules
    }

    pub(super) fn tasks(&self) -> u32 {
        self.tasks
    }

    /// Its first seed, if it was run.
    pub(super) fn first(&self) -> Option<&(u64, Outcome)> {
        self.outcomes.first()
    }

    fn spread(&self, of: impl Fn(&Outcome) -> f64) -> Option<Spread> {
        Spread::of(&self.outcomes.iter().map(|(_, outcome)| of(outcome)).collect::<Vec<_>>())
    }

    /// How long allocations took, those of all seeds together: the half, 99 of 100, 999 of 1000, and all were at
    /// most so long, in ns.
    fn alloc_ns(&self) -> Option<[u64; 4]> {
        let (first, rest) = self.outcomes.split_first()?;
        let mut all = first.1.alloc_times.clone();
        for (_, outcome) in rest {
            // All have the same bounds.
            let _ = all.add(&outcome.alloc_times);
        }
        Some([all.value_at_quantile(0.5), all.value_at_quantile(0.99), all.value_at_quantile(0.999), all.max()])
    }
}

impl<'r> Report<'r> {
    pub(super) fn new(workload: &'r Workload, machine: &'r Machine, effort: &'r Effort) -> Self {
        Report { workload, machine, effort, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn text(&self) -> String {
        let Report { workload, machine, effort, .. } = self;
        let Length { warm_up, time } = effort.length(workload);
        let mut text = format!(
            "{} on {} ({}), {} s after {} s, seeds 1 to {}\n\n",
            workload.name,
            machine.name,
            machine.about,
            time.seconds(),
            warm_up.seconds(),
            effort.last_seed()
        );
        let unit = format!("{} a second", workload.unit);
        let mut heads = vec![
            "rules",
            "era",
            "tasks",
            "seeds",
            &unit,
            "spread %",
            "zone lock %",
            "LRU lock %",
            "alloc p50 ns",
            "p99",
            "p99.9",
            "max",
        ];
        let second_unit = workload.second_unit.map(|unit| format!("{unit} a second"));
        heads.extend(second_unit.as_deref());
        let mut table = numbers(heads.into_iter(), 0..2);
        for row in &self.rows {
            let mut cells =
                vec![row.rules.clone(), row.era.to_string(), row.tasks.to_string(), row.outcomes.len().to_string()];
            match (row.spread(Outcome::score), row.alloc_ns()) {
                (Some(score), Some(alloc)) => {
                    cells.push(grouped(score.mean.round() as u64));
                    cells.push(spread_pct(score.deviation, score.mean));
                    let pct = |of: fn(&Outcome) -> f64| row.spread(of).map_or(0.0, |spread| spread.mean);
                    cells.push(format!("{:.1}", pct(Outcome::zone_pct)));
                    cells.push(format!("{:.1}", pct(Outcome::lru_pct)));
                    cells.extend(alloc.map(grouped));
                    let second = row.spread(Outcome::second_score).filter(|_| workload.second_unit.is_some());
                    cells.extend(second.map(|second| grouped(second.mean.round() as u64)));
                }
                _ => cells.push("not run".to_owned()),
            }
            table.add_row(cells);
        }
        text += &trimmed(&table);
        text
    }

    pub(super) fn json(&self) -> impl Serialize + use<> {
        let Length { warm_up, time } = self.effort.length(self.workload);
        Document {
            schema: SCHEMA,
            workload: self.workload.name.to_owned(),
            machine: self.machine.name.clone(),
            measured_ns: time.whole_ns(),
            warm_up_ns: warm_up.whole_ns(),
            rows: self.rows.iter().map(RowJson::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    workload: String,
    machine: String,
    measured_ns: u64,
    warm_up_ns: u64,
    rows: Vec<RowJson>,
}

#[derive(Serialize)]
struct RowJson {
    rules: String,
    era: Era,
    tasks: u32,
    score: Option<SpreadJson>,
    zone_lock_pct: Option<SpreadJson>,
    lru_lock_pct: Option<SpreadJson>,
    alloc_ns: Option<AllocJson>,
    samples: Vec<Sample>,
}

#[derive(Serialize)]
struct SpreadJson {
    mean: f64,
    deviation: f64,
}

#[derive(Serialize)]
struct AllocJson {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// One seed.
#[derive(Serialize)]
struct Sample {
    seed: u64,
    operations: u64,
    /// Those of the second kind, where the workload has one.
    others: u64,
    score: f64,
    /// Pages taken from zones and drained to them, and drains by frees of orders 1 to 3 with room in the pageset.
    from_zone: u64,
    drained: u64,
    high_order_drains: u64,
    cache_miss_pct: f64,
    zone_lock_pct: f64,
    lru_lock_pct: f64,
    zone_locks: Paths,
    lru_locks: Paths,
}

/// The locks of all nodes together, by the way they were come to.
#[derive(Serialize)]
struct Paths {
    alloc: PathJson,
    free: PathJson,
    direct: PathJson,
}

#[derive(Serialize, Default)]
struct PathJson {
    holds: u64,
    contended: u64,
    wait_ns: u64,
    hold_ns: u64,
}

impl Paths {
    /// Paths of the zone lock: refills, drains, and all that passes the pagesets by.
    fn of_zones(locks: &[LockStats]) -> Paths {
        Paths { alloc: sum(locks, &[0]), free: sum(locks, &[1]), direct: sum(locks, &[2, 3, 4]) }
    }

    /// Paths of the LRU lock: pages put on it, and taken off.
    fn of_lrus(locks: &[LockStats]) -> Paths {
        Paths { alloc: sum(locks, &[0]), free: sum(locks, &[1]), direct: PathJson::default() }
    }
}

fn sum(locks: &[LockStats], paths: &[usize]) -> PathJson {
    let mut all = PathStats::default();
    for path in locks.iter().flat_map(|lock| paths.iter().map(|path| lock.paths[*path])) {
        all.holds += path.holds;
        all.contended += path.contended;
        all.wait += path.wait;
        all.hold += path.hold;
    }
    PathJson { holds: all.holds, contended: all.contended, wait_ns: all.wait.whole_ns(), hold_ns: all.hold.whole_ns() }
}

impl RowJson {
    fn new(row: &Row) -> Self {
        let spread = |of: fn(&Outcome) -> f64| {
            row.spread(of).map(|spread| SpreadJson { mean: spread.mean, deviation: spread.deviation })
        };
        let sample = |(seed, outcome): &(u64, Outcome)| Sample {
            seed: *seed,
            operations: outcome.operations[0],
            others: outcome.operations[1],
            from_zone: outcome.moved.from_zone,
            drained: outcome.moved.drained,
            high_order_drains: outcome.moved.high_order_drains,
            cache_miss_pct: outcome.cache_miss_pct(),
            score: outcome.score(),
            zone_lock_pct: outcome.zone_pct(),
            lru_lock_pct: outcome.lru_pct(),
            zone_locks: Paths::of_zones(&outcome.zone_locks),
            lru_locks: Paths::of_lrus(&outcome.lru_locks),
        };
        RowJson {
            rules: row.rules.clone(),
            era: row.era,
            tasks: row.tasks,
            score: spread(Outcome::score),
            zone_lock_pct: spread(Outcome::zone_pct),
            lru_lock_pct: spread(Outcome::lru_pct),
            alloc_ns: row.alloc_ns().map(|[p50, p99, p999, max]| AllocJson { p50, p99, p999, max }),
            samples: row.outcomes.iter().map(sample).collect(),
        }
    }
}
