//! One recording from begin to end.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGTERM;

use crate::error::{Discarded, RecordError};
use crate::launch::{self, Running};
use crate::output::{Destination, Output};
use crate::probes::Probes;
use crate::proctext::OuterTexts;
use crate::progress::{Note, Phase, Summary};
use crate::readout::{Recording, Rings};
use crate::removal::{Removal, Removed};
use crate::setup::{self, Prepared};
use crate::signals::{Signal, Signals};
use crate::snapshot::{SNAPSHOT_INTERVAL, Snapshots};
use crate::spool::Readers;
use crate::symbols::Symbols;
use crate::tracefs::{Instance, Tracefs};
use crate::{leftovers, machine, owner, processes, remote, sysctl};

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command and its arguments. Without a command, the whole machine is recorded until a signal or a limit.
    pub command: Vec<OsString>,
    /// The destination of the recording.
    pub output: Destination,
    /// The size of each CPU's ring buffer in bytes; `None` for [`super::default_buffer_bytes`].
    pub buffer_bytes: Option<u64>,
    /// Whether to empty the kernel's pagesets first.
    pub empty_lists: bool,
    /// Limits that end the recording before the command ends.
    pub limits: Limits,
    /// A program, with its first arguments, that ends in a call of [`super::hold`].
    pub launcher: Vec<OsString>,
}

/// Limits that end a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The longest duration.
    pub duration: Option<Duration>,
    /// The largest size of the events in the ring buffers and on disk together, in bytes before compression. The
    /// recording exceeds it by one or two megabytes.
    pub max_bytes: Option<u64>,
    /// The number of files to keep: at a limit, the recording continues in another file.
    pub rotate: Option<u32>,
}

impl Limits {
    /// The size of a ring buffer in bytes: all buffers together take at most half of `max_bytes`.
    fn buffer_bytes(&self, bytes: u64) -> u64 {
        let cpus = machine::online_cpus().len().max(1) as u64;
        self.max_bytes.map_or(bytes, |max| bytes.min(max / 2 / cpus).max(setup::MIN_BUFFER_BYTES))
    }

    /// The largest size of the readers' files in bytes; the remaining events are in the ring buffers at the end.
    fn spool_bytes(&self) -> Option<u64> {
        self.max_bytes.map(|max| max / 2)
    }
}

/// Records `options.command`, or the whole machine. `note` receives notes, but not while the events of a file are
/// recorded.
///
/// Handles SIGINT, SIGTERM, SIGHUP and SIGQUIT until the process ends. The first of them ends the command and the
/// recording, which is kept. A second one while the file is written discards the recording.
///
/// # Errors
///
/// If the recording fails. The machine is then restored, and no partial file is left.
///
/// # Panics
///
/// If the launcher is empty, or `limits.rotate` is set without a limit or with standard output.
pub fn record(options: &Options, note: &mut dyn FnMut(Note<'_>)) -> Result<Summary, RecordError> {
    assert!(!options.launcher.is_empty(), "a recording takes a launcher");
    let limits = options.limits;
    let limited = limits.duration.is_some() || limits.max_bytes.is_some();
    let is_file = matches!(options.output, Destination::File(_));
    assert!(limits.rotate.is_none() || limited && is_file, "files in turn take a limit and a name");
    options.command.first().map_or(Ok(()), |program| launch::find(program))?;
    owner::require_own_proc()?;
    let mut signals = Signals::new().map_err(|source| RecordError::io("take over signals", source))?;

    let tracefs = Tracefs::find()?;
    setup::require_events(&tracefs)?;
    leftovers::clean_up_in(&tracefs, &mut |warning| note(Note::Warning(warning)));
    let output = Output::open(&file_of(options, 1))?;

    note(Note::Phase(Phase::Preparing));
    let functions = Probes::functions().chain([setup::VMSTAT_UPDATE]);
    let symbols = Symbols::find(functions, &mut || interrupted_before(&mut signals))?;
    // The probes are created before the instance, so that they are dropped after it.
    let (warn, check) = (&mut |warning: &str| note(Note::Warning(warning)), &mut || interrupted_before(&mut signals));
    let mut probes = Probes::create(&tracefs, &symbols, remote::filter(), warn, check)?;
    let instance = Instance::create(&tracefs, &sysctl::name_suffix())?;
    let mut removal = Handover { launcher: &options.launcher, removal: None };
    let recorded =
        record_in(options, (&tracefs, &symbols), (&instance, &mut probes), &mut removal, output, &mut signals, note);
    if matches!(recorded, Err(RecordError::Interrupted { .. })) {
        removal.begin(&instance, &mut probes);
    }
    let removed = match removal.removal.map(Removal::finish) {
        Some(done @ (Removed::All | Removed::Soon)) => {
            instance.leave();
            Ok(done == Removed::All)
        }
        Some(Removed::Failed) | None => {
            probes.take_back();
            instance.remove().map(|()| true)
        }
    };
    let summary = recorded?;
    match removed {
        Ok(true) => {}
        Ok(false) => note(Note::Warning(
            "the kernel takes long to remove the ring buffers and the probes; a process of this program goes on with that",
        )),
        Err(error) => note(Note::Warning(&format!("{error}; the next command will try again"))),
    }
    Ok(summary)
}

/// The removal of the tracing by a process of its own, once it has begun.
struct Handover<'a> {
    launcher: &'a [OsString],
    removal: Option<Removal>,
}

