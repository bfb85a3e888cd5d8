//! The card of a benchmark.

use pageset_bench::Report;
use pageset_bench::floors::FLOOR_B;
use pageset_bench::ours::NAME as OURS;
use pageset_bench::report::Row;
use pageset_report::page::card::Trust;
use pageset_statistics::geometric_mean;

use super::{Card, Figure, Kind, Verdict, number, times, trust};

/// The largest share of thrown away samples of a quiet machine. A guess. Unit: percent.
const THROWN_PCT_MAX: f64 = 5.0;
/// The share from which most of the machine was not the benchmark's. A guess. Unit: percent.
const BUSY_PCT: f64 = 50.0;

/// Whether a row is of another allocator, not of a floor.
fn is_peer(row: &Row) -> bool {
    row.who != OURS && row.who != "harness" && !row.who.starts_with("floor ")
}

/// The card of a benchmark. The control is floor b: the least that a page cache per CPU costs.
pub(in super::super) fn bench(report: &Report) -> Card {
    let of = |who: &str, like: &Row| {
        let same = |row: &&Row| row.who == who && row.pattern == like.pattern && row.threads == like.threads;
        report.rows.iter().find(same).and_then(Row::median)
    };
    let ours: Vec<(&Row, f64)> =
        report.rows.iter().filter(|row| row.who == OURS).filter_map(|row| Some((row, row.median()?))).collect();
    let ratios: Vec<(&Row, f64)> = ours.iter().filter_map(|(row, ns)| Some((*row, ns / of(FLOOR_B, row)?))).collect();
    let mean = geometric_mean(&ratios.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>());
    let best_peer = |like: &Row| {
        let same = |row: &&Row| is_peer(row) && row.pattern == like.pattern && row.threads == like.threads;
        report.rows.iter().filter(same).filter_map(Row::median).reduce(f64::min)
    };
    let peers: Vec<(&Row, f64)> = ours.iter().filter_map(|(row, ns)| Some((*row, ns / best_peer(row)?))).collect();
    let fastest = peers.iter().filter(|(_, ratio)| *ratio <= 1.0).count();
    let verdict = match (ours.first(), mean) {
        (None, _) => Verdict::none("No sample of the pool was kept"),
        (_, None) => Verdict::none(format!("Floor b, the control, has no kept sample; try --who '{FLOOR_B},{OURS}'")),
        (_, Some(mean)) if peers.is_empty() => {
            let ratio = times(mean, 1.0).unwrap_or_default();
            let text = format!("The pool takes {ratio} times as long as the lowest possible cost, {FLOOR_B}");
            Verdict::new(Kind::Differs, text, format!("Geometric mean of {} figures", ratios.len()))
        }
        _ => {
            let text = format!("The pool is the fastest in {fastest} of {} figures", peers.len());
            let kind = if fastest == peers.len() { Kind::Same } else { Kind::Differs };
            Verdict::new(kind, text, "Compared with the fastest other allocator under the same pattern and threads")
        }
    };
    let first = ours.first().filter(|_| mean.is_some());
    let worst = if peers.is_empty() { &ratios } else { &peers };
    let worst = worst.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let against = if peers.is_empty() { FLOOR_B } else { "the fastest other" };
    let figures = [
        match first {
            Some((row, ns)) => {
                let floor = of(FLOOR_B, row).map(|floor| format!("; {FLOOR_B}: {}", number(floor))).unwrap_or_default();
                Figure::new("a pair", *ns, "ns").with_note(format!("{}, {} threads{floor}", row.pattern, row.threads))
            }
            None => Figure::new("a pair", None, "ns"),
        },
        Figure::new(format!("mean against {FLOOR_B}"), mean, "times"),
        Figure::new(format!("worst against {against}"), worst.map(|worst| worst.1), "times")
            .with_note(worst.map(|(row, _)| format!("{}, {} threads", row.pattern, row.threads)).unwrap_or_default()),
    ];
    let thrown: u32 = report.rows.iter().map(|row| row.discarded).sum();
    let kept: usize = report.rows.iter().map(|row| row.ns_per_pair.len()).sum();
    let thrown_pct = 100.0 * f64::from(thrown) / (f64::from(thrown) + kept as f64).max(1.0);
    let pinned = report.rows.iter().all(|row| row.not_pinned == 0);
    let few = ours.iter().map(|(row, _)| row.ns_per_pair.len()).min().unwrap_or(0);
    let lost = format!("{thrown_pct:.0} % of the samples were thrown away: other programs used the CPUs");
    let sure = trust(
        [
            (thrown_pct > BUSY_PCT, Trust::Low, lost.clone()),
            (thrown_pct > THROWN_PCT_MAX && thrown_pct <= BUSY_PCT, Trust::Fair, lost),
            (!pinned, Trust::Fair, "a thread could not be pinned to its CPU".to_owned()),
            (report.interrupted, Trust::Fair, "the benchmark was interrupted".to_owned()),
            (few < 3, Trust::Low, format!("a figure of the pool has {few} samples")),
        ],
        "the threads had their CPUs in nearly all samples",
    );
    let about = format!("Benchmark of the pool on {}", report.machine.processor);
    Card { about, verdict, sure, figures, warnings: report.warnings(), next: None }
}
