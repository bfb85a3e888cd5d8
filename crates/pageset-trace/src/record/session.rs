//! One recording from begin to end.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGTERM;

use super::error::RecordError;
use super::launch::{self, Running};
use super::output::{Destination, Output};
use super::probes::Probes;
use super::proctext::OuterTexts;
use super::progress::{Note, Phase, Summary};
use super::readout::{Recording, Rings};
use super::setup::{self, Prepared};
use super::signals::{Signal, Signals};
use super::snapshot::{SNAPSHOT_INTERVAL, Snapshots};
use super::spool::Readers;
use super::tracefs::{Instance, Tracefs};
use super::{leftovers, machine, processes, sysctl};

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command and its arguments. Without one the machine is recorded as it runs, until a signal or a limit.
    pub command: Vec<OsString>,
    /// Where the recording goes.
    pub output: Destination,
    /// Bytes of each CPU's ring buffer; [`super::default_buffer_bytes`] when not given.
    pub buffer_bytes: Option<u64>,
    /// Empty the kernel's pagesets first.
    pub empty_lists: bool,
    /// When the recording ends before the command does.
    pub limits: Limits,
    /// A program, with its first arguments, that ends in a call of [`super::hold`].
    pub launcher: Vec<OsString>,
}

/// When a recording ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// After this time.
    pub duration: Option<Duration>,
    /// When the events take this many bytes in the ring buffers and on disk together, before compression. One or two
    /// megabytes more come before it is noticed.
    pub max_bytes: Option<u64>,
    /// Instead of ending at a limit, begin another file, and keep the last so many.
    pub rotate: Option<u32>,
}

impl Limits {
    /// A ring buffer's size, so that all of them together take no more than half of what is allowed.
    fn buffer_bytes(&self, bytes: u64) -> u64 {
        let cpus = machine::online_cpus().len().max(1) as u64;
        self.max_bytes.map_or(bytes, |max| bytes.min(max / 2 / cpus).max(setup::MIN_BUFFER_BYTES))
    }

    /// Bytes that the files of the readers may take: the rest is still in the ring buffers at the end.
    fn spool_bytes(&self) -> Option<u64> {
        self.max_bytes.map(|max| max / 2)
    }
}

