//! `pageset compare`: a published table, and what the simulator makes of it.

mod table;

use std::fs;
use std::path::Path;

use pageset_sim::compare::{Layout, SHIPPED, Table};

use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
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

    /// Only the rows that have one of these machines in a key column
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    machine: Vec<String>,

    /// Only the rows that have one of these words in a key column
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
            Failure::new(Exit::Damaged, format!("{name}: {error}"))
                .help(format!("tables that are built in: {}", tables.join(", ")))
        }),
    }
}
