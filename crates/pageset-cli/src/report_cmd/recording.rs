//! The sections of a recording: what the kernel did.

use std::collections::BTreeMap;

use pageset_trace::replay::{Move, Replay};
use pageset_trace::{Event, Kind, Trace};

use super::draw::{Bars, Chart};
use super::sections::lines;
use super::{Report, Section};
use crate::columns::grouped;
use crate::error::Failure;

/// Reports on a recording.
///
/// # Errors
/// A damaged recording.
pub(super) fn report(trace: &Trace) -> Result<Report, Failure> {
    let mut times = BTreeMap::new();
    let mut begin = None;
    for event in trace.events()? {
        let Event { time_ns, kind, .. } = event?;
        begin.get_or_insert(time_ns);
        if let Kind::SnapshotEnd(tag) = kind {
            times.insert(tag, time_ns);
        }
    }
    let begin = begin.unwrap_or(0);
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
    let replay = Replay::prepare(trace, &mut |_| {})?;
    let kernel = replay.kernel();
    let mut sections = Vec::new();
    if !counts.is_empty() {
        let question = "How many pages did each CPU's pageset hold, and what was its limit?".to_owned();
        let note = "From the kernel's own snapshots. Dashed: high, the limit.";
        sections.push(lines(question, note, "pages", counts, highs));
    }
    sections.push(sizes(&kernel.refills, &kernel.drains));
    let totals = kernel.totals(|_| true);
    let notes = replay.notes();
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
    Ok(Report { title: format!("Recording {}", trace.name()), facts, sections })
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
    let rows = (0..classes)
        .map(|i| vec![categories[i].clone(), grouped(refilled[i] as u64), grouped(drained[i] as u64)])
        .collect();
    Section {
        question: "How large are refills and drains?".to_owned(),
        note: "Pages moved by a single refill or drain, which holds the zone lock once.".to_owned(),
        chart: Some(Chart::Bars {
            unit: "refills, drains",
            categories,
            series: vec![Bars::new("refills", refilled), Bars::new("drains", drained)],
        }),
        heads: ["pages", "refills", "drains"].map(str::to_owned).to_vec(),
        rows,
    }
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
