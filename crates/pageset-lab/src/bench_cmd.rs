//! `pageset-lab bench`: how fast the pool is, compared with a floor that shows what the hardware allows. The harness is
//! `pageset-bench`.
//!
//! A separate program, `pageset-bench-peers`, measures external allocators. It takes the same arguments and contains
//! the same subjects. If it is installed, it measures instead of this command, so that all subjects take part in the
//! same rounds. It writes JSON, which this module renders.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pageset_bench::report::Row;
use pageset_bench::{Pattern, Report, Settings};

use crate::columns::{numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::output::{CsvOption, Forms, JsonOption};
use crate::report_cmd::card;
use crate::sim::progress::{Interrupt, Progress};

/// Measure how fast pages are allocated and freed, compared with a floor that shows what the hardware allows
///
/// Measures all subjects in turn. Each thread runs on a CPU of its own. A sample in which a thread had its CPU for less
/// than 97 % of the time is discarded and counted.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure only these patterns: hot, bulk, random, churn, remote, order-9, calls-32, calls-256, half, half-9,
    /// old-64k, old-2m, old-4m
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    patterns: Vec<Pattern>,

    /// Measure only these subjects, named as in the table, and floor b
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    who: Vec<String>,

    /// Numbers of threads [default: 1, 2, 4 and so on, and the number of CPUs]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    threads: Vec<usize>,

    /// Samples of each subject, pattern and number of threads
    ///
    /// More samples give a more reliable median and take more time. If unsure, omit this option.
    #[arg(long, value_name = "NUMBER", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    /// Duration of a sample, in milliseconds
    ///
    /// During a short sample it is more likely that no other process runs on the sample's CPUs. If unsure, omit this
    /// option.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    window_ms: u64,

    #[command(flatten)]
    json: JsonOption,

    #[command(flatten)]
    csv: CsvOption,

    /// Do not measure external allocators, even if `pageset-bench-peers` is installed
    #[arg(long)]
    no_peers: bool,
}

/// The program that measures external allocators.
const PEERS: &str = "pageset-bench-peers";

/// The path of [`PEERS`]: in the folder of this command, or in a folder of `PATH`.
fn peers() -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = beside.into_iter().chain(env::split_paths(&path)).collect();
    places.into_iter().map(|place| place.join(PEERS)).find(|program| program.is_file())
}

/// Runs `pageset-lab bench`. The first Ctrl-C ends the measurement and keeps its samples; the second ends the command at
/// once.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let (json, csv) = (args.json.clone(), args.csv.clone());
    let forms = Forms::new(&json, &csv)?;
    let report = match peers().filter(|_| !args.no_peers) {
        Some(program) => match measured_by(&program)? {
            Ok(report) => report,
            Err(exit) => return Ok(exit),
        },
        None => {
            if !args.no_peers {
                eprintln!(
                    "note: external allocators are not measured: {PEERS} is neither next to this command nor in PATH; \
                     build it from bench-peers/"
                );
            }
            measured(args)?
        }
    };
    for warning in report.warnings() {
        eprintln!("warning: {warning}");
    }
    if forms.text() {
        let text = format!("{}\n{}", card::bench::bench(&report).answer(), table(&report));
        io::stdout().write_all(text.as_bytes())?;
    }
    forms.write(&[&report], report.rows.iter().map(|row| (Vec::new(), row)), &Interrupt::at_once()?)?;
    Ok(if report.interrupted { Exit::Interrupted } else { Exit::Done })
}

fn measured(args: Args) -> Result<Report, Failure> {
    let Args { patterns, who, threads, rounds, window_ms, .. } = args;
    let settings = Settings { patterns, who, threads, rounds, window: Duration::from_millis(window_ms) };
    let (interrupt, progress) = (Interrupt::install()?, Progress::new());
    pageset_bench::run(&settings, &pageset_bench::entries(), || interrupt.keep_on(), |done, all| progress.of(done, all))
        .map_err(|error| Failure::new(Exit::Usage, error))
}

