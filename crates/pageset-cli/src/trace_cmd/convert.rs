//! `pageset trace import` and `pageset trace export`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use pageset_trace::file::Writer;
use pageset_trace::text::TextWriter;
use pageset_trace::{Event, Kind, Trace, perf_script_line};

use super::Input;
use crate::error::{Exit, Failure};
use crate::output::{Output, is_standard};

/// Convert a recording of any form into our own form, one file that contains everything
///
/// Our own form is smaller, is read three times as fast, and has checksums that reveal any damage.
#[derive(clap::Args)]
pub(super) struct ImportArgs {
    #[command(flatten)]
    input: Input,

    /// Write the recording to this file; `-` is standard output
    #[arg(short, long, value_name = "OUT.pstrace")]
    output: PathBuf,
}

/// Convert a recording of any form into text
///
/// Writes one event per line, for grep and awk, and the snapshots into a second file. Both files together are a
/// complete recording.
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    input: Input,

    /// Write the events to this file, compressed if the name ends in .zst; `-` is standard output
    #[arg(short, long, value_name = "NAME.events[.zst]", default_value = "-")]
    output: PathBuf,

    /// Write the events in the form of `pageset`, or as the text of `perf script` for tools that read that. The
    /// latter leaves out what has no tracepoint: bulk allocations and changes of state
    #[arg(long, value_name = "FORM", default_value = "pageset")]
    to: To,

    /// Write the snapshots to FILE [default: NAME.snap[.zst] for the output NAME.events[.zst], OUT.snap for any other
    /// file OUT; none for standard output]
    #[arg(long, value_name = "FILE")]
    snapshots_to: Option<PathBuf>,
}

/// The form of an export.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum To {
    Pageset,
    PerfScript,
}

pub(super) fn import(args: ImportArgs) -> Result<Exit, Failure> {
    let trace = args.input.open(false)?;
    if is_standard(&args.output) && std::io::stdout().is_terminal() {
        return Err(Failure::new(Exit::Usage, "cannot write a recording to a terminal").help("name a file with -o"));
    }
    let mut writer = Writer::create(BufWriter::new(Output::create(&args.output)?), trace.facts())?;
    for (tag, text) in &trace.snapshots().texts {
        writer.snapshot_text(tag, text)?;
    }
    for event in trace.events()? {
        writer.event(&event?)?;
    }
    commit(writer.finish()?)?;
    Ok(Exit::Done)
}

pub(super) fn export(args: ExportArgs) -> Result<Exit, Failure> {
    let trace = args.input.open(true)?;
    let beside = snapshots_beside(&args.output);
    let events = Output::create(&args.output)?;
    let compressed = |path: &Path| path.extension() == Some(OsStr::new("zst"));
    let text = |mut out: &mut dyn Write| -> Result<(), Failure> {
        if args.to == To::PerfScript {
            return perf_script(&trace, out);
        }
        let mut writer = TextWriter::new(&mut out);
        for event in trace.events()? {
            writer.event(&event?)?;
        }
        writer.finish()?;
        Ok(())
    };
    let events = written(events, compressed(&args.output), text)?;
    if args.to == To::PerfScript {
        let path = args.snapshots_to.or_else(|| beside.map(|_| with_ending(&args.output, ".zoneinfo")));
        let zoneinfo = trace.snapshots().start().and_then(|(tag, _)| trace.snapshots().text(tag));
        if let (Some(path), Some(text)) = (path, zoneinfo) {
            written(Output::create(&path)?, compressed(&path), |out| Ok(out.write_all(text.as_bytes())?))?.commit()?;
        }
        events.commit()?;
        return Ok(Exit::Done);
    }
    // Both files or none: the events file gets its name after the snapshots file exists.
    if let Some(path) = args.snapshots_to.or(beside) {
        let sections = |out: &mut dyn Write| Ok(trace.snapshots().write_text(trace.facts(), out)?);
        written(Output::create(&path)?, compressed(&path), sections)?.commit()?;
    }
    events.commit()?;
    Ok(Exit::Done)
}

/// Writes the events from the first zoneinfo on, which is the only one that goes along.
fn perf_script(trace: &Trace, out: &mut dyn Write) -> Result<(), Failure> {
    let start = trace.snapshots().start().map(|(tag, _)| tag.as_str());
    let is_start = |event: &Event| matches!(&event.kind, Kind::SnapshotEnd(tag) if Some(tag.as_str()) == start);
    let mut before = false;
    for event in trace.events()? {
        before = is_start(&event?);
        if before {
            break;
        }
    }
    for event in trace.events()? {
        let event = event?;
        if before {
            before = !is_start(&event);
        } else if let Some(line) = perf_script_line(&event) {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()?;
    Ok(())
}

/// `FILE.zoneinfo` for `FILE`.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Calls `write` on `out`, compressed or not, and returns `out`.
fn written(
    out: Output,
    compressed: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<Output, Failure> {
    /// zstd's own default.
    const LEVEL: i32 = 3;
    let mut out = BufWriter::new(out);
    if compressed {
        let mut encoder = zstd::Encoder::new(out, LEVEL)?;
        encoder.include_checksum(true)?;
        write(&mut encoder)?;
        out = encoder.finish()?;
    } else {
        write(&mut out)?;
    }
    out.into_inner().map_err(|e| e.into_error().into())
}

fn commit(out: BufWriter<Output>) -> Result<(), Failure> {
    Ok(out.into_inner().map_err(|e| e.into_error())?.commit()?)
}

/// `NAME.snap…` for `NAME.events…`, `OUT.snap` for another file `OUT`. `None` for standard output, pipes and devices.
fn snapshots_beside(events: &Path) -> Option<PathBuf> {
    if is_standard(events) || fs::metadata(events).is_ok_and(|found| !found.is_file()) {
        return None;
    }
    let name = events.file_name()?.to_str()?;
    let (stem, ending) = name
        .strip_suffix(".events")
        .map(|stem| (stem, ".snap"))
        .or_else(|| name.strip_suffix(".events.zst").map(|stem| (stem, ".snap.zst")))
        .unwrap_or((name, ".snap"));
    Some(events.with_file_name(format!("{stem}{ending}")))
}
