//! `pageset record`: records the page traffic of this machine while a command runs.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pageset_record::{Destination, HOLD, Limits, Note, Options, Phase, RecordError, Summary};

use crate::error::{self, Exit, Failure};
use crate::time;

/// Record this machine's page traffic while a command runs, or until Ctrl-C
///
/// Records each page that the kernel or any process on this machine allocates or frees, from the command's start to its
/// end. Also records the refills and drains of the kernel's per-CPU pagesets, to which a replay is compared. Requires
/// root. Restores all settings of the machine, however the recording ends.
///
/// Ctrl-C ends the command and keeps the recording (exit code 130). If the command fails, the recording is kept and the
/// exit code is 1; the recording contains the command's own status, and `pageset trace info` shows it. Without a
/// command, Ctrl-C is the normal end of the recording (exit code 0).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the recording to FILE; `-` is standard output, and the command's output then goes to standard error
    ///
    /// An existing file is replaced only after the recording is complete.
    #[arg(short, long, value_name = "FILE", default_value = "pageset.pstrace")]
    output: PathBuf,

    /// Empty the kernel's per-CPU pagesets before recording, so that a replay knows their content
    ///
    /// Gain: a replay starts in the kernel's state, with few guesses. Cost: half a second, during which the sysctl
    /// vm.percpu_pagelist_high_fraction has another value and every CPU returns its cached pages to the zones. If
    /// unsure, use this option. Omit it to record the state that the machine has now.
    #[arg(long)]
    empty_lists: bool,

    /// Size of each CPU's ring buffer, such as 64M or 2G [default: 256M; all buffers take at most a quarter of the free
    /// memory]
    ///
    /// A half-full buffer is moved to an unnamed file in the folder of the output. Page faults in a tight loop fill
    /// 40 MB per second on each CPU, a compile 5 MB, a network stream 20 MB. Gain of a larger buffer: the first move,
    /// which disturbs the load, happens later. Cost: memory of the measured machine. If a buffer is full, the recording
    /// ends at that event, and all earlier events are kept. If unsure, omit this option.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<u64>,

    /// End the recording and terminate the command after TIME, such as 500ms, 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,

    /// End the recording and terminate the command when the events take SIZE, such as 1G
    ///
    /// SIZE limits the space that events take in the ring buffers and on disk while recording, about 31 bytes per
    /// event. The finished file takes about an eighth of SIZE. The ring buffers are limited to half of SIZE.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,

    /// Begin another file at the limit of --duration or --max-size, and keep the last N files
    ///
    /// Each file name contains the file's number, such as pageset.7.pstrace. Each file is a complete recording that can
    /// be replayed on its own. Events that occur while a file is written are not recorded. The command continues.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rotate: Option<u32>,

    /// The command and its arguments; without a command, record the machine until Ctrl-C
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Parses `500ms`, `10s`, `2m` or `1h`; a number alone is seconds.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = time::seconds(text).ok_or("allowed: a number with the unit ms, s, m or h, such as 10s")?;
    match (1e-3..=MAX_SECONDS).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("allowed: 1ms to 8760h".into()),
    }
}

/// The longest time, one year: a longer one is a typing error.
const MAX_SECONDS: f64 = 8760.0 * 3600.0;

/// Parses `4096`, `64K`, `64M` or `2G` into bytes; `B` or `iB` may follow.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("allowed: a number with the unit K, M, G or T, such as 256M".into()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if (MIN_BUFFER..=MAX_BUFFER).contains(&bytes) => Ok(bytes),
        _ => Err("allowed: 64K to 1T".into()),
    }
}

/// The smallest size: a smaller buffer cannot hold the markers. Unit: bytes.
const MIN_BUFFER: u64 = 64 << 10;
/// The largest size: a larger one is a typing error. Unit: bytes.
const MAX_BUFFER: u64 = 1 << 40;

