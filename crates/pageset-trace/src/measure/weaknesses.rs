//! Warnings about a result: each names a weakness and its remedy, if it has one.

use std::collections::BTreeSet;

use super::Run;
use super::recipe::{of_recipe, was_recorded};
use super::warnings::{Counted, Name, Warning};
use crate::facts::{Facts, Loss};
use crate::number::grouped;
use crate::procfs::ZoneSection;
use crate::replay::agreement::{agrees, deviations};
use crate::replay::identify::Identified;
use crate::replay::{Borrowed, Found, Level, Notes, Outcome, Replay, Totals};
use crate::trace::Trace;

/// The smallest number of kernel refills or drains for which percentages mean something. A guess: one of them is 1 %.
const MOVES_MIN: u64 = 100;
/// The duration after which a recording without timer work gets a warning. The timer work runs once a second on every
/// busy CPU.
/// Unit: nanoseconds.
const TICKS_EXPECTED_AFTER_NS: u64 = 2_000_000_000;

/// The largest share of the drains of other nodes' idle pages that a replay may make at the kernel's ticks. A guess. Unit: percent.
const KERNEL_TICKS_MAX_PCT: u64 = 10;

/// The warnings with a count above 0.
fn counted(rows: impl IntoIterator<Item = (Name, &'static str, u64, &'static str)>) -> impl Iterator<Item = Counted> {
    rows.into_iter()
        .map(|(name, what, count, why)| Counted { name, what, count, why: why.into() })
        .filter(|row| row.count > 0)
}

/// The CPUs that lost events, as `CPU 3` or `CPUs 0, 3`.
pub fn lost_on(facts: &Facts) -> String {
    let cpus: Vec<String> = facts.loss.iter().filter(|loss| loss.any()).map(|loss| loss.cpu.to_string()).collect();
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, cpus.join(", "))
}

/// Warnings about a recording of which nothing is replayed.
pub fn of_recording(trace: &Trace, replay: &Replay<'_>) -> Vec<Warning> {
    of_trace(trace, replay, Level::Reconstructed, &[], None)
}

/// Warnings about every replay of a recording.
pub(super) fn of_trace(
    trace: &Trace,
    replay: &Replay<'_>,
    level: Level,
    runs: &[Run],
    identified: Option<&Identified>,
) -> Vec<Warning> {
    let (facts, notes) = (trace.facts(), replay.notes());
    let mut all = Vec::new();
    all.extend(identified.map(traffic));
    all.extend(losses(facts));
    all.extend(replay.coverage().into_iter().flat_map(|coverage| of_recipe(facts, trace.snapshots(), coverage)));
    all.extend(machine(trace, replay, runs));
    all.extend(marks(trace));
    all.extend(unseen(notes, facts, level));
    all.extend(ticks(replay));
    all.extend(samples(facts, replay));
    all
}

/// The warning that the traffic disagrees with the rules of the release, or with guessed rules.
fn traffic(identified: &Identified) -> Warning {
    Warning::new(Name::KernelTraffic, disagreement(identified))
}

/// A sentence on how the traffic and the rules of the release disagree.
pub fn disagreement(identified: &Identified) -> String {
    let (choice, confidence) = (identified.choice().name, identified.confidence.name());
    match identified.by_release {
        Some(named) if named.tuning == identified.choice().tuning => format!(
            "the traffic does not agree with {}, the rules of its release, and does not contradict them clearly; see \
             `pageset replay FILE --identify`",
            named.name
        ),
        Some(named) => format!(
            "the traffic agrees with {choice} (confidence {confidence}) and not with {}, which its release names; it is \
             replayed as {choice}",
            named.name
        ),
        None => {
            format!("the release is not recorded; by its traffic it is taken to be {choice} (confidence {confidence})")
        }
    }
}

fn losses(facts: &Facts) -> Vec<Warning> {
    let mut all = Vec::new();
    if facts.lost_events() {
        let count = |f: fn(&Loss) -> u64| facts.loss.iter().map(f).fold(0, u64::saturating_add);
        let events = count(|l| l.overrun.saturating_add(l.commit_overrun).saturating_add(l.dropped));
        let pages = count(|l| l.missed_pages);
        all.push(Warning::new(
            Name::EventsLost,
            format!(
                "events were lost on {} ({} counted, {} buffer pages with gaps), so the result is wrong by an unknown \
             amount; record with a larger --buffer",
                lost_on(facts),
                grouped(events),
                grouped(pages)
            ),
        ));
    } else if facts.loss.is_empty() {
        all.push(Warning::new(
            Name::LossUnknown,
            "nothing tells whether events were lost; `pageset record` keeps the ring buffers' counts",
        ));
    }
    if facts.after_full > 0 {
        all.push(Warning::new(
            Name::BufferFull,
            format!(
                "a ring buffer was full, so the recording ends there and {} later events are not in it; record with a \
             larger --buffer",
                grouped(facts.after_full)
            ),
        ));
    }
    all
}