/// Records `options.command`, or the machine as it runs. `note` is told what goes on; it is not called while the events
/// of a file are recorded.
///
/// Takes SIGINT, SIGTERM, SIGHUP and SIGQUIT over until the process ends. One of them ends the command and the
/// recording, which is kept; another while it is written gives it up.
///
/// # Errors
///
/// When there is no recording; the machine is then as it was, and no half of a file is left behind.
///
/// # Panics
///
/// When the launcher is empty, or files are to be kept in turn without a limit or on standard output.
pub fn record(options: &Options, note: &mut dyn FnMut(Note<'_>)) -> Result<Summary, RecordError> {
    assert!(!options.launcher.is_empty(), "a recording takes a launcher");
    let limits = options.limits;
    let limited = limits.duration.is_some() || limits.max_bytes.is_some();
    let is_file = matches!(options.output, Destination::File(_));
    assert!(limits.rotate.is_none() || limited && is_file, "files in turn take a limit and a name");
    options.command.first().map_or(Ok(()), |program| launch::find(program))?;
    let mut signals = Signals::new().map_err(|source| RecordError::io("take over signals", source))?;

    let tracefs = Tracefs::find()?;
    setup::require_events(&tracefs)?;
    leftovers::clean_up_in(&tracefs, &mut |warning| note(Note::Warning(warning)));
    let mut output = Output::open(&file_of(options, 1))?;

    note(Note::Phase(Phase::Preparing));
    // Before the instance, so that they are dropped after it.
    let probes = Probes::create(&tracefs, &mut |warning| note(Note::Warning(warning)));
    let instance = Instance::create(&tracefs, &sysctl::name_suffix())?;
    let buffer_bytes = limits.buffer_bytes(options.buffer_bytes.unwrap_or_else(setup::default_buffer_bytes));
    let warn = &mut |warning: &str| note(Note::Warning(warning));
    let prepared = setup::prepare(&tracefs, &instance, &probes, buffer_bytes, warn)?;
    let mut command = match options.command.as_slice() {
        [] => None,
        words => Some(Running::start(&options.launcher, words, stdout_for(&options.output)?)?),
    };
    for number in 1.. {
        let folder = output.folder();
        let (before, mut segment) =
            Segment::prepare(&instance, &prepared, buffer_bytes, limits.spool_bytes(), command.is_none(), &folder)?;
        // From here on as little as possible asks for memory: emptied lists fill again with the first page asked for.
        if options.empty_lists && number == 1 {
            note(Note::Phase(Phase::EmptyingLists));
            sysctl::empty_lists(|| signals.check().is_some())?;
        }
        if number == 1 {
            interrupted_before(&mut signals)?;
        }
        note(Note::Phase(Phase::Recording));
        let before = before.take()?;
        let live = segment.run(&instance, command.as_mut(), &mut signals, limits.duration);
        // Whatever went wrong, the tracing ends before anything else is done.
        instance.write("tracing_on", "0")?;
        let ended = live?;
        let after = segment.after.take()?;
        let texts = segment.snapshots.finish();
        // The command, if it has ended, is a zombie until it is waited for, and still in the table.
        let processes = [segment.processes, processes::table()];
        let tids = segment.readers.iter().flat_map(|readers| readers.tids().to_vec()).collect::<Vec<_>>();
        let spools = segment.readers.map(Readers::finish).unwrap_or_default();

        let goes_on = limits.rotate.is_some() && ended == Ended::Limit;
        let mut status = ExitStatus::default();
        if let Some(command) = command.as_mut().filter(|_| !goes_on) {
            let limit = Signal { number: SIGTERM, from_terminal: false };
            let signal = signals.first().or((ended == Ended::Limit).then_some(limit));
            status = end_command(command, signal, &mut signals)?;
            if let Some(error) = command.start_error() {
                return Err(error);
            }
        }

        note(Note::Phase(Phase::Writing));
        let mut facts = machine::facts(words(&options.command), &prepared.clock, &before[0], &before[1]);
        facts.sources.clone_from(&prepared.sources);
        facts.recorder_pids.extend(tids);
        facts.lists_emptied = options.empty_lists && number == 1;
        let rings = Rings::read(&instance)?;
        facts.loss = rings.loss();
        facts.after_full = rings.dropped();
        let recording = Recording { facts, before, after, processes, texts, rings, spools };
        // The first signal ends files in turn without giving up the one that is written.
        let patience = u32::from(goes_on && signals.count() == 0);
        let written = recording.write(output, &instance, &prepared, (&mut signals, patience), note)?;
        if let Destination::File(path) = file_of(options, number) {
            note(Note::File { path: &path, events: written.events, duration: written.duration });
        }
        if let Some(old) = limits.rotate.and_then(|keep| number.checked_sub(keep)).filter(|&old| old > 0)
            && let Destination::File(path) = file_of(options, old)
        {
            std::fs::remove_file(&path).map_err(RecordError::on("remove", &path))?;
        }
        signals.check();
        let over = signals.first().is_some() || command.as_ref().is_some_and(Running::has_ended);
        if goes_on && !over {
            // Empties the ring buffers and their counts.
            instance.write("trace", "")?;
            output = Output::open(&file_of(options, number + 1))?;
            continue;
        }
        if let Some(command) = command.as_mut().filter(|_| goes_on) {
            status = end_command(command, signals.first(), &mut signals)?;
        }
        if let Err(error) = instance.remove() {
            note(Note::Warning(&format!("{error}; the next command will try again")));
        }
        let interrupted = signals.first().map(|signal| signal.number);
        return Ok(Summary { status, interrupted, limited: ended == Ended::Limit, ..written });
    }
    unreachable!("there are more numbers than files")
}

/// What the `number`th file is called. Files in turn have their number before the last part of their name.
fn file_of(options: &Options, number: u32) -> Destination {
    match &options.output {
        Destination::File(path) if options.limits.rotate.is_some() => {
            let mut name = path.file_stem().unwrap_or_default().to_owned();
            name.push(format!(".{number}"));
            if let Some(suffix) = path.extension() {
                name.push(".");
                name.push(suffix);
            }
            Destination::File(path.with_file_name(name))
        }
        other => other.clone(),
    }
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

/// Why the events of a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The command ended.
    Command,
    /// A signal came.
    Signal,
    /// A limit of the user's was reached, or the disk is full.
    Limit,
}

/// What it takes to record the events of one file.
struct Segment {
    snapshots: Snapshots,
    /// The threads that there were before.
    processes: String,
    after: OuterTexts,
    readers: Option<Readers>,
}

impl Segment {
    fn prepare(
        instance: &Instance,
        prepared: &Prepared,
        buffer_bytes: u64,
        spool_bytes: Option<u64>,
        is_attached: bool,
        folder: &Path,
    ) -> Result<(OuterTexts, Segment), RecordError> {
        let mut snapshots = Snapshots::new(&instance.path("trace_marker"))?;
        snapshots.warm_up()?;
        let (before, after) = (OuterTexts::prepare()?, OuterTexts::prepare()?);
        // Where a gap begins is only known on a clock that we can read as well.
        let readers = if prepared.clock == setup::CLOCK {
            let ends = is_attached || spool_bytes.is_some();
            Some(Readers::start(instance, prepared.layout, buffer_bytes, spool_bytes, ends, folder)?)
        } else {
            None
        };
        Ok((before, Segment { snapshots, processes: processes::table(), after, readers }))
    }

    /// The part that is recorded: as little as possible happens here beside the command.
    fn run(
        &mut self,
        instance: &Instance,
        mut command: Option<&mut Running>,
        signals: &mut Signals,
        duration: Option<Duration>,
    ) -> Result<Ended, RecordError> {
        instance.write("tracing_on", "1")?;
        for number in 0..3 {
            self.snapshots.take(format_args!("init{number}"))?;
        }
        if let Some(command) = &mut command {
            command.release()?;
        }
        let end = duration.map(|duration| Instant::now() + duration);
        let mut next = Instant::now() + SNAPSHOT_INTERVAL;
        let ended = loop {
            let signal = PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN);
            let mut fds = [signal.clone(), signal.clone(), signal];
            if let Some(command) = &command {
                fds[1] = PollFd::from_borrowed_fd(command.ended(), PollFlags::IN);
            }
            if let Some(readers) = &self.readers {
                fds[2] = PollFd::from_borrowed_fd(readers.as_fd(), PollFlags::IN);
            }
            let ready = wait_until(&mut fds, end.map_or(next, |end| end.min(next)))?;
            let command_ended = command.is_some() && !fds[1].revents().is_empty();
            if signals.check().is_some() {
                break Ended::Signal;
            }
            if command_ended {
                break Ended::Command;
            }
            let now = Instant::now();
            if self.readers.as_ref().is_some_and(Readers::is_full) || end.is_some_and(|end| now >= end) {
                break Ended::Limit;
            }
            if !ready && now >= next {
                self.snapshots.take_mid()?;
                next += SNAPSHOT_INTERVAL;
                // After a stop of the machine, do not make up for what was missed.
                next = next.max(Instant::now());
            }
        };
        self.snapshots.take(format_args!("fini0"))?;
        self.snapshots.take(format_args!("fini1"))?;
        Ok(ended)
    }
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
