//! Warnings about recordings of other tools: what their recipe left out, and the figures that suffer.

use std::collections::BTreeSet;

use pageset::policy::Release;

use super::warnings::{Name, Warning};
use crate::coverage::Coverage;
use crate::facts::{Facts, Recipe};
use crate::procfs::Zoneinfo;
use crate::replay::setting::{BOUNDS, has_bounds};
use crate::snapshots::Snapshots;
use crate::tracepoint::decode::{TRACEPOINTS, Tracepoint, VMSTAT_WORK};

/// The events from which on the absence of a kind or a CPU means something. A guess: a hundred refills or drains happen
/// in fewer.
const EVENTS_MIN: u64 = 500;

/// The events from which on one process for all of them means something: a CPU that is switched on is in an interrupt or
/// a kernel thread before. A guess.
const PROCESS_EVENTS_MIN: u64 = 100;

/// Whether the tracepoint was recorded, as far as the file says.
pub(super) fn was_recorded(facts: &Facts, name: &str) -> bool {
    let events = facts.recipe.as_ref().and_then(|recipe| recipe.events.as_ref());
    events.is_none_or(|events| events.iter().any(|event| event == name))
}

/// The warnings about a recording of another tool; none for a recording of the recorder.
pub(crate) fn of_recipe(facts: &Facts, snapshots: &Snapshots, coverage: &Coverage) -> Vec<Warning> {
    let Some(recipe) = &facts.recipe else { return Vec::new() };
    let mut all = Vec::new();
    let info = snapshots.start().map(|(_, info)| info);
    let other = info.and_then(|info| zoneinfo(facts, recipe, info, coverage));
    let listed = info.filter(|_| other.is_none()).map_or(BTreeSet::new(), cpus_of);
    all.extend(other);
    all.extend(events(facts, recipe, coverage));
    // Some processes run on some CPUs.
    all.extend(processes(recipe, coverage).or_else(|| cpus(facts, recipe, &listed, coverage)));
    if recipe.call_graphs {
        all.push(Warning::new(
            Name::CallGraphs,
            "the events have call graphs: each one takes longer, and the recorder writes ten times as much, so its own \
             pages are a large part of the traffic; record without -g",
        ));
    }
    if recipe.groups {
        all.push(Warning::new(
            Name::EventGroups,
            "the events were recorded as a group: perf starts and stops its members together, and drops them together \
             if one finds no room; record them without { }",
        ));
    }
    if recipe.cut {
        all.push(Warning::new(
            Name::CutEnd,
            "the text ends in the middle of an event, which is left out: the file was cut, or its writer still runs",
        ));
    }
    all.extend(clock(facts));
    all
}

/// The warning about tracepoints that were not recorded, or that never occurred where that is unlikely.
fn events(facts: &Facts, recipe: &Recipe, coverage: &Coverage) -> Option<Warning> {
    let without = |point: &Tracepoint| point.without.unwrap_or("nothing can be replayed");
    let all = || TRACEPOINTS.iter().chain([&VMSTAT_WORK]);
    let listed = |points: Vec<&Tracepoint>| {
        let mut parts: Vec<(&str, Vec<&str>)> = Vec::new();
        for point in points {
            match parts.iter_mut().find(|(reason, _)| *reason == without(point)) {
                Some((_, names)) => names.push(point.name),
                None => parts.push((without(point), vec![point.name])),
            }
        }
        parts.iter().map(|(reason, names)| format!("{} ({reason})", names.join(", "))).collect::<Vec<_>>().join("; ")
    };
    let missing: Vec<_> = all().filter(|point| !was_recorded(facts, point.name)).collect();
    let not_recorded = (!missing.is_empty()).then(|| format!("not recorded: {}", listed(missing)));
    // Every busy machine frees in batches, refills and drains.
    let usual = [
        ("mm_page_free_batched", "batched"),
        ("mm_page_alloc_zone_locked", "zone_locked"),
        ("mm_page_pcpu_drain", "drain"),
    ];
    // A perf.data lists its events. A trace.dat may describe more than it recorded, and a text describes none.
    let unsure = recipe.tool != "perf record" && coverage.events() >= EVENTS_MIN;
    let absent = |point: &&Tracepoint| {
        let never = usual.iter().any(|(name, kind)| *name == point.name && coverage.of(kind) == 0);
        unsure && never && was_recorded(facts, point.name)
    };
    let absent: Vec<_> = all().filter(absent).collect();
    let perhaps = (!absent.is_empty())
        .then(|| format!("there is none of these events; if they were not recorded: {}", listed(absent)));
    let texts: Vec<String> = [not_recorded, perhaps].into_iter().flatten().collect();
    (!texts.is_empty()).then(|| Warning::new(Name::EventsMissing, texts.join(". ")))
}

