//! Zones from zoneinfo alone: which is short against which mark, what is kept from whom, and which sysctls gave the marks.

use pageset_trace::number::grouped;

use super::Part;
use crate::marks::{self, Test};
use crate::read::request::Class;
use crate::sysctls::Found;
use crate::zone::Zone;

pub(super) fn part(zones: &[Zone], log: &[Zone], page_kib: u64) -> Part {
    let mut part = Part::default();
    let tests = marks::tests(zones, None, 0);
    let memory = zones.iter().map(Zone::size).fold(0, u64::saturating_add).max(1);
    // A log's failure is the answer; zoneinfo is of another moment then.
    if log.is_empty()
        && let Some(clause) = state(zones, &tests, memory)
    {
        part.clauses.push(clause);
    }
    for test in tests.iter().filter(|test| test.is_closed_by_reserve()) {
        let zone = &zones[test.zone];
        part.finding(
            "reserve-closes",
            format!(
                "{} serves no ordinary (Normal) request: {} free, but min {} + protection {} must stay for requests that can use no higher zone",
                zone.title(),
                zone.amount(zone.free.unwrap_or(0)),
                zone.amount(test.floor),
                zone.amount(test.reserve)
            ),
        );
    }
    for zone in zones.iter().filter(|zone| zone.has_pages()) {
        let (Some(free), Some(min), Some(low), Some(high)) = (zone.free, zone.min, zone.low, zone.high) else {
            continue;
        };
        let below = match free {
            free if free < min => "below min",
            free if free < low => "below low",
            free if free < high => "between low and high",
            _ => "above high",
        };
        let boost =
            zone.boost.filter(|boost| *boost > 0).map_or(String::new(), |boost| format!(" (with a boost of {boost})"));
        let kept = marks::reserve(zones, zone, Class::Normal).filter(|kept| *kept > 0);
        let kept = kept.map_or(String::new(), |kept| format!(", {} kept from ordinary requests", grouped(kept)));
        part.finding(
            "mark",
            format!(
                "{}: {} free is {below}; min {}, low {}, high {}{boost}{kept}",
                zone.title(),
                zone.amount(free),
                grouped(min),
                grouped(low),
                grouped(high)
            ),
        );
    }
    if zones.iter().any(|zone| zone.has_pages() && zone.managed.is_none() && zone.present.is_some()) {
        part.finding(
            "no-managed",
            "the text has no `managed` (kernels before 3.9): present pages stand for it, which are a few more",
        );
    }
    let matters = |test: &&Test| zones[test.zone].size() >= memory / 100;
    let is_short = tests.iter().filter(matters).any(|test| zones[test.zone].free < zones[test.zone].low);
    settings(&mut part, zones, page_kib, is_short);
    part
}

/// The state of the zones in one clause.
fn state(zones: &[Zone], tests: &[Test], memory: u64) -> Option<String> {
    let size = |test: &&Test| zones[test.zone].size();
    let largest = tests.iter().max_by_key(size)?;
    let zone = &zones[largest.zone];
    let free = |zone: &Zone| zone.amount(zone.free.unwrap_or(0));
    if tests.iter().all(Test::is_closed_by_reserve) && !zones.iter().any(|zone| zone.place() >= Some(2)) {
        let kept = zone.amount(largest.reserve);
        return Some(format!(
            "the text ends before the zones that serve ordinary requests: {} has {} free, but keeps {kept} \
             from such requests (protection)",
            zone.title(),
            free(zone),
        ));
    }
    if tests.iter().all(|test| !test.passes()) {
        let reserve = match largest.reserve {
            0 => String::new(),
            reserve => format!(" plus {} of lowmem_reserve (protection)", zone.amount(reserve)),
        };
        return Some(format!(
            "memory is short: no zone serves an ordinary request, and {} has {} free, below its min mark of {}{reserve}",
            zone.title(),
            free(zone),
            zone.amount(largest.floor)
        ));
    }
    // A zone that is a hundredth of the memory decides nothing.
    let matters = |test: &&Test| zones[test.zone].size() >= memory / 100;
    let by = |limit: fn(&Zone) -> Option<u64>| {
        let below = tests.iter().filter(matters).filter(|test| zones[test.zone].free < limit(&zones[test.zone]));
        below.max_by_key(size).map(|test| &zones[test.zone])
    };
    if let Some(zone) = by(|zone| zone.min) {
        let min = zone.amount(zone.min.unwrap_or(0));
        return Some(format!(
            "{} is short: {} free, below its min mark of {min}; other zones still serve requests",
            zone.title(),
            free(zone)
        ));
    }
    if let Some(zone) = by(|zone| zone.low) {
        let low = zone.amount(zone.low.unwrap_or(0));
        return Some(format!(
            "{} is below its low mark: {} free of {low}, so kswapd reclaims",
            zone.title(),
            free(zone)
        ));
    }
    let closed = tests.iter().filter(matters).filter(|test| test.is_closed_by_reserve()).max_by_key(size);
    if let Some(test) = closed.filter(|test| zones[test.zone].size() >= memory / 10) {
        let zone = &zones[test.zone];
        return Some(format!(
            "{} serves no ordinary (Normal) request: {} free, but its min mark of {} plus {} of lowmem_reserve (protection) must stay",
            zone.title(),
            free(zone),
            zone.amount(test.floor),
            zone.amount(test.reserve)
        ));
    }
    let high = zone.high?;
    let free_pages = zone.free?;
    let stuck = zones.iter().find(|zone| zone.all_unreclaimable && zone.has_pages());
    let stuck = stuck
        .map_or(String::new(), |zone| format!(", though {} has nothing to reclaim (all_unreclaimable)", zone.title()));
    Some(match free_pages < high {
        true => format!(
            "no zone is below low: {} has {} free, between its low and high marks ({} and {}){stuck}",
            zone.title(),
            free(zone),
            grouped(zone.low.unwrap_or(0)),
            grouped(high)
        ),
        false => format!(
            "no zone is short: {} has {} free, {:.1} times its high mark of {}{stuck}",
            zone.title(),
            free(zone),
            free_pages as f64 / high.max(1) as f64,
            zone.amount(high)
        ),
    })
}

