//! What `report` and `diff` read: the kinds of files and results of this program.

use std::path::Path;

use pageset_report::kinds::{FileKind, Inputs, ResultKind, typed};
use pageset_report::page::joined;
#[cfg(feature = "parquet")]
use pageset_sim::run::RunResult;
#[cfg(feature = "parquet")]
use pageset_study::{error::StoreError, table};

use crate::diff_cmd;
use crate::error::{Exit, Failure};
#[cfg(feature = "parquet")]
use crate::report_cmd::card;
use crate::report_cmd::{bench, simulated};

/// What `report` and `diff` read.
pub(crate) static INPUTS: Inputs = Inputs {
    is_built_in: |_| false,
    files: &[
        #[cfg(feature = "parquet")]
        TABLE,
        OTHER,
    ],
    results: &[
        ResultKind {
            schema: "pageset.run/1",
            report: |values| joined(values, |value| simulated::run(typed(value)?)),
            measure: Some(|value| Ok(diff_cmd::of_run(&typed(value)?))),
        },
        ResultKind {
            schema: "pageset.compare/1",
            report: |values| joined(values, |value| simulated::compare(typed(value)?)),
            measure: None,
        },
        ResultKind {
            schema: "pageset.bench/1",
            report: |values| joined(values, |value| bench::report(typed(value)?)),
            measure: Some(|value| Ok(diff_cmd::of_bench(&typed(value)?))),
        },
    ],
    reported: "use the table of a study, or the output of `pageset-lab sim`, `compare` or `bench` with --json",
    compared: "use tables of `pageset-lab study`, or the JSON of sim or bench; `pageset diff` compares recordings",
    elsewhere: (&["pageset.replay/1", "pageset.advise/1", "pageset.advise-set/1", "pageset.top/1"], "pageset"),
};

/// The table of a study.
#[cfg(feature = "parquet")]
const TABLE: FileKind = FileKind {
    is: |begin| begin.starts_with(table::MAGIC),
    report: |path| {
        let results = read_table(path)?;
        let card = card::simulation::study(&results);
        let damaged = |what| Failure::new(Exit::Damaged, format!("{}: {what}", path.display()));
        let mut report = joined(results, simulated::run).map_err(damaged)?;
        report.cards = vec![card];
        Ok(report)
    },
    measure: |path, _| Ok(read_table(path)?.iter().flat_map(diff_cmd::of_run).collect()),
};

/// Any other file: a recording, or nothing that this program knows.
const OTHER: FileKind =
    FileKind { is: |_| true, report: |path| Err(other(path, "report")), measure: |path, _| Err(other(path, "diff")) };

#[cfg(feature = "parquet")]
fn read_table(path: &Path) -> Result<Vec<RunResult>, Failure> {
    table::read(path).map_err(|error| {
        let exit = if matches!(error, StoreError::Io { .. }) { Exit::Unreadable } else { Exit::Damaged };
        Failure::new(exit, error)
    })
}

/// The failure for a file that is neither JSON nor a table.
fn other(path: &Path, command: &str) -> Failure {
    Failure::new(Exit::Damaged, format!("cannot read {}: it is neither JSON nor the table of a study", path.display()))
        .help(format!("`pageset {command}` reads recordings"))
}
