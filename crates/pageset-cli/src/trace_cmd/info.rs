//! `pageset trace info`: what a recording holds.

use std::collections::BTreeMap;
use std::io::Write as _;

use comfy_table::{Table, presets};
use pageset_trace::procfs::{ZoneSection, Zoneinfo};
use pageset_trace::{Event, Facts, Form, Kind, Snapshots, Trace};
use serde::Serialize;

use super::Input;
use crate::columns::{grouped, numbers, trimmed};
use crate::error::{Exit, Failure};

/// Show what a recording holds: the machine, the time, events by kind and CPU, losses, and the zones
///
/// All events are read, so a damaged recording is found (exit code 4).
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,

    /// JSON of the schema pageset.trace-info/1, in base units: ns, bytes, pages
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<Exit, Failure> {
    let trace = args.input.open(true)?;
    let info = Info::gather(&trace)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &info).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(info.text().as_bytes())?;
    }
    Ok(Exit::Done)
}

/// What is shown, as it is in the JSON.
#[derive(Serialize)]
struct Info {
    schema: &'static str,
    trace: String,
    form: &'static str,
    facts: Facts,
    events: u64,
    first_ns: u64,
    last_ns: u64,
    duration_ns: u64,
    /// By CPU; the counts are in the order of [`KINDS`].
    #[serde(serialize_with = "by_name")]
    counts: BTreeMap<u32, [u64; KINDS.len()]>,
    snapshots: usize,
    zones: Vec<Zone>,
    warnings: Vec<String>,
}

/// The kinds of events, as they head the columns.
pub(super) const KINDS: [&str; 13] = [
    "alloc",
    "failed",
    "free",
    "batched",
    "zone_locked",
    "drain",
    "extfrag",
    "decay",
    "reclaim",
    "marker",
    "bulk",
    "state_change",
    "fork",
];

/// What heads the columns of the zones.
pub(super) const ZONE_HEADS: [&str; 12] =
    ["node", "zone", "at", "managed", "free", "min", "low", "high", "batch", "high_min", "high_max", "held"];

/// A kind's place in [`KINDS`].
fn place(kind: &Kind) -> usize {
    match kind {
        Kind::Alloc { pfn: Some(_), .. } => 0,
        Kind::Alloc { pfn: None, .. } => 1,
        Kind::Free { .. } => 2,
        Kind::FreeBatched { .. } => 3,
        Kind::ZoneLocked { .. } => 4,
        Kind::Drain { .. } => 5,
        Kind::ExtFrag { .. } => 6,
        Kind::VmstatWork => 7,
        Kind::KswapdWake | Kind::KswapdSleep | Kind::DirectReclaim => 8,
        Kind::SnapshotBegin(_) | Kind::SnapshotEnd(_) => 9,
        Kind::BulkAlloc { .. } => 10,
        Kind::StateChange(_) => 11,
        Kind::Fork { .. } => 12,
    }
}

/// What the columns mean.
const LEGEND: &str = "zone_locked: blocks taken from the free lists; drain: blocks that pagesets gave back to them;\n\
    decay: runs of the once-a-second work; reclaim: kswapd woken or asleep, direct reclaim begun;\n\
    bulk: bulk allocations, each of several pages; fork: processes and threads made;\n\
    state_change: a round of reclaim ended, a CPU or memory went off-line or came on-line";

fn by_name<S: serde::Serializer>(counts: &BTreeMap<u32, [u64; KINDS.len()]>, serializer: S) -> Result<S::Ok, S::Error> {
    let named = counts.iter().map(|(cpu, counts)| {
        let counts: BTreeMap<&str, u64> = KINDS.into_iter().zip(counts.iter().copied()).collect();
        (cpu, counts)
    });
    serializer.collect_map(named)
}

/// A zone at one end of the recording; amounts in pages.
#[derive(Serialize)]
struct Zone {
    node: u32,
    zone: String,
    /// The snapshot's tag.
    at: String,
    managed: u64,
    free: u64,
    min: u64,
    low: u64,
    high: u64,
    batch: u64,
    high_min: Option<u64>,
    high_max: Option<u64>,
    /// On the lists of all CPUs.
    held: u64,
}

