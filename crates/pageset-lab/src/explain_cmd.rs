//! `pageset-lab explain`: what a column, a number or a rule means, and what to do about it.

use pageset_bench::report;
use pageset_report::{diff, explain};
use pageset_sim::compare::page::{PAGE_SCHEMA, Page};
use pageset_sim::compare::{self, CompareResult};
use pageset_sim::run::{self, RunResult};
use schemars::{Schema, schema_for};

use crate::error::{Exit, Failure};

/// Explain what a column, a number, a rule or a warning means, when it is bad, and what to do
///
/// NAME is a name from any output: a column heading, a metric, a key of --set, a member of JSON, or the word in
/// brackets at the end of a warning. Without NAME the command lists all names. With --schema it prints the JSON schema
/// of a result.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    explain: explain::Args,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    explain::run(&SCHEMAS, &args.explain, &[])
}

/// The results of this program.
const SCHEMAS: explain::Schemas = explain::Schemas { names: &NAMES, of };

/// The names of the results that have a schema.
const NAMES: [&str; 5] = ["sim", "compare", "compare --all-tables", "bench", "diff"];

/// The schema of a result, by the command's name or by the value of the result's member `schema`.
fn of(name: &str) -> Option<Schema> {
    Some(match name {
        "sim" | run::SCHEMA => schema_for!(RunResult),
        "compare" | compare::SCHEMA => schema_for!(CompareResult),
        "compare --all-tables" | PAGE_SCHEMA => schema_for!(Page),
        "bench" | report::SCHEMA => schema_for!(pageset_bench::Report),
        "diff" | diff::SCHEMA => schema_for!(diff::Diff),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use pageset_report::explain::{explained, faults};

    use super::SCHEMAS;

    /// Each name that the command prints has an entry: the headings of workloads and of comparisons.
    #[test]
    fn every_printed_name_has_an_entry() {
        assert_eq!(faults(&SCHEMAS), Vec::<String>::new());
        for workload in pageset_sim::workload::WORKLOADS {
            assert!(!explained(&SCHEMAS, &format!("{} a second", workload.unit)).is_empty(), "{}", workload.name);
        }
        for name in pageset_report::diff::HEADS {
            assert!(!explained(&SCHEMAS, name).is_empty(), "{name} is printed but has no entry");
        }
    }
}
