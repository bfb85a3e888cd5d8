//! What the events of a trace say: which allocations failed or waited.

use std::collections::BTreeMap;

use pageset_trace::number::grouped;

use super::Part;
use crate::read::events::Events;

pub(super) fn part(events: &Events) -> Part {
    let mut part = Part::default();
    let count = |name: &str| events.counts.get(name).copied().unwrap_or(0);
    let mut said = Vec::new();
    let (all, failed) = (sum(&events.orders), sum(&events.failed));
    if let Some((order, most)) = events.failed.iter().max_by_key(|(_, count)| **count) {
        let most = if failed == 1 { "which was ".to_owned() } else { of_these(*most, failed) };
        said.push(format!("{} of {} failed, {most}of order {order}", grouped(failed), counted(all, "allocation")));
    }
    for (kind, what) in [("mm_vmscan_direct_reclaim_end", "direct reclaim"), ("mm_compaction_end", "compaction")] {
        let of = events.waits.iter().filter(|wait| wait.kind == kind);
        let number = of.clone().count() as u64;
        if let Some(longest) = of.max_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
            let order = longest.order.map_or(String::new(), |order| format!(", order {order}"));
            said.push(format!(
                "it has {}, {} {:.3} ms ({}{order})",
                counted(number, what),
                if number == 1 { "of" } else { "the longest of" },
                1000.0 * longest.seconds,
                longest.task
            ));
        }
    }
    for (name, what) in [
        ("mm_page_alloc_extfrag", "took a block of another type"),
        ("mm_page_alloc_zone_locked", "took pages from the zone under its lock"),
        ("mm_page_pcpu_drain", "gave pages of a per-CPU list back to the zone"),
        ("mm_vmscan_wakeup_kswapd", "woke kswapd"),
    ] {
        if count(name) > 0 {
            part.finding("trace-events", format!("{} a CPU {what} ({name})", counted(count(name), "time")));
        }
    }
    if events.counts.is_empty() {
        return part;
    }
    if let (true, Some((order, most))) = (said.is_empty(), events.orders.iter().max_by_key(|(_, count)| **count)) {
        let most = of_these(*most, all);
        said.push(format!("it has {}, {most}of order {order}, and none failed", counted(all, "allocation")));
    }
    if said.is_empty() {
        let number = events.counts.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let most = events.counts.iter().max_by_key(|(_, count)| **count);
        said.extend(
            most.map(|(name, most)| format!("it has {}, {}{name}", counted(number, "event"), of_these(*most, number))),
        );
    }
    part.clauses.push(format!(
        "the text is a trace of the kernel: {}; it shows no zone, mark or free block",
        said.join(", and ")
    ));
    part.step("if it has the allocator's events of all CPUs, replay it", "pageset trace import FILE -o my.pstrace");
    part
}

/// `1 allocation`, `2 allocations`.
fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// How many of all: `3 of them `. Nothing if there is only one.
fn of_these(number: u64, all: u64) -> String {
    match number == all {
        true if all == 1 => String::new(),
        true => "all of them ".to_owned(),
        false => format!("{} of them ", grouped(number)),
    }
}

fn sum(by_order: &BTreeMap<u64, u64>) -> u64 {
    by_order.values().fold(0, |sum, count| sum.saturating_add(*count))
}
