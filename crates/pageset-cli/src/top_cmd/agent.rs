//! `pageset agent`: a look a minute as one line of JSON. It is `top` without a screen, with memory for one look.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pageset_fleet::Line;
use pageset_fleet::agent::{Lines, of_view};
use pageset_fleet::metrics::Exporter;
use pageset_fleet::recorder::Recorder;
use pageset_fleet::watch::Watch;

use super::listen::{Scrapes, loopback};
use super::look::{Counting, Machine};
use super::unusual::findings;
use super::{Reader, STOPS, interval, wait};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::is_standard;
use crate::record_cmd::{parse_size, parse_time};
use crate::replay_cmd::progress::waiting;

/// Say once a minute whether this machine waits for zone locks, and what to set, without a recording
///
/// Writes one line of JSON per interval, of the schema pageset.agent/1: the verdict that `pageset top` shows, and what it rests
/// on. `pageset fleet` merges the lines of many machines. Needs root, or the capabilities BPF, PERFMON and, for waits, SYSLOG;
/// without them it says what it cannot tell, and goes on. The command does not change the machine.
///
/// A line that cannot be written, such as on a full disk, is dropped with one message.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds between lines [default: 60]
    #[arg(short, long, value_name = "SECONDS", value_parser = interval)]
    interval: Option<Duration>,

    /// Write the lines to the end of FILE, which another program may rename; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Serve the verdict and the metrics of `top` as OpenMetrics text over HTTP, on a loopback address only
    #[arg(long, value_name = "127.0.0.1:PORT", value_parser = loopback)]
    listen: Option<SocketAddr>,

    /// Print one result and exit, after one interval
    #[arg(long)]
    once: bool,

    /// Record 5 s where only a recording can decide, to pageset-agent.pstrace in FOLDER, which a later recording replaces
    ///
    /// Off without this option. The next lines of the agent name the file, and `pageset fleet` shows it. The agent's user must own FOLDER,
    /// and nobody else may write to it. A recording needs root, slows the machine's page traffic while it lasts, and shows the
    /// names of processes: only its owner may read it. If unsure, omit it.
    #[arg(long, value_name = "FOLDER", conflicts_with = "once")]
    record: Option<PathBuf>,

    /// Limit the events of a recording to SIZE before compression, as --max-size of `record` does
    #[arg(long, value_name = "SIZE", requires = "record", conflicts_with = "once", default_value = "256M", value_parser = parse_size)]
    record_size: u64,

    /// Make at most one recording in TIME
    #[arg(long, value_name = "TIME", requires = "record", conflicts_with = "once", default_value = "24h", value_parser = parse_time)]
    record_every: Duration,
}

/// The time between lines if nothing else is given.
const INTERVAL: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let interrupt = Interrupt::on(&STOPS, false)?;
    let mut lines = Lines::new(&args.output);
    // A file that cannot be written at all is an error at once.
    lines.write(b"")?;
    let (this, size, pause) = (Path::new("/proc/self/exe"), args.record_size, args.record_every);
    let recorder = |folder: &PathBuf| Recorder::new(this, folder, size, pause);
    let mut recorder = args.record.as_ref().map(recorder).transpose()?;
    let scrapes = args.listen.map(Scrapes::open).transpose()?;
    let out = is_standard(&args.output).then(Reader::new);
    let every = args.interval.unwrap_or(INTERVAL);
    let mut watch = Watch::new(|| Ok(Machine::new(Counting::OnlyCpus)))?;
    let mut said = watch.missing().to_vec();
    say(&said);
    let mut exporter = Exporter::default();
    let line = format!("counting for {} s, {{elapsed}} so far; Ctrl-C stops without a result", every.as_secs_f64());
    let bar = if args.once { waiting(&line) } else { ProgressBar::hidden() };
    let (mut found, mut until) = (None, Instant::now() + every);
    loop {
        match &scrapes {
            Some(scrapes) if Instant::now() < until && interrupt.keep_on() => {
                let mut text = || Ok(exporter.text(watch.look()?, found.as_ref()));
                if let Err(error) = scrapes.answer(&mut text) {
                    lines.report(Some(io::Error::other(error.to_string())));
                }
                continue;
            }
            _ => {}
        }
        let ended = wait(until, &interrupt, out.as_ref());
        bar.finish_and_clear();
        if let Some(exit) = ended {
            return Ok(exit);
        }
        // An agent that was stopped does not catch up: short intervals say nothing.
        until = (until + every).max(Instant::now() + every / 2);
        let view = match watch.interval() {
            Err(error) if !args.once => {
                lines.report(Some(io::Error::other(error.to_string())));
                continue;
            }
            view => view?,
        };
        if watch.missing() != said {
            say(watch.missing());
            said = watch.missing().to_vec();
        }
        let Some(view) = view else { continue };
        let mut all = findings(&view);
        let finding = all.swap_remove(0);
        let mut failed = |why| say(&[format!("no recording was made: {why}")]);
        let recording = recorder.as_mut().and_then(|recorder| recorder.of(&finding, &mut failed));
        let line = Line { recording, ..of_view(&view, &finding) };
        let mut text = serde_json::to_vec(&line).map_err(io::Error::from)?;
        text.push(b'\n');
        match (lines.write(&text), &out) {
            (Err(_), Some(out)) if out.is_gone() => return Ok(out.end),
            (Err(error), _) if args.once => return Err(error.into()),
            (written, _) => lines.report(written.err()),
        }
        if args.once {
            return Ok(Exit::Done);
        }
        found = Some(finding);
    }
}

/// Says in one line what cannot be told.
fn say(missing: &[String]) {
    if !missing.is_empty() {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "warning: {}", missing.join("; "));
    }
}
