//! Errors of a recording.

use std::io;
use std::path::Path;

use pageset_trace::printable;

/// The reason why a recording fails or ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A privilege or a feature of the kernel is missing.
    #[error("{}", printable(what))]
    Missing {
        /// What is missing.
        what: String,
        /// The command or kernel option that provides it.
        help: String,
    },
    /// The command cannot be started.
    #[error("cannot start {}: {source}", printable(name))]
    Command {
        /// The command's name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A file of the kernel or a ring buffer cannot be read or written.
    #[error("cannot {}: {source}", printable(what))]
    Io {
        /// The operation and the file.
        what: String,
        /// The cause.
        source: io::Error,
        /// A possible remedy.
        help: Option<String>,
    },
    /// The recording cannot be written.
    #[error("cannot {}: {source}", printable(what))]
    Output {
        /// The operation and the file.
        what: String,
        /// The cause.
        source: io::Error,
        /// A possible remedy.
        help: Option<String>,
    },
    /// The kernel's records or formats are unknown to this program.
    #[error("{0}")]
    Unknown(String),
    /// A signal came before any event was recorded, or a second signal came while the file was written.
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

    /// For [`Result::map_err`]: the recording's file or folder failed at `VERB PATH`.
    pub(super) fn writing(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{verb} {}", path.display());
        move |source| Self::Output { what, source, help: None }
    }

    /// For [`Result::map_err`]: `VERB PATH` failed.
    pub(super) fn on(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{verb} {}", path.display());
        move |source| Self::io(what, source)
    }

    /// The remedy, if one is known.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Missing { help, .. } => Some(help),
            Self::Io { help, .. } | Self::Output { help, .. } => help.as_deref(),
            _ => None,
        }
    }
}
