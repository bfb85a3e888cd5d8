//! The exit codes of the command, and its error messages.

use std::fmt;
use std::io;
use std::process::ExitCode;

use pageset::MapError;
use pageset_trace::replay::ReplayError;
use pageset_trace::{ErrorKind, TraceError};
use signal_hook::consts::{SIGHUP, SIGTERM};

use crate::closed;
use crate::printable::printable_lines;

/// The exit codes of `pageset`, the same for every subcommand: see [`EXITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// A check or the recorded command failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A privilege or a kernel feature is missing. The message names it and says how to get it.
    Missing = 3,
    /// The input is damaged or incomplete.
    Damaged = 4,
    /// An input file cannot be read.
    Unreadable = 5,
    /// A result cannot be written.
    Unwritten = 6,
    /// The terminal hung up, or SIGHUP. The codes from here on are 128 and the signal's number, as in a shell.
    HungUp = 129,
    /// Ctrl-C. Results measured so far are kept.
    Interrupted = 130,
    /// SIGTERM. Results measured so far are kept.
    Terminated = 143,
}

/// The table of exit codes that the manual and `--help` show.
pub const EXITS: [(Exit, &str); 10] = [
    (Exit::Done, "Success. Also if the reader of the output closed its pipe."),
    (Exit::Failed, "A check failed, the recorded command failed, or the work could not be done."),
    (Exit::Usage, "The command line is wrong: an option, a value, or a name."),
    (Exit::Missing, "A privilege or a feature of the kernel is missing. The message says how to get it."),
    (Exit::Damaged, "The content of an input file is damaged, incomplete, or of an unknown form."),
    (Exit::Unreadable, "An input file cannot be read: it does not exist, is a folder, or is not permitted."),
    (Exit::Unwritten, "A result cannot be written."),
    (Exit::HungUp, "SIGHUP, or the terminal hung up."),
    (Exit::Interrupted, "SIGINT, such as Ctrl-C. Results measured so far are kept."),
    (Exit::Terminated, "SIGTERM."),
];

impl Exit {
    /// The exit code after a signal that requested the end of the command.
    pub fn of_signal(signal: i32) -> Exit {
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
pub struct Failure {
    exit: Exit,
    message: String,
    /// A line of its own, or empty.
    help: String,
    broken_pipe: bool,
}

impl Failure {
    /// A failure that ends the command with `exit`. `message` starts in lower case and has no full stop. Characters that
    /// act on a terminal are escaped, in the help as well: both may contain names of files and of other inputs.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        let message = printable_lines(&message.to_string());
        Failure { exit, message, help: String::new(), broken_pipe: false }
    }

    /// Adds the remedy: an option or a command.
    pub fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = format!("\nhelp: {}", printable_lines(&help.to_string()));
        self
    }

    /// The text of a failure that the command can go on after.
    pub fn as_warning(&self) -> String {
        format!("warning: {}{}", self.message, self.help)
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether the reader of our output has closed its pipe. Such a failure is not reported.
    pub fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

/// An error of writing to standard output or to another file.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        // Our own errors name the file.
        let message = match error.raw_os_error() {
            Some(_) if closed::stdout_was_closed() => "cannot write the result: standard output is closed".to_owned(),
            Some(_) => format!("cannot write the result: {error}"),
            None => error.to_string(),
        };
        let failure = Failure { broken_pipe, ..Failure::new(Exit::Unwritten, message) };
        // Standard output has no other place.
        match remedy(error.kind()).filter(|_| error.raw_os_error().is_none()) {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// What to do about a file that cannot be written.
pub fn remedy(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("name a file in a folder that you may write")
        }
        io::ErrorKind::NotFound => Some("make its folder first"),
        io::ErrorKind::StorageFull => Some("name a file on a disk with more room"),
        _ => None,
    }
}

/// A recording that cannot be read.
impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        let exit = match error.kind() {
            ErrorKind::Io => Exit::Unreadable,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_exit_code_once_in_order() {
        let codes: Vec<u8> = EXITS.iter().map(|(exit, _)| *exit as u8).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 129, 130, 143]);
        // A new exit code must be added to the table: this match names all of them.
        for (exit, _) in EXITS {
            match exit {
                Exit::Done | Exit::Failed | Exit::Usage | Exit::Missing | Exit::Damaged => {}
                Exit::Unreadable | Exit::Unwritten | Exit::HungUp | Exit::Interrupted | Exit::Terminated => {}
            }
        }
    }
}