/// The result of [`PEERS`], or its exit code if it ended without a result. It reports the reason itself.
fn measured_by(program: &Path) -> Result<Result<Report, Exit>, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, format!("{}: {error}", program.display()));
    // The forms of the result are this command's business: the program always writes JSON.
    let is_form = |arg: &OsString| ["--json", "--csv"].iter().any(|form| arg.to_string_lossy().starts_with(form));
    let own = env::args_os().skip_while(|arg| arg != "bench").skip(1).filter(|arg| !is_form(arg));
    let output = Command::new(program).args(own).stderr(Stdio::inherit()).output().map_err(|error| named(&error))?;
    match output.status.code() {
        Some(0) => Ok(Ok(serde_json::from_slice(&output.stdout).map_err(|error| named(&error))?)),
        Some(2) => Ok(Err(Exit::Usage)),
        _ => Err(named(&output.status)),
    }
}

/// Columns of a table that fit into a terminal 120 characters wide.
const SIDE_BY_SIDE: usize = 9;

/// The table: one row per subject, one column per pattern and number of threads.
fn table(report: &Report) -> String {
    let mut columns: Vec<(&str, usize)> = vec![];
    let mut names: Vec<&str> = vec![];
    for row in &report.rows {
        if !columns.contains(&(&row.pattern, row.threads)) {
            columns.push((&row.pattern, row.threads));
        }
        if !names.contains(&row.who.as_str()) {
            names.push(&row.who);
        }
    }
    let find = |who: &str, column: (&str, usize)| {
        report.rows.iter().find(|row| row.who == who && (row.pattern.as_str(), row.threads) == column)
    };
    let mut text = String::new();
    for some in columns.chunks(SIDE_BY_SIDE) {
        let heads: Vec<String> = some.iter().map(|(pattern, threads)| format!("{pattern} {threads}T")).collect();
        let mut table = numbers(std::iter::once("ns per pair").chain(heads.iter().map(String::as_str)), 0..1);
        for &who in &names {
            let cells = some.iter().map(|&column| find(who, column).map_or_else(|| "-".to_owned(), cell));
            table.add_row(std::iter::once(who.to_owned()).chain(cells));
        }
        text += &trimmed(&table);
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "In brackets: multiples of floor b. Medians of up to {} samples of {} ms. -: not supported. busy: no sample, the CPUs were busy.",
        report.rounds,
        report.window_ns / 1_000_000
    );
    text
}

fn cell(row: &Row) -> String {
    let Some(ns) = row.median() else {
        return if row.failed.is_some() { "failed".to_owned() } else { "busy".to_owned() };
    };
    let ns = if ns < 99.95 { format!("{ns:.1}") } else { format!("{ns:.0}") };
    row.ratio_to_floor_b.map_or_else(|| ns.clone(), |ratio| format!("{ns} ({ratio:.2})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_medians_and_missing_values() {
        let row = |who: &str, pattern: &str, samples: &[f64], ratio: Option<f64>| {
            serde_json::json!({
                "who": who, "pattern": pattern, "threads": 1, "ns_per_pair": samples, "asleep": [], "discarded": 2,
                "discarded_samples": [], "not_pinned": 0, "failed": null, "ratio_to_floor_b": ratio,
            })
        };
        let mut failed = row("x", "half", &[], None);
        failed["failed"] = "no memory".into();
        let rows = [
            row("floor b", "hot", &[4.0, 2.0, 3.0], Some(1.0)),
            row("x", "hot", &[9.0, 6.0], Some(2.5)),
            row("x", "order-9", &[250.0], None),
            failed,
            row("x", "bulk", &[], None),
        ];
        let report = serde_json::json!({
            "schema": "pageset.bench/1", "machine": { "processor": "P", "kernel": "K", "cpus": 2 },
            "window_ns": 5_000_000, "rounds": 3, "interrupted": false, "rows": rows,
        });
        let table = table(&serde_json::from_value(report).unwrap());
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["ns", "per", "pair", "hot", "1T", "order-9", "1T", "half", "1T", "bulk", "1T"]);
        assert_eq!(lines[1], ["floor", "b", "3.0", "(1.00)", "-", "-", "-"]);
        assert_eq!(lines[2], ["x", "7.5", "(2.50)", "250", "failed", "busy"]);
    }
}
