//! The screen on a terminal: keys, hang-up, suspension, and the restored terminal.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::{cursor, execute, terminal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use signal_hook::consts::SIGTSTP;

use super::state::{Action, State};
use super::{STEP, Views, screen};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;

/// Whether the other end is closed: a terminal hung up, or nobody reads a pipe.
pub(super) fn is_closed(file: impl AsFd) -> bool {
    // Without requested events, poll reports only these.
    let mut files = [PollFd::new(&file, PollFlags::empty())];
    let polled = rustix::event::poll(&mut files, Some(&Timespec::default()));
    polled.is_ok() && files[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// The events of the terminal.
struct Input {
    events: Receiver<Event>,
    /// The terminal that the events come from.
    terminal: OwnedFd,
}

impl Input {
    /// Reads events in a thread of its own: the reader loops forever after the terminal hangs up. The thread ends with
    /// the process.
    fn open() -> io::Result<Input> {
        let terminal = match io::stdin() {
            stdin if stdin.is_terminal() => stdin.as_fd().try_clone_to_owned()?,
            _ => File::open("/dev/tty")?.into(),
        };
        let (sender, events) = mpsc::channel();
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            while let Ok(event) = event::read() {
                if sender.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(Input { events, terminal })
    }

    /// The next event, if there is one before the timeout.
    ///
    /// # Errors
    /// The terminal hung up.
    fn next(&self, timeout: Duration) -> Result<Option<Event>, HungUp> {
        match self.events.recv_timeout(timeout) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) if !is_closed(&self.terminal) => Ok(None),
            Err(_) => Err(HungUp),
        }
    }
}

/// The terminal hung up.
struct HungUp;

/// Restores the terminal on drop, however the screen ends.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // Fails after a hang-up: there is nothing to restore.
        let _ = ratatui::try_restore();
        let _ = execute!(io::stdout(), cursor::Show);
    }
}

/// Restores the terminal, stops this process until SIGCONT, and takes the terminal again.
fn suspend(screen: &mut DefaultTerminal) -> io::Result<()> {
    screen.show_cursor()?;
    ratatui::try_restore()?;
    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), terminal::EnterAlternateScreen)?;
    // A new one draws every cell.
    *screen = DefaultTerminal::new(CrosstermBackend::new(io::stdout()))?;
    Ok(())
}

/// Whether Ctrl and this letter were pressed.
fn is_control(key: &KeyEvent, letter: char) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Shows views until q, `count` looks, a signal or a hang-up.
pub(super) fn screen(
    views: &mut dyn Views,
    interval: Duration,
    count: Option<u64>,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    views.refresh()?;
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, stop.clone())?;
    // On drop it writes to standard error if the terminal hung up, and panics if that fails. `Restore` does its work.
    let mut terminal = ManuallyDrop::new(ratatui::try_init()?);
    let _restore = Restore;
    let input = Input::open()?;
    match show(views, interval, count, interrupt, &stop, &mut terminal, &input) {
        // Output to a terminal that hung up fails as well.
        Err(_) if is_closed(&input.terminal) => Ok(Exit::HungUp),
        shown => shown,
    }
}

fn show(
    views: &mut dyn Views,
    interval: Duration,
    count: Option<u64>,
    interrupt: &Interrupt,
    stop: &AtomicBool,
    terminal: &mut DefaultTerminal,
    input: &Input,
) -> Result<Exit, Failure> {
    let mut state = State::new();
    let (mut next, mut looks, mut dirty) = (Instant::now() + interval, 1, true);
    loop {
        let view = views.view(&mut state.page);
        if dirty {
            terminal.draw(|frame| screen::draw(frame, view, &state))?;
            dirty = false;
        }
        let wait = next.saturating_duration_since(Instant::now()).min(STEP);
        let seen = match input.next(wait) {
            Ok(seen) => seen,
            Err(HungUp) if interrupt.keep_on() => return Ok(Exit::HungUp),
            Err(HungUp) => return Ok(interrupt.exit()),
        };
        dirty |= seen.is_some();
        if let Some(Event::Key(key)) = seen
            && key.kind == KeyEventKind::Press
        {
            if is_control(&key, 'c') {
                return Ok(Exit::Interrupted);
            }
            if is_control(&key, 'z') {
                // The other processes of the job, as the terminal would do.
                let _ = rustix::process::kill_current_process_group(Signal::TSTP);
                // Relaxed, here and below: the flag guards no other data.
                stop.store(true, Ordering::Relaxed);
            } else {
                let row = screen::per_line(&state, view, terminal.get_frame().area());
                if state.key(key.code, view, row) == Action::Quit {
                    return Ok(Exit::Done);
                }
            }
        }
        if stop.load(Ordering::Relaxed) {
            suspend(terminal)?;
            stop.store(false, Ordering::Relaxed);
            dirty = true;
        }
        if !interrupt.keep_on() {
            return Ok(interrupt.exit());
        }
        let now = Instant::now();
        if now >= next {
            if count == Some(looks) {
                return Ok(Exit::Done);
            }
            // No looks are made up for a time in which this process was stopped.
            next = (next + interval).max(now);
            if !state.frozen {
                views.refresh()?;
                dirty = true;
            }
            looks += 1;
        }
    }
}
