//! `pageset record`: records the page traffic of this machine while a command runs.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pageset_trace::record::{self, Destination, HOLD, Limits, Note, Options, Phase, RecordError, Summary};

use crate::error::{Exit, Failure};

/// Record this machine's page traffic while a command runs, or until Ctrl-C
///
/// Every page that any process or the kernel allocates or frees on this machine from the command's start to its end is
/// recorded, with the refills and drains of the kernel's own per-CPU pagesets to compare a replay with. It takes root.
/// Nothing of the machine stays changed, however the recording ends.
///
/// Ctrl-C ends the command and keeps what was recorded (exit code 130). When the command fails, the recording is kept
/// and the exit code is 1. Without a command the machine is recorded as it runs, and Ctrl-C is the ordinary end (exit
/// code 0).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to write the recording; `-` is standard output, and the command's output then goes to standard error
    ///
    /// A file of that name is replaced once the recording is whole, never by half of one.
    #[arg(short, long, value_name = "FILE", default_value = "pageset.pstrace")]
    output: PathBuf,

    /// Empty the kernel's per-CPU pagesets first, so that a replay knows what they held
    ///
    /// Gains a replay that starts as the kernel did, with little to guess. Costs half a second, in which the sysctl
    /// vm.percpu_pagelist_high_fraction has another value and every CPU gives its cached pages back. Use it, unless
    /// how the machine runs at that very moment is what you want to see.
    #[arg(long)]
    empty_lists: bool,

    /// The ring buffer of each CPU, such as 64M or 2G [default: 256M, at most a quarter of the free memory for all]
    ///
    /// A buffer that gets half full is moved to a file without a name in the folder of the output; nothing is read
    /// before. Page faults in a tight loop fill 40 MB a second on each CPU, a compile 5, a network stream 20. A larger
    /// buffer disturbs the load later, and takes memory from the machine that is measured. When one is full all the
    /// same, the recording ends there: what came before is whole. If unsure, leave it out.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<u64>,

    /// End the recording after this time, such as 500ms, 10s or 2m; the command is told to end
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,

    /// End the recording when its events take this much, such as 1G; the command is told to end
    ///
    /// What counts is the room in the ring buffers and on the disk while recording, about 31 bytes an event. The file
    /// is about an eighth of it. The ring buffers get smaller where they would take more than half of it.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,

    /// At the limit of --duration or --max-size begin another file, and keep the last N
    ///
    /// The files have their number in their name, such as pageset.7.pstrace. Each is a whole recording, which can be
    /// replayed by itself. What happens while one is written is in none of them. The command goes on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rotate: Option<u32>,

    /// The command and its arguments; without one, record the machine until Ctrl-C
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `500ms`, `10s`, `2m`, `1h`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a time is a number with ms, s, m or h behind it, such as 10s".into()),
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    match ms {
        Some(ms) if (1..=MAX_TIME_MS).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err("a time is from 1ms to 8760h".into()),
    }
}

/// More is a slip of the hand: a year. Unit: milliseconds.
const MAX_TIME_MS: u64 = 8760 * 3_600_000;

/// `4096`, `64K`, `64M`, `2G` in bytes, with or without `B` or `iB` behind.
fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("a size is a number with K, M, G or T behind it, such as 256M".into()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if (MIN_BUFFER..=MAX_BUFFER).contains(&bytes) => Ok(bytes),
        _ => Err("a size is from 64K to 1T".into()),
    }
}

/// Less does not hold the markers. Unit: bytes.
const MIN_BUFFER: u64 = 64 << 10;
/// More is a slip of the hand. Unit: bytes.
const MAX_BUFFER: u64 = 1 << 40;

/// When this process was started only to wait and then become the recorded command, does so.
pub(crate) fn become_command() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == HOLD).then(|| record::hold(arguments))
}

