//! Failures for which no zone is the cause, or none is known.

use pageset_trace::number::grouped;

use super::{holder, main, order_text, short, who};
use crate::marks::{self, Test};
use crate::parts::Part;
use crate::read::mem_info::Report;
use crate::read::request::{Lack, Message, Request};
use crate::zone::Zone;

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
pub(super) fn without_request(report: &Report, zones: &[Zone], page_kib: u64) -> Part {
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
pub(super) fn no_address_space(request: &Request, lack: Lack, memory_kib: Option<u64>) -> Part {
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
pub(super) fn not_of_a_zone(request: &Request, all: &[Report], zones: &[Zone], page_kib: u64) -> Option<Part> {
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
pub(super) fn contiguous(request: &Request) -> Part {
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
