//! One recording from begin to end.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGTERM;

use super::error::RecordError;
use super::launch::{self, Running};
use super::output::{Destination, Output};
use super::probes::Probes;
use super::proctext::OuterTexts;
use super::readout::{Recording, Rings};
use super::setup;
use super::signals::{Signal, Signals};
use super::snapshot::Snapshots;
use super::tracefs::{Instance, Tracefs};
use super::{leftovers, machine, sysctl};
use crate::facts::Loss;

/// Time between two snapshots. Source: `trace-replay.md` 3 i and 4.
pub(super) const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(100);

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command and its arguments; at least the command.
    pub command: Vec<OsString>,
    /// Where the recording goes.
    pub output: Destination,
    /// Bytes of each CPU's ring buffer; [`super::default_buffer_bytes`] when not given.
    pub buffer_bytes: Option<u64>,
    /// Empty the kernel's pagesets first.
    pub empty_lists: bool,
    /// A program, with its first arguments, that ends in a call of [`super::hold`].
    pub launcher: Vec<OsString>,
}

/// What a recording has to say while it is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Note<'a> {
    /// Something that weakens the recording, or was found on the machine and mended.
    Warning(&'a str),
    /// What is being done now.
    Phase(Phase),
    /// How much of the recording is written.
    Written {
        /// Events so far.
        events: u64,
        /// Events in all.
        of: u64,
    },
}

/// The parts of making a recording, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The ring buffers are allocated and the command is started up to its barrier.
    Preparing,
    /// The kernel's pagesets are emptied.
    EmptyingLists,
    /// The command runs.
    Recording,
    /// The ring buffers are read out and the file is written.
    Writing,
}

/// A recording that was made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// Events written, markers included.
    pub events: u64,
    /// From the first event to the last.
    pub duration: Duration,
    /// Bytes that the events took in the ring buffers.
    pub raw_bytes: u64,
    /// Bytes written.
    pub file_bytes: u64,
    /// What was lost, one entry a CPU.
    pub loss: Vec<Loss>,
    /// Events that came after a buffer was full; the recording ends before them.
    pub after_full: u64,
    /// How the command ended.
    pub status: ExitStatus,
    /// The signal that ended the recording, if one did.
    pub interrupted: Option<i32>,
}

