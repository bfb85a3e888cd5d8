//! A request that failed, from a kernel's log.

mod advice;
mod no_zone;

use pageset_trace::number::grouped;

use self::advice::advice;
use self::no_zone::{contiguous, no_address_space, not_of_a_zone, without_request};
use super::Part;
use crate::marks::{self, Test};
use crate::read::mem_info::Report;
use crate::read::request::{Gfp, Message, Request, ZONES};
use crate::zone::Zone;

/// The machine of the log.
pub(in crate::parts) struct Machine<'r> {
    pub(in crate::parts) page_kib: u64,
    /// Whether the text shows the size of a page.
    pub(in crate::parts) page_shown: bool,
    pub(in crate::parts) release: Option<&'r str>,
    /// Whether the text has all zones.
    pub(in crate::parts) is_whole: bool,
}

/// Why a request failed.
enum Cause {
    /// No zone that may serve it is above the mark.
    Memory,
    /// A zone is above the mark but has no block of the order that the request may take.
    Order(usize),
    /// A zone is above the mark and has a block: memory came back before the kernel printed.
    Back(usize),
    /// A zone is above the mark; its free blocks are not in the text.
    Above(usize),
    /// The text has no marks, but no zone has a block of the order that the request may take. The place is that of the zone.
    Blocks(usize),
    /// The text lacks the zones.
    Unknown,
}

