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
    /// A signal discarded the recording.
    #[error("interrupted by signal {signal} {}; nothing was kept", at.what())]
    Interrupted {
        /// The signal's number.
        signal: i32,
        /// When it came.
        at: Discarded,
    },
}

/// When a signal discards a recording. At any other time the recording is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// Before the recording began.
    BeforeBegin,
    /// While the file was written: a signal more than the one that ended the recording.
    WhileWriting,
}

impl Discarded {
    const fn what(self) -> &'static str {
        match self {
            Self::BeforeBegin => "before the recording began: it has no event",
            Self::WhileWriting => "while the file was written, after the recording had ended",
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::BeforeBegin => {
                "record again, and stop it after the command has started: setting up the buffers and emptying the \
                 lists comes before"
            }
            Self::WhileWriting => "record again, and send one signal only: the file is complete when the recorder ends",
        }
    }
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
            Self::Interrupted { at, .. } => Some(at.help()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording that is discarded says when the signal came, and what to do.
    #[test]
    fn a_discarded_recording_says_why() {
        let said = |at| {
            let error = RecordError::Interrupted { signal: 2, at };
            (error.to_string(), error.help().unwrap_or_default().to_owned())
        };
        let (before, while_writing) = (said(Discarded::BeforeBegin), said(Discarded::WhileWriting));
        assert_eq!(before.0, "interrupted by signal 2 before the recording began: it has no event; nothing was kept");
        assert_eq!(
            while_writing.0,
            "interrupted by signal 2 while the file was written, after the recording had ended; nothing was kept"
        );
        assert!(before.1.contains("after the command has started"), "{}", before.1);
        assert!(while_writing.1.contains("one signal only"), "{}", while_writing.1);
    }
}
