//! What a program reads: its kinds of files and of results. The library itself knows none.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Failure;
use crate::measure::{Measured, Step};
use crate::page::Report;

/// The inputs of a program's `report` and `diff`.
#[derive(Debug)]
pub struct Inputs {
    /// The kinds of files that are not JSON. The first kind that knows a file's first bytes reads the file.
    pub files: &'static [FileKind],
    /// Whether a name means something that is built in, which the last kind of files reads.
    pub is_built_in: fn(&Path) -> bool,
    /// The kinds of results in JSON.
    pub results: &'static [ResultKind],
    /// What `report` takes, for the remedy of an error.
    pub reported: &'static str,
    /// What `diff` takes, for the remedy of an error.
    pub compared: &'static str,
    /// The schemas that another program reads, and its name.
    pub elsewhere: (&'static [&'static str], &'static str),
}

/// A kind of files that are not JSON.
#[derive(Debug)]
pub struct FileKind {
    /// Whether a file with these first bytes is of this kind.
    pub is: fn(&[u8]) -> bool,
    /// The report on a file.
    pub report: fn(&Path) -> Result<Report, Failure>,
    /// What a file measures. The function receives the progress.
    pub measure: Measure,
}

/// Reads what a file measures, and shows its progress.
pub type Measure = fn(&Path, &mut dyn FnMut(Step<'_>)) -> Result<Vec<Measured>, Failure>;

/// Reads what a result measures.
pub type MeasureResult = fn(&Value) -> Result<Vec<Measured>, String>;

/// A kind of results in JSON.
#[derive(Debug)]
pub struct ResultKind {
    /// The value of the member `schema`.
    pub schema: &'static str,
    /// The report on all values of a file.
    pub report: fn(&[Value]) -> Result<Report, String>,
    /// What a result measures; `None` if results of this kind are not compared.
    pub measure: Option<MeasureResult>,
}

/// How many of a file's first bytes determine its kind.
pub(crate) const BEGIN: u64 = 64;

impl Inputs {
    /// The kind of a file with these first bytes; `None` for JSON.
    pub(crate) fn file(&self, begin: &[u8]) -> Option<&FileKind> {
        let is_json = matches!(begin.iter().find(|byte| !byte.is_ascii_whitespace()), Some(b'{' | b'['));
        if is_json { None } else { self.files.iter().find(|kind| (kind.is)(begin)) }
    }

    pub(crate) fn result(&self, schema: &str) -> Option<&ResultKind> {
        self.results.iter().find(|kind| kind.schema == schema)
    }

    /// Which program reads a schema that this one does not know; empty if none does.
    pub(crate) fn hint(&self, schema: &str, command: &str) -> String {
        let (schemas, program) = self.elsewhere;
        if schemas.contains(&schema) { format!("; `{program} {command}` reads it") } else { String::new() }
    }
}

/// Parses a result of a typed schema.
pub fn typed<R: DeserializeOwned>(value: &Value) -> Result<R, String> {
    R::deserialize(value).map_err(|error| error.to_string())
}