/// Warnings about the kernel, its nodes and the snapshots.
fn machine(trace: &Trace, replay: &Replay<'_>, runs: &[Run]) -> Vec<Warning> {
    let (facts, setting, snapshots) = (trace.facts(), replay.setting(), trace.snapshots());
    let mut all = Vec::new();
    if !setting.kernel_known {
        all.push(Warning::new(Name::KernelUnknown, format!(
            "the recording does not name its kernel; from the form of its zoneinfo it is taken to have the rules of {}",
            setting.kernel.name
        )));
    }
    if runs.iter().any(|run| run.rules.tuning.cache_slice && run.cache_slice_pages.is_none()) {
        all.push(Warning::new(Name::CacheUnknown, "cache sizes are not recorded; rules with cache_slice run as on a machine with small caches, and drain more \
             at frees of orders 1 to 3 (before 6.16) than one with large caches would; give --set cache_slice_pages=N, \
             the pages of the last-level cache divided by the CPUs that share it"
                .to_owned(),));
    }
    if facts.cpu_nodes.is_empty() && setting.cpus.iter().collect::<BTreeSet<_>>().len() > 1 {
        all.push(Warning::new(
            Name::NodesUnknown,
            "which CPU is on which node is not recorded; they are taken to be dealt out in equal runs",
        ));
    }
    let (page, block) = (Facts::DEFAULT_PAGE_SIZE, Facts::DEFAULT_PAGEBLOCK_ORDER);
    if (facts.page_size, facts.pageblock_order) != (page, block) {
        all.push(Warning::new(
            Name::PageSize,
            format!(
                "the machine has pages of {} bytes and pageblocks of order {}; they are replayed as {page} and {block}",
                facts.page_size, facts.pageblock_order
            ),
        ));
    }
    if replay.notes().found.markers == 0 {
        all.push(Warning::new(
            Name::NoMarkers,
            "no marker says when the zoneinfo was read, so the replay starts with the first event; `pageset record` \
             sets markers"
                .to_owned(),
        ));
    }
    if snapshots.zoneinfo.len() < 2 {
        all.push(Warning::new(
            Name::OneSnapshot,
            "there is only one zoneinfo, so watermarks and zone sizes are taken not to change; `pageset record` reads \
             it ten times a second"
                .to_owned(),
        ));
    }
    if snapshots.pagetypeinfo.is_empty() {
        all.push(Warning::new(
            Name::NoPagetypeinfo,
            "there is no pagetypeinfo, so the migratetypes of the free memory are guessed; `pageset record` takes it \
             along"
                .to_owned(),
        ));
    }
    all
}

/// Whether a zone's free pages are at or below its high watermark, which includes a boost.
fn is_near_high(zone: &ZoneSection) -> bool {
    zone.managed > 0 && zone.free <= zone.high
}

/// Warnings about zones near their high watermark and zones that grew or shrank during the recording.
fn marks(trace: &Trace) -> Vec<Warning> {
    let snapshots = trace.snapshots();
    let (Some((first, start)), Some((last, _))) = (snapshots.start(), snapshots.end()) else { return Vec::new() };
    let place = |tag: &String| snapshots.zoneinfo.iter().position(|(t, _)| t == tag).unwrap_or(0);
    let (first, last) = (place(first), place(last));
    let within = &snapshots.zoneinfo[first..=last.max(first)];
    let mut all = Vec::new();
    for section in &start.zones {
        let states = || within.iter().filter_map(|(_, info)| info.zone(section.node, &section.name));
        let name = format!("zone {} of node {}", section.name, section.node);
        let near = states().filter(|z| is_near_high(z)).count();
        if near > 0 {
            all.push(Warning::new(
                Name::NearHighMark,
                format!(
                    "{name} is at or below its high watermark in {near} of {} snapshots, where a replay can be off by \
                 tens of percent; record with more free memory",
                    within.len()
                ),
            ));
        }
        let managed = || states().map(|z| z.managed);
        if let (Some(least), Some(most)) = (managed().min(), managed().max())
            && least != most
        {
            all.push(Warning::new(
                Name::ZoneResized,
                format!("{name} had from {} to {} pages while recording", grouped(least), grouped(most)),
            ));
        }
    }
    all
}

