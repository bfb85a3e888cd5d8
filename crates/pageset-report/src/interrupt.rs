//! How Ctrl-C and other signals end the command.

use std::io;
use std::os::raw::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::SIGINT;

use crate::error::Exit;

/// Handlers of signals and their flag. If the flag is clear, a signal sets the flag. If the flag is set, a signal ends
/// the command with the signal's exit code.
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    /// The number of the latest signal; 0 for none.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// The first Ctrl-C requests a stop, the second ends the command.
    pub fn install() -> io::Result<Self> {
        Self::on(&[SIGINT], false)
    }

    /// Ctrl-C ends the command at once, except during [`Interrupt::held_off`].
    pub fn at_once() -> io::Result<Self> {
        Self::on(&[SIGINT], true)
    }

    /// These signals end the command: the first signal if `at_once`, else the second.
    pub fn on(signals: &[c_int], at_once: bool) -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(at_once));
        let latest = Arc::new(AtomicUsize::new(0));
        for &signal in signals {
            let exit = Exit::of_signal(signal);
            // In this order: the second signal finds the flag that the first one set.
            signal_hook::flag::register_conditional_shutdown(signal, exit as i32, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::flag::register_usize(signal, latest.clone(), signal as usize)?;
        }
        Ok(Interrupt { flag, signal: latest })
    }

    /// The exit code after the latest signal.
    pub fn exit(&self) -> Exit {
        // Relaxed: the number guards no other data.
        Exit::of_signal(self.signal.load(Ordering::Relaxed) as c_int)
    }

    /// Whether no signal has requested a stop.
    pub fn keep_on(&self) -> bool {
        // Relaxed: the flag guards no other data.
        !self.flag.load(Ordering::Relaxed)
    }

    /// Runs `work`, which the first Ctrl-C does not interrupt. The second value says whether Ctrl-C arrived.
    pub fn held_off<T>(&self, work: impl FnOnce() -> T) -> (T, bool) {
        // Relaxed: the flag guards no other data, and the handler runs in a thread of this process.
        self.flag.store(false, Ordering::Relaxed);
        let result = work();
        (result, self.flag.swap(true, Ordering::Relaxed))
    }
}
