//! The files of a side. The content of a file determines its kind, not its name.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Exit, Failure};
use crate::kinds::{BEGIN, Inputs};
use crate::measure::{Measured, Step};

/// The largest JSON file. A guess. Unit: bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The names of files that a folder stands for: recordings and results. Their companions (`.snap`, `.zoneinfo`) are read with
/// them.
const ENDINGS: [&str; 6] = [".json", ".pstrace", ".parquet", ".events", ".events.zst", "perf.data"];

/// One side of a comparison: its files and what they measure.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// The files, in the given order.
    pub files: Vec<PathBuf>,
    /// The measurements of each file.
    pub measured: Vec<Vec<Measured>>,
}

impl Side {
    /// Reads the files of a side. A folder stands for its recordings and results, by name. `progress` receives each file
    /// before it is read, and each event of a recording.
    ///
    /// # Errors
    /// A file cannot be read or has no content that can be compared, or a folder has no such file.
    pub fn read(inputs: &Inputs, paths: &[PathBuf], progress: &mut dyn FnMut(Step<'_>)) -> Result<Side, Failure> {
        let mut side = Side::default();
        for path in paths {
            for file in files(inputs, path)? {
                progress(Step::File(&file));
                side.measured.push(measured(inputs, &file, progress)?);
                side.files.push(file);
            }
        }
        Ok(side)
    }
}

/// A file or folder that cannot be read.
fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Unreadable, format!("cannot read {}: {error}", path.display()))
}

fn files(inputs: &Inputs, path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| unreadable(path, &error);
    if (inputs.is_built_in)(path) || !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if ENDINGS.iter().any(|ending| name.ends_with(ending)) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        let message = format!("cannot compare {}: the folder has no recording and no result", path.display());
        return Err(Failure::new(Exit::Damaged, message).help(inputs.compared));
    }
    Ok(files)
}

/// What a file measures.
fn measured(inputs: &Inputs, path: &Path, progress: &mut dyn FnMut(Step<'_>)) -> Result<Vec<Measured>, Failure> {
    let unreadable = |error| unreadable(path, &error);
    let damaged =
        |what: String| Failure::new(Exit::Damaged, format!("{}: {what}", path.display())).help(inputs.compared);
    if (inputs.is_built_in)(path)
        && let Some(kind) = inputs.files.last()
    {
        return (kind.measure)(path, progress);
    }
    let mut begin = Vec::new();
    File::open(path).and_then(|file| file.take(BEGIN).read_to_end(&mut begin)).map_err(unreadable)?;
    if let Some(kind) = inputs.file(&begin) {
        return (kind.measure)(path, progress);
    }
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text)).map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(damaged(format!("the file is too large; allowed: {MAX_BYTES} bytes")));
    }
    let value: Value = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    let values = match value {
        Value::Array(values) => values,
        value => vec![value],
    };
    let mut all = Vec::new();
    for value in values {
        all.extend(of_value(inputs, &value).map_err(damaged)?);
    }
    if all.is_empty() {
        return Err(damaged("the result has no rows".to_owned()));
    }
    Ok(all)
}

fn of_value(inputs: &Inputs, value: &Value) -> Result<Vec<Measured>, String> {
    let schema = value["schema"].as_str().ok_or("missing text `schema`")?;
    match inputs.result(schema).and_then(|kind| kind.measure) {
        Some(measure) => measure(value),
        None => Err(format!("results of the schema `{schema}` are not compared{}", inputs.hint(schema, "diff"))),
    }
}