impl Zone {
    fn of(zone: &ZoneSection, at: &str) -> Zone {
        // batch and the bounds are a zone's, though they are printed with each CPU.
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
    fn gather(trace: &Trace) -> Result<Info, Failure> {
        let mut counts = BTreeMap::<u32, [u64; KINDS.len()]>::new();
        let (mut events, mut first_ns, mut last_ns) = (0, 0, 0);
        for event in trace.events()? {
            let Event { time_ns, cpu, kind, .. } = event?;
            counts.entry(cpu.0).or_default()[place(&kind)] += 1;
            if events == 0 {
                first_ns = time_ns;
            }
            last_ns = time_ns;
            events += 1;
        }
        let facts = trace.facts().clone();
        Ok(Info {
            schema: "pageset.trace-info/1",
            trace: trace.name().to_owned(),
            form: match trace.form() {
                Form::Own => "pstrace",
                Form::Text => "text",
                Form::Perf => "perf.data",
                _ => "other",
            },
            events,
            first_ns,
            last_ns,
            duration_ns: last_ns - first_ns,
            counts,
            snapshots: trace.snapshots().texts.len(),
            zones: zones(trace.snapshots()),
            warnings: warnings(&facts, trace.snapshots()),
            facts,
        })
    }

    fn text(&self) -> String {
        let mut lines = Table::new();
        lines.load_preset(presets::NOTHING);
        let facts = &self.facts;
        let mut line = |name: &str, value: String| {
            lines.add_row([name.to_owned(), value]);
        };
        line("recording", format!("{} ({})", self.trace, self.form));
        if !facts.command.is_empty() {
            line("command", facts.command.join(" "));
        }
        line("kernel", facts.kernel_release.clone().unwrap_or_else(|| "unknown".to_owned()));
        line("machine", machine(facts));
        line("clock", facts.clock.clone());
        line("duration", format!("{:.3} s", self.duration_ns as f64 / 1e9));
        line("events", grouped(self.events));
        line("snapshots", self.snapshots.to_string());
        if facts.lists_emptied {
            line("pagesets", "emptied before recording".to_owned());
        }
        line("losses", losses(facts));

        let mut text = trimmed(&lines);
        text += "\nEvents by CPU\n";
        text += &trimmed(&self.events_table());
        text += LEGEND;
        text += "\n";
        if !self.zones.is_empty() {
            text += "\nZones, in pages\n";
            text += &trimmed(&self.zones_table());
        }
        for warning in &self.warnings {
            text += &format!("\nwarning: {warning}\n");
        }
        text
    }

    fn events_table(&self) -> Table {
        let mut table = numbers(["CPU"].into_iter().chain(KINDS).chain(["total"]), 0..0);
        let mut totals = [0; KINDS.len()];
        let row = |name: String, counts: &[u64; KINDS.len()]| {
            let sum = counts.iter().sum();
            std::iter::once(name).chain(counts.iter().copied().chain([sum]).map(grouped)).collect::<Vec<_>>()
        };
        for (cpu, counts) in &self.counts {
            table.add_row(row(cpu.to_string(), counts));
            totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
        if self.counts.len() != 1 {
            table.add_row(row("all".to_owned(), &totals));
        }
        table
    }

    fn zones_table(&self) -> Table {
        let mut table = numbers(ZONE_HEADS.into_iter(), 1..3);
        for zone in &self.zones {
            let bound = |bound: Option<u64>| bound.map_or("-".to_owned(), grouped);
            table.add_row([
                zone.node.to_string(),
                zone.zone.clone(),
                zone.at.clone(),
                grouped(zone.managed),
                grouped(zone.free),
                grouped(zone.min),
                grouped(zone.low),
                grouped(zone.high),
                grouped(zone.batch),
                bound(zone.high_min),
                bound(zone.high_max),
                grouped(zone.held),
            ]);
        }
        table
    }
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

fn warnings(facts: &Facts, snapshots: &Snapshots) -> Vec<String> {
    let mut warnings = Vec::new();
    if facts.lost_events() {
        warnings.push(
            "events were lost: a replay of this recording cannot be exact; record with a larger buffer".to_owned(),
        );
    }
    if facts.after_full > 0 {
        warnings.push(format!(
            "a ring buffer was full: the recording ends there, {} events came later; record with a larger --buffer",
            grouped(facts.after_full)
        ));
    }
    if snapshots.zoneinfo.is_empty() {
        warnings.push("no zoneinfo: this cannot be replayed; give a copy of /proc/zoneinfo with --zoneinfo".to_owned());
    }
    warnings
}

fn machine(facts: &Facts) -> String {
    let mut parts = Vec::new();
    let mut count = |number: u32, name: &str| {
        if number > 0 {
            parts.push(format!("{number} {name}{}", if number == 1 { "" } else { "s" }));
        }
    };
    count(facts.cpus, "CPU");
    count(facts.nodes, "node");
    parts.push(format!("pages of {} bytes", facts.page_size));
    parts.push(format!("pageblocks of order {}", facts.pageblock_order));
    if let Some(thp) = &facts.thp_enabled {
        parts.push(format!("transparent huge pages: {thp}"));
    }
    if let Some(cache) = facts.caches.iter().max_by_key(|cache| cache.bytes) {
        parts.push(format!("last-level cache of {} KiB for {} CPUs", cache.bytes >> 10, cache.sharers));
    }
    if let Some(scale) = facts.batch_scale_max {
        parts.push(format!("batch scale up to {scale}"));
    }
    if let Some(fraction) = facts.high_fraction.filter(|&fraction| fraction != 0) {
        parts.push(format!("percpu_pagelist_high_fraction {fraction}"));
    }
    parts.join(", ")
}

fn losses(facts: &Facts) -> String {
    if facts.loss.is_empty() {
        return "none known of".to_owned();
    }
    let lost: Vec<_> = facts.loss.iter().filter(|loss| loss.any()).collect();
    if lost.is_empty() {
        return "none".to_owned();
    }
    let of = |loss: &&pageset_trace::Loss| {
        let amounts = [
            (loss.overrun, "overwritten"),
            (loss.commit_overrun, "lost on interruption"),
            (loss.dropped, "dropped"),
            (loss.missed_pages, "buffer pages with gaps"),
        ];
        let amounts = amounts.into_iter().filter(|a| a.0 > 0).map(|(count, name)| format!("{} {name}", grouped(count)));
        format!("CPU {}: {}", loss.cpu, amounts.collect::<Vec<_>>().join(", "))
    };
    lost.iter().map(of).collect::<Vec<_>>().join("; ")
}
