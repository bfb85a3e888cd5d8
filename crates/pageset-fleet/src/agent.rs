//! The lines of an agent: of what they are made, and where they go.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use pageset_report::error::Failure;
use pageset_report::output::is_standard;
use pageset_trace::verdict::machine::Finding;

use crate::line::{Line, Verdict, Zone};
use crate::view::{CpuTraffic, CpuWaits, View};

/// The file of the lines. It is opened for each line, so that another program may rename or remove it.
#[derive(Debug)]
pub struct Lines<'p> {
    path: &'p Path,
    /// The last line was dropped.
    dropped: bool,
    /// A part of the last line was written.
    torn: bool,
}

impl<'p> Lines<'p> {
    /// Lines at the end of `path`; `-` is standard output.
    pub fn new(path: &'p Path) -> Self {
        Lines { path, dropped: false, torn: false }
    }

    /// Writes a line as a whole. After a part of a line, it begins a new one.
    ///
    /// # Errors
    /// The line is not written, or only a part of it.
    pub fn write(&mut self, line: &[u8]) -> io::Result<()> {
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
    pub fn report(&mut self, error: Option<io::Error>) {
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
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(name.trim()).filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned()
}

/// The line of a view and its first finding.
pub fn of_view(view: &View, finding: &Finding) -> Line {
    let traffic = || view.traffic.iter().flatten();
    // A sum without parts is not measured.
    let sum = |of: &dyn Fn(&CpuTraffic) -> Option<f64>| traffic().filter_map(of).reduce(|sum, part| sum + part);
    let [refills, drains] = [0, 1].map(|way: usize| sum(&|cpu| cpu.rates()[way]));
    let wait_pct = sum(&|cpu| cpu.zone_lock_waits.as_ref().and_then(CpuWaits::pct));
    let zone = |zone: &crate::view::Zone| Zone {
        zone: zone.name(),
        managed: zone.managed,
        free: zone.free,
        low: zone.low,
        held: zone.held,
        held_change: zone.held_change,
    };
    let cpus = view.zones.iter().map(|zone| zone.pagesets.len()).max().unwrap_or(0).max(1);
    let nodes: BTreeSet<u32> = view.zones.iter().map(|zone| zone.node).collect();
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
        recording: None,
        missing: view.missing.clone(),
    }
}