/// Waits and then becomes the recorded command, if this process was started for that. Otherwise returns `None`.
pub(crate) fn become_command() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == HOLD).then(|| pageset_record::hold(arguments))
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let output = match args.output.to_str() {
        Some("-") => Destination::Stdout,
        _ => Destination::File(args.output.clone()),
    };
    if output == Destination::Stdout && std::io::stdout().is_terminal() {
        return Err(Failure::new(Exit::Usage, "cannot write a recording to a terminal").help("name a file with -o"));
    }
    let limits = Limits { duration: args.duration, max_bytes: args.max_size, rotate: args.rotate };
    if limits.rotate.is_some() {
        if limits.duration.is_none() && limits.max_bytes.is_none() {
            let failure = Failure::new(Exit::Usage, "--rotate needs a limit for each file");
            return Err(failure.help("add --duration or --max-size"));
        }
        if output == Destination::Stdout {
            return Err(
                Failure::new(Exit::Usage, "--rotate cannot write to standard output").help("name a file with -o")
            );
        }
    }
    let options = Options {
        command: args.command,
        output,
        buffer_bytes: args.buffer,
        empty_lists: args.empty_lists,
        limits,
        launcher: vec!["/proc/self/exe".into(), HOLD.into()],
    };
    let mut progress = Progress::new(&options);
    let recorded = pageset_record::record(&options, &mut |note| progress.note(note));
    progress.clear();
    let summary = recorded.map_err(failure)?;
    say(&summary_text(&summary, &options, progress.last.as_deref()));
    Ok(exit_of(&summary, &options))
}

fn exit_of(summary: &Summary, options: &Options) -> Exit {
    match summary.interrupted {
        Some(_) if options.command.is_empty() => Exit::Done,
        Some(signal) => Exit::of_signal(signal),
        None if summary.limited => Exit::Done,
        None if !summary.status.success() => Exit::Failed,
        None => Exit::Done,
    }
}

/// The failure of the command for an error of the recorder.
pub(crate) fn failure(error: RecordError) -> Failure {
    let exit = match error {
        RecordError::Missing { .. } | RecordError::Unknown(_) => Exit::Missing,
        RecordError::Command { .. } => Exit::Usage,
        RecordError::Interrupted { signal, .. } => Exit::of_signal(signal),
        RecordError::Output { .. } => Exit::Unwritten,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, &error);
    let remedy = match &error {
        RecordError::Output { source, .. } => error::remedy(source.kind()),
        _ => None,
    };
    match error.help().or(remedy) {
        Some(help) => failure.help(help),
        None => failure,
    }
}

/// The summary for standard error: what was recorded, what was lost, and the next command. `file` is the last file.
fn summary_text(summary: &Summary, options: &Options, file: Option<&Path>) -> String {
    let mut lines = Vec::new();
    let by_itself = summary.interrupted.is_none() && !summary.limited;
    if let Some(code) = summary.status.code().filter(|&code| code != 0 && !summary.limited) {
        lines.push(format!("the command failed with exit status {code}; the recording is kept"));
    }
    if let Some(signal) = summary.status.signal().filter(|_| by_itself) {
        lines.push(format!("signal {signal} ended the command; the recording is kept"));
    }
    if let Some(signal) = summary.interrupted.filter(|_| !options.command.is_empty()) {
        lines.push(format!("interrupted by signal {signal}; the events recorded so far are kept"));
    }
    if summary.after_full > 0 {
        lines.push(format!(
            "warning: a ring buffer was full after {:.2} s; the recording ends there, without {} later events\n\
             help: use a larger --buffer, or record a shorter load",
            summary.duration.as_secs_f64(),
            summary.after_full
        ));
    }
    for loss in summary.loss.iter().filter(|loss| loss.any()) {
        lines.push(format!(
            "warning: CPU {} lost events: {} overrun, {} overrun while committing, {} dropped, {} pages marked\n\
             help: use a larger --buffer, or record a shorter load; a replay refuses this recording without --lossy",
            loss.cpu, loss.overrun, loss.commit_overrun, loss.dropped, loss.missed_pages
        ));
    }
    let whole = if summary.loss.iter().any(pageset_trace::Loss::any) { "" } else { ", none lost" };
    lines.push(format!(
        "{} events in {:.2} s{whole}; {} in the buffers, {} written",
        summary.events,
        summary.duration.as_secs_f64(),
        size_text(summary.raw_bytes),
        size_text(summary.file_bytes),
    ));
    if let Some(path) = file {
        lines.push(format!("next: pageset replay {}", path.display()));
    }
    lines.join("\n")
}

