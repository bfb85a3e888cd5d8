//! A table's cells: words, numbers, and the names of workloads and machines among them.

use super::{Table, TableError};
use crate::workload::Workload;

/// A line's cells, and all lines.
pub(super) struct Cells<'c> {
    pub(super) record: &'c csv::StringRecord,
    pub(super) all: &'c [(Option<u64>, csv::StringRecord)],
}

impl<'c> Cells<'c> {
    pub(super) fn word(&self, column: usize) -> &'c str {
        self.record.get(column).unwrap_or_default().trim()
    }

    /// A number; `~0` is 0, and an empty cell none.
    pub(super) fn number(&self, column: usize, name: &str) -> Result<Option<f64>, String> {
        number(self.word(column), name)
    }
}

pub(super) fn number(word: &str, name: &str) -> Result<Option<f64>, String> {
    if word.is_empty() {
        return Ok(None);
    }
    let number = word.trim_start_matches('~').parse().ok().filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| format!("{name}: {word}; allowed: a number, or nothing"))
}

/// The workload of this name, which a table's own list of workloads names.
pub(super) fn known(name: &'static str) -> Result<&'static str, String> {
    Workload::find(name).map(|workload| workload.name).ok_or_else(|| format!("there is no workload {name}"))
}

/// The shipped machine that a table's word begins with the name of.
pub(super) fn machine(word: &str) -> Result<&'static str, String> {
    let names = || crate::machine::SHIPPED.iter().map(|(name, _)| *name);
    names().find(|name| *name == word).ok_or_else(|| {
        format!("machine: there is no machine {word}; allowed: {}", names().collect::<Vec<_>>().join(", "))
    })
}

/// CPUs of a shipped machine.
pub(super) fn cpus(machine: &str) -> Option<u32> {
    crate::machine::find(machine)?.ok().map(|machine| machine.topology().cpus())
}

/// What makes a line of cells a row of a table.
pub(super) type Add = fn(&mut Table, &Cells<'_>) -> Result<(), String>;

/// Adds all lines of a text.
///
/// # Errors
/// What is wrong in which line.
pub(super) fn add_all(table: &mut Table, text: &str, add: Add) -> Result<(), TableError> {
    let file = table.name.clone();
    let wrong = |line, what| TableError { file: file.clone(), line, what };
    let mut lines = Vec::new();
    for record in csv::Reader::from_reader(text.as_bytes()).into_records() {
        let record = record.map_err(|error| {
            wrong(error.position().map(csv::Position::line), "not as many columns as the first line has".to_owned())
        })?;
        lines.push((record.position().map(csv::Position::line), record));
    }
    for (line, record) in &lines {
        add(table, &Cells { record, all: &lines }).map_err(|what| wrong(*line, what))?;
    }
    if table.rows.is_empty() { Err(wrong(None, "no rows".to_owned())) } else { Ok(()) }
}
