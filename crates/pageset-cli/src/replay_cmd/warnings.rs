//! What weakens a result: one short sentence each, with what mends it where something does.

use std::collections::BTreeSet;

use pageset_trace::replay::{Level, Notes, Outcome, Replay};
use pageset_trace::{Facts, Loss, Trace};

use crate::columns::grouped;

/// Fewer refills or drains of the kernel than this say little in percent. A guess: one of them is 1 %.
const FEW: u64 = 100;
/// The timer work runs once a second on every CPU that does anything; this long without any is no chance.
/// Unit: nanoseconds.
const TICKS_EXPECTED_AFTER_NS: u64 = 2_000_000_000;

/// Something that happened so often, and what that means.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// How often.
    pub(super) count: u64,
    /// What goes behind the count.
    pub(super) what: &'static str,
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", grouped(self.count), self.what)
    }
}

/// The CPUs that lost events.
pub(super) fn lost_on(facts: &Facts) -> String {
    let cpus: Vec<String> = facts.loss.iter().filter(|loss| loss.any()).map(|loss| loss.cpu.to_string()).collect();
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, cpus.join(", "))
}

/// What weakens every replay of a recording.
pub(super) fn of_trace(trace: &Trace, replay: &Replay<'_>, level: Level) -> Vec<String> {
    let (facts, notes) = (trace.facts(), replay.notes());
    let mut all = Vec::new();
    all.extend(losses(facts));
    all.extend(machine(trace, replay));
    all.extend(marks(trace));
    all.extend(unseen(notes, level));
    all.extend(ticks(replay));
    all.extend(samples(replay));
    all
}

fn losses(facts: &Facts) -> Vec<String> {
    let mut all = Vec::new();
    if facts.lost_events() {
        let count = |f: fn(&Loss) -> u64| facts.loss.iter().map(f).fold(0, u64::saturating_add);
        let events = count(|l| l.overrun.saturating_add(l.commit_overrun).saturating_add(l.dropped));
        let pages = count(|l| l.missed_pages);
        all.push(format!(
            "events were lost on {} ({} counted, {} buffer pages with gaps), so the result is wrong by an unknown \
             amount; record with a larger --buffer",
            lost_on(facts),
            grouped(events),
            grouped(pages)
        ));
    } else if facts.loss.is_empty() {
        all.push("nothing tells whether events were lost; `pageset record` keeps the ring buffers' counts".to_owned());
    }
    if facts.after_full > 0 {
        all.push(format!(
            "a ring buffer was full, so the recording ends there and {} later events are not in it; record with a \
             larger --buffer",
            grouped(facts.after_full)
        ));
    }
    all
}

/// The kernel, its nodes, and the snapshots.
fn machine(trace: &Trace, replay: &Replay<'_>) -> Vec<String> {
    let (facts, setting, snapshots) = (trace.facts(), replay.setting(), trace.snapshots());
    let mut all = Vec::new();
    if !setting.kernel_known {
        all.push(format!(
            "the recording does not name its kernel; from the form of its zoneinfo it is taken to have the rules of {}",
            setting.kernel.name
        ));
    }
    if setting.cpus.iter().collect::<BTreeSet<_>>().len() > 1 {
        all.push("which CPU is on which node is not recorded; they are taken to be dealt out in equal runs".to_owned());
    }
    let (page, block) = (Facts::DEFAULT_PAGE_SIZE, Facts::DEFAULT_PAGEBLOCK_ORDER);
    if (facts.page_size, facts.pageblock_order) != (page, block) {
        all.push(format!(
            "the machine has pages of {} bytes and pageblocks of order {}; they are replayed as {page} and {block}",
            facts.page_size, facts.pageblock_order
        ));
    }
    if replay.notes().markers == 0 {
        all.push(
            "no marker says when the zoneinfo was read, so the replay starts with the first event; `pageset record` \
             sets markers"
                .to_owned(),
        );
    }
    if snapshots.zoneinfo.len() < 2 {
        all.push(
            "there is only one zoneinfo, so watermarks and zone sizes are taken not to change; `pageset record` reads \
             it ten times a second"
                .to_owned(),
        );
    }
    if snapshots.pagetypeinfo.is_empty() {
        all.push(
            "there is no pagetypeinfo, so the migratetypes of the free memory are guessed; `pageset record` takes it \
             along"
                .to_owned(),
        );
    }
    all
}

