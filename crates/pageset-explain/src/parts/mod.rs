//! What each kind of text says, and the answer from all of them.

mod blocks;
mod events;
mod failure;
mod held;
mod notices;
mod tables;
mod waits;
mod zones;

use pageset_trace::number::grouped;

use crate::read::Texts;
use crate::read::mem_info::Report;
use crate::read::request::Class;
use crate::result::{Explanation, Finding, SCHEMA, Step, Unknown};
use crate::zone::{Blocks, Unit, Zone};
use crate::{lists, marks, result};

/// What one kind of text says.
#[derive(Debug, Default)]
struct Part {
    /// Parts of the answer, the most important first. Each is a sentence without its full stop.
    clauses: Vec<String>,
    findings: Vec<Finding>,
    next: Vec<Step>,
}

impl Part {
    fn finding(&mut self, name: &str, text: impl Into<String>) {
        self.findings.push(Finding { name: name.to_owned(), text: text.into() });
    }

    fn step(&mut self, what: impl Into<String>, command: &str) {
        let command = (!command.is_empty()).then(|| command.to_owned());
        self.next.push(Step { what: what.into(), command });
    }

    fn add(&mut self, other: Part) {
        self.clauses.extend(other.clauses);
        self.findings.extend(other.findings);
        for step in other.next {
            if !self.next.contains(&step) {
                self.next.push(step);
            }
        }
    }
}

