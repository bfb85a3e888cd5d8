//! A progress bar on the terminal for work that takes more than a second.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::measure::Step;

/// The time after which the bar appears.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// The number of events between updates of the bar: a hundred updates per second or more.
pub const STEP: u64 = 1 << 14;

/// Shows which file is read and how far, once the work has taken a second. Hidden if standard error is not a terminal.
#[derive(Debug)]
pub struct Files {
    bar: ProgressBar,
    begin: Instant,
    terminal: bool,
    shown: bool,
}

impl Default for Files {
    fn default() -> Self {
        Files::new()
    }
}

impl Files {
    /// A line that is hidden so far.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Files { bar, begin: Instant::now(), terminal: io::stderr().is_terminal(), shown: false }
    }

    /// Shows a step of the work on the files.
    #[inline]
    pub fn step(&mut self, step: Step<'_>) {
        match step {
            Step::File(path) => self.file(path),
            Step::Events { read, of } => {
                if self.terminal && read.is_multiple_of(STEP) {
                    self.tell(read, of);
                }
            }
        }
    }

    fn file(&mut self, path: &Path) {
        self.bar.set_style(style("reading {msg}"));
        self.bar.set_message(path.display().to_string());
        self.show();
        self.bar.tick();
    }

    #[cold]
    fn tell(&mut self, read: u64, of: Option<u64>) {
        match of {
            Some(of) => {
                self.bar.set_style(style("reading {msg}  [{bar:30}] {percent} %, {eta} left"));
                self.bar.set_length(of);
            }
            None => self.bar.set_style(style("reading {msg}  {human_pos} events read")),
        }
        self.show();
        self.bar.set_position(read);
    }

    fn show(&mut self) {
        if self.terminal && !self.shown && self.begin.elapsed() >= PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Removes the line from the terminal.
    pub fn clear(self) {
        self.bar.finish_and_clear();
    }
}

/// The style of all bars.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}
