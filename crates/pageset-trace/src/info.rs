//! The contents of a recording: the result of `pageset trace info`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::coverage::Coverage;
pub use crate::coverage::KINDS;
use crate::error::TraceError;
use crate::event::Event;
use crate::facts::Facts;
use crate::measure::of_recipe;
use crate::measure::warnings::{Name, Warning};
use crate::number::grouped;
use crate::procfs::{ZoneSection, Zoneinfo};
use crate::snapshots::Snapshots;
use crate::trace::Trace;

schema!("pageset.trace-info/1");

/// The contents of a recording in base units: ns, bytes, pages.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Info {
    /// `pageset.trace-info/1`.
    pub schema: Schema,
    /// The recording's name.
    pub trace: String,
    /// The recording's form: `pstrace`, `text`, `perf.data`, `trace.dat`, `perf script` or `ftrace text`.
    pub form: String,
    /// Facts about the recorded machine and the recording.
    pub facts: Facts,
    /// Events in all.
    pub events: u64,
    /// The time of the first event, by the recording's clock. Unit: nanoseconds.
    pub first_ns: u64,
    /// The time of the last event, by the recording's clock. Unit: nanoseconds.
    pub last_ns: u64,
    /// Nanoseconds from the first event to the last.
    pub duration_ns: u64,
    /// Events by CPU and by kind, one of [`KINDS`].
    pub counts: BTreeMap<u32, BTreeMap<String, u64>>,
    /// The number of snapshots of /proc/zoneinfo in the recording.
    #[schemars(extend("bad" = "Fewer than two: a replay does not know what pagesets held.",
        "todo" = "Use `pageset record`, which takes snapshots."))]
    pub snapshots: usize,
    /// The populated zones at the recording's start and end.
    pub zones: Vec<Zone>,
    /// Warnings about a replay.
    pub warnings: Vec<Warning>,
}

/// A zone at the start or end of the recording; amounts in pages.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// The snapshot's tag: `init` before the recorded command, `fini` after it.
    pub at: String,
    /// Managed pages of the zone.
    pub managed: u64,
    /// Pages on free lists.
    pub free: u64,
    /// The min watermark.
    pub min: u64,
    /// The low watermark.
    pub low: u64,
    /// The high watermark.
    pub high: u64,
    /// The pages that an unscaled refill or drain moves.
    pub batch: u64,
    /// The lower bound of `high`, if the kernel prints it.
    pub high_min: Option<u64>,
    /// The upper bound of `high`, if the kernel prints it.
    pub high_max: Option<u64>,
    /// Pages in the pagesets of all CPUs.
    pub held: u64,
}

impl Zone {
    fn of(zone: &ZoneSection, at: &str) -> Zone {
        // batch and the bounds belong to the zone, although the kernel prints them for each CPU.
        let first = zone.pagesets.first().copied().unwrap_or_default();
        Zone {
            node: zone.node,
            zone: zone.name.clone(),
            at: at.to_owned(),
            managed: zone.managed,
            free: zone.free,
            min: zone.min,
            low: zone.low,
            high: zone.high,
            batch: first.batch,
            high_min: first.high_min,
            high_max: first.high_max,
            held: zone.pagesets.iter().fold(0, |sum: u64, set| sum.saturating_add(set.count)),
        }
    }
}

impl Info {
    /// Reads all events and collects the contents.
    pub fn gather(trace: &Trace) -> Result<Info, TraceError> {
        let mut coverage = Coverage::default();
        let (mut events, mut first_ns, mut last_ns) = (0, 0, 0);
        for event in trace.events()? {
            let event = event?;
            coverage.event(&event);
            let Event { time_ns, .. } = event;
            if events == 0 {
                first_ns = time_ns;
            }
            last_ns = time_ns;
            events += 1;
        }
        let facts = trace.facts().clone();
        Ok(Info {
            schema: Schema::V1,
            trace: trace.name().to_owned(),
            form: trace.form().name().to_owned(),
            events,
            first_ns,
            last_ns,
            duration_ns: last_ns - first_ns,
            warnings: warnings(&facts, trace.snapshots(), &coverage),
            counts: coverage.counts.into_iter().map(|(cpu, counts)| (cpu, by_name(counts))).collect(),
            snapshots: trace.snapshots().texts.len(),
            zones: zones(trace.snapshots()),
            facts,
        })
    }
}

fn by_name(counts: [u64; KINDS.len()]) -> BTreeMap<String, u64> {
    KINDS.into_iter().map(str::to_owned).zip(counts).collect()
}

/// The populated zones at the recording's start and end.
fn zones(snapshots: &Snapshots) -> Vec<Zone> {
    let Some((start, first)) = snapshots.start() else { return Vec::new() };
    let end = snapshots.end().filter(|(end, _)| end != start);
    let zone = |info: &Zoneinfo, node, name: &str, at: &str| info.zone(node, name).map(|zone| Zone::of(zone, at));
    let mut rows = Vec::new();
    for section in first.zones.iter().filter(|zone| zone.managed > 0) {
        rows.push(Zone::of(section, start));
        rows.extend(end.and_then(|(at, last)| zone(last, section.node, &section.name, at)));
    }
    rows
}

fn warnings(facts: &Facts, snapshots: &Snapshots, coverage: &Coverage) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if facts.lost_events() {
        warnings.push(Warning::new(
            Name::EventsLost,
            "events were lost: a replay of this recording cannot be exact; record with a larger buffer",
        ));
    }
    if facts.after_full > 0 {
        warnings.push(Warning::new(
            Name::BufferFull,
            format!(
                "a ring buffer was full: the recording ends there, {} events came later; record with a larger --buffer",
                grouped(facts.after_full)
            ),
        ));
    }
    if snapshots.zoneinfo.is_empty() {
        warnings.push(Warning::new(
            Name::NoZoneinfo,
            "no zoneinfo: the counts above are right, but nothing can be replayed or advised; give a copy of \
             /proc/zoneinfo from the recording's start with --zoneinfo",
        ));
    }
    warnings.extend(of_recipe(facts, snapshots, coverage));
    warnings
}
