//! Reads the input of a report. The content determines the kind of input.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use pageset_study::table;
use pageset_trace::Trace;
use serde_json::Value;

use super::{Report, card, json, recording, simulated};
use crate::error::{Exit, Failure};
use crate::output::is_standard;

/// The largest JSON input: a million lines of `pageset top` on a few CPUs. A guess. Unit: bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Reads an input and makes its part of the report.
///
/// # Errors
/// The input is neither JSON of a known schema, nor a table of a study, nor a recording.
pub(super) fn read(path: &Path) -> Result<Report, Failure> {
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
    if !standard && !is_json(path).map_err(unreadable)? {
        if is_table(path).map_err(unreadable)? {
            let results = table::read(path).map_err(|error| Failure::new(Exit::Damaged, error))?;
            let card = card::simulation::study(&results);
            let mut report = json::joined_all(results, simulated::run).map_err(damaged)?;
            report.cards = vec![card];
            return Ok(report);
        }
        let trace = Trace::open(path)?;
        return recording::report(&trace);
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
    json::report(&values)
        .map_err(|what| damaged(what).help("use the output of `pageset SUBCOMMAND --json`, or a recording"))
}

/// Whether a file begins like Parquet.
fn is_table(path: &Path) -> std::io::Result<bool> {
    let mut begin = Vec::new();
    fs::File::open(path)?.take(table::MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == table::MAGIC)
}

/// Whether a file begins like JSON.
fn is_json(path: &Path) -> std::io::Result<bool> {
    let mut begin = Vec::new();
    fs::File::open(path)?.take(64).read_to_end(&mut begin)?;
    Ok(matches!(begin.iter().find(|byte| !byte.is_ascii_whitespace()), Some(b'{' | b'[')))
}
