//! Saved looks: lines of `top --json`, recordings, and copies of `/proc/zoneinfo`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use pageset_fleet::largest::extra_pages;
use pageset_record::live::holds::{HoldCounter, LargerLists, Move, Sums};
use pageset_record::live::{ORDERS, Traffic};
use pageset_trace::Kind;
use pageset_trace::trace::{START_BYTES, is_recording};

use super::look::{self, Look, When};
use super::view::{SCHEMA, View};
use crate::error::{Exit, Failure};
use crate::recordings;

/// The largest file of saved looks: half an hour of looks at 192 CPUs, one a second. A guess. Unit: bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Which snapshots of a recording are looks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Apart {
    /// Each snapshot that is at least this time after the look before it.
    Least(Duration),
    /// The last one, with the changes since the first one.
    Whole,
}

/// The looks of all files, in the order of the files.
///
/// # Errors
/// A file that cannot be read or is of no known form, with its line if it has one.
pub(super) fn views(files: &[impl AsRef<Path>], apart: Apart) -> Result<Vec<View>, Failure> {
    let mut views = Vec::new();
    // Changes between copies of zoneinfo are changes between files.
    let mut before: Option<Look> = None;
    for path in files.iter().map(AsRef::as_ref) {
        let start = start(path)?;
        if is_recording(&start) {
            recording(path, apart, &mut views)?;
        } else if start.trim_ascii_start().starts_with(b"{") {
            lines(path, &mut views)?;
        } else {
            let look = look::saved(path)?;
            views.push(View::new(&look, before.as_ref()));
            before = Some(look);
        }
    }
    Ok(views)
}

/// The first bytes of a file.
fn start(path: &Path) -> Result<Vec<u8>, Failure> {
    if recordings::is_demo(path) {
        return Ok(recordings::DEMO_BYTES[..START_BYTES].to_vec());
    }
    let unreadable = |error| Failure::new(Exit::Unreadable, format!("cannot read {}: {error}", path.display()));
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(START_BYTES as u64).read_to_end(&mut start)).map_err(unreadable)?;
    Ok(start)
}

/// Lines of `top --json`.
fn lines(path: &Path, views: &mut Vec<View>) -> Result<(), Failure> {
    let name = path.display();
    let unreadable = |error| Failure::new(Exit::Unreadable, format!("cannot read {name}: {error}"));
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > MAX_BYTES {
        return Err(Failure::new(Exit::Damaged, format!("cannot show {name}: {bytes} bytes, of at most {MAX_BYTES}"))
            .help("use a part of the file, such as its last lines: tail -n 1000"));
    }
    let text = String::from_utf8(fs::read(path).map_err(unreadable)?).map_err(|_| {
        Failure::new(Exit::Damaged, format!("{name}: this is no text")).help("use the output of `pageset top --json`")
    })?;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let damaged = |what: String| {
            Failure::new(Exit::Damaged, format!("{name}: line {}: {what}", number + 1))
                .help(format!("use the output of `pageset top --json`, a look of {SCHEMA} in each line"))
        };
        let mut view: View = serde_json::from_str(line)
            .map_err(|error| damaged(format!("not a look: {}", error.to_string().replace(" at line 1 ", " at "))))?;
        if view.schema != SCHEMA {
            return Err(damaged(format!("the schema is `{}`; allowed: {SCHEMA}", view.schema)));
        }
        if let Some(traffic) = &mut view.traffic {
            traffic.sort_by_key(|traffic| traffic.cpu);
        }
        views.push(view);
    }
    Ok(())
}

/// The looks at a recording.
fn recording(path: &Path, apart: Apart, views: &mut Vec<View>) -> Result<(), Failure> {
    let trace = recordings::open(path)?;
    let mut totals: BTreeMap<u32, Traffic> = BTreeMap::new();
    let (mut counters, mut sums): (BTreeMap<u32, HoldCounter>, Sums) = Default::default();
    let first = trace.snapshots().start();
    let extra = first.map_or(0, |(_, zoneinfo)| extra_pages(&zoneinfo.zones, &trace.facts().cpu_nodes));
    let mut larger: BTreeMap<u32, LargerLists> = BTreeMap::new();
    let mut before: Option<Look> = None;
    for event in trace.events()? {
        let event = event?;
        let traffic = totals.entry(event.cpu.0).or_insert(Traffic { cpu: event.cpu.0, ..Traffic::default() });
        let block = match &event.kind {
            Kind::ZoneLocked { order, .. } => Some((Move::Refill(order.get().into()), order)),
            Kind::Drain { order, .. } => Some((Move::Drain, order)),
            _ => None,
        };
        if let Some((block, order)) = block {
            if ORDERS.contains(&order.get().into()) {
                let larger = larger.entry(event.cpu.0).or_insert(LargerLists::new(extra));
                larger.pass(block, order.get().into());
                traffic.passed_largest = larger.passed;
            }
            counters.entry(event.cpu.0).or_default().count(block, order.get().into(), event.time_ns);
        }
        match &event.kind {
            Kind::ZoneLocked { order, .. } if ORDERS.contains(&u32::from(order.get())) => {
                traffic.refilled(order.get().into(), 1);
            }
            Kind::Drain { order, .. } if ORDERS.contains(&u32::from(order.get())) => {
                traffic.drained(order.get().into(), 1);
            }
            Kind::ExtFrag { .. } => traffic.fallbacks += 1,
            Kind::SnapshotEnd(tag) => {
                let Some(zoneinfo) = trace.snapshots().zoneinfo_of(tag) else { continue };
                let since = Duration::from_nanos(event.time_ns);
                let last = before.as_ref().and_then(|look| look.when);
                if let (Apart::Least(apart), Some(last)) = (apart, last)
                    && since.saturating_sub(last.since) < apart
                {
                    continue;
                }
                for set in zoneinfo.zones.iter().flat_map(|zone| &zone.pagesets) {
                    totals.entry(set.cpu).or_insert(Traffic { cpu: set.cpu, ..Traffic::default() });
                }
                let gaps: Vec<_> = totals.keys().map(|cpu| (*cpu, counters.entry(*cpu).or_default().gaps)).collect();
                totals.values_mut().zip(sums.add(&gaps)).for_each(|(traffic, holds)| traffic.holds = holds);
                let facts = trace.facts();
                let look = Look {
                    source: trace.name().to_owned(),
                    when: Some(When { unix_ns: None, since }),
                    zoneinfo: zoneinfo.clone(),
                    buddyinfo: None,
                    vmstat: BTreeMap::new(),
                    release: facts.kernel_release.clone(),
                    version: facts.kernel_version.clone(),
                    high_fraction: facts.high_fraction,
                    counted: false,
                    counts_holds: true,
                    traffic: Some(totals.values().copied().collect()),
                    wait_times: None,
                    processes: None,
                    sites: None,
                    cpu_nodes: facts.cpu_nodes.clone(),
                    caches: facts.caches.clone(),
                    batch_scale_max: facts.batch_scale_max,
                    missing: vec!["recordings have no waits for zone locks".to_owned()],
                };
                let view = View::new(&look, before.as_ref());
                match apart {
                    Apart::Whole if before.is_some() => {
                        views.pop();
                        views.push(view);
                    }
                    _ => {
                        views.push(view);
                        before = Some(look);
                    }
                }
            }
            _ => {}
        }
    }
    if before.is_none() {
        // A perf.data has the zoneinfo of its start, and no mark of it among the events.
        let message = format!("cannot show {}: the recording has no snapshots with a time", path.display());
        return Err(Failure::new(Exit::Damaged, message).help("use a recording of `pageset record`"));
    }
    Ok(())
}
