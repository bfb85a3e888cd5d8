//! The metrics of each kind of input, with their directions.

use pageset_bench::Report;
use pageset_sim::run::{RunResult, RunRow, Sample};
use pageset_trace::measure::{ReplayResult, Replayed};
use pageset_trace::replay::Replay;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which direction of a metric is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither: the metric describes the load, or is a gain and a cost at once.
    Neither,
}

/// The unit of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Percent of the mean of A.
    Percent,
    /// Percentage points: the metric is a share itself.
    Points,
}

/// A measured quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as in the tables of the commands.
    pub name: String,
    /// The better direction.
    pub better: Better,
    /// The unit of its change.
    pub change: Change,
}

/// The kinds of inputs. Only inputs of one kind are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What a recorded kernel did.
    Recording,
    /// A replay of a recording.
    Replay,
    /// A simulation.
    Run,
    /// A benchmark of the pool.
    Bench,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Kind; 4] = [Kind::Recording, Kind::Replay, Kind::Run, Kind::Bench];

    /// What a file of this kind is, with its article.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Kind::Recording => "a recording",
            Kind::Replay => "a result of replay",
            Kind::Run => "a result of run, sweep or study",
            Kind::Bench => "a result of bench",
        }
    }
}

/// One metric of one case in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The kind of the file.
    pub kind: Kind,
    /// What distinguishes the case from others of its kind: name and value.
    pub case: Vec<(&'static str, String)>,
    /// The metric.
    pub metric: Metric,
    /// The samples. The number distinguishes repetitions that have one, such as seeds.
    pub samples: Vec<(Option<u64>, f64)>,
}

