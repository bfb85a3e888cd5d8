//! The card of a benchmark.

use pageset_bench::Report;
use pageset_bench::floors::FLOOR_B;
use pageset_bench::ours::NAME as OURS;
use pageset_bench::verdict::{Verdict as Judged, Weakness};

use super::{Card, Figure, Verdict, number, sure, times};

pub(crate) fn bench(report: &Report) -> Card {
    let judged = Judged::of(report);
    let (fastest, peers) = (judged.fastest(), judged.peers.len());
    let verdict = match (judged.first, judged.mean) {
        (None, _) => Verdict::none("No sample of the pool was kept"),
        (_, None) => Verdict::none(format!("Floor b, the control, has no kept sample; try --who '{FLOOR_B},{OURS}'")),
        (_, Some(mean)) if peers == 0 => {
            let ratio = times(mean, 1.0).unwrap_or_default();
            let text = format!("The pool takes {ratio} times as long as the lowest possible cost, {FLOOR_B}");
            Verdict::new(judged.kind(), text, format!("Geometric mean of {} figures", judged.floor.len()))
        }
        _ => {
            let text = format!("The pool is the fastest in {fastest} of {peers} figures");
            let why = "Compared with the fastest other allocator under the same pattern and threads";
            Verdict::new(judged.kind(), text, why)
        }
    };
    let figures = [
        match judged.first.filter(|_| judged.mean.is_some()) {
            Some((row, ns, floor)) => {
                let floor = floor.map(|floor| format!("; {FLOOR_B}: {}", number(floor))).unwrap_or_default();
                Figure::new("a pair", ns, "ns").with_note(format!("{}, {} threads{floor}", row.pattern, row.threads))
            }
            None => Figure::new("a pair", None, "ns"),
        },
        Figure::new(format!("mean against {FLOOR_B}"), judged.mean, "times"),
        {
            let (worst, against) = (judged.worst(), if peers == 0 { FLOOR_B } else { "the fastest other" });
            let note = worst.map(|(row, _)| format!("{}, {} threads", row.pattern, row.threads)).unwrap_or_default();
            Figure::new(format!("worst against {against}"), worst.map(|worst| worst.1), "times").with_note(note)
        },
    ];
    let weak = Weakness::of(report).into_iter().map(|weakness| (weakness.trust(), weakness));
    let sure = sure(weak, "the threads had their CPUs in nearly all samples");
    let about = format!("Benchmark of the pool on {}", report.machine.processor);
    Card { about, verdict, sure, figures, warnings: report.warnings(), next: None }
}
