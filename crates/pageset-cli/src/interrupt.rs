//! The end by Ctrl-C and other signals.

use std::io;
use std::os::raw::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;

use crate::error::Exit;

/// Signals taken over from their default actions. While the flag is clear a signal sets it; while it is set a signal ends
/// the command with exit code 130.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The first Ctrl-C asks the command to stop, the second ends it.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn install() -> io::Result<Self> {
        Self::on(&[SIGINT], false)
    }

    /// Ctrl-C ends the command at once, but for the moments in which a file is put into its place.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn at_once() -> io::Result<Self> {
        Self::on(&[SIGINT], true)
    }

    /// These signals end the command, the first of them if `at_once`, else the second.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn on(signals: &[c_int], at_once: bool) -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(at_once));
        for &signal in signals {
            // In this order: the second signal finds the flag that the first one set.
            signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Interrupt(flag))
    }

    /// Whether nobody has asked to stop.
    pub(crate) fn keep_on(&self) -> bool {
        // Relaxed: the flag guards nothing but itself.
        !self.0.load(Ordering::Relaxed)
    }

    /// Does something that the first Ctrl-C must not cut in two. Whether one came is the second value.
    pub(crate) fn held_off<T>(&self, work: impl FnOnce() -> T) -> (T, bool) {
        // Relaxed: the flag guards nothing but itself, and the handler runs in some thread of this process.
        self.0.store(false, Ordering::Relaxed);
        let result = work();
        (result, self.0.swap(true, Ordering::Relaxed))
    }
}
