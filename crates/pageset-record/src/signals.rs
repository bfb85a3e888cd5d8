//! Signals that end a recording, as a file descriptor to wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// A signal that ends the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) number: i32,
    /// Whether the terminal sent the signal, so that the command received it as well.
    pub(super) from_terminal: bool,
}

/// Handles SIGINT, SIGTERM, SIGHUP and SIGQUIT instead of their default actions until the process ends.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    first: Option<Signal>,
    count: u32,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let delivery =
            SignalDelivery::with_pipe(read, write, WithOrigin::default(), [SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
        Ok(Signals { delivery, first: None, count: 0 })
    }

    /// Collects the signals since the last call. Returns the newest.
    pub(super) fn check(&mut self) -> Option<Signal> {
        let mut newest = None;
        for origin in self.delivery.pending() {
            let from_terminal = matches!(origin.cause, Cause::Kernel);
            let signal = Signal { number: origin.signal, from_terminal };
            self.first.get_or_insert(signal);
            self.count += 1;
            newest = Some(signal);
        }
        newest
    }

    /// The first signal since creation.
    pub(super) fn first(&self) -> Option<Signal> {
        self.first
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

/// Readable when a signal has arrived.
impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}
