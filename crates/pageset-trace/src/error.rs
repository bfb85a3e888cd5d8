//! What can be wrong with a recording, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The sort of trouble; a command turns it into its exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system would not let us read or write.
    Io,
    /// The file is of a form that we know and its content is wrong: cut short, changed, or never right.
    Damaged,
    /// Not a recording, or one of a version that this build does not read.
    Unsupported,
    /// A recording without the zoneinfo snapshots that a replay needs.
    MissingSnapshots,
}

/// Where in a file the trouble is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// No place in particular.
    WholeFile,
    /// A line of a text, counted from 1.
    Line(u64),
    /// A byte of the file, counted from 0.
    Byte(u64),
    /// A sample of a `perf.data`, counted from 1 in the order of time.
    Sample(u64),
    /// A section of our own form, counted from 0, and where it starts in the file, in bytes.
    Section {
        /// The section's number.
        index: u32,
        /// The byte at which its header starts.
        offset: u64,
    },
    /// A line, counted from 1, of the snapshot of this tag.
    Snapshot {
        /// The snapshot's tag.
        tag: String,
        /// The line within the snapshot's text.
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

/// Why a recording could not be read: which file, where in it, what is wrong, and what would be right.
///
/// One pointer wide, so that an iterator over millions of `Result<Event, TraceError>` does not carry it around.
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

    /// The operating system refused; `what` says what was being done.
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::Io, Place::WholeFile, what);
        error.0.source = Some(source);
        error
    }

    /// The content at `place` is wrong.
    pub(crate) fn damaged(place: Place, what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, place, what)
    }

    /// Not a form that we read.
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, Place::WholeFile, what)
    }

    /// No zoneinfo.
    pub(crate) fn missing_snapshots(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::MissingSnapshots, Place::WholeFile, what)
    }

    /// A read failed: damage where the bytes themselves are to blame (cut short, not decompressible), else trouble
    /// of the operating system.
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

    /// Says what would be right.
    #[must_use]
    pub(crate) fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.0.allowed = Some(allowed.into());
        self
    }

    /// Says which file, unless that is known already.
    #[must_use]
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        self.0.file.get_or_insert_with(|| file.to_owned());
        self
    }

    /// The sort of trouble.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file it is in, where the input is a file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// Where in the file it is.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.place
    }
}

/// `FILE: PLACE: WHAT; allowed: WHAT IS` in one line.
impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if self.place != Place::WholeFile {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.what)?;
        if let (ErrorKind::Io, Some(source)) = (self.kind, &self.source) {
            write!(f, ": {source}")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed: {allowed}")?;
        }
        Ok(())
    }
}
