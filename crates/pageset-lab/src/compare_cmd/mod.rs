//! `pageset-lab compare`: simulates the rows of a published table, and compares.

mod all;
mod table;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use pageset_sim::calibrate::{Goal, HowToRun, Settings, leave_one_out};
use pageset_sim::compare::{Layout, SHIPPED, Table};
use pageset_sim::machine::{self, Machine, Rate, Shared};
use pageset_sim::run::RunError;
use pageset_sim::workload::Workload;

use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::options::Effort;
use crate::sim::progress::Progress;

/// Compare a published table with simulations of its rows
///
/// Simulates what each row of the table describes. One number of each machine, its pace, is fitted to the score of batch 31 of
/// page_fault1. Each error is shown next to trivial forecasts: doing nothing repeats the base row; for the sweep of
/// batches, the line is linear in 1/batch through the base row and the last row; for the table over tasks, Amdahl's
/// law.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The table: a built-in one, such as page_fault1-batch-sweep.csv, or a file of the same form; without a table, the
    /// command lists the built-in ones
    #[arg(value_name = "TABLE")]
    table: Option<String>,

    /// Compare all built-in tables, and print what their values come to
    ///
    /// --csv=FILE writes each published value next to its prediction, the 95 % interval, both baselines, and what the model had
    /// seen of the value. --machine and --row select rows of all tables.
    #[arg(long, conflicts_with_all = ["table", "batch", "leave_one_out"])]
    all_tables: bool,

    /// Simulate only the rows with one of these machines in a key column
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    machine: Vec<String>,

    /// Simulate only the rows with one of these words in a key column
    #[arg(long, value_name = "WORD,…", value_delimiter = ',')]
    row: Vec<String>,

    /// Simulate only the rows of these batches and the base rows; for the sweep of batches
    #[arg(long, value_name = "PAGES,…", value_delimiter = ',')]
    batch: Vec<u32>,

    /// Judge each machine with shared costs that were set on the other machines; for the sweep of batches
    ///
    /// First sets the shared costs without each machine in turn, on the rows of batch 31 of the others, and fits each machine's
    /// pace to its score of batch 31. All contention and all changes are then predictions of a machine that was left out. With
    /// --machine, costs are shared among the named machines only.
    #[arg(long)]
    leave_one_out: bool,

    #[command(flatten)]
    effort: Effort,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    if args.all_tables {
        return all::run(&args.machine, &args.row, &args.effort.with_seeds_of_fits());
    }
    let Some(name) = args.table else {
        return Err(Failure::new(Exit::Usage, "cannot compare: no table is named; try --all-tables, or name one")
            .help(built_in()));
    };
    let text = read(&name)?;
    let mut table = Table::parse(&name, &text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    table.select(&args.machine, &args.row, &args.batch).map_err(|wrong| Failure::new(Exit::Usage, wrong))?;
    let effort = match table.layout {
        Layout::Effects => args.effort,
        Layout::BatchSweep | Layout::Tasks => args.effort.with_seeds_of_fits(),
    };
    let mut machines = table.machines().map_err(|error| Failure::new(Exit::Failed, error))?;
    if args.leave_one_out && table.layout != Layout::BatchSweep {
        return Err(Failure::new(Exit::Usage, format!("cannot leave machines out of {name}: not a sweep of batches")));
    }
    let batch = Batch::begin(&effort)?;
    let notes =
        if args.leave_one_out { leave_out(&mut machines, &args.machine, &effort, &batch)? } else { Some(Vec::new()) };
    let Some(notes) = notes else { return Ok(Exit::Interrupted) };
    let runs = table.runs(&machines, &|workload, machine, tuning, era| effort.compared(workload, machine, tuning, era));
    let outcomes = batch.run(&runs);
    let mut result = table.compare(&runs, outcomes, effort.of_each().seeds);
    result.notes.extend(notes);
    batch.give(&result, table::text, result.rows.iter().map(|row| (Vec::new(), row)))
}