/// Warnings about kernel activity that no event shows or that a replay does not repeat.
fn unseen(notes: &Notes, facts: &Facts, level: Level) -> impl Iterator<Item = Warning> {
    let recorded = facts.sources.iter().any(|source| source.contains("bulk"));
    let bulk = match level {
        _ if recorded => "the recording tells how many, not which",
        Level::Input => "they write no event, so the input shows them only when they are freed",
        Level::Reconstructed => "they write no event, so when they were is inferred",
    };
    let unknown_lists = "from which block depends on free lists that no event shows";
    let rows = [
        (
            Name::Reclaim,
            "events of reclaim",
            notes.found.reclaims,
            "what kswapd and direct reclaim did to the zones is not replayed",
        ),
        (Name::BulkAllocations, "blocks taken in bulk", notes.found.bulk_allocs, bulk),
        (
            Name::DirectAllocations,
            "blocks of cached orders taken past a pageset",
            notes.found.direct_allocs,
            "it was busy, and no event says when",
        ),
        (
            Name::DirectFrees,
            "blocks of cached orders given back past a pageset",
            notes.found.direct_frees,
            "an interrupt met it busy",
        ),
        (
            Name::RemoteDrains,
            "drains by another CPU than the pageset's",
            notes.found.remote_drains,
            "no event says why",
        ),
        (
            Name::Expiries,
            "drains of other nodes' idle pages by the timer work",
            notes.found.expiries,
            if facts.records_counters() {
                "they follow counters of the zone, of which most changes are recorded"
            } else {
                "they follow counters of the zone, of which events show a part"
            },
        ),
        (
            Name::InterruptedDrains,
            "drains that other processes or interrupts interrupted",
            notes.found.interrupted_drains,
            "the replay drains all pages at once",
        ),
        (
            Name::MovedTasks,
            "allocations and frees in the pageset of another CPU than their event's",
            notes.found.moved_tasks,
            "the task moved in between, which only some pages show",
        ),
        (
            Name::RejoinedBlocks,
            if notes.found.rejoined_proofs > 0 {
                "blocks freed page by page and put back whole, as later events of some prove"
            } else {
                "blocks freed page by page and taken to be put back whole, as by this kernel"
            },
            notes.found.rejoined_blocks,
            "their frees look like those of single pages",
        ),
        (Name::Fallbacks, "blocks taken from another migratetype's pageblock", notes.found.fallbacks, unknown_lists),
        (Name::ForeignPages, "pages outside all zones of the snapshots", notes.found.foreign, "they are left out"),
        (
            Name::UnseenChanges,
            "events that do not fit the kernel's lists",
            notes.found.surprises,
            "something happened that no event shows",
        ),
        (Name::KernelFailures, "allocations that failed in the kernel", notes.found.failed, "they are not replayed"),
    ];
    counted(rows).map(|row| row.warning(""))
}

fn ticks(replay: &Replay<'_>) -> Option<Warning> {
    let notes = replay.notes();
    let decays = replay.kernel_rules().tuning.auto_high;
    (decays && notes.found.ticks == 0 && notes.duration_ns >= TICKS_EXPECTED_AFTER_NS).then(|| {
        Warning::new(Name::NoDecay, "no run of the once-a-second decay was recorded, so drain pages can be off by up to 100 %; record the event \
         workqueue_execute_start of vmstat_update, as `pageset record` does")
    })
}

/// The warning about too few refills or drains.
fn samples(facts: &Facts, replay: &Replay<'_>) -> Option<Warning> {
    let totals = replay.kernel().totals(|_| true);
    let few = |count, refilled| match count {
        0 => Some(format!("never {refilled}")),
        _ => (count < MOVES_MIN).then(|| format!("{refilled} only {count} times")),
    };
    // A count of an event that was not recorded says nothing about the kernel.
    let moves =
        [("mm_page_alloc_zone_locked", totals.refills, "refilled"), ("mm_page_pcpu_drain", totals.drains, "drained")];
    let moves = moves.into_iter().filter(|(event, ..)| was_recorded(facts, event));
    let few: Vec<_> = moves.filter_map(|(_, count, did)| few(count, did)).collect();
    let sentence = |few| {
        Warning::new(Name::FewSamples, format!("the kernel {few}: a small sample, of which percentages say little"))
    };
    (!few.is_empty()).then(|| sentence(few.join(" and ")))
}