/// The CPUs with pagesets.
fn cpus_of(info: &Zoneinfo) -> BTreeSet<u32> {
    info.zones.iter().flat_map(|zone| &zone.pagesets).map(|set| set.cpu).collect()
}

/// The warning about CPUs that were not recorded, or that have no event, though the zoneinfo may list them.
fn cpus(facts: &Facts, recipe: &Recipe, listed_in: &BTreeSet<u32>, coverage: &Coverage) -> Option<Warning> {
    let listed = |cpus: &[u32]| {
        let numbers: Vec<String> = cpus.iter().map(u32::to_string).collect();
        format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, numbers.join(", "))
    };
    let text = if let Some(only) = &recipe.cpus {
        let of = if facts.cpus > 0 { format!(" of {}", facts.cpus) } else { String::new() };
        format!("only {}{of} was recorded", listed(only))
    } else {
        let all: BTreeSet<u32> = (0..facts.cpus).chain(listed_in.iter().copied()).collect();
        let idle: Vec<u32> = all.into_iter().filter(|cpu| !coverage.counts.contains_key(cpu)).collect();
        if idle.is_empty() || coverage.events() < EVENTS_MIN {
            return None;
        }
        format!("no event is of {}: not recorded, or idle", listed(&idle))
    };
    let remedy = "pages that other CPUs allocate or free are missing, so refills and drains are right only of CPUs whose \
                  pages stay with them; record all CPUs";
    Some(Warning::new(Name::CpusMissing, format!("{text}; {remedy}")))
}

/// The warning about a zoneinfo of another machine or of another kernel.
fn zoneinfo(facts: &Facts, recipe: &Recipe, info: &Zoneinfo, coverage: &Coverage) -> Option<Warning> {
    let listed = cpus_of(info);
    let lacks = coverage.counts.keys().find(|cpu| !listed.contains(cpu));
    let release = facts.kernel_release.as_deref().and_then(Release::parse);
    let bounds = release.map(|release| (release.major, release.minor) >= BOUNDS);
    let what = if let Some(cpu) = lacks {
        format!("lacks CPU {cpu}, which has events")
    } else if recipe.tool != "text" && facts.cpus > 0 && listed.len() > facts.cpus as usize {
        format!("has {} CPUs, and the recording {}", listed.len(), facts.cpus)
    } else if bounds == Some(true) && !has_bounds(info) {
        let release = facts.kernel_release.as_deref().unwrap_or("this one");
        format!("does not print high_min, as earlier kernels than {release} do")
    } else {
        return None;
    };
    Some(Warning::new(
        Name::OtherZoneinfo,
        format!(
            "the zoneinfo {what}: it is of another machine or kernel, so the sizes of zones and lists are wrong, and with \
             them every replay and all advice; the counts of the kernel's own events stay right"
        ),
    ))
}

/// The warning about a recording of some processes.
fn processes(recipe: &Recipe, coverage: &Coverage) -> Option<Warning> {
    let only = coverage.only_process().filter(|_| coverage.events() >= PROCESS_EVENTS_MIN);
    let what = match only {
        _ if recipe.some_processes => "only some processes were recorded".to_owned(),
        Some(process) => format!("all events are of process {process}, so only it seems to have been recorded"),
        None => return None,
    };
    Some(Warning::new(
        Name::SomeProcesses,
        format!(
            "{what}: other processes and interrupts use the same pagesets, so refills and drains are wrong by an unknown \
             amount; record the whole machine, with `perf record -a` or `trace-cmd record` without -F and -P"
        ),
    ))
}

/// The warning about clocks that do not tell the time, or not the same on all CPUs.
fn clock(facts: &Facts) -> Option<Warning> {
    let text = match facts.clock.as_str() {
        clock @ ("counter" | "x86-tsc" | "ppc-tb" | "uptime") => format!(
            "the clock `{clock}` counts events or cycles, not time: durations, rates and what advice derives from them are \
             wrong; record with the clock mono"
        ),
        "local" if facts.cpus > 1 => {
            "the clock `local` can differ among CPUs, so events of different CPUs may be in the \
                                      wrong order; record with the clock mono"
                .to_owned()
        }
        _ => return None,
    };
    Some(Warning::new(Name::OtherClock, text))
}
