//! A bar on the terminal for what takes more than a second, and the end by Ctrl-C.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pageset_trace::Trace;
use pageset_trace::replay::Step;
use signal_hook::consts::SIGINT;

use crate::error::Exit;

/// What ends sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the bar is told, in events: a hundred times a second or more.
const STEP: u64 = 1 << 14;

/// How far a command has come, on standard error. Nothing is shown where that is no terminal.
pub(crate) struct Progress<'t> {
    trace: &'t Trace,
    bar: ProgressBar,
    begin: Instant,
    terminal: bool,
    shown: bool,
    /// Events of the passes before this one.
    before: u64,
}

impl<'t> Progress<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Progress { trace, bar, begin: Instant::now(), terminal: io::stderr().is_terminal(), shown: false, before: 0 }
    }

    /// How far the work on the recording has come.
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
                self.bar.set_message(format!("{}: looking it over", self.trace.name()));
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
                self.bar.set_message("finding the kernel's rules by its traffic");
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

    /// The recording is done: nothing of the bar stays on the terminal.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// Ctrl-C ends the command at once with exit code 130, but for the moments in which a file is put into its place.
pub(crate) struct Interrupt {
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes SIGINT over from its default action.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn install() -> io::Result<Self> {
        let at_once = Arc::new(AtomicBool::new(true));
        // In this order: the first signal of a moment that it may not end is remembered, the second ends it.
        signal_hook::flag::register_conditional_shutdown(SIGINT, Exit::Interrupted as i32, at_once.clone())?;
        signal_hook::flag::register(SIGINT, at_once.clone())?;
        Ok(Interrupt { at_once })
    }

    /// Does something that the first Ctrl-C must not cut in two. Whether one came is the second value.
    pub(crate) fn held_off<T>(&self, work: impl FnOnce() -> T) -> (T, bool) {
        // Relaxed: the flag guards nothing but itself, and the handler runs in some thread of this process.
        self.at_once.store(false, Ordering::Relaxed);
        let result = work();
        (result, self.at_once.swap(true, Ordering::Relaxed))
    }
}
