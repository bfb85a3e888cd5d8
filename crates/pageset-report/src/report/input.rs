//! Reads the input of a report. The content determines the kind of input.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::error::{Exit, Failure};
use crate::kinds::{BEGIN, Inputs};
use crate::output::is_standard;
use crate::page::Report;

/// The largest JSON input: a million lines of `pageset top` on a few CPUs. A guess. Unit: bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Reads an input and makes its part of the report.
///
/// # Errors
/// The input is neither JSON of a known schema nor a file of a known kind.
pub(super) fn read(inputs: &Inputs, path: &Path) -> Result<Report, Failure> {
    let standard = is_standard(path);
    let damaged = |what: String| Failure::new(Exit::Damaged, format!("{}: {what}", path.display()));
    let unreadable = |error: std::io::Error| {
        let exit = match error.kind() {
            // Text that is not UTF-8.
            std::io::ErrorKind::InvalidData => Exit::Damaged,
            _ => Exit::Unreadable,
        };
        Failure::new(exit, format!("cannot read {}: {error}", path.display()))
    };
    if (inputs.is_built_in)(path)
        && let Some(kind) = inputs.files.last()
    {
        return (kind.report)(path);
    }
    if !standard {
        let mut begin = Vec::new();
        fs::File::open(path).and_then(|file| file.take(BEGIN).read_to_end(&mut begin)).map_err(unreadable)?;
        if let Some(kind) = inputs.file(&begin) {
            return (kind.report)(path);
        }
    }
    let mut text = String::new();
    let read = match standard {
        true => std::io::stdin().take(MAX_BYTES + 1).read_to_string(&mut text),
        false => fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text)),
    };
    read.map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(damaged(format!("the file is too large; allowed: {MAX_BYTES} bytes")));
    }
    // One value, an array of values, or one value per line.
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        match value.map_err(|error| damaged(error.to_string()))? {
            Value::Array(several) => values.extend(several),
            value => values.push(value),
        }
    }
    of_values(inputs, &values).map_err(|what| damaged(what).help(inputs.reported))
}

/// Reports on values of one schema.
///
/// # Errors
/// A member is missing, or the schema is unknown.
fn of_values(inputs: &Inputs, values: &[Value]) -> Result<Report, String> {
    let schema = values.first().and_then(|value| value["schema"].as_str()).ok_or("missing text `schema`")?;
    if let Some(other) = values.iter().find(|value| value["schema"] != schema) {
        return Err(format!("the file mixes values of the schemas {schema} and {}", other["schema"]));
    }
    match inputs.result(schema) {
        Some(kind) => (kind.report)(values),
        None => Err(format!("unknown schema `{schema}`{}", inputs.hint(schema, "report"))),
    }
}
