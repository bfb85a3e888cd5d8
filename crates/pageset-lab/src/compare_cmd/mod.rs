//! `pageset-lab compare`: simulates the rows of a published table, and compares.

mod all;
mod table;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use pageset_sim::compare::{Layout, SHIPPED, Table, leave_out};
use pageset_sim::machine::Machine;

use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::options::Effort;

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
    /// The shared costs were set without each machine in turn, on the rows of batch 31 of the others; only the machine's pace was
    /// fitted to its score of batch 31. All contention and all changes are then predictions of a machine that was left out.
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
    if args.leave_one_out {
        leave_out_each(&mut machines)?;
    }
    let batch = Batch::begin(&effort)?;
    let runs = table.runs(&machines, &|workload, machine, tuning, era| effort.compared(workload, machine, tuning, era));
    let outcomes = batch.run(&runs);
    let result = table.compare(&runs, outcomes, effort.of_each().seeds);
    batch.give(&result, table::text, result.rows.iter().map(|row| (Vec::new(), row)))
}

/// Gives each machine the shared costs of the other machines, and the pace that its score has then.
fn leave_out_each(machines: &mut HashMap<&'static str, Machine>) -> Result<(), Failure> {
    let mut unknown: Vec<&str> =
        machines.iter_mut().filter_map(|(name, machine)| (!leave_out(machine)).then_some(*name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort_unstable();
    let what = format!("cannot leave {} out: no row of batch 31 of the built-in sweep", unknown.join(", "));
    Err(Failure::new(Exit::Usage, what))
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
