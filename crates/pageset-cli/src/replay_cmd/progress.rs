//! A progress bar on the terminal for work that takes more than a second.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
pub(crate) use pageset_report::progress::style;
use pageset_report::progress::{PATIENCE, STEP};
use pageset_trace::Trace;
use pageset_trace::replay::{PASSES, Step};

/// Says on a terminal what is waited for: a template in which `{elapsed}` is the time so far. Hidden if standard error is no terminal.
pub(crate) fn waiting(line: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style(line));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

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
                    Some(totals) => self.length(PASSES * totals.events),
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
