//! `pageset-lab diff`: what changed between two sets of results.

use pageset_bench::Report;
use pageset_report::diff;
use pageset_report::kinds::Inputs;
use pageset_report::measure::{Better, Kind, Measured, Metric, amount, measured as columns};
use pageset_sim::run::{RunResult, RunRow, Sample};

use crate::error::{Exit, Failure};

/// Compare two sets of results: what changed, and whether it is more than noise
///
/// Compares results of `sim` and `study` with each other, or of `bench`. A row shows the change of one metric
/// from A to B. With two samples or more on each side, it also shows the interval of changes that the samples are compatible with. The intervals of all rows together hold with 95 % (Welch's method, with the
/// correction of Bonferroni). A change is noise if its interval contains 0. Samples are seeds of simulations, samples of
/// a benchmark, or files.
///
/// Cases meet if they agree in their properties, such as the workload and the number of tasks. A property that all cases
/// of A share, and all cases of B with another value, is what is compared.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    diff: diff::Args,
}

pub(crate) fn run(inputs: &Inputs, args: &Args) -> Result<Exit, Failure> {
    diff::run(inputs, &args.diff)
}

/// A simulation.
static RUN: Kind = Kind {
    name: "run",
    about: "a result of sim or study",
    by_file: false,
    note: "samples of simulations are seeds: their spread is that of the simulation, not of a machine",
};
/// A benchmark of the pool.
static BENCH: Kind = Kind {
    name: "bench",
    about: "a result of bench",
    by_file: true,
    note: "samples of one benchmark are of one process: repeat the benchmark and give all results of each side to include \
           the spread between processes",
};

/// The metrics of a simulation, a sample for each seed.
pub(crate) fn of_run(result: &RunResult) -> Vec<Measured> {
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
    ];
    let measured = |metric: Metric, of: &dyn Fn(&Sample) -> f64| Measured {
        kind: &RUN,
        case: case.clone(),
        metric,
        samples: row.samples.iter().map(|sample| (Some(sample.seed), of(sample))).collect(),
    };
    let mut all = vec![measured(amount(format!("{} a second", result.unit), Better::Higher), &|sample| sample.score)];
    if let Some(unit) = &result.second_unit {
        // The score is the first kind of operations in the measured time; so is the second score.
        let second = |sample: &Sample| match sample.operations {
            0 => 0.0,
            first => sample.score * sample.others as f64 / first as f64,
        };
        all.push(measured(amount(format!("{unit} a second"), Better::Higher), &second));
    }
    all.extend(columns(&RUN, &case, &row.samples, |sample| (Some(sample.seed), sample.operations + sample.others)));
    all
}

/// The metric of a benchmark, a sample for each kept sample.
pub(crate) fn of_bench(report: &Report) -> Vec<Measured> {
    let of_row = |row: &pageset_bench::report::Row| Measured {
        kind: &BENCH,
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
