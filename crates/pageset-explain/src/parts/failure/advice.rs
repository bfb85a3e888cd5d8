//! What to do against a failure.

use pageset::policy::Release;

use super::{Cause, Machine};
use crate::marks::Test;
use crate::parts::Part;
use crate::read::request::Request;
use crate::sysctls::Found;
use crate::zone::Zone;

/// Adds the steps that help against this cause.
pub(super) fn advice(
    part: &mut Part,
    request: &Request,
    cause: &Cause,
    zones: &[Zone],
    tests: &[Test],
    machine: &Machine<'_>,
) {
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