/// Zones near their high watermark, and zones that grew or shrank, while recording.
fn marks(trace: &Trace) -> Vec<String> {
    let snapshots = trace.snapshots();
    let (Some((first, start)), Some((last, _))) = (snapshots.start(), snapshots.end()) else { return Vec::new() };
    let place = |tag: &String| snapshots.zoneinfo.iter().position(|(t, _)| t == tag).unwrap_or(0);
    let (first, last) = (place(first), place(last));
    let within = &snapshots.zoneinfo[first..=last.max(first)];
    let mut all = Vec::new();
    for section in &start.zones {
        let states = || within.iter().filter_map(|(_, info)| info.zone(section.node, &section.name));
        let name = format!("zone {} of node {}", section.name, section.node);
        let near = states().filter(|z| z.managed > 0 && z.free <= z.high.saturating_add(z.boost)).count();
        if near > 0 {
            all.push(format!(
                "{name} is at or below its high watermark in {near} of {} snapshots, where a replay can be off by \
                 tens of percent; record with more free memory",
                within.len()
            ));
        }
        let managed = || states().map(|z| z.managed);
        if let (Some(least), Some(most)) = (managed().min(), managed().max())
            && least != most
        {
            all.push(format!("{name} had from {} to {} pages while recording", grouped(least), grouped(most)));
        }
    }
    all
}

/// What happened in the kernel and its events do not show, or a replay does not do.
fn unseen(notes: &Notes, level: Level) -> Vec<String> {
    let bulk = match level {
        Level::Input => {
            "blocks were taken in bulk, which writes no event: the input shows them only when they are freed"
        }
        Level::Reconstructed => "blocks were taken in bulk, which writes no event: when is inferred",
    };
    let rows = [
        (notes.reclaims, "events of reclaim (kswapd woken, direct reclaim): what it did to the zones is not replayed"),
        (notes.bulk_allocs, bulk),
        (
            notes.direct_allocs,
            "blocks of cached orders were taken past the pagesets, as when one is busy: no rule says when",
        ),
        (notes.remote_drains, "drains were done by another CPU than the pageset's: nothing tells why"),
        (notes.fallbacks, "blocks came from another migratetype's pageblock: which one depends on unseen free lists"),
        (notes.foreign, "events name pages outside all zones of the snapshots; they are left out"),
        (notes.surprises, "events do not fit what was known of the kernel's lists"),
        (notes.failed, "allocations failed in the kernel; they are not replayed"),
    ];
    let said = rows.into_iter().filter(|(count, _)| *count > 0);
    said.map(|(count, what)| Counted { count, what }.to_string()).collect()
}

fn ticks(replay: &Replay<'_>) -> Option<String> {
    let notes = replay.notes();
    let decays = replay.kernel_rules().tuning.auto_high;
    (decays && notes.ticks == 0 && notes.duration_ns >= TICKS_EXPECTED_AFTER_NS).then(|| {
        "no run of the once-a-second decay was recorded, so drain pages can be off by up to 100 %; record the event \
         workqueue_execute_start of vmstat_update, as `pageset record` does"
            .to_owned()
    })
}

/// Too little to judge by.
fn samples(replay: &Replay<'_>) -> Option<String> {
    let totals = replay.kernel().totals(|_| true);
    let few = [(totals.refills, "refilled"), (totals.drains, "drained")].into_iter().filter(|(count, _)| *count < FEW);
    let few: Vec<String> = few.map(|(count, what)| format!("{what} {count} times")).collect();
    let sentence = |few| format!("the kernel {few} only: a small sample, of which percentages say little");
    (!few.is_empty()).then(|| sentence(few.join(" and ")))
}

/// What weakens one replay.
pub(super) fn of_run(outcome: &Outcome, notes: &Notes) -> Vec<Counted> {
    let rows = [
        (outcome.failed, "allocations failed that the kernel made"),
        (outcome.below_min, "allocations were made below the min watermark: less is free than the kernel had"),
        (outcome.lost_frees, "blocks were taken twice with no free recorded between"),
        (outcome.refused_frees, "operations could not be made: their pages or CPUs are not known"),
        // Those that the survey inferred are told of the recording.
        (
            outcome.unseen_allocs.saturating_sub(notes.bulk_allocs),
            "blocks were freed that were never seen to be taken; they are taken just before",
        ),
    ];
    rows.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| Counted { count, what }).collect()
}
