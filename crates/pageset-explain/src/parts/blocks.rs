//! Free blocks by order from buddyinfo, pagetypeinfo and extfrag_index.

use pageset_trace::number::grouped;
use pageset_trace::procfs::buddyinfo::fragmentation_index;

use super::Part;
use crate::read::Texts;
use crate::read::request::Request;
use crate::zone::Zone;

/// The order of a huge page with pages of 4 KiB.
const HUGE: usize = 9;

pub(super) fn part(texts: &Texts, zones: &[Zone], request: Option<&Request>, page_kib: u64) -> Part {
    let mut part = Part::default();
    let with: Vec<&Zone> = zones.iter().filter(|zone| zone.largest().is_some() || !zone.blocks.is_empty()).collect();
    let wanted = request.and_then(|request| request.order).map_or(HUGE, usize::from).max(1);
    let size = |order: usize| format!("{} kB", grouped(page_kib << order.min(31)));
    // A small zone such as DMA says nothing about the machine.
    let pages = |zone: &Zone| zone.free.unwrap_or(0);
    let most = with.iter().map(|zone| pages(zone)).max().unwrap_or(0);
    let large = || with.iter().filter(|zone| pages(zone) >= most / 20);
    if request.is_none() && !with.is_empty() {
        let special = large().find(|zone| zone.largest() >= Some(wanted) && ordinary(zone) < Some(wanted));
        let lacking = large().filter(|zone| zone.largest().is_none_or(|largest| largest < wanted));
        let top_order = |zone: &Zone| zone.blocks.len().saturating_sub(1);
        let clause = match lacking.max_by_key(|zone| pages(zone)) {
            Some(zone) => {
                let index = fragmentation_index(&zone.counts(), wanted).unwrap_or(0.0);
                let largest = zone.largest();
                let first = largest.map_or(0, |largest| largest + 1);
                match index >= 0.5 || pages(zone) >= 1 << (wanted + 4) {
                    true => format!(
                        "order {first} ({}) and above are missing, not memory: {} has {} free pages, but no free block above order {}",
                        size(first),
                        zone.title(),
                        grouped(pages(zone)),
                        first.saturating_sub(1)
                    ),
                    false => format!(
                        "memory is missing, and with it large blocks: {} has {} free pages{}",
                        zone.title(),
                        grouped(pages(zone)),
                        largest.map_or(String::new(), |largest| format!(
                            ", and its largest free block is of order {largest}"
                        ))
                    ),
                }
            }
            None if special.is_some() => {
                let zone = special.unwrap_or(&with[0]);
                let first = ordinary(zone).map_or(0, |largest| largest + 1);
                format!(
                    "order {first} ({}) and above are missing, not memory, for all requests that may not use CMA or HighAtomic: {} has \
                     {} free pages, but its other free blocks end at order {}",
                    size(first),
                    zone.title(),
                    grouped(pages(zone)),
                    first.saturating_sub(1)
                )
            }
            None => {
                let zone = large().max_by_key(|zone| pages(zone)).unwrap_or(&with[0]);
                let largest = zone.largest().unwrap_or(0);
                let whole = if largest == top_order(zone) { "up to the largest order" } else { "up to order" };
                let whole = if largest == top_order(zone) {
                    format!("{whole}, {largest}")
                } else {
                    format!("{whole} {largest}")
                };
                format!("no order is missing: {} has free blocks {whole} ({})", zone.title(), size(largest))
            }
        };
        part.clauses.push(clause);
    }
    for zone in &with {
        let counts = zone.counts();
        let huge = match fragmentation_index(&counts, wanted.min(HUGE)) {
            None => format!("order {} succeeds", wanted.min(HUGE)),
            Some(index) => {
                format!("fragmentation index for order {} is {index:.3} ({})", wanted.min(HUGE), meaning(index))
            }
        };
        let blocks: Vec<String> = counts.iter().map(|count| grouped(*count)).collect();
        part.finding(
            "free-blocks",
            format!(
                "{}: {} free pages in blocks of order 0, 1, …: {}; {huge}",
                zone.title(),
                grouped(pages(zone)),
                blocks.join(" ")
            ),
        );
        types(&mut part, zone, wanted);
    }
    extfrag(&mut part, texts, request, with.is_empty());
    unusable(&mut part, texts, request, with.is_empty());
    if !part.findings.is_empty() && part.clauses.iter().any(|clause| clause.contains("missing, not memory")) {
        part.step("merge free memory now, and look again", "echo 1 | sudo tee /proc/sys/vm/compact_memory");
        part.step(
            "let the kernel merge in the background (5.9 and later; the default is 20)",
            "sudo sysctl vm.compaction_proactiveness=50",
        );
        if texts.rows.types.is_empty() {
            part.step("see which types hold the blocks", "sudo cat /proc/pagetypeinfo");
        }
    }
    part
}

