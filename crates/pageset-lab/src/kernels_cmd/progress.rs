//! A line on standard error that shows the running jobs. Without a terminal, it is not shown.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::Instant;

pub(super) struct Progress {
    terminal: bool,
    total: usize,
    begin: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: usize,
    running: Vec<(String, String)>,
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn new(total: usize) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { terminal, total, begin: Instant::now(), state: Mutex::default() }
    }

    /// Shows the current activity of `name`.
    pub(super) fn show(&self, name: &str, what: &str) {
        let mut state = self.state.lock().unwrap();
        match state.running.iter_mut().find(|(other, _)| other == name) {
            Some((_, now)) => *now = what.into(),
            None => state.running.push((name.into(), what.into())),
        }
        self.draw(&mut state, false);
    }

    /// Counts `name` as done.
    pub(super) fn done(&self, name: &str) {
        let mut state = self.state.lock().unwrap();
        state.running.retain(|(other, _)| other != name);
        state.done += 1;
        self.draw(&mut state, true);
    }

    /// Prints a permanent line.
    pub(super) fn say(&self, line: &str) {
        self.clear();
        eprintln!("{line}");
    }

    pub(super) fn clear(&self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn draw(&self, state: &mut State, at_once: bool) {
        if !self.terminal || !at_once && state.drawn.is_some_and(|drawn| drawn.elapsed().as_millis() < 200) {
            return;
        }
        state.drawn = Some(Instant::now());
        let left = time_left(self.begin.elapsed().as_secs(), state.done, self.total);
        let running: Vec<_> = state.running.iter().map(|(name, what)| format!("{name} {what}")).collect();
        let line = format!("{} of {}{left}: {}", state.done, self.total, running.join(", "));
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", line.chars().take(110).collect::<String>());
    }
}

fn time_left(seconds: u64, done: usize, total: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let left = seconds * total.saturating_sub(done) as u64 / done as u64;
    if left < 120 { format!(", {left} s left") } else { format!(", {} min left", left / 60) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_left() {
        let text = |seconds, done| super::time_left(seconds, done, 10);
        assert_eq!(
            (text(5, 0), text(30, 5), text(300, 1)),
            (String::new(), ", 30 s left".into(), ", 45 min left".into())
        );
    }
}
