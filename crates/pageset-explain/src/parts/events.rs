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
    if let Some((order, _)) = events.failed.iter().max_by_key(|(_, count)| **count) {
        let most = if events.failed.len() == 1 { "all of them" } else { "most of them" };
        let most = if failed == 1 { "which was" } else { most };
        said.push(format!("{} of {} allocations failed, {most} of order {order}", grouped(failed), grouped(all)));
    }
    for (kind, what) in [("mm_vmscan_direct_reclaim_end", "direct reclaims"), ("mm_compaction_end", "compactions")] {
        let of = events.waits.iter().filter(|wait| wait.kind == kind);
        let number = of.clone().count() as u64;
        if let Some(longest) = of.max_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
            let order = longest.order.map_or(String::new(), |order| format!(", order {order}"));
            said.push(format!(
                "it has {} {what}, the longest of {:.3} ms ({}{order})",
                grouped(number),
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
            part.finding("trace-events", format!("{} times a CPU {what} ({name})", grouped(count(name))));
        }
    }
    if events.counts.is_empty() {
        return part;
    }
    if let (true, Some((order, _))) = (said.is_empty(), events.orders.iter().max_by_key(|(_, count)| **count)) {
        let number = if all == 1 { "1 allocation".to_owned() } else { format!("{} allocations", grouped(all)) };
        said.push(format!("it has {number}, most of them of order {order}, and none failed"));
    }
    if said.is_empty() {
        let most = events.counts.iter().max_by_key(|(_, count)| **count);
        said.extend(most.map(|(name, count)| format!("it has {} events, most of them {name}", grouped(*count))));
    }
    part.clauses.push(format!(
        "the text is a trace of the kernel: {}; it shows no zone, mark or free block",
        said.join(", and ")
    ));
    part.step("if it has the allocator's events of all CPUs, replay it", "pageset trace import FILE -o my.pstrace");
    part
}

fn sum(by_order: &BTreeMap<u64, u64>) -> u64 {
    by_order.values().fold(0, |sum, count| sum.saturating_add(*count))
}
