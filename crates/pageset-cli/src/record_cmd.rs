//! `pageset record`: records the page traffic of this machine while a command runs.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use pageset_trace::record::{self, Destination, HOLD, Note, Options, Phase, RecordError, Summary};

use crate::error::{Exit, Failure};

/// Record this machine's page traffic while a command runs
///
/// Every page that any process or the kernel allocates or frees on this machine from the command's start to its end is
/// recorded, with the refills and drains of the kernel's own per-CPU pagesets to compare a replay with. It takes root.
/// Nothing of the machine stays changed, however the recording ends.
///
/// Ctrl-C ends the command and keeps what was recorded (exit code 130). When the command fails, the recording is kept
/// and the exit code is 1.
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
    /// Nothing is read while the command runs, so all of it has to fit: page faults in a tight loop fill 40 MB a
    /// second on each CPU, a compile 5, a network stream 20. When one buffer is full the recording ends there: what
    /// came before is whole. A larger buffer takes memory from the machine that is measured. If unsure, leave it out.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<u64>,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

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
        _ => Err("a buffer is from 64K to 1T".into()),
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
    let options = Options {
        command: args.command,
        output,
        buffer_bytes: args.buffer,
        empty_lists: args.empty_lists,
        launcher: vec!["/proc/self/exe".into(), HOLD.into()],
    };
    let mut progress = Progress::new();
    let recorded = record::record(&options, &mut |note| progress.note(note));
    progress.clear();
    let summary = recorded.map_err(failure)?;
    say(&summary_text(&summary, &options));
    Ok(exit_of(&summary))
}

fn exit_of(summary: &Summary) -> Exit {
    match summary.interrupted {
        Some(_) => Exit::Interrupted,
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

/// The last words on standard error: what there is now, what it lacks, and what to do with it.
fn summary_text(summary: &Summary, options: &Options) -> String {
    let mut lines = Vec::new();
    if let Some(code) = summary.status.code().filter(|&code| code != 0) {
        lines.push(format!("the command failed with exit status {code}; the recording is kept"));
    }
    if let Some(signal) = summary.status.signal().filter(|_| summary.interrupted.is_none()) {
        lines.push(format!("the command was ended by signal {signal}; the recording is kept"));
    }
    if let Some(signal) = summary.interrupted {
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
    if let Destination::File(path) = &options.output {
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
}

impl Progress {
    fn new() -> Self {
        Progress { terminal: std::io::stderr().is_terminal(), shown: false }
    }

    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::Warning(text) => {
                self.clear();
                say(&format!("warning: {text}"));
            }
            // The command may write to the same terminal.
            Note::Phase(Phase::Recording) => self.clear(),
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
        assert_eq!(size_text(1023), "1023 B");
        assert_eq!(size_text(1536 << 10), "1.5 MiB");
    }
}
