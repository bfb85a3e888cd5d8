//! `pageset trace`: shows recordings and converts one form into another.

mod convert;
mod info;

use std::path::PathBuf;

use pageset_trace::{OpenOptions, Trace};

use crate::error::{Exit, Failure};
use crate::recordings;

/// Show a recording, or convert one form into another
///
/// Every subcommand reads any form and detects the form by content: our own (.pstrace); the text form (NAME.events.zst
/// with NAME.snap.zst in the same folder); and, with FILE.zoneinfo in the same folder, a perf.data, a trace.dat of
/// trace-cmd, and the text of perf script, trace-cmd report, or ftrace's trace and trace_pipe.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Info(info::Args),
    Import(convert::ImportArgs),
    Export(convert::ExportArgs),
}

/// The recording and the files that belong to it.
#[derive(clap::Args)]
struct Input {
    /// The recording; `-` is standard input
    file: PathBuf,

    /// A copy of /proc/zoneinfo from the recording's start, for a recording of another tool
    #[arg(long, value_name = "FILE")]
    zoneinfo: Option<PathBuf>,

    /// The snapshots of a recording in text form, if NAME.snap[.zst] is not in the same folder
    #[arg(long, value_name = "FILE")]
    snapshots: Option<PathBuf>,
}

impl Input {
    /// Opens the recording. Refuses a recording without zoneinfo unless `without_snapshots`.
    fn open(&self, without_snapshots: bool) -> Result<Trace, Failure> {
        let (zoneinfo, snapshots) = (self.zoneinfo.clone(), self.snapshots.clone());
        Ok(recordings::open_with(&self.file, &OpenOptions { zoneinfo, snapshots, without_snapshots })?)
    }
}

/// The column headings of the tables.
#[cfg(test)]
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    pageset_trace::info::KINDS.into_iter().chain(info::ZONE_HEADS)
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::Info(args) => info::run(args),
        Command::Import(args) => convert::import(args),
        Command::Export(args) => convert::export(args),
    }
}