/// The answer from all texts. `None` if no line is of a known kind.
pub(crate) fn explain(texts: &Texts) -> Option<Explanation> {
    let has = |report: &&Report| !report.zones.is_empty();
    let fails = |report: &&Report| has(report) && !report.requests.is_empty();
    let reports = &texts.reports;
    // The end of a report may have free blocks only.
    let marks = |report: &&Report| report.zones.iter().any(|zone| zone.kib("min").is_some());
    let asks = |report: &&Report| !report.requests.is_empty();
    let report =
        reports.iter().find(fails).or_else(|| reports.iter().find(marks)).or_else(|| reports.iter().find(asks));
    let report = report.or(reports.first());
    let release = report.and_then(|report| report.release.as_deref());
    let release = release.or_else(|| reports.iter().find_map(|report| report.release.as_deref()));
    let (mut log_zones, page_kib, page_shown) = report.map_or((Vec::new(), 4, false), Zone::all_of);
    let mut zones = zones_of(texts);
    let page_kib = match texts.rows.pageblock_order {
        // A pageblock is a huge page: 2 MiB of 4 KiB, 32 MiB of 16 KiB, 512 MiB of 64 KiB.
        Some(13) if !page_shown => 64,
        Some(11) if !page_shown => 16,
        _ => page_kib,
    };
    // Free blocks from buddyinfo fit a log that lacks its own.
    for zone in log_zones.iter_mut().filter(|zone| zone.blocks.is_empty()) {
        let other = zones.iter().find(|other| other.name == zone.name && other.node == zone.node);
        zone.blocks = other.map(|other| other.blocks.clone()).unwrap_or_default();
    }
    let fraction = ["percpu_pagelist_high_fraction", "percpu_pagelist_fraction"];
    let fraction = fraction.iter().find_map(|name| texts.rows.settings.get(*name).copied());

    let mut all = Part::default();
    let mut request = None;
    let is_group = notices::is_group(texts, report);
    all.add(notices::group(texts, report, is_group));
    if let Some(report) = report.filter(|report| !report.is_empty() && !is_group) {
        request = report.requests.first();
        let machine = failure::Machine { page_kib, page_shown, release, is_whole: report.is_whole() };
        all.add(failure::part(report, reports, &log_zones, &machine));
    }
    if zones.iter().any(|zone| zone.min.is_some() || !zone.pagesets.is_empty()) {
        all.add(zones::part(&zones, &log_zones, page_kib));
    }
    let with_lists = if zones.iter().any(|zone| !zone.pagesets.is_empty()) { &zones } else { &log_zones };
    let mut auto_tuning = None;
    if with_lists.iter().any(|zone| !zone.pagesets.is_empty()) || release.is_some() && !log_zones.is_empty() {
        let (state, how) = lists::tuning(with_lists, release, fraction);
        auto_tuning = Some(state.name().to_owned());
        all.add(held::part(with_lists, release, state, &how));
    }
    // The end of a report has free blocks, but no marks.
    let only_blocks = zones.is_empty() && log_zones.iter().all(|zone| zone.min.is_none() && !zone.blocks.is_empty());
    if only_blocks && request.is_none() {
        zones.extend(log_zones.iter().map(|zone| Zone { free: zone.free.or(Some(zone.in_blocks())), ..zone.clone() }));
    }
    all.add(blocks::part(texts, &zones, request, page_kib));
    let waits = waits::part(&texts.profile);
    // The call traces of a crash or of a warning are not those of a wait.
    let is_wait = !all.clauses.is_empty() || !texts.notices.messages.iter().any(|said| said.notice.is_first);
    let has_waits = is_wait && (!texts.profile.flat.is_empty() || !waits::waits(&texts.profile).0.is_empty());
    let (waits, others) = if has_waits { (waits, Part::default()) } else { (Part::default(), waits) };
    all.add(waits);
    all.add(counters(texts));
    let events = events::part(&texts.events);
    if all.clauses.is_empty() {
        all.add(events);
    }
    all.add(notices::part(texts, !all.clauses.is_empty()));
    // Stacks that wait for no lock say less than anything else.
    if all.clauses.is_empty() {
        all.add(others);
    }
    if all.clauses.is_empty() {
        return None;
    }

    if zones.is_empty() {
        zones.clone_from(&log_zones);
    }
    let gfp = request.and_then(|request| request.gfp.as_ref());
    let order = request.and_then(|request| request.order).unwrap_or(0);
    let shown = if log_zones.is_empty() { &zones } else { &log_zones };
    let tests = marks::tests(shown, gfp, order);
    let class = gfp.map_or(Class::Normal, |gfp| gfp.class);
    let is_shown = |zone: &Zone| zone.has_pages() && (zone.free.is_some() || !zone.pagesets.is_empty());
    let zones = shown.iter().enumerate().filter(|(_, zone)| is_shown(zone)).map(|(place, zone)| {
        let test = tests.iter().find(|test| test.zone == place);
        let may_serve = zone.place().is_none_or(|place| place <= class.place());
        result::Zone {
            node: zone.node,
            zone: zone.name.clone(),
            free: zone.free,
            min: zone.min,
            low: zone.low,
            high: zone.high,
            managed: zone.managed,
            reserve: marks::reserve(shown, zone, class).filter(|_| may_serve),
            serves: test.map(marks::Test::passes),
            held: zone.held,
            free_blocks: zone.counts(),
        }
    });
    Some(Explanation {
        schema: SCHEMA.to_owned(),
        answer: sentence(&all.clauses),
        zones: zones.collect(),
        findings: all.findings,
        next: all.next,
        request: request.map(|request| result::Request {
            process: request.process.clone(),
            order: request.order,
            flags: gfp.map(|gfp| gfp.text.clone()),
            highest_zone: gfp.map(|gfp| crate::read::request::ZONES[gfp.class.place()].to_owned()),
            may_wait: gfp.map(|gfp| gfp.waits),
        }),
        waits: waits::waits(&texts.profile).0,
        auto_tuning,
        page_bytes: page_kib * 1024,
        release: release.map(str::to_owned),
        lines: texts.lines,
        lines_unknown: texts.unknown,
        first_unknown: texts.first_unknown.clone().map(|(file, line, text)| Unknown { file, line, text }),
    })
}

