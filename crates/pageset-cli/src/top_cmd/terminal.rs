//! The screen on a terminal: keys, mouse, hang-up, suspension, and the restored terminal.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::crossterm::{cursor, execute, terminal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use signal_hook::consts::SIGTSTP;

use super::STEP;
use super::screen::{self, Hits, Target};
use super::source::Source;
use super::state::{Action, Scene, State};
use super::unusual::Unusual;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;

/// Whether the other end is closed: a terminal hung up, or nobody reads a pipe.
pub(super) fn is_closed(file: impl AsFd) -> bool {
    // Without requested events, poll reports only these.
    let mut files = [PollFd::new(&file, PollFlags::empty())];
    let polled = rustix::event::poll(&mut files, Some(&Timespec::default()));
    polled.is_ok() && files[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

struct Input {
    events: Receiver<Event>,
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
        mouse(false);
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

/// Mouse events on or off. Fails after a hang-up, which `show` notices.
fn mouse(on: bool) {
    let mut out = io::stdout();
    let _ = if on { execute!(out, event::EnableMouseCapture) } else { execute!(out, event::DisableMouseCapture) };
}

/// Shows looks until q, `count` looks, a signal or a hang-up.
pub(super) fn screen(
    source: &mut dyn Source,
    state: State,
    count: Option<u64>,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, stop.clone())?;
    // On drop it writes to standard error if the terminal hung up, and panics if that fails. `Restore` does its work.
    let mut terminal = ManuallyDrop::new(ratatui::try_init()?);
    let _restore = Restore;
    mouse(true);
    let input = Input::open()?;
    match show(source, state, count, interrupt, &stop, &mut terminal, &input) {
        // Output to a terminal that hung up fails as well.
        Err(_) if is_closed(&input.terminal) => Ok(Exit::HungUp),
        shown => shown,
    }
}

/// The shortest and longest time for which a look of a playback is shown.
const SHOWN: Range<Duration> = Duration::from_millis(50)..Duration::from_secs(5);

/// The time until the next look.
fn pause(source: &dyn Source, state: &State) -> Duration {
    if source.position().is_none() {
        return state.interval;
    }
    let recorded = source.pause().unwrap_or(state.interval);
    (recorded * 4 / state.speed.max(1)).clamp(SHOWN.start, SHOWN.end)
}

/// Chooses what was clicked, or scrolls.
fn on_mouse(event: MouseEvent, hits: &Hits, state: &mut State, scene: &Scene<'_>) {
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => match hits.at(event.column, event.row) {
            Some(Target::Zone(name)) => state.zone = Some(name.clone()),
            Some(Target::Cpu(cpu)) => state.cpu = Some(*cpu),
            None => {}
        },
        MouseEventKind::ScrollDown => state.scroll(scene, 3),
        MouseEventKind::ScrollUp => state.scroll(scene, -3),
        _ => {}
    }
}

fn show(
    source: &mut dyn Source,
    mut state: State,
    count: Option<u64>,
    interrupt: &Interrupt,
    stop: &AtomicBool,
    terminal: &mut DefaultTerminal,
    input: &Input,
) -> Result<Exit, Failure> {
    let (mut last, mut looks, mut dirty) = (Instant::now(), 1, true);
    let mut hits = Hits::default();
    let mut unusual = Unusual::of(source.view(), source.history());
    loop {
        let scene =
            Scene { view: source.view(), history: source.history(), unusual: &unusual, position: source.position() };
        if dirty {
            terminal.draw(|frame| hits = screen::draw(frame, &scene, &state))?;
            dirty = false;
        }
        let wait = (last + pause(source, &state)).saturating_duration_since(Instant::now()).min(STEP);
        let seen = match input.next(wait) {
            Ok(seen) => seen,
            Err(HungUp) if interrupt.keep_on() => return Ok(Exit::HungUp),
            Err(HungUp) => return Ok(interrupt.exit()),
        };
        let mut step = 0;
        match seen {
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                dirty = true;
                if is_control(&key, 'c') {
                    return Ok(Exit::Interrupted);
                }
                if is_control(&key, 'z') {
                    // The other processes of the job, as the terminal would do.
                    let _ = rustix::process::kill_current_process_group(Signal::TSTP);
                    // Relaxed, here and below: the flag guards no other data.
                    stop.store(true, Ordering::Relaxed);
                } else {
                    match state.key(key.code, &scene) {
                        Action::Quit => return Ok(Exit::Done),
                        Action::Step(by) => step = by,
                        Action::Nothing => {}
                    }
                }
            }
            Some(Event::Mouse(event)) if event.kind != MouseEventKind::Moved => {
                on_mouse(event, &hits, &mut state, &scene);
                dirty = true;
            }
            Some(Event::Mouse(_)) | None => {}
            Some(_) => dirty = true,
        }
        if stop.load(Ordering::Relaxed) {
            mouse(false);
            suspend(terminal)?;
            mouse(true);
            stop.store(false, Ordering::Relaxed);
            dirty = true;
        }
        if !interrupt.keep_on() {
            return Ok(interrupt.exit());
        }
        if step != 0 {
            source.step(step);
            unusual = Unusual::of(source.view(), source.history());
            dirty = true;
        }
        let (now, until) = (Instant::now(), pause(source, &state));
        if now >= last + until {
            if count == Some(looks) {
                return Ok(Exit::Done);
            }
            // No looks are made up for a time in which this process was stopped.
            last = if now - last < until * 2 { last + until } else { now };
            if !state.frozen {
                dirty |= source.next()?;
                unusual = Unusual::of(source.view(), source.history());
            }
            looks += 1;
        }
    }
}
