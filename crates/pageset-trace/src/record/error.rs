//! Why there is no recording.

use std::io;
use std::path::Path;

/// What kept a recording from being made, or made it end early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A privilege or a feature of the kernel is missing.
    #[error("{what}")]
    Missing {
        /// What is missing.
        what: String,
        /// The command, or the kernel option, that mends it.
        help: String,
    },
    /// The command cannot be started.
    #[error("cannot start {name}: {source}")]
    Command {
        /// The command's name.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was to be done with which file.
        what: String,
        /// Why not.
        source: io::Error,
        /// What may mend it.
        help: Option<String>,
    },
    /// The kernel's records or formats are not what this program knows.
    #[error("{0}")]
    Unknown(String),
    /// A signal came before there was anything to keep, or a second one while it was written.
    #[error("interrupted by signal {signal}; nothing was kept")]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

impl RecordError {
    pub(super) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source, help: None }
    }

    /// For [`Result::map_err`]: `VERB PATH` went wrong.
    pub(super) fn on(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{verb} {}", path.display());
        move |source| Self::io(what, source)
    }

    /// What the user can do about it.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Missing { help, .. } => Some(help),
            Self::Io { help, .. } => help.as_deref(),
            _ => None,
        }
    }
}