/// The highest order that has a free block for every request: not only in CMA or HighAtomic.
fn ordinary(zone: &Zone) -> Option<usize> {
    let is_ordinary = |types: &str| types.is_empty() || types.contains(['U', 'M', 'E']);
    zone.blocks.iter().rposition(|blocks| blocks.count > 0 && is_ordinary(&blocks.types))
}

const fn meaning(index: f64) -> &'static str {
    if index >= 0.5 { "free memory is in small blocks: compaction helps" } else { "too little memory is free" }
}

/// Which types have the large blocks.
fn types(part: &mut Part, zone: &Zone, wanted: usize) {
    let blocks = zone.blocks.iter().skip(wanted).filter(|blocks| blocks.count > 0);
    let mut letters: Vec<char> = blocks.flat_map(|blocks| blocks.types.chars()).collect();
    letters.sort_unstable();
    letters.dedup();
    let only = |letter: char| letters == [letter];
    if only('C') {
        part.finding("cma-only", format!("in {} only CMA has blocks of order {wanted} and above: requests for movable pages may use them, others may not", zone.title()));
    } else if only('H') {
        part.finding(
            "high-atomic-only",
            format!(
                "in {} only HighAtomic has blocks of order {wanted} and above: they are for atomic requests",
                zone.title()
            ),
        );
    }
}

/// The kernel's index of free memory that is of no use for an order.
fn unusable(part: &mut Part, texts: &Texts, request: Option<&Request>, is_main: bool) {
    let wanted = request.and_then(|request| request.order).map_or(HUGE, usize::from);
    let of = |index: &[f64]| index.get(wanted).or(index.last()).copied().unwrap_or(0.0);
    let percent = |index: &[f64]| format!("{:.1} %", 100.0 * of(index));
    for ((node, name), index) in &texts.rows.unusable {
        let order = wanted.min(index.len().saturating_sub(1));
        part.finding(
            "unusable-index",
            format!("node {node} {name}: {} of the free memory is in blocks below order {order}", percent(index)),
        );
    }
    let larger = texts.rows.unusable.iter().filter(|((_, name), _)| is_larger(name));
    let Some(((node, name), index)) = larger.max_by(|a, b| of(&a.1).total_cmp(&of(&b.1))) else { return };
    if !is_main || request.is_some() || !part.clauses.is_empty() {
        return;
    }
    let order = wanted.min(index.len().saturating_sub(1));
    part.clauses.push(match of(index) {
        value if value >= 0.5 => format!(
            "order {order} is scarce: {} of the free memory of node {node} {name} is in smaller blocks; the text does not show how much is free",
            percent(index)
        ),
        _ => format!(
            "order {order} is not scarce: only {} of the free memory of node {node} {name} is in smaller blocks; the text does not show \
             how much is free",
            percent(index)
        ),
    });
    part.step("see how much is free", "cat /proc/buddyinfo /proc/zoneinfo");
}

/// The kernel's own index.
fn extfrag(part: &mut Part, texts: &Texts, request: Option<&Request>, is_main: bool) {
    let wanted = request.and_then(|request| request.order).map(usize::from);
    let mut worst: Option<(f64, usize, String)> = None;
    let rows = &texts.rows.extfrag;
    for ((node, name), index) in rows {
        let fails = index.iter().position(|value| *value >= 0.0 || *value > -0.999).filter(|_| !index.is_empty());
        let title = format!("node {node} {name}");
        let Some(first) = wanted.filter(|order| index.get(*order).is_some_and(|value| *value > -0.999)).or(fails)
        else {
            part.finding("extfrag-index", format!("{title}: an allocation of every order succeeds (-1)"));
            continue;
        };
        let at = index.get(wanted.unwrap_or(HUGE).max(first)).or(index.last()).copied().unwrap_or(0.0);
        part.finding(
            "extfrag-index",
            format!("{title}: order {first} and above fail; index {at:.3} ({})", meaning(at)),
        );
        if is_larger(name) && worst.as_ref().is_none_or(|(known, ..)| at > *known) {
            worst = Some((at, first, title));
        }
    }
    if !is_main || rows.is_empty() || request.is_some() {
        return;
    }
    part.clauses.push(match worst {
        Some((at, first, title)) if at >= 0.5 => {
            format!("order {first} and above are missing, not memory: the fragmentation index of {title} is {at:.3}, near 1, which means that free memory is in small blocks")
        }
        Some((at, first, title)) => {
            format!("memory is missing, not only order {first} and above: the fragmentation index of {title} is {at:.3}, near 0")
        }
        None => "no order is missing: the fragmentation index is -1 (success) for every order of the large zones".to_owned(),
    });
}

/// DMA is too small to matter.
fn is_larger(name: &str) -> bool {
    name != "DMA"
}