pub(in crate::parts) fn part(report: &Report, all: &[Report], zones: &[Zone], machine: &Machine<'_>) -> Part {
    let mut part = Part::default();
    let Some(request) = report.requests.first() else {
        return without_request(report, zones, machine.page_kib);
    };
    if request.message == Message::Cma {
        return contiguous(request);
    }
    if request.is_by_hand {
        part.clauses.push(
            "memory is not short: the OOM killer was started by hand (order -1: sysrq f), so the zones show no failed request"
                .to_owned(),
        );
        part.step("see who may use sysrq", "sysctl kernel.sysrq");
        return part;
    }
    let memory_kib = memory(report, zones).map(|pages| pages.saturating_mul(machine.page_kib));
    if let Some(part) = request.lack.map(|lack| no_address_space(request, lack, memory_kib)) {
        return part;
    }
    if let Some(part) = not_of_a_zone(request, all, zones, machine.page_kib) {
        return part;
    }
    let gfp = request.gfp.as_ref();
    let order = request.order.unwrap_or(0);
    let page_kib = machine.page_kib;
    let allowed = |zone: &Zone| request.nodes.is_empty() || zone.node.is_none_or(|node| request.nodes.contains(&node));
    let may: Vec<Zone> = zones.iter().filter(|zone| allowed(zone)).cloned().collect();
    let tests = marks::tests(&may, gfp, order);
    let cause = cause(&may, &tests, gfp, order);
    let who = who(request);
    let size = order_text(order, page_kib);
    let is_cut = is_cut(&may, &tests, gfp);
    let clause = match &cause {
        Cause::Memory => {
            let worst = main(&may, &tests);
            let (test, zone) = (&tests[worst], &may[tests[worst].zone]);
            let not_order = match suits(zone, gfp, order) {
                _ if order == 0 => String::new(),
                Some(false) => format!(", and order {order} ({size}) is missing too"),
                _ => ", not the order".to_owned(),
            };
            if is_cut {
                format!(
                    "{who} because memory is short{not_order}: {}, and the text ends before the zones that should have served it",
                    short(zone, test, gfp)
                )
            } else {
                let others = tests.len() - 1;
                let also = match others {
                    0 => String::new(),
                    1 => ", and the other zone refuses it too".to_owned(),
                    n => format!(", and the other {n} zones refuse it too"),
                };
                format!("{who} because memory is short{not_order}: {}{also}", short(zone, test, gfp))
            }
        }
        Cause::Order(at) => {
            let (test, zone) = (&tests[*at], &may[tests[*at].zone]);
            let kinds = kinds_of(zone, order);
            let largest = match (kinds.is_empty(), zone.blocks.iter().rposition(|blocks| blocks.count > 0)) {
                (false, _) => {
                    format!("its free blocks of order {order} and above are {kinds}, which this request may not use")
                }
                (true, Some(largest)) => {
                    format!("its largest free block is of order {largest} ({})", order_text(largest as u8, page_kib))
                }
                (true, None) => "it has no free block".to_owned(),
            };
            format!(
                "{who} because order {order} ({size}) is missing, not memory: {} has {} free, above {}, but {largest}",
                zone.title(),
                zone.amount(zone.free.unwrap_or(0)),
                mark(zone, test),
            )
        }
        Cause::Back(at) | Cause::Above(at) => {
            let (test, zone) = (&tests[*at], &may[tests[*at].zone]);
            let block = match (&cause, order) {
                (_, 0) => String::new(),
                (Cause::Back(_), _) => format!(" and a free block of order {order} or above"),
                _ => "; the text has no free blocks by order, so whether the order is missing is not known".to_owned(),
            };
            format!(
                "{who}, but {} was above the mark when the kernel printed this: {} free, above {}{block}",
                zone.title(),
                zone.amount(zone.free.unwrap_or(0)),
                mark(zone, test),
            )
        }
        Cause::Blocks(at) => {
            let zone = &may[*at];
            let largest = zone.largest().map_or("none".to_owned(), |order| order.to_string());
            format!(
                "{who}, most likely because order {order} ({size}) is missing: {} has {} free, and its largest free block is of order \
                 {largest}; the text lacks its marks",
                zone.title(),
                zone.amount(zone.in_blocks())
            )
        }
        Cause::Unknown if zones.is_empty() => {
            let by = request.caller.as_ref();
            let by = by.map_or(String::new(), |caller| format!("; by its call trace, {caller} asked for it"));
            format!("{who}; the text has no zones (Mem-Info), so it does not show which zone was short{by}")
        }
        Cause::Unknown => format!("{who}; the text does not show a zone that may serve it"),
    };
    part.clauses.push(clause);
    let nodes: Vec<u32> = zones.iter().filter_map(|zone| zone.node).collect();
    if let Some(last) = nodes.iter().max()
        && let Some(missing) = (0..*last)
            .take(1024)
            .find(|node| !nodes.contains(node) && (request.nodes.is_empty() || request.nodes.contains(node)))
    {
        let text = format!("the text lacks node {missing}, which may be the short one");
        if matches!(cause, Cause::Back(_) | Cause::Above(_)) {
            part.clauses.push(text.clone());
        }
        part.finding("zones-missing", text);
    }
    let held = lists(report, &may, &tests, order, machine);
    part.clauses.extend(held.clause);
    if matches!(cause, Cause::Memory) {
        part.clauses.extend(holder(report, zones, machine.page_kib));
    }
    if let Some(caller) = &request.caller {
        part.finding("caller", format!("by the call trace, {caller} asked for it"));
    }
    findings(&mut part, request, &may, &tests, machine);
    if let Some(text) = held.finding {
        part.finding("pages-in-lists", text);
    }
    let stalls = all.iter().flat_map(|report| &report.requests).filter_map(|request| request.stalled_ms);
    if let Some(longest) = stalls.max().filter(|longest| request.stalled_ms.is_some_and(|ms| ms < *longest)) {
        part.clauses.push(format!("the longest wait in the text is {} ms", grouped(longest)));
    }
    let more = all.iter().map(|report| report.requests.len()).sum::<usize>() - 1;
    if more > 0 {
        part.finding(
            "more-messages",
            format!("{} more such messages are in the text; the first with zones is explained", grouped(more as u64)),
        );
    }
    if !machine.page_shown && !zones.is_empty() {
        part.finding("page-size", "pages of 4 KiB are assumed: the text does not show the size of a page".to_owned());
    }
    advice(&mut part, request, &cause, &may, &tests, machine);
    part
}

/// `an order-0 GFP_ATOMIC request of java failed`.
fn who(request: &Request) -> String {
    let order = request.order.map_or(String::new(), |order| format!("order-{order} "));
    let flags = request.gfp.as_ref().map_or(String::new(), |gfp| format!("{} ", gfp.short()));
    let of = match (&request.process, &request.cache) {
        (Some(process), _) => format!(" of {process}"),
        (None, Some(cache)) => format!(" for the slab cache {cache}"),
        (None, None) => String::new(),
    };
    let did = match request.message {
        Message::OomKiller => "started the OOM killer",
        Message::Stall => "waited long",
        _ => "failed",
    };
    let did = match request.stalled_ms {
        Some(ms) if request.message == Message::Stall => format!("waited {} ms", grouped(ms)),
        _ => did.to_owned(),
    };
    let kind = if request.message == Message::Vmalloc { "vmalloc " } else { "" };
    let size = request.bytes.filter(|_| request.message == Message::Vmalloc);
    let size = size.map_or(String::new(), |bytes| format!(" for {} bytes", grouped(bytes)));
    let article =
        if order.is_empty() && !flags.starts_with('G') && kind.is_empty() && flags.is_empty() { "a" } else { "an" };
    let article = if order.is_empty() && (flags.starts_with('G') || kind == "vmalloc ") { "a" } else { article };
    format!("{article} {order}{flags}{kind}request{of}{size} {did}")
}

