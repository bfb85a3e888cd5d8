//! Reports of a recording: notes during the recording and a summary afterwards.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use pageset_trace::facts::Loss;

/// A note that a recording reports while it runs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Note<'a> {
    /// A weakness of the recording, or a leftover on the machine that was removed.
    Warning(&'a str),
    /// The current phase.
    Phase(Phase),
    /// The progress of writing the file.
    Written {
        /// Events so far.
        events: u64,
        /// Events in all.
        of: u64,
    },
    /// A complete file has its name.
    File {
        /// The file's name.
        path: &'a Path,
        /// Events in the file.
        events: u64,
        /// From the first event to the last.
        duration: Duration,
    },
}

/// The phases of a recording, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The ring buffers are allocated and the command is started up to its barrier.
    Preparing,
    /// The kernel's pagesets are emptied.
    EmptyingLists,
    /// The command runs.
    Recording,
    /// The ring buffers are read out and the file is written.
    Writing,
}

/// The summary of a finished recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// Events written, markers included.
    pub events: u64,
    /// From the first event to the last.
    pub duration: Duration,
    /// Bytes that the events took in the ring buffers.
    pub raw_bytes: u64,
    /// Bytes written.
    pub file_bytes: u64,
    /// Lost events, one entry per CPU.
    pub loss: Vec<Loss>,
    /// Events after a buffer was full; the recording ends before them.
    pub after_full: u64,
    /// The command's exit status.
    pub status: ExitStatus,
    /// The signal that ended the recording, if any.
    pub interrupted: Option<i32>,
    /// Whether a limit ended the recording and the command.
    pub limited: bool,
}