/// A metric of a row: its name, its better direction, and its value.
type Of<T> = (&'static str, Better, fn(&T) -> f64);

fn amount(name: impl Into<String>, better: Better) -> Metric {
    Metric { name: name.into(), better, change: Change::Percent }
}

fn share(name: &str) -> Metric {
    Metric { name: name.to_owned(), better: Better::Lower, change: Change::Points }
}

/// Per 1000 of `operations`; 0 without operations.
fn per_1000(count: u64, operations: u64) -> f64 {
    if operations == 0 { 0.0 } else { count as f64 * 1000.0 / operations as f64 }
}

/// The metrics of a simulation, a sample for each seed.
#[must_use]
pub fn of_run(result: &RunResult) -> Vec<Measured> {
    result.rows.iter().flat_map(|row| of_run_row(result, row)).collect()
}

fn of_run_row(result: &RunResult, row: &RunRow) -> Vec<Measured> {
    let case = vec![
        ("workload", result.workload.clone()),
        ("machine", result.machine.clone()),
        ("rules", row.rules.clone()),
        ("era", row.era.to_string()),
        ("tasks", row.tasks.to_string()),
        ("measured ns", result.measured_ns.to_string()),
        ("warm-up ns", result.warm_up_ns.to_string()),
        ("history", result.history.to_string()),
    ];
    let measured = |metric: Metric, of: &dyn Fn(&Sample) -> f64| Measured {
        kind: Kind::Run,
        case: case.clone(),
        metric,
        samples: row.samples.iter().map(|sample| (Some(sample.seed), of(sample))).collect(),
    };
    let operations = |sample: &Sample| sample.operations + sample.others;
    let mut all = vec![measured(amount(format!("{} a second", result.unit), Better::Higher), &|sample| sample.score)];
    if let Some(unit) = &result.second_unit {
        // The score is the first kind of operations in the measured time; so is the second score.
        let second = |sample: &Sample| match sample.operations {
            0 => 0.0,
            first => sample.score * sample.others as f64 / first as f64,
        };
        all.push(measured(amount(format!("{unit} a second"), Better::Higher), &second));
    }
    all.extend([
        measured(share("zone lock %"), &|sample| sample.zone_lock_pct),
        measured(share("LRU lock %"), &|sample| sample.lru_lock_pct),
        measured(share("cache miss %"), &|sample| sample.cache_miss_pct),
        measured(amount("pages from zones/1000 ops", Better::Lower), &|sample| {
            per_1000(sample.from_zone, operations(sample))
        }),
        measured(amount("pages drained/1000 ops", Better::Lower), &|sample| {
            per_1000(sample.drained, operations(sample))
        }),
    ]);
    all
}

/// The metric of a benchmark, a sample for each kept sample.
#[must_use]
pub fn of_bench(report: &Report) -> Vec<Measured> {
    let of_row = |row: &pageset_bench::report::Row| Measured {
        kind: Kind::Bench,
        case: vec![
            ("subject", row.who.clone()),
            ("pattern", row.pattern.clone()),
            ("threads", row.threads.to_string()),
            ("processor", report.machine.processor.clone()),
        ],
        metric: amount("ns per pair", Better::Lower),
        samples: row.ns_per_pair.iter().map(|&ns| (None, ns)).collect(),
    };
    report.rows.iter().map(of_row).filter(|measured| !measured.samples.is_empty()).collect()
}

/// The metrics of a replay: one sample each. A row of another level than the result's is left out.
#[must_use]
pub fn of_replay(result: &ReplayResult) -> Vec<Measured> {
    const OF: [Of<Replayed>; 9] = [
        ("locks/1000 ops", Better::Lower, |row| row.zone_lock_acquisitions_per_1000_operations),
        ("lines/1000 ops", Better::Lower, |row| per_1000(row.zone_lock_lines, row.operations)),
        ("max lines/hold", Better::Lower, |row| row.longest_hold_lines as f64),
        ("refill pages/1000 ops", Better::Lower, |row| per_1000(row.totals.refill_pages, row.operations)),
        ("drain pages/1000 ops", Better::Lower, |row| per_1000(row.totals.drain_pages, row.operations)),
        ("most held", Better::Neither, |row| row.held_pages_max as f64),
        ("failed", Better::Lower, |row| row.failed as f64),
        ("below min", Better::Lower, |row| row.below_min as f64),
        ("operations", Better::Neither, |row| row.operations as f64),
    ];
    let of_row = |row: &Replayed| {
        let case = vec![
            ("recording", result.trace.name.clone()),
            ("rules", row.name.clone()),
            ("level", row.level.name().to_owned()),
        ];
        let of = |&(name, better, value): &Of<Replayed>| single(Kind::Replay, &case, amount(name, better), value(row));
        OF.iter().map(of).collect::<Vec<_>>()
    };
    result.named().flat_map(of_row).collect()
}

/// What the kernel did in a recording: one sample each.
#[must_use]
pub fn of_recording(replay: &Replay<'_>, command: &[String]) -> Vec<Measured> {
    let load = if command.is_empty() { "the machine".to_owned() } else { command.join(" ") };
    let case = vec![
        ("load", load),
        ("kernel", replay.setting().kernel.name.to_owned()),
        ("CPUs", replay.setting().cpus.len().to_string()),
    ];
    let (kernel, notes) = (replay.kernel(), replay.notes());
    let totals = kernel.totals(|_| true);
    let largest = kernel.refills.iter().chain(&kernel.drains).map(|moved| moved.pages).max().unwrap_or(0);
    let of_1000 = |count: u64| per_1000(count, notes.operations);
    let seconds = (notes.duration_ns as f64 / 1e9).max(1e-9);
    let all = [
        ("refills/1000 ops", Better::Lower, of_1000(totals.refills)),
        ("drains/1000 ops", Better::Lower, of_1000(totals.drains)),
        ("refill pages/1000 ops", Better::Lower, of_1000(totals.refill_pages)),
        ("drain pages/1000 ops", Better::Lower, of_1000(totals.drain_pages)),
        ("largest move", Better::Lower, f64::from(largest)),
        ("fallbacks/1000 ops", Better::Lower, of_1000(notes.found.fallbacks)),
        ("reclaims", Better::Lower, notes.found.reclaims as f64),
        ("operations a second", Better::Neither, notes.operations as f64 / seconds),
    ];
    all.into_iter().map(|(name, better, value)| single(Kind::Recording, &case, amount(name, better), value)).collect()
}

fn single(kind: Kind, case: &[(&'static str, String)], metric: Metric, value: f64) -> Measured {
    Measured { kind, case: case.to_vec(), metric, samples: vec![(None, value)] }
}