fn sentence(clauses: &[String]) -> String {
    let text = clauses.join("; ");
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

/// The zones of zoneinfo with the free blocks of buddyinfo and pagetypeinfo. Of a zone that is there twice, the last one.
fn zones_of(texts: &Texts) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for zone in texts.zoneinfo.iter().map(Zone::of_zoneinfo) {
        match zones.iter_mut().find(|known| known.name == zone.name && known.node == zone.node && !zone.name.is_empty())
        {
            Some(known) => *known = zone,
            None => zones.push(zone),
        }
    }
    for (of, counts) in &texts.rows.buddyinfo {
        let zone = find(&mut zones, of);
        zone.blocks = counts.iter().map(|count| Blocks { count: *count, types: String::new() }).collect();
    }
    let with_buddyinfo: Vec<bool> = zones.iter().map(|zone| !zone.blocks.is_empty()).collect();
    for (of, kind, counts) in &texts.rows.types {
        let known = zones.len();
        let place = zones.iter().position(|zone| zone.name == of.1 && zone.node == Some(of.0)).unwrap_or(known);
        let counted = with_buddyinfo.get(place).copied().unwrap_or(false);
        let zone = find(&mut zones, of);
        let letter = match kind.as_str() {
            "Unmovable" => 'U',
            "Movable" => 'M',
            "Reclaimable" => 'E',
            "HighAtomic" | "Reserve" => 'H',
            "CMA" => 'C',
            _ => 'I',
        };
        let longer = zone.blocks.len().max(counts.len());
        zone.blocks.resize(longer, Blocks::default());
        for (blocks, count) in zone.blocks.iter_mut().zip(counts).filter(|(_, count)| **count > 0) {
            blocks.types.push(letter);
            if !counted {
                blocks.count = blocks.count.saturating_add(*count);
            }
        }
    }
    for zone in zones.iter_mut().filter(|zone| zone.free.is_none() && !zone.blocks.is_empty()) {
        zone.free = Some(zone.in_blocks());
    }
    zones
}

/// The zone of a row; a new one if there is none.
fn find<'z>(zones: &'z mut Vec<Zone>, (node, name): &(u32, String)) -> &'z mut Zone {
    let place = zones.iter().position(|zone| zone.name == *name && zone.node == Some(*node));
    let place = place.unwrap_or_else(|| {
        zones.push(Zone::new(Some(*node), name, Unit::Pages));
        zones.len() - 1
    });
    &mut zones[place]
}

/// What the counters of vmstat say.
fn counters(texts: &Texts) -> Part {
    let mut part = Part::default();
    let vmstat = &texts.rows.vmstat;
    let sum = |begin: &str| {
        vmstat.iter().filter(|(name, _)| name.starts_with(begin)).map(|(_, n)| *n).reduce(u64::saturating_add)
    };
    let mut said = Vec::new();
    if let Some(stalls) = sum("allocstall") {
        said.push(format!("{} allocations waited for direct reclaim (allocstall)", grouped(stalls)));
        part.finding(
            "direct-reclaim",
            format!("allocstall is {} since boot: allocations found no zone above min", grouped(stalls)),
        );
    }
    if let (Some(stalls), Some(failed)) = (vmstat.get("compact_stall"), vmstat.get("compact_fail")) {
        said.push(format!("{} of {} direct compactions failed", grouped(*failed), grouped(*stalls)));
    }
    let huge = vmstat.get("thp_fault_fallback").zip(vmstat.get("thp_fault_alloc"));
    if let Some((failed, made)) = huge.filter(|(failed, made)| **failed > 0 || **made > 0) {
        said.push(format!(
            "{} of {} huge-page faults got small pages",
            grouped(*failed),
            grouped(made.saturating_add(*failed))
        ));
    }
    if let (Some(direct), Some(kswapd)) = (sum("pgscan_direct"), sum("pgscan_kswapd")) {
        // A count of waits, not of pages.
        let direct = direct.saturating_sub(vmstat.get("pgscan_direct_throttle").copied().unwrap_or(0));
        let (direct, kswapd) = (grouped(direct), grouped(kswapd));
        said.push(format!("requests that waited scanned {direct} pages, and kswapd {kswapd}"));
    }
    if let (true, Some(free)) = (said.is_empty(), vmstat.get("nr_free_pages").filter(|_| texts.zoneinfo.is_empty())) {
        part.clauses.push(format!(
            "{} pages of the whole machine are free; the text is a part of /proc/vmstat, which shows no zone, mark or free block",
            grouped(*free)
        ));
        part.step("post the zones and their free blocks", "cat /proc/zoneinfo /proc/buddyinfo");
    }
    if !said.is_empty() {
        part.clauses.push(format!("since boot, {}", said.join(", ")));
        part.step("see whether these counters rise while the load runs", "pageset top");
    }
    part
}
