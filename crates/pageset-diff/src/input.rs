//! The files of a side. The content of a file determines its kind, not its name.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pageset_bench::report;
use pageset_sim::run;
use pageset_study::table;
use pageset_trace::Trace;
use pageset_trace::replay::Replay;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::DiffError;
use crate::measure::{self, Measured};

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

/// The progress of reading the files of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A file is read next.
    File(&'a Path),
    /// Events of the file, a recording, have been read.
    Events {
        /// The number of events so far. Each event is read twice.
        read: u64,
        /// The number at the end, if the recording says how many events it has.
        of: Option<u64>,
    },
}

impl Side {
    /// Reads the files of a side. A folder stands for its recordings and results, by name. `progress` receives each file
    /// before it is read, and each event of a recording.
    ///
    /// # Errors
    /// A file cannot be read or has no content that can be compared, or a folder has no such file.
    pub fn read(paths: &[PathBuf], progress: &mut dyn FnMut(Step<'_>)) -> Result<Side, DiffError> {
        let mut side = Side::default();
        for path in paths {
            for file in files(path)? {
                progress(Step::File(&file));
                side.measured.push(measured(&file, progress)?);
                side.files.push(file);
            }
        }
        Ok(side)
    }
}

/// The file, or the files of the folder.
fn files(path: &Path) -> Result<Vec<PathBuf>, DiffError> {
    let unreadable = |source| DiffError::Unreadable { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
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
    if files.is_empty() { Err(DiffError::Empty { path: path.to_owned() }) } else { Ok(files) }
}

/// What a file measures.
fn measured(path: &Path, progress: &mut dyn FnMut(Step<'_>)) -> Result<Vec<Measured>, DiffError> {
    let unreadable = |source| DiffError::Unreadable { path: path.to_owned(), source };
    let damaged = |what: String| DiffError::Damaged { path: path.to_owned(), what };
    let mut begin = Vec::new();
    File::open(path).and_then(|file| file.take(64).read_to_end(&mut begin)).map_err(unreadable)?;
    if begin.starts_with(table::MAGIC) {
        return Ok(table::read(path)?.iter().flat_map(measure::of_run).collect());
    }
    if !matches!(begin.iter().find(|byte| !byte.is_ascii_whitespace()), Some(b'{' | b'[')) {
        let trace = Trace::open(path)?;
        let of = trace.totals().map(|totals| 2 * totals.events);
        let replay = Replay::prepare(&trace, &mut |read| progress(Step::Events { read, of }))?;
        return Ok(measure::of_recording(&replay, &trace.facts().command));
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
        all.extend(of_value(value).map_err(damaged)?);
    }
    if all.is_empty() {
        return Err(damaged("the result has no rows".to_owned()));
    }
    Ok(all)
}

/// What a result measures.
fn of_value(value: Value) -> Result<Vec<Measured>, String> {
    fn typed<R: DeserializeOwned>(value: Value) -> Result<R, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
    let schema = value["schema"].as_str().ok_or("missing text `schema`")?.to_owned();
    match schema.as_str() {
        run::SCHEMA => Ok(measure::of_run(&typed(value)?)),
        report::SCHEMA => Ok(measure::of_bench(&typed(value)?)),
        "pageset.replay/1" => Ok(measure::of_replay(&typed(value)?)),
        other => Err(format!("results of the schema `{other}` are not compared")),
    }
}