/// `128 kB`.
fn order_text(order: u8, page_kib: u64) -> String {
    format!("{} kB", grouped(page_kib << order.min(31)))
}

/// The first zone for the answer: the largest that may serve the request.
fn main(zones: &[Zone], tests: &[Test]) -> usize {
    let size = |test: &Test| (zones[test.zone].size(), zones[test.zone].place(), zones[test.zone].free);
    (0..tests.len()).max_by_key(|at| (size(&tests[*at]), std::cmp::Reverse(*at))).unwrap_or(0)
}

fn cause(zones: &[Zone], tests: &[Test], gfp: Option<&Gfp>, order: u8) -> Cause {
    if tests.is_empty() {
        let lacks = zones.iter().all(|zone| suits(zone, gfp, order) == Some(false));
        let most = (0..zones.len()).max_by_key(|at| zones[*at].in_blocks());
        // A multiple of the order in free pages: memory itself is not what is missing.
        let has_pages = |at: &usize| zones[*at].in_blocks() >= 16 << order.min(31);
        return most.filter(has_pages).filter(|_| lacks && order > 0).map_or(Cause::Unknown, Cause::Blocks);
    }
    let passing: Vec<usize> = (0..tests.len()).filter(|at| tests[*at].passes()).collect();
    let largest = |among: &mut dyn Iterator<Item = usize>| among.max_by_key(|at| zones[tests[*at].zone].size());
    if passing.is_empty() {
        return Cause::Memory;
    }
    let has_block = |at: &usize| suits(&zones[tests[*at].zone], gfp, order);
    if let Some(at) = largest(&mut passing.iter().copied().filter(|at| order == 0 || has_block(at) == Some(true))) {
        return Cause::Back(at);
    }
    if let Some(at) = largest(&mut passing.iter().copied().filter(|at| has_block(at) == Some(false))) {
        return Cause::Order(at);
    }
    largest(&mut passing.into_iter()).map_or(Cause::Unknown, Cause::Above)
}

/// Whether a zone has a free block that the request may take. `None` if the text has no free blocks.
fn suits(zone: &Zone, gfp: Option<&Gfp>, order: u8) -> Option<bool> {
    let usable = |types: &str| {
        types.is_empty()
            || types.contains(['U', 'M', 'E', 'R'])
            || types.contains('C') && gfp.is_some_and(|gfp| gfp.movable)
            || types.contains('H') && gfp.is_some_and(|gfp| gfp.high && !gfp.waits)
    };
    let blocks = zone.blocks.get(usize::from(order)..).unwrap_or(&[]);
    (!zone.blocks.is_empty()).then(|| blocks.iter().any(|blocks| blocks.count > 0 && usable(&blocks.types)))
}

/// The kinds of the free blocks from an order on, which a request may not use; empty if there is no such block.
fn kinds_of(zone: &Zone, order: u8) -> String {
    let blocks = zone.blocks.get(usize::from(order)..).unwrap_or(&[]);
    let has = |letter: char| blocks.iter().any(|blocks| blocks.count > 0 && blocks.types.contains(letter));
    let kinds = [('C', "CMA"), ('H', "the reserve for atomic requests (HighAtomic)"), ('I', "isolated")];
    kinds.iter().filter(|(letter, _)| has(*letter)).map(|(_, kind)| *kind).collect::<Vec<_>>().join(" or ")
}

/// `its min mark of 13,224 kB`, `the 4,960 kB that an urgent request must leave (min is 13,224 kB)`.
fn mark(zone: &Zone, test: &Test) -> String {
    let min = zone.min.unwrap_or(0);
    let reserve = match test.reserve {
        0 => String::new(),
        reserve => format!(" plus lowmem_reserve of {}", zone.amount(reserve)),
    };
    match test.floor < min {
        true => {
            let (floor, min) = (zone.amount(test.floor), zone.amount(min));
            format!("the {floor} that an urgent request must leave (min is {min}){reserve}")
        }
        false => format!("its min mark of {}{reserve}", zone.amount(min)),
    }
}

