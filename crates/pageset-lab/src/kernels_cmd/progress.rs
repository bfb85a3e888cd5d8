//! A line on standard error that shows the running jobs. Without a terminal, it is not shown.

use std::sync::Mutex;

use indicatif::ProgressBar;
use pageset_report::progress::style;

pub(super) struct Progress {
    bar: ProgressBar,
    /// Each running job and what it does.
    running: Mutex<Vec<(String, String)>>,
}

impl Progress {
    pub(super) fn new(total: usize) -> Progress {
        let bar = ProgressBar::new(total as u64).with_style(style("{pos} of {len}, {eta} left: {wide_msg}"));
        Progress { bar, running: Mutex::default() }
    }

    /// Shows the current activity of `name`.
    pub(super) fn show(&self, name: &str, what: &str) {
        let mut running = self.running.lock().unwrap();
        match running.iter_mut().find(|(other, _)| other == name) {
            Some((_, now)) => *now = what.into(),
            None => running.push((name.into(), what.into())),
        }
        let all: Vec<_> = running.iter().map(|(name, what)| format!("{name} {what}")).collect();
        self.bar.set_message(all.join(", "));
    }

    pub(super) fn done(&self, name: &str) {
        self.running.lock().unwrap().retain(|(other, _)| other != name);
        self.bar.inc(1);
    }

    /// Prints a permanent line.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
