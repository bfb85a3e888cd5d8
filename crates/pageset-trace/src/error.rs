//! Errors in a recording, with their place.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::printable::printable;

/// The kind of an error, from which a command takes its exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system reported an error.
    Io,
    /// The file has a known form, but its content is wrong: truncated, changed, or never correct.
    Damaged,
    /// The file is not a recording, or has an unsupported version.
    Unsupported,
    /// The recording lacks the zoneinfo snapshots that a replay needs.
    MissingSnapshots,
}

/// The place of an error in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// No specific place.
    WholeFile,
    /// A line of a text, counted from 1.
    Line(u64),
    /// A byte of the file, counted from 0.
    Byte(u64),
    /// A sample of a `perf.data`, counted from 1 in the order of time.
    Sample(u64),
    /// A section of the project's own form.
    Section {
        /// The section's number, counted from 0.
        index: u32,
        /// The byte offset of the section's header.
        offset: u64,
    },
    /// A line of a snapshot.
    Snapshot {
        /// The snapshot's tag.
        tag: String,
        /// The line within the snapshot's text, counted from 1.
        line: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::WholeFile => Ok(()),
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
            Place::Sample(sample) => write!(f, "sample {sample}"),
            Place::Section { index, offset } => write!(f, "section {index} at byte {offset}"),
            Place::Snapshot { tag, line } => write!(f, "snapshot {tag}, line {line}"),
        }
    }
}

/// The reason why a recording cannot be read: the file, the place, the fault and the allowed values.
///
/// The error is one pointer wide, so that it does not enlarge the items of an iterator over millions of `Result<Event,
/// TraceError>`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TraceError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    file: Option<PathBuf>,
    place: Place,
    what: String,
    allowed: Option<String>,
    source: Option<io::Error>,
}

impl TraceError {
    fn new(kind: ErrorKind, place: Place, what: impl Into<String>) -> Self {
        TraceError(Box::new(Inner { kind, file: None, place, what: what.into(), allowed: None, source: None }))
    }

    /// An error of the operating system; `what` is the operation.
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::Io, Place::WholeFile, what);
        error.0.source = Some(source);
        error
    }

    /// The content at `place` is wrong.
    pub(crate) fn damaged(place: Place, what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, place, what)
    }

    /// The form is not supported.
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, Place::WholeFile, what)
    }

    /// A zoneinfo is missing.
    pub(crate) fn missing_snapshots(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::MissingSnapshots, Place::WholeFile, what)
    }

    /// A read failed: damage if the bytes are the cause (truncated, cannot be decompressed), otherwise an error of the
    /// operating system.
    pub(crate) fn reading(place: Place, source: io::Error) -> Self {
        // The zstd decoder reports bad input as `Other`; errors of the system carry its number.
        if source.raw_os_error().is_some() {
            return Self::io("cannot be read", source);
        }
        let what = match source.kind() {
            io::ErrorKind::UnexpectedEof => "the file ends too early".to_owned(),
            _ => format!("cannot be decompressed ({source})"),
        };
        let mut error = Self::damaged(place, what).allowed("a file that was written to its end and not changed since");
        error.0.source = Some(source);
        error
    }

    /// Adds the allowed values.
    pub(crate) fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.0.allowed = Some(allowed.into());
        self
    }

    /// Adds the file, unless it is known already.
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        self.0.file.get_or_insert_with(|| file.to_owned());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file with the error, if the input is a file.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The place of the error in the file.
    pub fn place(&self) -> &Place {
        &self.0.place
    }
}

/// Prints `FILE: PLACE: WHAT; allowed: VALUES` in one line. Its parts may come from the input.
impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        let mut line = String::new();
        if let Some(file) = &self.file {
            write!(line, "{}: ", file.display())?;
        }
        if self.place != Place::WholeFile {
            write!(line, "{}: ", self.place)?;
        }
        line.push_str(&self.what);
        if let (ErrorKind::Io, Some(source)) = (self.kind, &self.source) {
            write!(line, ": {source}")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(line, "; allowed: {allowed}")?;
        }
        f.write_str(&printable(&line))
    }
}