/// Bytes for people, in units of powers of 1024.
fn size_text(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// Writes a line to standard error. A closed standard error does not stop the recording.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// What is recorded, how it ends by itself, and how to stop it.
fn described(options: &Options) -> String {
    let what = match options.command.first() {
        Some(command) => format!("recording {}", command.to_string_lossy()),
        None => "recording this machine".to_owned(),
    };
    let end = options.limits.duration.map_or(String::new(), |time| format!(" for at most {} s", time.as_secs_f64()));
    format!("{what}{end}; Ctrl-C stops and keeps the recording")
}

/// Progress on standard error: warnings always, phases only on a terminal, and no phases while the command runs.
struct Progress {
    terminal: bool,
    /// The terminal shows a line of progress.
    shown: bool,
    /// Only a signal ends the recording.
    endless: bool,
    /// What is recorded and how it ends, for a terminal.
    what: Option<String>,
    /// `--rotate`: files are written in turn.
    in_turn: bool,
    /// The file written last.
    last: Option<PathBuf>,
}

impl Progress {
    fn new(options: &Options) -> Self {
        let rotate = options.limits.rotate.is_some();
        let limited = options.limits.duration.is_some() || options.limits.max_bytes.is_some();
        Progress {
            terminal: std::io::stderr().is_terminal(),
            shown: false,
            endless: options.command.is_empty() && (rotate || !limited),
            what: Some(described(options)),
            in_turn: rotate,
            last: None,
        }
    }

    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::Warning(text) => {
                self.clear();
                say(&format!("warning: {text}"));
            }
            // The command may write to the same terminal.
            Note::Phase(Phase::Recording) => {
                self.clear();
                if std::mem::take(&mut self.endless) {
                    say("recording until Ctrl-C");
                } else if let Some(what) = self.what.take().filter(|_| self.terminal) {
                    say(&what);
                }
            }
            Note::File { path, events, duration } => {
                self.clear();
                if self.in_turn {
                    say(&format!("{}: {events} events in {:.2} s", path.display(), duration.as_secs_f64()));
                }
                self.last = Some(path.to_owned());
            }
            Note::Phase(Phase::Preparing) => self.show("allocating the ring buffers"),
            Note::Phase(Phase::EmptyingLists) => self.show("emptying the kernel's pagesets"),
            Note::Phase(Phase::Writing) => self.show("reading the ring buffers"),
            Note::Written { events, of } => self.show(&format!("writing: {events} of {of} events")),
            _ => {}
        }
    }

    fn show(&mut self, text: &str) {
        if self.terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert_eq!(parse_size("256m"), Ok(256 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("2GB"), Ok(2 << 30));
        for wrong in ["", "x", "1", "64X", "-1", "9T", "99999999999999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_time("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(
            (parse_time("10"), parse_time("1.5s")),
            (Ok(Duration::from_secs(10)), Ok(Duration::from_millis(1500)))
        );
        for wrong in ["", "s", "0s", "-1s", "9999999h", "99999999999999999999s", "10 parsecs"] {
            assert!(parse_time(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(size_text(1023), "1023 B");
        assert_eq!(size_text(1536 << 10), "1.5 MiB");
    }
}
