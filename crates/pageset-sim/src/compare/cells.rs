//! The cells of a table: words, numbers, and names of workloads and machines.

use super::{Table, TableError};
use crate::workload::Workload;

pub(super) struct Cells<'c> {
    pub(super) record: &'c csv::StringRecord,
    pub(super) all: &'c [(Option<u64>, csv::StringRecord)],
}

impl<'c> Cells<'c> {
    pub(super) fn word(&self, column: usize) -> &'c str {
        self.record.get(column).unwrap_or_default().trim()
    }

    /// The number in a cell; `None` for an empty cell. `~0` is 0.
    pub(super) fn number(&self, column: usize, name: &str) -> Result<Option<f64>, String> {
        number(self.word(column), name)
    }
}

pub(super) fn number(word: &str, name: &str) -> Result<Option<f64>, String> {
    if word.is_empty() {
        return Ok(None);
    }
    let number = word.trim_start_matches('~').parse().ok().filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| format!("{name}: {word}; allowed: a number, or empty"))
}

/// Checks that a workload of the table's own list exists.
pub(super) fn known(name: &'static str) -> Result<&'static str, String> {
    Workload::find(name).map(|workload| workload.name).ok_or_else(|| format!("unknown workload `{name}`"))
}

pub(super) fn machine(word: &str) -> Result<&'static str, String> {
    let names = || crate::machine::SHIPPED.iter().map(|(name, _)| *name);
    names().find(|name| *name == word).ok_or_else(|| {
        format!("machine: unknown machine `{word}`; allowed: {}", names().collect::<Vec<_>>().join(", "))
    })
}

/// Number of CPUs of a shipped machine.
pub(super) fn cpus(machine: &str) -> Option<u32> {
    crate::machine::find(machine)?.ok().map(|machine| machine.topology().cpus())
}

/// Adds the row of a line's cells to a table.
pub(super) type Add = fn(&mut Table, &Cells<'_>) -> Result<(), String>;

pub(super) fn add_all(table: &mut Table, text: &str, add: Add) -> Result<(), TableError> {
    let file = table.name.clone();
    let wrong = |line, what| TableError { file: file.clone(), line, what };
    let mut lines = Vec::new();
    for record in csv::Reader::from_reader(text.as_bytes()).into_records() {
        let record = record.map_err(|error| {
            wrong(
                error.position().map(csv::Position::line),
                "the number of columns differs from the first line".to_owned(),
            )
        })?;
        lines.push((record.position().map(csv::Position::line), record));
    }
    for (line, record) in &lines {
        add(table, &Cells { record, all: &lines }).map_err(|what| wrong(*line, what))?;
    }
    if table.rows.is_empty() { Err(wrong(None, "no rows".to_owned())) } else { Ok(()) }
}
