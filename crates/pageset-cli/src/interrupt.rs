//! How Ctrl-C and other signals end the command.

use std::io;
use std::os::raw::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;

use crate::error::Exit;

/// Handlers of signals and their flag. If the flag is clear, a signal sets the flag. If the flag is set, a signal ends
/// the command with exit code 130.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The first Ctrl-C requests a stop, the second ends the command.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn install() -> io::Result<Self> {
        Self::on(&[SIGINT], false)
    }

    /// Ctrl-C ends the command at once, except during [`Interrupt::held_off`].
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn at_once() -> io::Result<Self> {
        Self::on(&[SIGINT], true)
    }

    /// These signals end the command: the first signal if `at_once`, else the second.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn on(signals: &[c_int], at_once: bool) -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(at_once));
        for &signal in signals {
            // In this order: the second signal finds the flag that the first one set.
            signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Interrupt(flag))
    }

    /// Whether no signal has requested a stop.
    pub(crate) fn keep_on(&self) -> bool {
        // Relaxed: the flag guards no other data.
        !self.0.load(Ordering::Relaxed)
    }

    /// Runs `work`, which the first Ctrl-C does not interrupt. The second value says whether Ctrl-C arrived.
    pub(crate) fn held_off<T>(&self, work: impl FnOnce() -> T) -> (T, bool) {
        // Relaxed: the flag guards no other data, and the handler runs in a thread of this process.
        self.0.store(false, Ordering::Relaxed);
        let result = work();
        (result, self.0.swap(true, Ordering::Relaxed))
    }
}
