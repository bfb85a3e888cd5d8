//! Published tables beside what the simulator makes of them.
//!
//! Every error stands beside that of doing nothing, which repeats the base, and of a forecast where the table has one. A
//! simulator is worth something where it beats both. Costs are those of the machines, fitted to base rows of page_fault1.
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`result`] | the result: published, simulated, baselines, verdicts, errors |
//! | `table` | a table: its lines, and the simulations that they need |
//! | `measure` | what is read off a simulation, and how a column's value comes of it |
//! | `records`, `cells` | reading lines: all columns at once, or cell by cell |
//! | `sweep`, `tasks`, `batches`, `merge_skip`, `series`, `single_pass` | the tables: what each of their words means |

mod batches;
mod cells;
mod measure;
mod merge_skip;
mod records;
pub mod result;
mod series;
mod single_pass;
pub(crate) mod sweep;
mod table;
pub(crate) mod tasks;

pub use measure::{Measure, Value};
pub use result::CompareResult;
pub use sweep::BASE_BATCH;
pub use table::{Column, Experiment, HowToRun, Key, Keys, Kind, Layout, Row, Table};
pub use tasks::TASKS_MACHINE;

/// The schema of [`CompareResult`].
pub const SCHEMA: &str = "pageset.compare/1";

/// A table that is damaged or of an unknown kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{}: {what}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct TableError {
    pub(crate) file: String,
    pub(crate) line: Option<u64>,
    pub(crate) what: String,
}

impl TableError {
    /// The first line is none that is known.
    fn unknown_kind(file: &str) -> Self {
        let what = format!("a table of an unknown kind; its first line may be\n  {}", headings().join("\n  "));
        TableError { file: file.to_owned(), line: Some(1), what }
    }
}

/// The first lines of all kinds of tables.
#[must_use]
pub fn headings() -> Vec<String> {
    let others = [batches::HEADER, merge_skip::HEADER, series::HEADER, single_pass::HEADER];
    [sweep::heading(), tasks::heading()].into_iter().chain(others.map(str::to_owned)).collect()
}

/// The tables that come with the crate: names and texts.
pub const SHIPPED: &[(&str, &str)] = &[
    ("page_fault1-batch-sweep.csv", include_str!("../../reference/page_fault1-batch-sweep.csv")),
    ("page_fault1-1-to-40-tasks.csv", include_str!("../../reference/page_fault1-1-to-40-tasks.csv")),
    ("batch-31-63-127.csv", include_str!("../../reference/batch-31-63-127.csv")),
    ("merge-skip-and-clusters.csv", include_str!("../../reference/merge-skip-and-clusters.csv")),
    ("pcp-autotune-patch-by-patch.csv", include_str!("../../reference/pcp-autotune-patch-by-patch.csv")),
    ("single-pass-bulk-free.csv", include_str!("../../reference/single-pass-bulk-free.csv")),
];

#[cfg(test)]
mod tests;