impl Handover<'_> {
    /// Begins the removal: a user waits for the end. If the process cannot be started, the instance and the probes are removed as
    /// always.
    fn begin(&mut self, instance: &Instance, probes: &mut Probes) {
        if self.removal.is_none() {
            self.removal = Removal::start(self.launcher, instance.folder(), probes.file(), probes.group()).ok();
            if self.removal.is_some() {
                probes.hand_over();
            }
        }
    }
}

/// Records with this instance and these probes, which the caller removes.
fn record_in(
    options: &Options,
    (tracefs, symbols): (&Tracefs, &Symbols),
    (instance, probes): (&Instance, &mut Probes),
    removal: &mut Handover<'_>,
    mut output: Output,
    signals: &mut Signals,
    note: &mut dyn FnMut(Note<'_>),
) -> Result<Summary, RecordError> {
    let limits = options.limits;
    let buffer_bytes = limits.buffer_bytes(options.buffer_bytes.unwrap_or_else(setup::default_buffer_bytes));
    let warn = &mut |warning: &str| note(Note::Warning(warning));
    let check = &mut || interrupted_before(signals);
    let prepared = setup::prepare(tracefs, instance, (probes, symbols), buffer_bytes, warn, check)?;
    interrupted_before(signals)?;
    let mut command = match options.command.as_slice() {
        [] => None,
        words => Some(Running::start(&options.launcher, words, stdout_for(&options.output)?)?),
    };
    for number in 1.. {
        let folder = output.folder();
        let (before, mut segment) = Segment::prepare(
            instance,
            &prepared,
            buffer_bytes,
            (limits.spool_bytes(), command.is_none()),
            &folder,
            &mut || {
                if number == 1 { interrupted_before(signals) } else { Ok(()) }
            },
        )?;
        let facts = machine::facts(words(&options.command), &prepared.clock);
        // From here on the recorder allocates as little as possible: the first allocation refills an emptied list.
        if options.empty_lists && number == 1 {
            note(Note::Phase(Phase::EmptyingLists));
            sysctl::empty_lists(|| signals.check().is_some())?;
        }
        if number == 1 {
            interrupted_before(signals)?;
        }
        note(Note::Phase(Phase::Recording));
        let before = before.take()?;
        let live = segment.run(instance, command.as_mut(), signals, limits.duration);
        // Tracing stops even if the run failed.
        instance.write("tracing_on", "0")?;
        let ended = live?;
        let goes_on = limits.rotate.is_some() && ended == Ended::Limit;
        let signal = signals.first().filter(|_| !goes_on);
        // A user waits: the command ends, and the kernel's tracing is removed, while the file is written.
        let ending = match (&command, signal) {
            (Some(command), Some(signal)) => command.end(signal).ok(),
            _ => None,
        };
        if signal.is_some() {
            removal.begin(instance, probes);
        }
        let after = segment.after.take()?;
        let texts = segment.snapshots.finish();
        // An ended command is a zombie until `wait`, so it is still in the table.
        let processes = [segment.processes, processes::table()];
        let tids = segment.readers.iter().flat_map(|readers| readers.tids().to_vec()).collect::<Vec<_>>();
        let spools = segment.readers.map(Readers::finish).unwrap_or_default();

        let (mut status, mut own_status) = (ExitStatus::default(), None);
        if let Some(command) = command.as_mut().filter(|_| !goes_on && ending.is_none()) {
            let limit = Signal { number: SIGTERM, from_terminal: false };
            let signal = signal.or((ended == Ended::Limit).then_some(limit));
            status = end_command(command, signal, signals)?;
            own_status = signal.is_none().then(|| status.code().or(status.signal().map(|signal| 128 + signal)));
            if let Some(error) = command.start_error() {
                return Err(error);
            }
        }

        note(Note::Phase(Phase::Writing));
        let mut facts = machine::of_texts(facts, &before[0], &before[1]);
        facts.command_status = own_status.flatten();
        facts.sources.clone_from(&prepared.sources);
        facts.recorder_pids.extend(tids);
        facts.lists_emptied = options.empty_lists && number == 1;
        let rings = Rings::read(instance)?;
        facts.loss = rings.loss();
        facts.after_full = rings.dropped();
        let recording = Recording { facts, before, after, processes, texts, rings, spools };
        // A signal that came while the tracing ended discards nothing.
        signals.check();
        // With rotating files, the first signal ends the recording without discarding the current file. A command that is slow
        // to end gets a second Ctrl-C.
        let patience = u32::from(goes_on && signals.count() == 0 || ending.is_some());
        let written = recording.write(output, instance, &prepared, (signals, patience), note)?;
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
            // Writing to `trace` clears the ring buffers and their counts.
            instance.write("trace", "")?;
            output = Output::open(&file_of(options, number + 1))?;
            continue;
        }
        if let Some(command) = command.as_mut().filter(|_| goes_on) {
            status = end_command(command, signals.first(), signals)?;
        }
        if let (Some(command), Some(ending)) = (&mut command, ending) {
            // The thread ends with the command.
            let _ = ending.join();
            status = command.wait()?;
            if let Some(error) = command.start_error() {
                return Err(error);
            }
        }
        let interrupted = signals.first().map(|signal| signal.number);
        return Ok(Summary { status, interrupted, limited: ended == Ended::Limit, ..written });
    }
    unreachable!("the loop ends by return")
}

