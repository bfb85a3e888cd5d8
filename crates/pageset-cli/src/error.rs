//! The exit codes of the command, and its error messages.

use std::fmt;
use std::io;
use std::process::ExitCode;

use pageset::MapError;
use pageset_trace::replay::ReplayError;
use pageset_trace::{ErrorKind, TraceError};
use signal_hook::consts::{SIGHUP, SIGTERM};

/// The exit codes of `pageset`, the same for every subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// A check failed, a recorded command failed, or the result could not be written.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A privilege or a kernel feature is missing. The message names it and says how to get it.
    Missing = 3,
    /// The input is damaged or incomplete.
    Damaged = 4,
    /// The terminal hung up, or SIGHUP. The codes from here on are 128 and the signal's number, as in a shell.
    HungUp = 129,
    /// Ctrl-C. Results measured so far are kept.
    Interrupted = 130,
    /// SIGTERM. Results measured so far are kept.
    Terminated = 143,
}

impl Exit {
    /// The exit code after a signal that requested the end of the command.
    pub(crate) fn of_signal(signal: i32) -> Exit {
        match signal {
            SIGHUP => Exit::HungUp,
            SIGTERM => Exit::Terminated,
            _ => Exit::Interrupted,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// A failed subcommand: the exit code, the fault, and the remedy. It prints as `error: MESSAGE`, and `help: HELP` on a
/// line of its own.
#[derive(Debug, thiserror::Error)]
#[error("error: {message}{help}")]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    /// A line of its own, or empty.
    help: String,
    broken_pipe: bool,
}

impl Failure {
    /// A failure that ends the command with `exit`. `message` starts in lower case and has no full stop.
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Failure { exit, message: message.to_string(), help: String::new(), broken_pipe: false }
    }

    /// Adds the remedy: an option or a command.
    pub(crate) fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = format!("\nhelp: {help}");
        self
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether the reader of our output has closed its pipe. Such a failure is not reported.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

/// An error of writing to standard output or to another file: exit code 1.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { exit: Exit::Failed, message: error.to_string(), help: String::new(), broken_pipe }
    }
}

/// A recording that cannot be read: exit code 4, or 1 for an error of the operating system.
impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        let exit = match error.kind() {
            ErrorKind::Io => Exit::Failed,
            _ => Exit::Damaged,
        };
        Failure::new(exit, error)
    }
}

/// A recording that cannot be replayed: the exit code depends on the cause.
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
