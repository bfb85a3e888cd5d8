//! A progress bar on the terminal for work that takes more than a second.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pageset_trace::Trace;
use pageset_trace::replay::Step;

/// The time after which the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of events between updates of the bar: a hundred updates per second or more.
const STEP: u64 = 1 << 14;

/// The progress of a command on standard error. Hidden if standard error is not a terminal.
pub(crate) struct Progress<'t> {
    trace: &'t Trace,
    bar: ProgressBar,
    begin: Instant,
    terminal: bool,
    shown: bool,
    /// Events of the previous passes.
    before: u64,
}

impl<'t> Progress<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Progress { trace, bar, begin: Instant::now(), terminal: io::stderr().is_terminal(), shown: false, before: 0 }
    }

    /// Shows a step of the work on the recording.
    #[inline]
    pub(crate) fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Events(events) => {
                if self.terminal && events.is_multiple_of(STEP) {
                    self.tell(events);
                }
            }
            step => self.begin(step),
        }
    }

    #[cold]
    fn begin(&mut self, step: Step<'_>) {
        self.before = 0;
        match step {
            Step::LookOver => {
                self.bar.set_message(format!("{}: reading the recording", self.trace.name()));
                match self.trace.totals() {
                    Some(totals) => self.length(2 * totals.events),
                    None => self.bar.set_style(style("{msg}  {human_pos} events read")),
                }
                self.bar.set_position(0);
            }
            Step::Replay { rules, events, done, of } => {
                self.before = done * events;
                self.bar.set_message(format!("{rules} ({} of {of})", done + 1));
                self.bar.set_position(self.before);
                self.length(of * events);
            }
            Step::Presets { done, of } => {
                self.bar.set_message("identifying the kernel's rules from its traffic");
                self.length(of);
                if self.terminal {
                    self.tell(done);
                }
            }
            Step::Events(events) => self.tell(events),
        }
    }

    fn length(&self, events: u64) {
        self.bar.set_style(style("{msg}  [{bar:30}] {percent} %, {eta} left"));
        self.bar.set_length(events);
    }

    #[cold]
    fn tell(&mut self, events: u64) {
        if !self.shown && self.begin.elapsed() >= PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(self.before + events);
    }

    /// Removes the bar from the terminal.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }
}

/// Shows which file is read and how far, once the work has taken a second. Hidden if standard error is not a terminal.
pub(crate) struct Files {
    bar: ProgressBar,
    begin: Instant,
    terminal: bool,
    shown: bool,
}

impl Files {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Files { bar, begin: Instant::now(), terminal: io::stderr().is_terminal(), shown: false }
    }

    /// Shows a step of the work on the files.
    #[inline]
    pub(crate) fn step(&mut self, step: pageset_diff::Step<'_>) {
        match step {
            pageset_diff::Step::File(path) => self.file(path),
            pageset_diff::Step::Events { read, of } => {
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
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }
}

/// The style of all bars.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}
