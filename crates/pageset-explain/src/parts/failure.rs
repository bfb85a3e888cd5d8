//! A request that failed, from a kernel's log.

use pageset::policy::Release;
use pageset_trace::number::grouped;

use super::Part;
use crate::marks::{self, Test};
use crate::read::mem_info::Report;
use crate::read::request::{Gfp, Lack, Message, Request, ZONES};
use crate::sysctls::Found;
use crate::zone::Zone;

/// The machine of the log.
pub(super) struct Machine<'r> {
    pub(super) page_kib: u64,
    /// Whether the text shows the size of a page.
    pub(super) page_shown: bool,
    pub(super) release: Option<&'r str>,
    /// Whether the text has all zones.
    pub(super) is_whole: bool,
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

pub(super) fn part(report: &Report, all: &[Report], zones: &[Zone], machine: &Machine<'_>) -> Part {
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

/// Zones without marks and without a free page.
fn at_boot(zones: &[Zone]) -> Option<String> {
    let with: Vec<&Zone> = zones.iter().filter(|zone| zone.has_pages()).collect();
    let is_new = |zone: &&Zone| zone.free == Some(0) && zone.min == Some(0) && zone.high == Some(0);
    (!with.is_empty() && with.iter().all(is_new)).then(|| {
        "the zones have no marks and no free page: the kernel printed this at boot, before it gave the memory to the page allocator, so a \
         request came too early"
            .to_owned()
    })
}

/// Mem-Info without the message before it.
fn without_request(report: &Report, zones: &[Zone], page_kib: u64) -> Part {
    let mut part = Part::default();
    if zones.is_empty() && report.free.is_none() {
        return part;
    }
    if let Some(clause) = at_boot(zones) {
        part.clauses.push(clause);
        return part;
    }
    let tests = marks::tests(zones, None, 0);
    // Its free blocks say more.
    if tests.is_empty() && zones.iter().any(|zone| !zone.blocks.is_empty()) {
        return part;
    }
    let clause = match (tests.is_empty(), tests.iter().any(Test::passes)) {
        (true, _) => {
            let total = report
                .free
                .map_or(String::new(), |free| format!(": {} pages are free in the whole machine", grouped(free)));
            format!("the text has no zone with its marks{total}")
        }
        (false, true) => {
            // A request goes to the highest zone first.
            let order = |test: &&Test| (zones[test.zone].place(), zones[test.zone].size());
            let at = tests.iter().filter(|test| test.passes()).max_by_key(order);
            let (test, zone) = at.map_or((&tests[0], &zones[tests[0].zone]), |test| (test, &zones[test.zone]));
            // 16 MiB: the zone DMA of x86, which serves few requests.
            let is_first_only = zone.name == "DMA" && zone.size() > 0 && zone.size() <= 4096 && tests.len() == 1;
            let total =
                report.free.map_or(String::new(), |free| format!(" of {} free pages of the machine", grouped(free)));
            if is_first_only {
                format!(
                    "the text lacks the zones that serve ordinary requests, and the request that failed: it has {} with {} free{total}",
                    zone.title(),
                    zone.amount(zone.free.unwrap_or(0))
                )
            } else {
                format!(
                    "no zone is short for an ordinary order-0 request: {} has {} free, and {} must stay; the text lacks the request that failed",
                    zone.title(),
                    zone.amount(zone.free.unwrap_or(0)),
                    zone.amount(test.floor.saturating_add(test.reserve))
                )
            }
        }
        (false, false) => {
            let test = &tests[main(zones, &tests)];
            let holder = holder(report, zones, page_kib).map_or(String::new(), |holder| format!("; {holder}"));
            format!(
                "memory is short: {}{holder}; the text lacks the request that failed",
                short(&zones[test.zone], test, None)
            )
        }
    };
    part.clauses.push(clause);
    if let Some(total) = report.free_pcp.filter(|total| *total > 0) {
        part.finding("pages-in-lists", format!("{} pages wait in per-CPU lists of all zones", grouped(total)));
    }
    part.step("find the request: it is in the lines before Mem-Info", "dmesg | grep -B30 Mem-Info");
    part
}

/// A request of vmalloc that no page could have helped, on a machine with this memory in KiB.
fn no_address_space(request: &Request, lack: Lack, memory_kib: Option<u64>) -> Part {
    let mut part = Part::default();
    let of = request.process.as_ref().map_or(String::new(), |process| format!(" of {process}"));
    let size = request.bytes.map_or(String::new(), |bytes| format!(" for {} bytes", grouped(bytes)));
    let why = match lack {
        Lack::AddressSpace => {
            " because its address space has no hole of that size, not because memory is short: zones, marks and per-CPU lists do not \
             decide this"
                .to_owned()
        }
        Lack::NothingAsked => " because the caller asked for nothing: memory is not short".to_owned(),
        Lack::TooLarge => " because that is more than the machine has: the caller computed a wrong size".to_owned(),
        Lack::Large => match memory_kib {
            Some(kib) if request.bytes.is_some_and(|bytes| bytes.div_ceil(1024) > kib) => {
                format!(" because that is more than the machine has ({} kB), not because a zone is short", grouped(kib))
            }
            Some(kib) => format!(", and the text does not show why: the machine has more ({} kB)", grouped(kib)),
            None => ", and the text does not show why: it lacks how much memory the machine has".to_owned(),
        },
    };
    part.clauses.push(format!("a vmalloc request{of}{size} failed{why}"));
    match lack {
        Lack::AddressSpace => {
            part.step("see who holds the address space", "sudo sort -k2 -n -r /proc/vmallocinfo | head -20");
            part.step("give it more with the boot parameter vmalloc=SIZE (32 bits), or move modules away from a full area (64 bits)", "");
        }
        Lack::NothingAsked | Lack::TooLarge | Lack::Large => {
            part.step("find the caller: it is in the call trace, above `__vmalloc`", "sudo dmesg | grep -A20 vmalloc");
        }
    }
    part
}

/// A request that something before the page allocator refused, as far as the text without zones shows.
fn not_of_a_zone(request: &Request, all: &[Report], zones: &[Zone], page_kib: u64) -> Option<Part> {
    let mut part = Part::default();
    let mut messages = all.iter().flat_map(|report| &report.requests).map(|request| request.message);
    let who = who(request);
    if request.message == Message::Slub
        && let Some(group) = request.cache_group
        && zones.is_empty()
        && messages.all(|message| message != Message::Failure)
    {
        part.clauses.push(format!(
            "{who}, most likely at the limit of memory cgroup {group}, which owns that cache: the text has no page allocation failure"
        ));
    } else if request.message == Message::OomKiller && request.gfp.as_ref().is_some_and(|gfp| gfp.text == "0x0") {
        let process = request.process.as_deref().unwrap_or("a process");
        part.clauses.push(format!(
            "a page fault of {process} failed without a request for pages (gfp_mask is 0), and started the OOM killer: most likely a \
             memory cgroup's limit refused it, not a zone"
        ));
    } else if let (Message::Deadlock(file_system), true) = (request.message, zones.is_empty()) {
        let of = request.process.as_ref().map_or(String::new(), |process| format!(" of {process}"));
        let order = |bytes: u64| bytes.div_ceil(page_kib * 1024).next_power_of_two().trailing_zeros().min(31) as u8;
        let size = request.bytes.map_or(String::new(), |bytes| {
            let order = order(bytes);
            format!(" for {} bytes (order {order}, {})", grouped(bytes), order_text(order, page_kib))
        });
        part.clauses.push(format!(
            "{file_system} repeats a request{of}{size} that does not succeed; the text has no zones, so it does not show whether the \
             order or the memory is missing"
        ));
        part.step("see whether blocks of that order are free", "cat /proc/buddyinfo");
        part.step("see which zone is short", "cat /proc/zoneinfo");
        return Some(part);
    } else {
        return None;
    }
    part.step(
        "see the limits of cgroups and how often they were reached",
        "grep -r . /sys/fs/cgroup --include=memory.events",
    );
    part.step("on 3.10 to 4.x without need of it, boot with cgroup.memory=nokmem", "");
    Some(part)
}

/// A failed request for contiguous memory.
fn contiguous(request: &Request) -> Part {
    let mut part = Part::default();
    let pages = request.pages.map_or("a range of".to_owned(), grouped);
    let is_long = |longest: u64| request.pages.is_some_and(|pages| longest >= pages);
    let why = match request.cma.error {
        Some(12) if request.cma.free.is_some_and(|(.., longest)| is_long(longest)) => {
            "it has no free range of that length and alignment, or no memory to move pages to (-12, ENOMEM)"
        }
        Some(12) => "no free range of its area is that long (-12, ENOMEM)",
        Some(16) => {
            "pages in its area are in use and could not be moved, or another caller was emptying them (-16, EBUSY)"
        }
        Some(4) => "a signal ended the caller meanwhile (-4, EINTR)",
        _ => "pages in that CMA area are in use and could not be moved, or the area is too small",
    };
    // The last line of the ranges has the totals; without it they are 0.
    let free = request.cma.free.filter(|(_, total, _)| *total > 0).map_or(String::new(), |(free, total, longest)| {
        let (free, total, longest) = (grouped(free), grouped(total), grouped(longest));
        format!(": {free} of its {total} pages are free, and its longest free range has {longest}")
    });
    let because = if request.cma.error.is_some() { " because" } else { ":" };
    part.clauses.push(format!(
        "a CMA request for {pages} contiguous pages failed{because} {why}{free}; marks and per-CPU lists do not decide this"
    ));
    part.step("see how large the area is and what is free of it", "grep Cma /proc/meminfo");
    match request.cma.error {
        Some(4) => {}
        Some(16) => part.step(
            "ask again: the pages may be free by then; if it stays, see who holds pages of the area (boot with page_owner=on)",
            "sudo cat /sys/kernel/debug/page_owner",
        ),
        _ => part.step("make the area larger with the boot parameter cma=SIZE", ""),
    }
    part
}

fn advice(part: &mut Part, request: &Request, cause: &Cause, zones: &[Zone], tests: &[Test], machine: &Machine<'_>) {
    let gfp = request.gfp.as_ref();
    let waits = gfp.is_some_and(|gfp| gfp.waits);
    let is_old =
        machine.release.and_then(Release::parse).is_some_and(|release| (release.major, release.minor) < (4, 6))
            || zones.iter().any(|zone| !zone.pagesets.is_empty());
    match cause {
        Cause::Memory if tests.iter().any(|test| test.cma > test.lacks()) => {
            part.step(
                "give less memory to CMA with the boot parameter cma=SIZE, or let the caller ask for movable pages",
                "",
            );
        }
        Cause::Memory | Cause::Back(_) if !waits => keep_more(part, zones, is_old, machine),
        Cause::Memory => {
            let what = "find what holds the memory: this request could wait and reclaim did not find enough";
            part.step(what, "grep -E 'MemAvailable|Slab|SUnreclaim|AnonPages|Shmem|Unevictable' /proc/meminfo");
        }
        Cause::Order(_) | Cause::Above(_) | Cause::Blocks(_) => {
            part.step(
                "merge free memory now, and see whether the order comes back",
                "echo 1 | sudo tee /proc/sys/vm/compact_memory",
            );
            part.step("see which types hold the blocks", "sudo cat /proc/pagetypeinfo");
            if !waits {
                keep_more(part, zones, is_old, machine);
            }
        }
        Cause::Unknown => part.step(
            "post the lines after the message up to `pages reserved`",
            "dmesg | grep -A60 'page allocation failure'",
        ),
        Cause::Back(_) => part.step("watch the zone while the load runs: the shortage is short", "pageset top"),
    }
    if !matches!(cause, Cause::Unknown) {
        part.step("record the moment with the lists of all CPUs", "cat /proc/zoneinfo");
    }
}

/// Which sysctls keep more memory free for requests that cannot wait.
fn keep_more(part: &mut Part, zones: &[Zone], is_old: bool, machine: &Machine<'_>) {
    let normal = zones.iter().filter(|zone| zone.name != "HighMem" && zone.name != "Movable");
    let largest = normal.max_by_key(|zone| zone.size());
    if !is_old && let Some(zone) = largest.filter(|_| !is_partial(zones, machine)) {
        // The default is 10, a thousandth of the zone. A hundredth is what operators set first.
        let gap = |scale: u64| zone.managed.map(|managed| (managed / 10_000).saturating_mul(scale));
        let now = zone.low.zip(zone.min).map(|(low, min)| low.saturating_sub(min));
        let scale = [100, 200, 400, 1000].into_iter().find(|scale| gap(*scale) > now).unwrap_or(1000);
        let low = zone.min.zip(gap(scale)).map(|(min, gap)| min.saturating_add(gap.max(min / 4)));
        let marks =
            low.map_or(String::new(), |low| format!(" ({}: low rises to about {})", zone.title(), zone.amount(low)));
        part.step(format!("wake reclaim earlier{marks}"), &format!("sudo sysctl vm.watermark_scale_factor={scale}"));
    } else if !is_old {
        part.step("wake reclaim earlier; the default is 10", "sudo sysctl vm.watermark_scale_factor=100");
    }
    // A value from a part of the zones would lower the reserve.
    let found = Found::new(zones).filter(|_| machine.is_whole);
    let Some(found) = found else {
        part.step("keep more for such requests: see the value in force, then double it", "sysctl vm.min_free_kbytes");
        return;
    };
    let reserve = found.reserve.saturating_mul(2);
    let marks = largest.and_then(|zone| {
        let marks = found.marks(reserve, found.scale, zone.managed?);
        let (min, low) = (zone.amount(marks.min), zone.amount(marks.low));
        Some(format!(" ({}: min {min}, low {low})", zone.title()))
    });
    let kib = reserve.saturating_mul(machine.page_kib);
    let what = format!("keep twice as much for such requests{}", marks.unwrap_or_default());
    part.step(what, &format!("sudo sysctl vm.min_free_kbytes={kib}"));
}

/// Whether the text lacks the large zones, so that the largest one says nothing.
fn is_partial(zones: &[Zone], machine: &Machine<'_>) -> bool {
    !machine.is_whole && zones.iter().all(|zone| zone.name == "DMA")
}