/// Gives each machine the shared costs of the other machines, and the pace that its score has then. Returns a note for each
/// machine; `None` after Ctrl-C.
fn leave_out(
    machines: &mut HashMap<&'static str, Machine>,
    names: &[String],
    effort: &Effort,
    batch: &Batch<'_>,
) -> Result<Option<Vec<String>>, Failure> {
    let (all, goals) = rows_of_sweep(names)?;
    let is_known = |name: &&str| all.iter().any(|machine| machine.name == *name);
    let mut unknown: Vec<&str> = machines.keys().copied().filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        let what = format!("cannot leave {} out: no row of batch 31 of the built-in sweep", unknown.join(", "));
        return Err(Failure::new(Exit::Usage, what));
    }
    let workload =
        Workload::find("page_fault1").ok_or_else(|| Failure::new(Exit::Failed, "unknown workload `page_fault1`"))?;
    let run: HowToRun<'_> = &|machine, tuning, era| effort.compared(workload, machine, tuning, era);
    let settings = Settings { run, effort: effort.of_each() };
    let progress = Progress::new();
    let heard = |ended, all| progress.of(ended, all);
    let left_out = match leave_one_out(&all, &goals, &settings, || batch.keep_on(), heard) {
        Err(RunError::Interrupted) => return Ok(None),
        left_out => left_out.map_err(|error| Failure::new(Exit::Failed, error))?,
    };
    let mut notes = Vec::new();
    for (of, goal) in left_out.iter().zip(&goals) {
        let Some(judged) = machines.get_mut(of.machine.as_str()) else { continue };
        judged.shared = of.shared;
        judged.fitted.pace = Rate::try_from(of.predicted.score / goal.row.score)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot fit the pace of {}: {error}", of.machine)))?;
        let Shared { fault_cycles, lru_page_cycles, transfer_load } = of.shared;
        let [zone, lru] = of.expected.contention_pct;
        notes.push(format!(
            "{}: costs of the other machines (fault_cycles / lru_page_cycles / transfer_load) {} / {} / {}{}, pace {:.3}; \
             batch 31 on the surface through all simulations: zone lock {zone:.1} %, LRU lock {lru:.1} %, scatter {:.1} points",
            of.machine,
            fault_cycles.get(),
            lru_page_cycles.get(),
            transfer_load.get(),
            if of.at_limit { ", at the limit of a range" } else { "" },
            judged.fitted.pace.get(),
            of.scatter[0].max(of.scatter[1]),
        ));
    }
    Ok(Some(notes))
}

/// The machines of the batch sweep and their rows of batch 31: all of them, or those with these names.
fn rows_of_sweep(names: &[String]) -> Result<(Vec<Machine>, Vec<Goal>), Failure> {
    let (mut machines, mut goals) = (Vec::new(), Vec::new());
    for (name, _) in machine::SHIPPED {
        let machine = crate::sim::machine(name)?;
        let goal = Goal::of(&machine).map_err(|error| Failure::new(Exit::Damaged, error))?;
        if let Some(goal) = goal.filter(|_| names.is_empty() || names.iter().any(|asked| asked == name)) {
            machines.push(machine);
            goals.push(goal);
        }
    }
    if let Some(missing) = names.iter().find(|name| machines.iter().all(|machine| machine.name != **name)) {
        let what = format!("cannot leave {missing} out: no row of batch 31 of the built-in sweep");
        return Err(Failure::new(Exit::Usage, what));
    }
    if let [alone] = &machines[..] {
        let what = format!("cannot leave {} out: no machine is left; try more machines", alone.name);
        return Err(Failure::new(Exit::Usage, what));
    }
    Ok((machines, goals))
}

fn built_in() -> String {
    let tables: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    format!("built-in tables: {}", tables.join(", "))
}

/// Reads a built-in table, or a file.
fn read(name: &str) -> Result<String, Failure> {
    let shipped = SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    match shipped {
        Some(text) if !Path::new(name).exists() => Ok(text),
        _ => fs::read_to_string(name)
            .map_err(|error| Failure::new(Exit::Unreadable, format!("cannot read {name}: {error}")).help(built_in())),
    }
}