/// Warnings about one replay.
pub(super) fn of_run(outcome: &Outcome, notes: &Notes) -> Vec<Counted> {
    // The input shows bulk allocations only by the frees of their pages. A warning about the recording reports them.
    let reported = if outcome.level == Level::Input { notes.found.bulk_allocs } else { 0 };
    counted([
        (
            Name::ReplayFailures,
            "allocations that failed in the replay only",
            outcome.failed,
            "their frees are left out too",
        ),
        (
            Name::BelowMin,
            "allocations made below the min watermark",
            outcome.below_min,
            "less memory is free in the replay than the kernel had",
        ),
        (Name::TakenTwice, "blocks taken twice", outcome.lost_frees, "the free between is not recorded"),
        (
            Name::NotMade,
            "operations that could not be made",
            outcome.refused_frees,
            "their pages or CPUs are not known",
        ),
        (
            Name::FreedUnseen,
            "blocks freed that were never seen to be taken",
            outcome.unseen_allocs.saturating_sub(reported),
            "they are taken just before",
        ),
        (
            Name::UnclearStarts,
            "pagesets whose first moves fit several starts, or none",
            outcome.borrowed.unclear_starts,
            "the most likely start is replayed, so their next moves may differ",
        ),
    ])
    .chain(kernel_ticks(&outcome.borrowed, &notes.found))
    .collect()
}

/// The warning that many drains of other nodes' idle pages come at the kernel's ticks, which wrong rules would need as well.
pub(crate) fn kernel_ticks(borrowed: &Borrowed, found: &Found) -> Option<Counted> {
    let count = borrowed.unseen_counter_changes;
    (100 * count > KERNEL_TICKS_MAX_PCT * found.expiries).then(|| Counted {
        name: Name::KernelTicks,
        what: "ticks at which only the kernel's drains, or that there is none, tell whether another node's idle pages go",
        count,
        why: format!("the kernel has {} such drains, so these ticks are not tested", grouped(found.expiries)).into(),
    })
}

/// The warning that the input does not decide the result: replays with one moment the other way leave the limits around it.
pub(super) fn undecided(written: &Totals, others: &[Totals], notes: &Notes) -> Option<Counted> {
    let differ: Vec<&Totals> = others.iter().filter(|other| !agrees(written, other)).collect();
    let ranges = deviations(written, written).into_iter().enumerate().filter_map(|(at, deviation)| {
        let of = |other: &Totals| deviations(written, other)[at];
        let is_beyond = differ.iter().any(|other| !of(other).is_within());
        let amounts = || differ.iter().map(|other| of(other).replay).chain([deviation.kernel]);
        let (least, most) = (amounts().min()?, amounts().max()?);
        is_beyond.then(|| format!("{} {} to {}", deviation.limit.quantity.name(), grouped(least), grouped(most)))
    });
    let ranges = ranges.collect::<Vec<_>>().join(", ");
    (!differ.is_empty()).then(|| Counted {
        name: Name::UndecidedMoments,
        what: "allocations and frees whose moment the input does not tell",
        count: notes.found.undecided_allocs + notes.found.undecided_frees,
        why: format!("with one the other way, {} of {} replays differ: {ranges}", differ.len(), others.len()).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::Zoneinfo;

    #[test]
    fn a_result_is_undecided_if_another_way_leaves_its_limits() {
        let totals = |refills, refill_pages| Totals { refills, refill_pages, drains: 0, drain_pages: 0 };
        let mut notes = Notes::default();
        (notes.found.undecided_allocs, notes.found.undecided_frees) = (40, 2);
        let of = |others: &[Totals]| undecided(&totals(50, 6035), others, &notes).map(|counted| counted.to_string());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[totals(50, 6035), totals(52, 5972)]), None, "within the limits");
        let expected = "allocations and frees whose moment the input does not tell: 42; with one the other way, 1 of 2 replays differ: \
                        refill pages 5,846 to 6,035";
        assert_eq!(of(&[totals(50, 6035), totals(49, 5846)]).as_deref(), Some(expected));
    }

    #[test]
    fn more_than_a_tenth_of_the_drains_at_the_kernels_ticks_is_a_warning() {
        let of = |unseen_counter_changes, expiries| {
            let borrowed = Borrowed { unseen_counter_changes, ..Borrowed::default() };
            kernel_ticks(&borrowed, &Found { expiries, ..Found::default() })
                .map(|counted| (counted.name, counted.count))
        };
        assert_eq!([of(0, 0), of(0, 40), of(4, 40)], [None; 3]);
        assert_eq!([of(5, 40), of(1, 0)], [5, 1].map(|count| Some((Name::KernelTicks, count))));
    }

    /// The high watermark that the kernel prints, 1132 pages, includes its boost of 512.
    #[test]
    fn a_boost_counts_once() {
        let info =
            Zoneinfo::parse(include_str!("../../tests/zoneinfo/linux-6.1-boosted.txt")).expect("a kernel's zoneinfo");
        let zone = info.zone(0, "DMA32").expect("the zone DMA32");
        for (free, is_near) in [(1131, true), (1132, true), (1133, false), (1132 + 512, false)] {
            assert_eq!(is_near_high(&ZoneSection { free, ..zone.clone() }), is_near, "{free} free pages");
        }
        assert!(!is_near_high(&ZoneSection { free: 0, managed: 0, ..zone.clone() }), "no pages");
    }
}
