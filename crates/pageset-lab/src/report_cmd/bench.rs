//! The sections of a result of `pageset-lab bench --json`.

use indexmap::{IndexMap, IndexSet};
use pageset_bench::Report as BenchReport;
use pageset_bench::floors::FLOOR_B;
use pageset_bench::report::Row;

use super::draw::{Bars, plain};
use super::sections::{BarSection, bars};
use super::{Report, card};

/// A row's median and quartiles; `None` if all samples were discarded.
fn spread(row: &Row) -> Option<(f64, (f64, f64))> {
    Some((row.median()?, row.quartiles()?))
}

/// Describes the bars, and why some are missing.
fn note(rows: &[&Row]) -> &'static str {
    if rows.iter().any(|row| row.ns_per_pair.is_empty()) {
        return "Medians; whiskers: quartiles. A bar is missing if all its samples were discarded, because other programs \
                used the CPU.";
    }
    "Medians; whiskers: quartiles."
}

pub(crate) fn report(result: BenchReport) -> Result<Report, String> {
    let BenchReport { machine, rows, rounds, window_ns, .. } = &result;
    let mut patterns: IndexMap<&str, Vec<&Row>> = IndexMap::new();
    for row in rows {
        patterns.entry(&row.pattern).or_default().push(row);
    }
    let mut sections = Vec::new();
    for (pattern, rows) in patterns {
        let who: IndexSet<String> = rows.iter().map(|row| row.who.clone()).collect();
        let who: Vec<String> = who.into_iter().collect();
        let threads: IndexSet<usize> = rows.iter().map(|row| row.threads).collect();
        let of_threads = |number: &usize| {
            let find = |name: &String| rows.iter().find(|row| row.who == *name && row.threads == *number);
            let spreads: Vec<Option<_>> = who.iter().map(|name| find(name).and_then(|row| spread(row))).collect();
            Bars {
                name: format!("{number} thread{}", if *number == 1 { "" } else { "s" }),
                values: spreads.iter().map(|spread| spread.map(|spread| spread.0)).collect(),
                whiskers: spreads.iter().map(|spread| spread.map(|spread| spread.1)).collect(),
            }
        };
        sections.push(bars(BarSection {
            question: format!("{pattern}: how long do an allocation and a free of a page take?"),
            note: note(&rows),
            unit: "ns per pair",
            categories: &who,
            series: threads.iter().map(of_threads).collect(),
            is_ordered: false,
            base: who.iter().position(|name| name == FLOOR_B),
        }));
    }
    if sections.is_empty() {
        return Err("the result has no rows".to_owned());
    }
    let mut facts = vec![format!(
        "{}, Linux {}, {} CPUs; up to {rounds} samples of {} ms.",
        machine.processor,
        machine.kernel,
        machine.cpus,
        *window_ns as f64 / 1e6
    )];
    let thrown: u32 = rows.iter().map(|row| row.discarded).sum();
    if thrown > 0 {
        facts.push(format!(
            "{} samples were discarded, because other programs used a thread's CPU. The kept samples may also be slower.",
            plain(thrown.into())
        ));
    }
    Ok(Report { title: "How fast the pool is".to_owned(), cards: vec![card::bench::bench(&result)], facts, sections })
}
