//! `pageset compare`: simulates the rows of a published table, and compares.

mod table;

use std::fs;
use std::path::Path;

use pageset_sim::compare::{Layout, SHIPPED, Table};

use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::options::Beside;

/// Compare a published table with simulations of its rows
///
/// Simulates what each row of the table describes. The costs of each machine are fitted to its base row of page_fault1
/// (batch 31). Each error is shown next to trivial forecasts: doing nothing repeats the base row; for the sweep of
/// batches, the line is linear in 1/batch through the base row and the last row; for the table over tasks, Amdahl's
/// law.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The table: a built-in one, such as page_fault1-batch-sweep.csv, or a file of the same form; an unknown name
    /// lists the built-in tables
    #[arg(value_name = "TABLE")]
    table: String,

    /// Simulate only the rows with one of these machines in a key column
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    machine: Vec<String>,

    /// Simulate only the rows with one of these words in a key column
    #[arg(long, value_name = "WORD,…", value_delimiter = ',')]
    row: Vec<String>,

    /// Simulate only the rows of these batches and the base rows; for the sweep of batches
    #[arg(long, value_name = "PAGES,…", value_delimiter = ',')]
    batch: Vec<u32>,

    #[command(flatten)]
    beside: Beside,
}

/// Runs `pageset compare`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let text = read(&args.table)?;
    let mut table = Table::parse(&args.table, &text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    table.select(&args.machine, &args.row, &args.batch).map_err(|wrong| Failure::new(Exit::Usage, wrong))?;
    let beside = match table.layout {
        Layout::Effects => args.beside,
        Layout::BatchSweep | Layout::Tasks => args.beside.with_seeds_of_fits(),
    };
    let machines = table.machines().map_err(|error| Failure::new(Exit::Failed, error))?;
    let runs = table.runs(&machines, &|workload, machine, tuning, era| beside.run(workload, machine, tuning, era));
    let batch = Batch::begin(&beside.effort)?;
    let outcomes = batch.run(&runs);
    let result = table.compare(&runs, outcomes, beside.precision, beside.effort.of_each().seeds);
    batch.give(&result, table::text)
}

/// Reads a built-in table, or a file.
fn read(name: &str) -> Result<String, Failure> {
    let built_in = SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| (*text).to_owned());
    match built_in {
        Some(text) if !Path::new(name).exists() => Ok(text),
        _ => fs::read_to_string(name).map_err(|error| {
            let tables: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            Failure::new(Exit::Unreadable, format!("cannot read {name}: {error}"))
                .help(format!("built-in tables: {}", tables.join(", ")))
        }),
    }
}