/// The name of the `number`th file. Rotating files have their number before the extension.
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
    let discards = |signal: Signal| RecordError::Interrupted { signal: signal.number, at: Discarded::BeforeBegin };
    signals.first().map_or(Ok(()), |signal| Err(discards(signal)))
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The reason why the events of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The command ended.
    Command,
    /// A signal came.
    Signal,
    /// A limit of the user is reached, or the disk is full.
    Limit,
}

/// The resources for the events of one file.
struct Segment {
    snapshots: Snapshots,
    /// The thread table before the recording.
    processes: String,
    after: OuterTexts,
    readers: Option<Readers>,
}

impl Segment {
    fn prepare(
        instance: &Instance,
        prepared: &Prepared,
        buffer_bytes: u64,
        (spool_bytes, is_attached): (Option<u64>, bool),
        folder: &Path,
        check: &mut dyn FnMut() -> Result<(), RecordError>,
    ) -> Result<(OuterTexts, Segment), RecordError> {
        let mut snapshots = Snapshots::new(&instance.path("trace_marker"))?;
        snapshots.warm_up()?;
        check()?;
        let (before, after) = (OuterTexts::prepare()?, OuterTexts::prepare()?);
        // The begin of a gap is known only on a clock that user space can read.
        let readers = if prepared.clock == setup::CLOCK {
            let ends = is_attached || spool_bytes.is_some();
            Some(Readers::start(instance, prepared.layout, buffer_bytes, spool_bytes, ends, folder, check)?)
        } else {
            None
        };
        Ok((before, Segment { snapshots, processes: processes::table(), after, readers }))
    }

    /// Runs the recorded part. The recorder does as little as possible besides the command.
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
                // After a stop of the machine, missed snapshots are not repeated.
                next = next.max(Instant::now());
            }
        };
        self.snapshots.take(format_args!("fini0"))?;
        self.snapshots.take(format_args!("fini1"))?;
        Ok(ended)
    }
}

/// Waits until one of `fds` is readable or `deadline` has passed. Returns whether one is readable.
fn wait_until(fds: &mut [PollFd<'_>], deadline: Instant) -> Result<bool, RecordError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    match poll(fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        // The signal is in its pipe now, and the caller reads the pipe.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(RecordError::io("wait for the command", error.into())),
    }
}

/// Waits for the command. If a signal interrupted the recording, sends it to the command, and stronger signals if the
/// command does not end.
fn end_command(
    command: &mut Running,
    interrupted: Option<Signal>,
    signals: &mut Signals,
) -> Result<ExitStatus, RecordError> {
    let Some(signal) = interrupted else { return command.wait() };
    if !signal.from_terminal {
        command.signal(signal.number);
    }
    for next_signal in [SIGTERM, rustix::process::Signal::KILL.as_raw()] {
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
            // The deadline has passed, or the user sent another signal.
            if !ready || signals.check().is_some() {
                break;
            }
        }
        command.signal(next_signal);
    }
    command.wait()
}