/// `node 0 Normal has 4,552 kB free, below its min mark of 13,224 kB`.
fn short(zone: &Zone, test: &Test, gfp: Option<&Gfp>) -> String {
    let (free, min) = (zone.free.unwrap_or(0), zone.min.unwrap_or(0));
    let amount = |pages| zone.amount(pages);
    let title = zone.title();
    let by = gfp.map_or("ordinary requests", |_| "this request");
    if test.is_closed_by_reserve() {
        return format!(
            "{title} has {} free, above its min mark of {}, but lowmem_reserve keeps {} from {by}",
            amount(free),
            amount(min),
            amount(test.reserve)
        );
    }
    let unusable = match (test.cma, test.high_atomic) {
        _ if free <= test.floor => None,
        (0, 0) => None,
        (cma, atomic) if cma >= atomic => {
            Some(format!("{} of that is CMA, which this request may not use", amount(cma)))
        }
        (_, atomic) => Some(format!("{} of that is reserved for atomic requests (HighAtomic)", amount(atomic))),
    };
    let floor = match test.floor < min {
        true => format!(" and the {} that even an urgent request must leave", amount(test.floor)),
        false => String::new(),
    };
    let reserve = match test.reserve {
        0 => String::new(),
        reserve => format!(" plus lowmem_reserve of {}", amount(reserve)),
    };
    match unusable {
        Some(unusable) => format!(
            "{title} has {} free, but {unusable}, and the other {} are below its min mark of {}{floor}{reserve}",
            amount(free),
            amount(test.usable),
            amount(min)
        ),
        // Its own pages are not counted for a request of a high order.
        None if free > test.floor && test.reserve == 0 => format!(
            "{title} has {} free, which a block of {} would bring below its min mark of {}{floor}",
            amount(free),
            amount(free - test.usable + 1),
            amount(min)
        ),
        None => format!("{title} has {} free, below its min mark of {}{floor}{reserve}", amount(free), amount(min)),
    }
}

/// Whether the text ends before the zone that serves most of such requests: the last zone keeps pages from requests that higher
/// zones serve, so there are higher zones.
fn is_cut(zones: &[Zone], tests: &[Test], gfp: Option<&Gfp>) -> bool {
    let highest = tests.iter().filter_map(|test| zones[test.zone].place()).max();
    let wanted = gfp.map_or(2, |gfp| gfp.class.place());
    let last = tests.iter().max_by_key(|test| zones[test.zone].place());
    highest.is_some_and(|highest| highest < wanted.min(3)) && last.is_some_and(|test| test.reserve > 0)
}

/// What waits in per-CPU lists.
#[derive(Default)]
struct Held {
    clause: Option<String>,
    finding: Option<String>,
}

fn lists(report: &Report, zones: &[Zone], tests: &[Test], order: u8, machine: &Machine<'_>) -> Held {
    let mut held = Held::default();
    let failing: Vec<&Test> = tests.iter().filter(|test| !test.passes()).collect();
    let zone = failing.iter().map(|test| &zones[test.zone]).max_by_key(|zone| zone.held);
    let sum = tests.iter().filter_map(|test| zones[test.zone].held).reduce(u64::saturating_add);
    match (sum, report.free_pcp) {
        // The zones are cut off, but the total is there.
        (sum, Some(total)) if total > sum.unwrap_or(0) => {
            let free = report.free.unwrap_or(0).max(1);
            let text = format!(
                "{} more pages ({} kB, {:.1} % of what is free) wait in per-CPU lists of all zones",
                grouped(total),
                grouped(total.saturating_mul(machine.page_kib)),
                100.0 * total as f64 / free as f64
            );
            if sum.is_none_or(|sum| sum == 0) && !tests.is_empty() {
                held.clause = (total > 0).then(|| text.clone());
            }
            held.finding = Some(text);
        }
        (Some(sum), _) if sum > 0 => {
            let Some(zone) = zone.filter(|zone| zone.held > Some(0)) else {
                held.finding = Some(format!("{} wait in per-CPU lists", zones[tests[0].zone].amount(sum)));
                return held;
            };
            let test = failing.iter().find(|test| std::ptr::eq(&raw const zones[test.zone], zone));
            let pages = zone.held.unwrap_or(0);
            let whose = match (super::lists::most(zone), zone.held_here) {
                (Some((cpu, count)), _) => format!(", most in CPU {cpu}'s ({count} pages)"),
                (None, Some(here)) => format!(", {} of it in the list of the CPU that failed", zone.amount(here)),
                (None, None) => String::new(),
            };
            let text = format!("{} of {} wait in per-CPU lists{whose}", zone.amount(pages), zone.title());
            // Pages in lists matter if they would have been enough, or are many.
            let matters =
                test.is_some_and(|test| pages >= test.lacks()) || pages.saturating_mul(10) >= zone.free.unwrap_or(0);
            let enough = test.is_some_and(|test| order == 0 && pages >= test.lacks());
            let text = if enough { format!("{text}, which would have been enough") } else { text };
            held.clause = (matters && test.is_some()).then(|| text.clone());
            held.finding = Some(text);
        }
        (Some(_), _) | (None, Some(0)) => held.finding = Some("no pages wait in per-CPU lists".to_owned()),
        _ => {}
    }
    held
}