/// Records `options.command`. `note` is told what goes on; it is not called between the command's begin and its end.
///
/// Takes SIGINT, SIGTERM, SIGHUP and SIGQUIT over until the process ends. One of them ends the command and the
/// recording, which is kept; another while it is written gives it up.
///
/// # Errors
///
/// When there is no recording; the machine is then as it was, and no file is left behind.
///
/// # Panics
///
/// When the command or the launcher is empty.
pub fn record(options: &Options, note: &mut dyn FnMut(Note<'_>)) -> Result<Summary, RecordError> {
    assert!(!options.command.is_empty(), "a recording takes a command");
    assert!(!options.launcher.is_empty(), "a recording takes a launcher");
    launch::find(&options.command[0])?;
    let mut signals = Signals::new().map_err(|source| RecordError::io("take over signals", source))?;

    let tracefs = Tracefs::find()?;
    setup::require_events(&tracefs)?;
    leftovers::clean_up_in(&tracefs, &mut |warning| note(Note::Warning(warning)));
    let output = Output::open(&options.output)?;

    note(Note::Phase(Phase::Preparing));
    // Before the instance, so that they are dropped after it.
    let probes = Probes::create(&tracefs, &mut |warning| note(Note::Warning(warning)));
    let instance = Instance::create(&tracefs, &sysctl::name_suffix())?;
    let buffer_bytes = options.buffer_bytes.unwrap_or_else(setup::default_buffer_bytes);
    let warn = &mut |warning: &str| note(Note::Warning(warning));
    let prepared = setup::prepare(&tracefs, &instance, probes.as_ref(), buffer_bytes, warn)?;
    let mut command = Running::start(&options.launcher, &options.command, stdout_for(&options.output)?)?;
    let mut snapshots = Snapshots::new(&instance.path("trace_marker"))?;
    snapshots.warm_up()?;
    let (before, after) = (OuterTexts::prepare()?, OuterTexts::prepare()?);
    // From here on as little as possible asks for memory: emptied lists fill again with the first page asked for.
    if options.empty_lists {
        note(Note::Phase(Phase::EmptyingLists));
        sysctl::empty_lists(|| signals.check().is_some())?;
    }
    interrupted_before(&mut signals)?;
    note(Note::Phase(Phase::Recording));

    let before = before.take()?;
    let live = run(&instance, &mut command, &mut snapshots, &mut signals);
    // Whatever went wrong, the tracing ends before anything else is done.
    instance.write("tracing_on", "0")?;
    live?;
    let after = after.take()?;
    let texts = snapshots.finish();
    let interrupted = signals.first();
    let status = end_command(&mut command, interrupted, &mut signals)?;
    if let Some(error) = command.start_error() {
        return Err(error);
    }

    note(Note::Phase(Phase::Writing));
    let mut facts = machine::facts(words(&options.command), &prepared.clock, &before[0], &before[1]);
    facts.sources.clone_from(&prepared.sources);
    facts.lists_emptied = options.empty_lists;
    let rings = Rings::read(&instance)?;
    facts.loss = rings.loss();
    facts.after_full = rings.dropped();
    let recording = Recording { facts, before, after, texts, rings };
    let written = recording.write(output, &instance, prepared, &mut signals, note)?;
    if let Err(error) = instance.remove() {
        note(Note::Warning(&format!("{error}; the next recording will try again")));
    }
    Ok(Summary { status, interrupted: interrupted.map(|signal| signal.number), ..written })
}

fn stdout_for(destination: &Destination) -> Result<Stdio, RecordError> {
    if *destination != Destination::Stdout {
        return Ok(Stdio::inherit());
    }
    let stderr = std::io::stderr().as_fd().try_clone_to_owned();
    stderr.map(Stdio::from).map_err(|source| RecordError::io("use standard error for the command's output", source))
}

fn interrupted_before(signals: &mut Signals) -> Result<(), RecordError> {
    signals.check();
    signals.first().map_or(Ok(()), |signal| Err(RecordError::Interrupted { signal: signal.number }))
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The part that is recorded: as little as possible happens here beside the command.
fn run(
    instance: &Instance,
    command: &mut Running,
    snapshots: &mut Snapshots,
    signals: &mut Signals,
) -> Result<(), RecordError> {
    instance.write("tracing_on", "1")?;
    for number in 0..3 {
        snapshots.take(format_args!("init{number}"))?;
    }
    command.release()?;
    let mut next = Instant::now() + SNAPSHOT_INTERVAL;
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(command.ended(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        let ready = wait_until(&mut fds, next)?;
        let ended = !fds[0].revents().is_empty();
        if signals.check().is_some() || ended {
            break;
        }
        if !ready {
            snapshots.take_mid()?;
            next += SNAPSHOT_INTERVAL;
            // After a stop of the machine, do not make up for what was missed.
            next = next.max(Instant::now());
        }
    }
    snapshots.take(format_args!("fini0"))?;
    snapshots.take(format_args!("fini1"))
}

/// Waits until one of `fds` is readable or it is `deadline`. Returns whether one is.
fn wait_until(fds: &mut [PollFd<'_>], deadline: Instant) -> Result<bool, RecordError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    match poll(fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        // The signal is in its pipe by now; the caller looks there.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(RecordError::io("wait for the command", error.into())),
    }
}

/// Waits for the command, which a signal may have told to end; insists when it does not.
fn end_command(
    command: &mut Running,
    interrupted: Option<Signal>,
    signals: &mut Signals,
) -> Result<ExitStatus, RecordError> {
    let Some(signal) = interrupted else { return command.wait() };
    if !signal.from_terminal {
        command.signal(signal.number);
    }
    for insist in [SIGTERM, rustix::process::Signal::KILL.as_raw()] {
        let deadline = Instant::now() + launch::GRACE;
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(command.ended(), PollFlags::IN),
                PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
            ];
            let ready = wait_until(&mut fds, deadline)?;
            if !fds[0].revents().is_empty() {
                return command.wait();
            }
            // Time is up, or the user asks again.
            if !ready || signals.check().is_some() {
                break;
            }
        }
        command.signal(insist);
    }
    command.wait()
}
