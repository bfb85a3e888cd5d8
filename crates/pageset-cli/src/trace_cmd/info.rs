//! `pageset trace info`: what a recording contains.

use comfy_table::{Table, presets};
use pageset_trace::info::{Info, KINDS};
use pageset_trace::measure::warnings::Name;
use pageset_trace::{Facts, printable};

use super::Input;
use crate::columns::{Fit, grouped, numbers};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, JsonOption, WideOption, is_standard, write_json};

/// Show what a recording contains: the machine, the duration, events by kind and CPU, lost events, and the zones
///
/// Reads all events, so a damaged recording ends the command with exit code 4.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    json: JsonOption,

    #[command(flatten)]
    wide: WideOption,
}

pub(super) fn run(args: Args) -> Result<Exit, Failure> {
    let json = args.json.path()?;
    let trace = args.input.open(true)?;
    let info = Info::gather(&trace)?;
    if !json.is_some_and(is_standard) {
        output::print(&text(&info, Fit::new(&args.wide)))?;
    }
    match json {
        Some(path) => write_json(path, &[info], &Interrupt::at_once()?),
        None => Ok(Exit::Done),
    }
}

/// The column headings of the zones.
pub(super) const ZONE_HEADS: [&str; 12] =
    ["node", "zone", "at", "managed", "free", "min", "low", "high", "batch", "high_min", "high_max", "held"];

/// Which of them leave a narrow terminal first: the highest.
const ZONE_RANKS: [usize; 12] = [0, 0, 0, 1, 0, 0, 4, 5, 0, 2, 3, 0];

/// What the columns mean.
const LEGEND: &str = "zone_locked: blocks taken from the free lists; drain: blocks that pagesets returned to them;\n\
    decay: runs of the once-a-second work; reclaim: kswapd woken or asleep, direct reclaim begun;\n\
    bulk: bulk allocations, each of several pages; fork: new processes and threads;\n\
    state_change: a round of reclaim ended, a CPU or memory went offline or came online,\n    \
    a counter of another node's zone changed\n";

fn text(info: &Info, fit: Fit) -> String {
    let mut lines = Table::new();
    lines.load_preset(presets::NOTHING);
    let facts = &info.facts;
    let mut line = |name: &str, value: String| {
        lines.add_row([name.to_owned(), value]);
    };
    line("recording", format!("{} ({})", info.trace, info.form));
    if !facts.command.is_empty() {
        line("command", printable(&facts.command.join(" ")).into_owned());
    }
    if let Some(status) = facts.command_status {
        line("exit status", status.to_string());
    }
    line("kernel", facts.kernel_release.clone().unwrap_or_else(|| "unknown".to_owned()));
    line("machine", machine(facts));
    line("clock", facts.clock.clone());
    line("duration", format!("{:.3} s", info.duration_ns as f64 / 1e9));
    line("events", grouped(info.events));
    line("snapshots", info.snapshots.to_string());
    if facts.lists_emptied {
        line("pagesets", "emptied before recording".to_owned());
    }
    line("losses", losses(facts));

    let mut text = fit.prose(&answer(info)) + "\n";
    text += &fit.words(lines);
    text += "\nEvents by CPU\n";
    // On a narrow terminal the last kinds leave first; the CPU, the most frequent events and the sum stay.
    let ranks: Vec<usize> =
        (0..KINDS.len() + 2).map(|place| if place <= KINDS.len() { place.saturating_sub(3) } else { 0 }).collect();
    text += &fit.table(events_table(info), &ranks);
    text += &fit.prose(LEGEND);
    if !info.zones.is_empty() {
        text += "\nZones, in pages\n";
        text += &fit.table(zones_table(info), &ZONE_RANKS);
    }
    for warning in &info.warnings {
        text += &fit.prose(&format!("\nwarning: {warning}\n"));
    }
    text
}

/// What limits a replay, in one sentence.
fn answer(info: &Info) -> String {
    let names: Vec<&str> = info.warnings.iter().map(|warning| warning.name.text()).collect();
    match names.as_slice() {
        [] => "Complete: the recording has what a replay needs.\n".to_owned(),
        names if names.contains(&Name::NoZoneinfo.text()) => {
            "No replay is possible: the recording has no copy of /proc/zoneinfo; --zoneinfo FILE adds one.\n".to_owned()
        }
        [one] => format!("Limits of a replay: {one}; the warning below says how.\n"),
        names => format!("Limits of a replay: {}; the warnings below say how.\n", names.join(", ")),
    }
}

fn events_table(info: &Info) -> Table {
    let mut table = numbers(["CPU"].into_iter().chain(KINDS).chain(["total"]), 0..0);
    let mut totals = [0; KINDS.len()];
    let row = |name: String, counts: &[u64; KINDS.len()]| {
        let sum = counts.iter().sum();
        std::iter::once(name).chain(counts.iter().copied().chain([sum]).map(grouped)).collect::<Vec<_>>()
    };
    for (cpu, counts) in &info.counts {
        let counts = KINDS.map(|kind| counts.get(kind).copied().unwrap_or(0));
        table.add_row(row(cpu.to_string(), &counts));
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    if info.counts.len() != 1 {
        table.add_row(row("all".to_owned(), &totals));
    }
    table
}

fn zones_table(info: &Info) -> Table {
    let mut table = numbers(ZONE_HEADS.into_iter(), 1..3);
    for zone in &info.zones {
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
        return "unknown".to_owned();
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
