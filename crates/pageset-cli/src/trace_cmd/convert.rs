//! `pageset trace import` and `pageset trace export`.

use std::ffi::OsStr;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use pageset_trace::file::Writer;
use pageset_trace::text::TextWriter;

use super::Input;
use crate::error::{Exit, Failure};
use crate::output::{Output, is_standard};

/// Turn a recording of any form into our own, one file with everything inside
///
/// Our own form is smaller, read three times as fast, and any damage to it is found.
#[derive(clap::Args)]
pub(super) struct ImportArgs {
    #[command(flatten)]
    input: Input,

    /// Where to write it; `-` is standard output
    #[arg(short, long, value_name = "OUT.pstrace")]
    output: PathBuf,
}

/// Turn a recording of any form into text
///
/// One event a line, for grep and awk. The snapshots go into a file of their own, which makes both together a whole
/// recording again.
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    input: Input,

    /// Where to write the events; compressed if the name ends in .zst; `-` is standard output
    #[arg(short, long, value_name = "NAME.events[.zst]", default_value = "-")]
    output: PathBuf,

    /// Where to write the snapshots [default: NAME.snap[.zst] beside NAME.events[.zst], else nowhere]
    #[arg(long, value_name = "FILE")]
    snapshots_to: Option<PathBuf>,
}

pub(super) fn import(args: ImportArgs) -> Result<Exit, Failure> {
    let trace = args.input.open(false)?;
    if is_standard(&args.output) && std::io::stdout().is_terminal() {
        return Err(Failure::new(Exit::Usage, "a recording is no text for a terminal").help("give a file with -o"));
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
        let mut writer = TextWriter::new(&mut out);
        for event in trace.events()? {
            writer.event(&event?)?;
        }
        writer.finish()?;
        Ok(())
    };
    let events = written(events, compressed(&args.output), text)?;
    // Both or none: the events get their name when the snapshots are there too.
    if let Some(path) = args.snapshots_to.or(beside) {
        let sections = |out: &mut dyn Write| Ok(trace.snapshots().write_text(trace.facts(), out)?);
        written(Output::create(&path)?, compressed(&path), sections)?.commit()?;
    }
    events.commit()?;
    Ok(Exit::Done)
}

/// What `write` wrote into `out`, compressed or not.
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

/// `NAME.snap…` for `NAME.events…`.
fn snapshots_beside(events: &Path) -> Option<PathBuf> {
    let name = events.file_name()?.to_str()?;
    let (stem, ending) = name
        .strip_suffix(".events")
        .map(|stem| (stem, ".snap"))
        .or_else(|| name.strip_suffix(".events.zst").map(|stem| (stem, ".snap.zst")))?;
    Some(events.with_file_name(format!("{stem}{ending}")))
}
