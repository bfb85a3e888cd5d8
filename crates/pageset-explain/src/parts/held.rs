//! Per-CPU lists: how much waits in them, in which CPU's, whether they tune themselves, and whether their sizes are the rule's.

use pageset_trace::number::grouped;

use super::Part;
use crate::lists::{self, State};
use crate::zone::Zone;

pub(super) fn part(zones: &[Zone], release: Option<&str>, state: State, how: &str) -> Part {
    let mut part = Part::default();
    let is_log = zones.iter().any(|zone| zone.unit != crate::zone::Unit::Pages);
    let with = zones.iter().filter(|zone| zone.held.is_some_and(|held| held > 0) && !zone.pagesets.is_empty());
    if let Some(zone) = with.max_by_key(|zone| zone.held) {
        let held = zone.held.unwrap_or(0);
        let most = lists::most(zone).map_or(String::new(), |(cpu, count)| match zone.pagesets.len() {
            1 => format!(", all in CPU {cpu}'s"),
            _ => format!(", most in CPU {cpu}'s ({})", grouped(count)),
        });
        let share = match zone.free {
            Some(free) if free > 0 && held >= free / 1000 => {
                format!(" ({:.1} % of what is free)", 100.0 * held as f64 / free as f64)
            }
            _ => String::new(),
        };
        let text = format!(
            "{} pages{share} wait in the lists of {} of {}{most}",
            grouped(held),
            cpus(zone.pagesets.len()),
            zone.title()
        );
        // In a log the failure says it.
        if !is_log {
            part.clauses.push(text.clone());
            part.finding("pages-in-lists", text);
        }
    } else if !is_log && let Some(zone) = zones.iter().find(|zone| zone.held == Some(0)) {
        // Of a text that is cut before the lists of its large zones.
        let lacks = zones.iter().filter(|zone| zone.has_pages() && zone.pagesets.is_empty());
        part.clauses.push(match lacks.max_by_key(|zone| zone.size()) {
            Some(lacks) => {
                format!("no pages wait in the lists of {}, and the text lacks those of {}", zone.title(), lacks.title())
            }
            None => "no pages wait in per-CPU lists".to_owned(),
        });
    }
    let has_sizes = zones.iter().flat_map(|zone| &zone.pagesets).any(|set| set.high.is_some());
    if has_sizes && !is_log {
        let short = how.split(';').next().unwrap_or(how);
        part.clauses.push(match state {
            State::Unknown => state.text().to_owned(),
            _ => format!("{} ({short})", state.text()),
        });
    }
    part.finding("auto-tuning", format!("{}: {how}", state.text()));
    let mut odd: Vec<String> = Vec::new();
    for zone in zones {
        odd.extend(lists::odd_sizes(zone, zones, release));
    }
    for text in &odd {
        part.finding("odd-sizes", text.clone());
    }
    if let Some(first) = odd.first() {
        part.clauses.push(first.split(';').next().unwrap_or(first).to_owned());
        let batch = odd.iter().any(|text| text.starts_with("batch is"));
        if batch {
            part.step(
                "write the value in force again: the kernel then computes batch and high anew (5.14 and later)",
                "sudo sysctl vm.min_free_kbytes=$(sysctl -n vm.min_free_kbytes)",
            );
        } else if odd.iter().any(|text| text.contains("high_fraction")) {
            part.step(
                "let the kernel size the lists, unless you know why this is set",
                "sudo sysctl vm.percpu_pagelist_high_fraction=0",
            );
        }
    }
    if !is_log {
        part.step("see how often CPUs go to the zone lock while the load runs", "sudo pageset top");
    }
    if state == State::Unknown {
        part.step("name the kernel", "uname -r");
    }
    part
}

fn cpus(count: usize) -> String {
    if count == 1 { "1 CPU".to_owned() } else { format!("{count} CPUs") }
}