fn findings(part: &mut Part, request: &Request, zones: &[Zone], tests: &[Test], machine: &Machine<'_>) {
    if let Some(gfp) = &request.gfp {
        let waits = if gfp.waits { "may wait for reclaim" } else { "may not wait for reclaim" };
        let zone = ZONES[gfp.class.place()];
        part.finding("request", format!("{} ({waits}; zones up to {zone})", gfp.text));
    }
    for test in tests {
        let zone = &zones[test.zone];
        let passes = if test.passes() {
            "is above the mark"
        } else if test.is_closed_by_reserve() {
            "is closed to it by lowmem_reserve"
        } else {
            "is below the mark"
        };
        let reserve =
            if test.reserve > 0 { format!(" + lowmem_reserve {}", zone.amount(test.reserve)) } else { String::new() };
        let boost = zone
            .boost
            .filter(|boost| *boost > 0)
            .map_or(String::new(), |boost| format!("; min has a boost of {}", zone.amount(boost)));
        part.finding(
            "mark",
            format!(
                "{} {passes}: {} of {} free are usable, {}{reserve} must stay{boost}",
                zone.title(),
                zone.amount(test.usable),
                zone.amount(zone.free.unwrap_or(0)),
                zone.amount(test.floor),
            ),
        );
        let order = usize::from(request.order.unwrap_or(0));
        if order > 0 && !zone.blocks.is_empty() {
            let index = pageset_trace::procfs::buddyinfo::fragmentation_index(&zone.counts(), order);
            let text = match (index, zone.largest()) {
                (None, Some(largest)) => format!("{} has free blocks up to order {largest}", zone.title()),
                (Some(index), largest) => format!(
                    "{} has no free block of order {order} or above (largest: {}); fragmentation index {index:.3}: {}",
                    zone.title(),
                    largest.map_or("none".to_owned(), |largest| format!(
                        "order {largest}, {}",
                        order_text(largest as u8, machine.page_kib)
                    )),
                    if index >= 0.5 { "small blocks, compaction helps" } else { "too little memory" },
                ),
                (None, None) => continue,
            };
            part.finding("free-blocks", text);
        }
    }
}

/// All pages of the zones of the text.
fn managed(zones: &[Zone]) -> u64 {
    zones.iter().filter_map(|zone| zone.managed).fold(0, u64::saturating_add)
}

/// The machine's memory in pages, if the text has its total or all of its zones.
fn memory(report: &Report, zones: &[Zone]) -> Option<u64> {
    report.ram.or_else(|| Some(managed(zones)).filter(|pages| *pages > 0 && report.is_whole()))
}

/// What holds much memory that reclaim does not give back, if anything does.
fn holder(report: &Report, zones: &[Zone], page_kib: u64) -> Option<String> {
    let managed = managed(zones);
    // Totals are of all zones, of which the text may lack some.
    let whole = memory(report, zones);
    let total = |name: &str| Some((report.total(name)?, whole?));
    let in_zones = |name: &str| Some((report.sum_kib(name) / page_kib, managed));
    let candidates = [
        ("files in memory (shmem)", total("shmem")),
        ("compressed swap (zspages)", in_zones("zspages")),
        ("pages that cannot be reclaimed (unevictable)", total("unevictable")),
        ("locked pages (mlocked)", in_zones("mlocked")),
        ("slab caches that cannot be freed (slab_unreclaimable)", total("slab_unreclaimable")),
    ];
    let known = candidates.into_iter().filter_map(|(what, of)| of.map(|(pages, all)| (what, pages, all)));
    // A machine without a leak has less than a fifth of each. A guess.
    let known = known.filter(|(_, pages, all)| pages <= all && *pages > all / 5);
    let (what, pages, all) = known.max_by_key(|(_, pages, _)| *pages)?;
    let share = 100.0 * pages as f64 / all.max(1) as f64;
    Some(format!("{what} hold {} kB ({share:.0} % of the memory)", grouped(pages.saturating_mul(page_kib))))
}
