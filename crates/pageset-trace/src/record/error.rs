//! Why there is no recording.

use std::fmt;
use std::io;
use std::path::Path;

/// What kept a recording from being made, or made it end early.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// A privilege or a feature of the kernel is missing.
    Missing {
        /// What is missing.
        what: String,
        /// The command, or the kernel option, that mends it.
        help: String,
    },
    /// The command cannot be started.
    Command {
        /// The command's name.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be read or written.
    Io {
        /// What was to be done with which file.
        what: String,
        /// Why not.
        source: io::Error,
        /// What may mend it.
        help: Option<String>,
    },
    /// The kernel's records or formats are not what this program knows.
    Unknown(String),
    /// A signal came before there was anything to keep, or a second one while it was written.
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

impl RecordError {
    pub(super) fn io(what: impl Into<String>, source: io::Error) -> Self {
        RecordError::Io { what: what.into(), source, help: None }
    }

    /// For [`Result::map_err`]: `VERB PATH` went wrong.
    pub(super) fn on(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{verb} {}", path.display());
        move |source| RecordError::io(what, source)
    }

    /// What the user can do about it.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        match self {
            RecordError::Missing { help, .. } => Some(help),
            RecordError::Io { help, .. } => help.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Missing { what, .. } => f.write_str(what),
            RecordError::Command { name, source } => write!(f, "cannot start {name}: {source}"),
            RecordError::Io { what, source, .. } => write!(f, "cannot {what}: {source}"),
            RecordError::Unknown(what) => f.write_str(what),
            RecordError::Interrupted { signal } => write!(f, "interrupted by signal {signal}; nothing was kept"),
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecordError::Command { source, .. } | RecordError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
