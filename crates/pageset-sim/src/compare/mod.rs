//! Comparison of published tables with simulations.
//!
//! Each error is shown next to trivial baselines: "do nothing", which repeats the base, and the table's forecast, if it
//! has one. The simulator is useful where it beats both. The costs are those of the machine descriptions, fitted to
//! base rows of page_fault1.
//!
//! | module | contents |
//! | --- | --- |
//! | [`result`] | the result: published, simulated, baselines, verdicts, errors |
//! | `table` | a table: its rows, and the simulations that they need |
//! | `measure` | the measures of a simulation, and the value of a column from measures |
//! | [`seen`], [`page`] | what the model had seen; all tables on one page |
//! | `records`, `cells` | parsing rows: all columns at once, or cell by cell |
//! | `sweep`, `tasks`, `batches`, `merge_skip`, `series`, `single_pass` | the kinds of tables and the meaning of their words |

mod batches;
mod cells;
mod measure;
mod merge_skip;
pub mod page;
mod records;
pub mod result;
pub mod seen;
mod series;
mod single_pass;
pub(crate) mod sweep;
mod table;
pub(crate) mod tasks;

pub use measure::{How, Measure, Value};
pub use result::CompareResult;
pub use sweep::BASE_BATCH;
pub use table::{Column, Experiment, HowToRun, Key, Keys, Kind, Layout, Row, Table};
pub use tasks::TASKS_MACHINE;

/// The schema of [`CompareResult`].
pub const SCHEMA: &str = "pageset.compare/1";

/// A table that is invalid or of an unknown kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{}: {what}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct TableError {
    pub(crate) file: String,
    pub(crate) line: Option<u64>,
    pub(crate) what: String,
}

impl TableError {
    fn unknown_kind(file: &str) -> Self {
        let what = format!("unknown kind of table; allowed first lines:\n  {}", headings().join("\n  "));
        TableError { file: file.to_owned(), line: Some(1), what }
    }
}

impl Table {
    /// Parses a table of any kind. Error messages use `name`.
    pub fn parse(name: &str, text: &str) -> Result<Table, TableError> {
        let mut table = Table { name: name.to_owned(), ..Table::default() };
        let heading = text.lines().next().unwrap_or_default();
        if tasks::is_one(heading) {
            tasks::add(&mut table, text)?;
        } else {
            match heading.trim_end() {
                batches::HEADER => cells::add_all(&mut table, text, batches::add)?,
                merge_skip::HEADER => cells::add_all(&mut table, text, merge_skip::add)?,
                series::HEADER => cells::add_all(&mut table, text, series::add)?,
                single_pass::HEADER => cells::add_all(&mut table, text, single_pass::add)?,
                _ => sweep::add(&mut table, text)?,
            }
        }
        // This drops base experiments that no column needs.
        table.retain(|_| true);
        Ok(table)
    }
}

/// The header lines of all kinds of tables.
pub fn headings() -> Vec<String> {
    let others = [batches::HEADER, merge_skip::HEADER, series::HEADER, single_pass::HEADER];
    [sweep::heading(), tasks::heading()].into_iter().chain(others.map(str::to_owned)).collect()
}

/// The tables that ship with the crate: names and texts.
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
