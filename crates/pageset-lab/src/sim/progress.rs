//! A progress bar on the terminal while simulations run.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget};

pub(crate) use crate::interrupt::Interrupt;
use pageset_report::progress::style;

/// A bar on standard error with the number of finished runs. Hidden if standard error is not a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let shown = io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        bar.set_style(style("[{bar:30}] {pos} of {len} runs, {eta} left"));
        bar.tick();
        Progress(bar)
    }

    /// Shows that `ended` of `runs` have finished.
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
