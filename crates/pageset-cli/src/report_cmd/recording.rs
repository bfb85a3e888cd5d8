//! The sections of a recording: what the kernel did.

use std::collections::BTreeMap;
use std::path::Path;

use pageset_trace::advise::Advice;
use pageset_trace::measure::of_recording;
use pageset_trace::replay::{Move, Moves, Replay};
use pageset_trace::{Event, Kind, Trace};

use super::draw::{Bars, Joined};
use super::sections::{BarSection, Point, bars, lines, map};
use super::{Report, Section, results};
use crate::columns::grouped;
use crate::error::Failure;
use crate::replay_cmd::progress::Progress;

/// Reports on a recording: the advice on it, and what the kernel did.
pub(crate) fn report(path: &Path, trace: &Trace) -> Result<Report, Failure> {
    let mut progress = Progress::new(trace);
    let advice = Advice::of(trace, &mut |step| progress.step(step))?;
    progress.clear();
    let replay = Replay::prepare(trace, &mut |_| {})?;
    let mut moved = Places::new(replay.kernel());
    let mut times = BTreeMap::new();
    let mut begin = None;
    let mut end = 0;
    for event in trace.events()? {
        let Event { time_ns, kind, .. } = event?;
        let begin = *begin.get_or_insert(time_ns);
        end = time_ns;
        moved.event(kind.is_input(), time_ns.saturating_sub(begin) as f64 / 1e9);
        if let Kind::SnapshotEnd(tag) = kind {
            times.insert(tag, time_ns);
        }
    }
    let begin = begin.unwrap_or(0);
    let seconds = end.saturating_sub(begin) as f64 / 1e9;
    let (mut counts, mut highs) = (BTreeMap::new(), BTreeMap::new());
    for (tag, info) in &trace.snapshots().zoneinfo {
        let Some(time) = times.get(tag) else { continue };
        let at = time.saturating_sub(begin) as f64 / 1e9;
        for zone in info.zones.iter().filter(|zone| zone.managed > 0) {
            for set in &zone.pagesets {
                let name = format!("CPU {}, {} {}", set.cpu, zone.node, zone.name);
                counts.entry(name.clone()).or_insert_with(Vec::new).push((at, set.count as f64));
                highs.entry(name).or_insert_with(Vec::new).push((at, set.high as f64));
            }
        }
    }
    let kernel = replay.kernel();
    let mut report = results::advise(&advice, Some(path));
    let others = report.sections.split_off(1.min(report.sections.len()));
    let sections = &mut report.sections;
    if !counts.is_empty() {
        let question = "How many pages did each CPU's pageset hold, and what was its limit?".to_owned();
        let note = "From the kernel's own snapshots. Dashed: high, the limit.";
        sections.push(lines(question, note, "pages", counts, highs));
    }
    sections.extend(map(
        "Which CPUs move pages through the zone lock, and when?",
        "Pages of the kernel's refills and drains.",
        "pages",
        &moved.points,
        seconds,
        Joined::Sum,
    ));
    sections.push(sizes(&kernel.refills, &kernel.drains));
    let totals = kernel.totals(|_| true);
    let notes = replay.notes();
    sections.extend(others);
    let facts = vec![
        format!(
            "Kernel {}, rules {}; {} CPUs; {} allocations and frees in {:.3} s.",
            trace.facts().kernel_release.as_deref().unwrap_or("not recorded"),
            replay.setting().kernel.name,
            replay.setting().cpus.len(),
            grouped(notes.operations),
            notes.duration_ns as f64 / 1e9
        ),
        format!(
            "The kernel made {} refills of {} pages and {} drains of {} pages.",
            grouped(totals.refills),
            grouped(totals.refill_pages),
            grouped(totals.drains),
            grouped(totals.drain_pages)
        ),
    ];
    report.facts.splice(0..0, facts);
    let card = &mut report.cards[0];
    card.about = format!("Recording {}", trace.name());
    card.warnings = of_recording(trace, &replay).iter().map(ToString::to_string).collect();
    report.title.clone_from(&card.about);
    Ok(report)
}

/// The times of moves, which are known by the number of earlier input events.
struct Places<'m> {
    /// In the order of their places, the last first.
    left: Vec<&'m Move>,
    place: u64,
    points: Vec<Point>,
}

impl<'m> Places<'m> {
    fn new(moves: &'m Moves) -> Self {
        let mut left: Vec<&Move> = moves.refills.iter().chain(&moves.drains).collect();
        left.sort_by_key(|moved| std::cmp::Reverse(moved.place));
        Places { left, place: 0, points: Vec::new() }
    }

    /// Takes the time of the next event.
    fn event(&mut self, is_input: bool, seconds: f64) {
        while let Some(moved) = self.left.pop_if(|moved| moved.place <= self.place) {
            self.points.push((moved.cpu.0, seconds, moved.pages.into()));
        }
        self.place += u64::from(is_input);
    }
}

/// Refills and drains by size, in classes that double in width.
fn sizes(refills: &[Move], drains: &[Move]) -> Section {
    let class = |moved: &Move| moved.pages.max(1).ilog2() as usize;
    let classes = refills.iter().chain(drains).map(class).max().map_or(1, |most| most + 1);
    let counted = |moves: &[Move]| {
        let mut counts = vec![0.0; classes];
        moves.iter().for_each(|moved| counts[class(moved)] += 1.0);
        counts
    };
    let (refilled, drained) = (counted(refills), counted(drains));
    let label = |class: usize| {
        if class == 0 { "1".to_owned() } else { format!("{}–{}", 1_u64 << class, (2_u64 << class) - 1) }
    };
    let categories: Vec<String> = (0..classes).map(label).collect();
    bars(BarSection {
        question: "How large are refills and drains?".to_owned(),
        note: "Pages moved by a single refill or drain, which holds the zone lock once.",
        unit: "refills, drains",
        categories: &categories,
        series: vec![Bars::new("refills", refilled), Bars::new("drains", drained)],
        is_ordered: true,
        base: None,
    })
}

#[cfg(test)]
mod tests {
    use pageset::CpuId;

    use super::*;

    #[test]
    fn sizes_are_counted_in_classes() {
        let moves = |all: &[u32]| -> Vec<Move> {
            all.iter().map(|pages| Move { place: 0, zone: 0, cpu: CpuId(0), pages: *pages }).collect()
        };
        let section = sizes(&moves(&[1, 2, 3, 4, 63, 63]), &moves(&[8]));
        let rows: Vec<String> = section.rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["1 1 0", "2–3 2 0", "4–7 1 0", "8–15 0 1", "16–31 0 0", "32–63 2 0"]);
    }
}
