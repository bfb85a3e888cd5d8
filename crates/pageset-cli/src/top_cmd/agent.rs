//! `pageset agent`: a look a minute as one line of JSON. It is `top` without a screen, with memory for one look.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pageset_fleet::{Line, Verdict, Zone};
use pageset_trace::verdict::machine::Finding;

use super::listen::{Scrapes, loopback};
use super::look::{Counting, Machine};
use super::unusual::{Limits, findings};
use super::view::{CpuTraffic, CpuWaits, View};
use super::{Reader, STOPS, interval, metrics, wait};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::is_standard;

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
}

/// The time between lines if nothing else is given.
const INTERVAL: Duration = Duration::from_secs(60);

/// Runs `pageset agent`.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let interrupt = Interrupt::on(&STOPS, false)?;
    let mut lines = Lines { path: &args.output, dropped: false, torn: false };
    // A file that cannot be written at all is an error at once.
    lines.write(b"")?;
    let scrapes = args.listen.map(Scrapes::open).transpose()?;
    let out = is_standard(&args.output).then(Reader::new);
    let every = args.interval.unwrap_or(INTERVAL);
    let mut machine = Machine::new(Counting::By(None))?;
    let mut before = machine.look()?;
    say(&before.missing);
    let (mut found, mut until) = (None, Instant::now() + every);
    loop {
        match &scrapes {
            Some(scrapes) if Instant::now() < until && interrupt.keep_on() => {
                scrapes.answer(&mut || Ok(metrics::text(&View::new(&machine.look()?, None), found.as_ref())))?;
                continue;
            }
            _ => {}
        }
        if let Some(exit) = wait(until, &interrupt, out.as_ref()) {
            return Ok(exit);
        }
        // A machine that slept does not catch up.
        until = (until + every).max(Instant::now());
        let look = machine.look()?;
        if look.traffic.is_none() && before.traffic.is_some() {
            // Counting has ended, such as by an offline CPU that the kernel removed: it begins anew.
            say(&look.missing);
            machine = Machine::new(Counting::By(None))?;
            before = machine.look()?;
            continue;
        }
        let view = View::new(&look, Some(&before));
        let mut all = findings(&view, &Limits::DEFAULT);
        let finding = all.swap_remove(0);
        let mut text = serde_json::to_vec(&line(&view, &finding)).map_err(io::Error::from)?;
        text.push(b'\n');
        match (lines.write(&text), &out) {
            (Err(_), Some(out)) if out.is_gone() => return Ok(out.end),
            (Err(error), _) if args.once => return Err(error.into()),
            (written, _) => lines.report(written.err()),
        }
        if args.once {
            return Ok(Exit::Done);
        }
        (before, found) = (look, Some(finding));
    }
}

/// Says in one line what cannot be told.
fn say(missing: &[String]) {
    if !missing.is_empty() {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "warning: {}", missing.join("; "));
    }
}

/// The file of the lines. It is opened for each line, so that another program may rename or remove it.
struct Lines<'p> {
    path: &'p Path,
    /// The last line was dropped.
    dropped: bool,
    /// A part of the last line was written.
    torn: bool,
}

impl Lines<'_> {
    /// Writes a line as a whole. After a part of a line, it begins a new one.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let line = [if self.torn && !line.is_empty() { &b"\n"[..] } else { b"" }, line].concat();
        let mut left = line.as_slice();
        let written = match is_standard(self.path) {
            true => to_end(&mut io::stdout(), &mut left).and_then(|()| io::stdout().flush()),
            false => OpenOptions::new()
                .append(true)
                .create(true)
                .open(self.path)
                .and_then(|mut file| to_end(&mut file, &mut left)),
        };
        self.torn = if left.is_empty() { false } else { self.torn || left.len() < line.len() };
        written.map_err(|error| match is_standard(self.path) {
            true => error,
            false => io::Error::new(error.kind(), format!("cannot write {}: {error}", self.path.display())),
        })
    }

    /// Says once that lines are dropped, until a line is written again.
    fn report(&mut self, error: Option<io::Error>) {
        if let Some(error) = error.as_ref().filter(|_| !self.dropped) {
            let failure = Failure::from(io::Error::new(error.kind(), error.to_string()));
            let _ = writeln!(io::stderr(), "{}; lines are dropped until it works again", failure.as_warning());
        }
        self.dropped = error.is_some();
    }
}

/// Writes all of `left`, and takes off what is written.
fn to_end(to: &mut impl io::Write, left: &mut &[u8]) -> io::Result<()> {
    while !left.is_empty() {
        match to.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *left = &left[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The machine's name.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(name.trim()).filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned()
}

/// The line of a view and its first finding.
fn line(view: &View, finding: &Finding) -> Line {
    let traffic = || view.traffic.iter().flatten();
    // A sum without parts is not measured.
    let sum = |of: &dyn Fn(&CpuTraffic) -> Option<f64>| traffic().filter_map(of).reduce(|sum, part| sum + part);
    let [refills, drains] = [0, 1].map(|way: usize| sum(&|cpu| cpu.rates()[way]));
    let wait_pct = sum(&|cpu| cpu.zone_lock_waits.as_ref().and_then(CpuWaits::pct));
    let zone = |zone: &super::view::Zone| Zone {
        zone: zone.name(),
        managed: zone.managed,
        free: zone.free,
        low: zone.low,
        held: zone.held,
        held_change: zone.held_change,
    };
    let cpus = view.zones.iter().map(|zone| zone.pagesets.len()).max().unwrap_or(0).max(1);
    let nodes: std::collections::BTreeSet<u32> = view.zones.iter().map(|zone| zone.node).collect();
    let kernel = &view.kernel;
    Line {
        schema: Line::SCHEMA.to_owned(),
        host: host(),
        kernel: kernel.release.clone(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        time_ns: view.time_ns,
        interval_ns: view.elapsed_ns,
        counted_by: view.counted_by.clone(),
        auto_tuning: kernel.auto_tuning.name().to_owned(),
        high_fraction: kernel.high_fraction,
        rules: kernel.rules.clone(),
        known: kernel.known,
        is_another: kernel.is_another,
        refill_pages_per_s: refills,
        drain_pages_per_s: drains,
        zone_lock_wait_ns_per_s: wait_pct.map(|pct| pct * 1e7),
        zones: view.zones.iter().map(zone).collect(),
        verdict: Verdict::from(finding),
        missing: view.missing.clone(),
    }
}
