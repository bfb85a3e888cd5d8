//! `pageset compare`: a published table, and what the simulator makes of it.

mod effects;
mod report;
mod tasks;

use std::fs;
use std::path::Path;

use pageset::Tuning;
use pageset::tuning::BatchRule;
use pageset::tuning::presets::LINUX_4_17;
use pageset_sim::compare::{self, EffectTable, SHIPPED, SWEEP_ERA, Simulated, SweepRow, SweepTable, TasksTable};
use pageset_sim::era::Era;
use pageset_sim::run::{Outcome, Run};
use pageset_sim::workload::Workload;

use self::report::{Report, Simulation};
use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::machines;
use crate::sim::options::Beside;

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
    beside: Beside,
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
    let args = Args { beside: args.beside.with_seeds_of_fits(), ..args };
    if TasksTable::is_one(&text) {
        return tasks::run(&args, &text);
    }
    let table = SweepTable::parse(&args.table, &text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    let rows = chosen(&args, table)?;
    let machines = machines(rows.iter().map(|row| row.machine.as_str()))?;
    let workload = Workload::find("page_fault1").ok_or_else(|| Failure::new(Exit::Failed, "no page_fault1"))?;
    let run_of = |row: &SweepRow| {
        // The kernel of the table: 4.17 but for its batch. High is six batches.
        let tuning = Tuning { batch: BatchRule::Fixed(row.batch), ..LINUX_4_17 };
        machines.get(row.machine.as_str()).map(|machine| args.beside.run(workload, machine, tuning, SWEEP_ERA))
    };
    let runs: Vec<Run<'_>> = rows.iter().filter_map(run_of).collect();
    let batch = Batch::begin(&args.beside.effort)?;
    let outcomes = batch.run(&runs, |n| format!("{}, batch {}", rows[n].machine, rows[n].batch))?;
    let whole = whole_rows(&rows, &outcomes, args.beside.effort.seeds().count());
    let (rows, simulated): (Vec<_>, Vec<_>) =
        whole.iter().map(|&place| (rows[place].clone(), simulated(&outcomes[place]))).unzip();
    let simulations = whole.iter().map(|&place| Simulation::of((&runs[place], &outcomes[place])));
    let report = Report::new(&args, compare::compare(&rows, &simulated).into_iter().zip(simulations).collect());
    batch.give(|| report.text(), || report.json())
}

impl Args {
    /// What was run: the first line of a result.
    fn head(&self, simulations: &[&Simulation]) -> String {
        let mut lengths = simulations.iter().map(|simulation| simulation.length);
        let first = lengths.next();
        let same = first.filter(|first| lengths.all(|length| length == *first)).flatten();
        let mut eras: Vec<Era> = simulations.iter().map(|simulation| simulation.era).collect();
        eras.sort_unstable();
        eras.dedup();
        let eras: Vec<&str> = eras.into_iter().map(Era::name).collect();
        format!("{}, {}, era {}\n", self.table, self.beside.told(same), eras.join(", "))
    }
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

/// The places of the rows all of whose seeds were run, if their base row was.
fn whole_rows(rows: &[SweepRow], outcomes: &[Vec<(u64, Outcome)>], seeds: usize) -> Vec<usize> {
    let is_whole = |place: &usize| outcomes[*place].len() == seeds;
    let has_base = |place: &usize| (0..rows.len()).any(|base| is_whole(&base) && rows[base].is_base_of(&rows[*place]));
    (0..rows.len()).filter(|place| is_whole(place) && has_base(place)).collect()
}

fn simulated(seeds: &[(u64, Outcome)]) -> Simulated {
    let values = |outcome: &Outcome| [outcome.score(), outcome.zone_pct(), outcome.lru_pct()];
    Simulated(seeds.iter().map(|(_, outcome)| values(outcome)).collect())
}
