//! How the command ends: its exit codes and the message that goes with each.

use std::fmt;
use std::io;
use std::process::ExitCode;

use pageset::MapError;
use pageset_trace::replay::ReplayError;
use pageset_trace::{ErrorKind, TraceError};

/// The exit codes of `pageset`, the same for every subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done = 0,
    /// A check or comparison failed, a recorded command failed, or the result could not be written.
    Failed = 1,
    /// The command line says something that cannot be done.
    Usage = 2,
    /// A privilege or a kernel feature is missing; the message says which and how to get it.
    Missing = 3,
    /// The input is damaged or incomplete.
    Damaged = 4,
    /// Interrupted; what was measured until then is kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a subcommand stopped short: an exit code, what happened, and what mends it. It prints as `error: MESSAGE`, and
/// `help: HELP` on a line of its own.
#[derive(Debug, thiserror::Error)]
#[error("error: {message}{help}")]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    /// A line of its own, or nothing.
    help: String,
    broken_pipe: bool,
}

impl Failure {
    /// A failure that ends the command with `exit`. `message` starts in lower case and has no full stop.
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Failure { exit, message: message.to_string(), help: String::new(), broken_pipe: false }
    }

    /// Adds what the user can do about it: a flag or a command.
    pub(crate) fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = format!("\nhelp: {help}");
        self
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether the reader of our output has gone away: nothing to say then, and nobody to say it to.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

/// A failure to write to standard output or to another file: exit code 1.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { exit: Exit::Failed, message: error.to_string(), help: String::new(), broken_pipe }
    }
}

/// A recording that cannot be read: exit code 4, or 1 when the operating system is to blame.
impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        let exit = match error.kind() {
            ErrorKind::Io => Exit::Failed,
            _ => Exit::Damaged,
        };
        Failure::new(exit, error)
    }
}

/// A recording that cannot be replayed: what is to blame decides.
impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Trace(error) => error.into(),
            ReplayError::Rules(error) => error.into(),
            ReplayError::Map(MapError::Tuning(_)) => Failure::new(Exit::Usage, error),
            _ => Failure::new(Exit::Damaged, error),
        }
    }
}
