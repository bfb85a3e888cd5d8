//! Reports of a recording: notes during the recording and a summary afterwards.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use crate::facts::Loss;

/// What a recording has to say while it is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Note<'a> {
    /// Something that weakens the recording, or was found on the machine and mended.
    Warning(&'a str),
    /// What is being done now.
    Phase(Phase),
    /// How much of the recording is written.
    Written {
        /// Events so far.
        events: u64,
        /// Events in all.
        of: u64,
    },
    /// A file is whole and has its name.
    File {
        /// Its name.
        path: &'a Path,
        /// Events in it.
        events: u64,
        /// From the first event to the last.
        duration: Duration,
    },
}

/// The parts of making a recording, in their order.
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

/// A recording that was made.
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
    /// What was lost, one entry a CPU.
    pub loss: Vec<Loss>,
    /// Events that came after a buffer was full; the recording ends before them.
    pub after_full: u64,
    /// How the command ended.
    pub status: ExitStatus,
    /// The signal that ended the recording, if one did.
    pub interrupted: Option<i32>,
    /// Whether a limit ended the recording; the command was told to end then.
    pub limited: bool,
}