/// Runs `pageset record`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let output = match args.output.to_str() {
        Some("-") => Destination::Stdout,
        _ => Destination::File(args.output.clone()),
    };
    if output == Destination::Stdout && std::io::stdout().is_terminal() {
        return Err(Failure::new(Exit::Usage, "a recording is no text for a terminal").help("give a file with -o"));
    }
    let limits = Limits { duration: args.duration, max_bytes: args.max_size, rotate: args.rotate };
    if limits.rotate.is_some() {
        if limits.duration.is_none() && limits.max_bytes.is_none() {
            let failure = Failure::new(Exit::Usage, "--rotate takes a limit for each file");
            return Err(failure.help("give --duration or --max-size"));
        }
        if output == Destination::Stdout {
            return Err(Failure::new(Exit::Usage, "--rotate takes files").help("give the name of a file with -o"));
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
    let recorded = record::record(&options, &mut |note| progress.note(note));
    progress.clear();
    let summary = recorded.map_err(failure)?;
    say(&summary_text(&summary, &options, progress.last.as_deref()));
    Ok(exit_of(&summary, &options))
}

fn exit_of(summary: &Summary, options: &Options) -> Exit {
    match summary.interrupted {
        Some(_) if options.command.is_empty() => Exit::Done,
        Some(_) => Exit::Interrupted,
        None if summary.limited => Exit::Done,
        None if !summary.status.success() => Exit::Failed,
        None => Exit::Done,
    }
}

/// How a recording that was not made ends the command.
pub(crate) fn failure(error: RecordError) -> Failure {
    let exit = match error {
        RecordError::Missing { .. } | RecordError::Unknown(_) => Exit::Missing,
        RecordError::Command { .. } => Exit::Usage,
        RecordError::Interrupted { .. } => Exit::Interrupted,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, &error);
    match error.help() {
        Some(help) => failure.help(help),
        None => failure,
    }
}

/// The last words on standard error: what there is now, what it lacks, and what to do with it. `file` is the last file.
fn summary_text(summary: &Summary, options: &Options, file: Option<&Path>) -> String {
    let mut lines = Vec::new();
    let by_itself = summary.interrupted.is_none() && !summary.limited;
    if let Some(code) = summary.status.code().filter(|&code| code != 0 && !summary.limited) {
        lines.push(format!("the command failed with exit status {code}; the recording is kept"));
    }
    if let Some(signal) = summary.status.signal().filter(|_| by_itself) {
        lines.push(format!("the command was ended by signal {signal}; the recording is kept"));
    }
    if let Some(signal) = summary.interrupted.filter(|_| !options.command.is_empty()) {
        lines.push(format!("interrupted by signal {signal}; what was recorded until then is kept"));
    }
    if summary.after_full > 0 {
        lines.push(format!(
            "warning: a ring buffer was full after {:.2} s; the recording ends there, {} later events are not in it\n\
             help: give a larger --buffer, or record less",
            summary.duration.as_secs_f64(),
            summary.after_full
        ));
    }
    for loss in summary.loss.iter().filter(|loss| loss.any()) {
        lines.push(format!(
            "warning: CPU {} lost events: {} overrun, {} overrun while committing, {} dropped, {} pages marked\n\
             help: give a larger --buffer, or record less; a replay refuses this recording unless told otherwise",
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

/// Bytes as people read them: three digits or more, in powers of 1024.
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

/// Writes a line to standard error; when nobody reads there, the recording goes on all the same.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// What goes on: warnings always, progress only on a terminal, and nothing while the command runs.
struct Progress {
    terminal: bool,
    /// A line of progress stands on the terminal.
    shown: bool,
    /// Only a signal ends the recording.
    endless: bool,
    /// Files are written in turn.
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
                    say("recording; Ctrl-C ends it");
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
            Note::Phase(Phase::Writing) => self.show("reading the ring buffers out"),
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
        for wrong in ["", "10", "s", "0s", "-1s", "1.5s", "9999999h", "99999999999999999999s"] {
            assert!(parse_time(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(size_text(1023), "1023 B");
        assert_eq!(size_text(1536 << 10), "1.5 MiB");
    }
}