/// Which sysctls gave the marks, and which marks others would give.
fn settings(part: &mut Part, zones: &[Zone], page_kib: u64, is_short: bool) {
    let Some(found) = Found::new(zones) else {
        let is_known = |zone: &Zone| zone.managed.is_some() && zone.high.is_some() && zone.place().is_some();
        if zones.iter().any(|zone| zone.min.is_some()) && zones.iter().filter(|zone| zone.has_pages()).all(is_known) {
            let text = "vm.min_free_kbytes and vm.watermark_scale_factor do not give these marks: zones are missing in the text, or \
                        the kernel is changed";
            part.finding("marks-unexplained", text);
        }
        return;
    };
    let kib = found.reserve.saturating_mul(page_kib);
    let scale = found.set_scale();
    let whole = is_whole(zones);
    let parts = if whole { "" } else { ", if the text has all zones" };
    part.finding(
        "sysctls",
        format!("vm.min_free_kbytes={kib} with vm.watermark_scale_factor={scale} gives these marks (pages of {page_kib} KiB{parts})"),
    );
    let largest =
        zones.iter().filter(|zone| zone.name != "HighMem" && zone.name != "Movable").max_by_key(|zone| zone.size());
    let Some((zone, managed)) = largest.and_then(|zone| Some((zone, zone.managed?))) else { return };
    let (twice, more) = (found.reserve.saturating_mul(2), scale.saturating_mul(10).clamp(100, 1000));
    for (name, reserve, scale, safe) in [
        (format!("vm.min_free_kbytes={}", kib.saturating_mul(2)), twice, found.scale, whole),
        (format!("vm.watermark_scale_factor={more}"), found.reserve, more, true),
    ] {
        let marks = found.marks(reserve, scale, managed);
        let (min, low, high) = (grouped(marks.min), grouped(marks.low), grouped(marks.high));
        let marks = format!("{} min {min}, low {low}, high {high}", zone.title());
        match is_short && safe {
            true => part.step(format!("give {marks}"), &format!("sudo sysctl {name}")),
            false => part.finding("sysctls", format!("{name} would give {marks}")),
        }
    }
}

/// Whether the text seems to have all zones: no node is missing, and node 0 begins with its lowest zone.
fn is_whole(zones: &[Zone]) -> bool {
    let nodes: Vec<u32> = zones.iter().filter_map(|zone| zone.node).collect();
    let last = nodes.iter().max().copied().unwrap_or(0);
    let has_all = (0..=last.min(1024)).all(|node| nodes.contains(&node));
    let starts_low = zones.first().is_some_and(|zone| zone.name == "DMA" || zone.name == "DMA32");
    let has_main = zones.iter().any(|zone| zone.name == "Normal" || zone.name == "Movable");
    has_all && starts_low && has_main
}
