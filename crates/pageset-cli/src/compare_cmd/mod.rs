//! `pageset compare`: a published table, and what the simulator makes of it.

mod effects;
mod report;
mod tasks;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use pageset::Tuning;
use pageset::tuning::BatchRule;
use pageset::tuning::presets::LINUX_4_17;
use pageset_sim::compare::{self, EffectTable, SHIPPED, Simulated, SweepRow, SweepTable, TasksTable};
use pageset_sim::machine::Machine;
use pageset_sim::run::{Outcome, Run, RunError};
use pageset_sim::sweep::run_all;
use pageset_sim::workload::Workload;

use self::report::Report;
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::sim::machine;
use crate::sim::options::Effort;
use crate::sim::progress::{Interrupt, Progress};

/// Compare a published table with what the simulator makes of it
///
/// Runs what each row of the table describes, with the costs that each machine's base row of page_fault1 (batch 31) was
/// fitted to. Beside each error stands that of doing nothing, which repeats the base; for the sweep of batches also that of
/// a line in 1/batch through the base row and the last.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The table: one that is built in, such as page_fault1-batch-sweep.csv, or a file of the same form; a name that is
    /// none gets the list of those that are
    #[arg(value_name = "TABLE")]
    table: String,

    /// Only the rows of these machines
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    machine: Vec<String>,

    /// Only the rows that have one of these words in a key column; for tables other than the sweep of batches
    #[arg(long, value_name = "WORD,…", value_delimiter = ',')]
    row: Vec<String>,

    /// Only the rows of these batches, and the base rows; for the sweep of batches
    #[arg(long, value_name = "PAGES,…", value_delimiter = ',')]
    batch: Vec<u32>,

    #[command(flatten)]
    effort: Effort,
}

/// Runs `pageset compare`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let text = read(&args.table)?;
    if EffectTable::is_one(&text) {
        return effects::run(&args, &text);
    }
    if !args.row.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            format!("--row: rows of {} are chosen by --machine, --batch", args.table),
        ));
    }
    if TasksTable::is_one(&text) {
        return tasks::run(&args, &text);
    }
    let table = SweepTable::parse(&args.table, &text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    let rows = chosen(&args, table)?;
    let mut machines: Vec<Machine> = Vec::new();
    for row in &rows {
        if machines.iter().all(|machine| machine.name != row.machine) {
            machines.push(machine(&row.machine)?);
        }
    }
    let workload = Workload::find("page_fault1").ok_or_else(|| Failure::new(Exit::Failed, "no page_fault1"))?;
    let effort = &args.effort;
    let of_row = |row: &SweepRow| {
        let machine = machines.iter().find(|machine| machine.name == row.machine);
        // The kernel of the table: 4.17 but for its batch. High is six batches.
        let tuning = Tuning { batch: BatchRule::Fixed(row.batch), ..LINUX_4_17 };
        let (warm_up, time) = (effort.warm_up(), effort.time());
        let run = move |machine, seed| Run {
            workload,
            machine,
            tuning,
            high_fraction: 0,
            tasks: Machine::topology(machine).cpus(),
            warm_up,
            time,
            seed,
        };
        machine.into_iter().flat_map(move |machine| effort.seeds().map(move |seed| run(machine, seed)))
    };
    let runs: Vec<Run<'_>> = rows.iter().flat_map(of_row).collect();
    let interrupt = Interrupt::install()?;
    let progress = Progress::new(runs.len());
    let outcomes = run_all(&runs, args.effort.workers(), || interrupt.keep_on(), |ended| progress.at(ended));
    drop(progress);
    let (rows, simulated) = whole_rows(rows, outcomes, args.effort.seeds().count())?;
    let report = Report::new(&args.table, compare::compare(&rows, &simulated), &args.effort);
    if !args.effort.json_only() {
        io::stdout().write_all(report.text().as_bytes())?;
    }
    if let Some(path) = &args.effort.json {
        let mut out = Output::create(path)?;
        serde_json::to_writer_pretty(&mut out, &report.json()).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.commit()?;
    }
    Ok(if interrupt.keep_on() { Exit::Done } else { Exit::Interrupted })
}

/// Reads a built-in table, or a file.
fn read(name: &str) -> Result<String, Failure> {
    let built_in = SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| (*text).to_owned());
    match built_in {
        Some(text) if !Path::new(name).exists() => Ok(text),
        _ => fs::read_to_string(name).map_err(|error| {
            let tables: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            Failure::new(Exit::Damaged, format!("{name}: {error}"))
                .help(format!("tables that are built in: {}", tables.join(", ")))
        }),
    }
}

/// The rows asked for; each machine's base row is always among them.
fn chosen(args: &Args, table: SweepTable) -> Result<Vec<SweepRow>, Failure> {
    for (option, missing) in [
        ("machine", args.machine.iter().find(|name| table.rows.iter().all(|row| row.machine != **name)).cloned()),
        ("batch", args.batch.iter().find(|b| table.rows.iter().all(|row| row.batch != **b)).map(u32::to_string)),
    ] {
        if let Some(missing) = missing {
            let message = format!("--{option} {missing}: no row of {} has it", args.table);
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    let wanted = |row: &SweepRow| {
        (args.machine.is_empty() || args.machine.contains(&row.machine))
            && (args.batch.is_empty() || args.batch.contains(&row.batch) || row.is_base_of(row))
    };
    Ok(table.rows.into_iter().filter(wanted).collect())
}

/// The rows all of whose seeds were run, if their base row was.
fn whole_rows(
    rows: Vec<SweepRow>,
    outcomes: Vec<Result<Outcome, RunError>>,
    seeds: usize,
) -> Result<(Vec<SweepRow>, Vec<Simulated>), Failure> {
    let mut outcomes = outcomes.into_iter();
    let mut whole: Vec<(SweepRow, Simulated)> = Vec::new();
    for row in rows {
        let mut values = Vec::new();
        for outcome in outcomes.by_ref().take(seeds) {
            match outcome {
                Ok(outcome) => values.push([outcome.score(), outcome.zone_pct(), outcome.lru_pct()]),
                Err(RunError::Interrupted) => {}
                Err(error) => {
                    let message = format!("{}, batch {}: {error}", row.machine, row.batch);
                    return Err(Failure::new(Exit::Failed, message));
                }
            }
        }
        if values.len() == seeds {
            whole.push((row, Simulated(values)));
        }
    }
    let has_base = |row: &SweepRow| whole.iter().any(|(base, _)| base.is_base_of(row));
    let kept: Vec<bool> = whole.iter().map(|(row, _)| has_base(row)).collect();
    Ok(whole.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(row, _)| row).unzip())
}
