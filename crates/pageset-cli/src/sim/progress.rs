//! A bar on the terminal while simulations run, and the end by Ctrl-C, which keeps what is done.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::SIGINT;

use crate::error::Exit;

/// How many of so many runs have ended, on standard error; nothing where that is no terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let shown = io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("[{bar:30}] {pos} of {len} runs, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.tick();
        Progress(bar)
    }

    /// So many of so many have ended.
    pub(crate) fn of(&self, ended: usize, runs: usize) {
        self.0.set_length(runs as u64);
        self.0.set_position(ended as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The first Ctrl-C asks the simulations to stop, the second ends the command.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT over from its default action.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn install() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        // In this order: the second signal finds the flag set by the first.
        signal_hook::flag::register_conditional_shutdown(SIGINT, Exit::Interrupted as i32, asked.clone())?;
        signal_hook::flag::register(SIGINT, asked.clone())?;
        Ok(Interrupt(asked))
    }

    /// Whether nobody has asked to stop.
    pub(crate) fn keep_on(&self) -> bool {
        // Relaxed: the flag guards nothing but itself.
        !self.0.load(Ordering::Relaxed)
    }
}
