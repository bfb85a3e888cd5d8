//! The sections of results of `pageset replay --json` and `pageset advise --json`.

use std::path::Path;

use pageset_trace::advise::{Advice, AdviceSet, Setting};
use pageset_trace::measure::{ReplayResult, Replayed};
use pageset_trace::replay::Totals;

use super::draw::{Bars, Dot};
use super::sections::{BarSection, bars, decides, strings};
use super::{Report, Section, card};
use crate::columns::grouped;

pub(crate) fn replay(result: &ReplayResult) -> Report {
    let (trace, kernel, name) = (&result.trace, &result.kernel, &result.trace.name);
    // Rows of different levels are never compared.
    let rows: Vec<&Replayed> = result.named().collect();
    let names = rows.iter().map(|row| row.name.clone());
    let with_kernel = |of: fn(&Totals) -> u64| {
        std::iter::once(&kernel.totals)
            .chain(rows.iter().map(|row| &row.totals))
            .map(|totals| of(totals) as f64)
            .collect()
    };
    let all: Vec<String> = std::iter::once("kernel, as recorded".to_owned()).chain(names).collect();
    let note = format!("Level: {}.", result.level.name());
    // What the kernel did is the row to compare with.
    let section = |question: &str, unit, series| {
        let question = format!("{name}: {question}");
        bars(BarSection { question, note: &note, unit, categories: &all, series, is_ordered: false, base: Some(0) })
    };
    let best = result.verdict().rows().map(|(best, _)| best.name.clone());
    let dot = |row: &&Replayed| Dot {
        name: if row.is_kernel { format!("{} (the kernel's)", row.name) } else { row.name.clone() },
        is_own: row.is_kernel,
        is_best: best.as_ref() == Some(&row.name),
        ..Dot::of(*row)
    };
    let mut sections = vec![
        decides::<Replayed>(
            format!("{name}: which rules take few zone locks and hold few pages?"),
            &note,
            rows.iter().map(dot),
        ),
        section(
            "how many pages do refills and drains move?",
            "pages",
            vec![
                Bars::new("refill pages", with_kernel(|totals| totals.refill_pages)),
                Bars::new("drain pages", with_kernel(|totals| totals.drain_pages)),
            ],
        ),
        section(
            "how many refills and drains are there?",
            "refills, drains",
            vec![
                Bars::new("refills", with_kernel(|totals| totals.refills)),
                Bars::new("drains", with_kernel(|totals| totals.drains)),
            ],
        ),
    ];
    let nearness = |row: &Replayed| {
        let pct = |pct: Option<f64>| pct.map_or("-".to_owned(), |pct| format!("{pct:.2} %"));
        let ([refills, refill_pages, _, drain_pages], [(near, _), _]) = (row.differences.all(), row.near.all());
        let cells = [refills, refill_pages, drain_pages, near].map(pct);
        [vec![format!("{}, {}", row.name, row.level.name())], cells.to_vec()].concat()
    };
    let own: Vec<_> = result.rules.iter().filter(|row| row.is_kernel).map(nearness).collect();
    if !own.is_empty() {
        sections.push(Section {
            question: format!("{name}: how closely does a replay under the kernel's own rules follow the kernel?"),
            note: String::new(),
            chart: None,
            heads: strings(&["rules", "refills", "refill pages", "drain pages", "refills near"]),
            rows: own,
        });
    }
    let facts = vec![format!(
        "Kernel rules {}; {} CPUs; {} allocations and frees in {:.3} s.",
        kernel.rules,
        trace.cpus,
        grouped(trace.operations),
        trace.duration_ns as f64 / 1e9
    )];
    Report { title: format!("Replay of {name}"), cards: vec![card::replay::replay(result)], facts, sections }
}

/// Reports on an advice. `file` is the recording, if it is known.
pub(crate) fn advise(advice: &Advice, file: Option<&Path>) -> Report {
    let name = &advice.trace;
    let rows: Vec<&Setting> = advice.settings.iter().chain(&advice.other_kernels).collect();
    let label = |row: &&Setting| format!("{}{}", row.setting, if row.in_force { " (in force)" } else { "" });
    let names: Vec<String> = rows.iter().map(label).collect();
    let in_force = rows.iter().position(|row| row.in_force);
    let section = |question: &str, note, unit, series| {
        let question = format!("{name}: {question}");
        bars(BarSection { question, note, unit, categories: &names, series, is_ordered: false, base: in_force })
    };
    let chosen = advice.verdict.chosen(advice.settings.iter().chain(advice.scales()));
    let scale = chosen.filter(|chosen| chosen.watermark_scale_factor.is_some());
    let dot = |row: &&Setting| Dot {
        name: match row.watermark_scale_factor {
            Some(scale) => format!("watermark_scale_factor {scale}"),
            None => label(row),
        },
        is_own: row.in_force,
        is_best: chosen.map_or(row.in_force, |chosen| std::ptr::eq(*row, chosen)),
        ..Dot::of(*row)
    };
    let note = match rows.iter().any(|row| row.high_fraction.is_some()) {
        true => "Numbers are values of vm.percpu_pagelist_high_fraction; names are the rules of other kernels.",
        false => "This kernel's setting is not replayed; names are the rules of other kernels.",
    };
    let question = format!("{name}: which setting takes few zone locks and holds few pages?");
    let mut sections = vec![decides::<Setting>(question, note, rows.iter().copied().chain(scale).map(|row| dot(&row)))];
    let huge = rows.iter().map(|row| Some(row.huge_pages_free? as f64));
    if let Some(huge) = huge.collect::<Option<Vec<_>>>() {
        sections.push(section(
            "how many huge pages have room under each setting?",
            "The smallest number of free blocks of orders 9 and 10. Memory that stays in use is not replayed, so compare \
             the bars only with each other.",
            "huge pages",
            vec![Bars::new("huge pages free", huge)],
        ));
    }
    sections.extend(advice.knobs.iter().filter(|knob| !knob.settings.is_empty()).map(|knob| {
        let names: Vec<String> = knob.settings.iter().map(|row| label(&row)).collect();
        let locks = knob.settings.iter().map(|row| Dot::of(row).locks).collect();
        let [heading, _] = Dot::headings::<Setting>();
        bars(BarSection {
            question: format!("{name}: how often does each value of {} take the zone lock?", knob.knob.name()),
            note: "Values that a replay cannot tell of have no bar.",
            unit: "holds of zone locks per 1000 allocations and frees",
            categories: &names,
            series: vec![Bars::new(&heading, locks)],
            is_ordered: false,
            base: knob.settings.iter().position(|row| row.in_force),
        })
    }));
    let mut facts = Vec::new();
    for (head, said) in [("Gain", &advice.gain), ("Price", &advice.price), ("Affinity", &advice.affinity_gain())] {
        facts.extend(said.as_ref().map(|said| format!("{head}: {said}.")));
    }
    let pattern = |pattern: &pageset_trace::advise::Named| format!("Pattern {}: {}.", pattern.name, pattern.seen);
    facts.extend(advice.named_patterns.iter().map(pattern));
    Report { title: format!("Advice on {name}"), cards: vec![card::advise::advise(advice, file)], facts, sections }
}

/// The reports of all recordings of a set as one, below the card of the verdict over all.
pub(crate) fn advise_set(set: &AdviceSet, mut recordings: Report) -> Report {
    recordings.title = format!("Advice on {} recordings", set.recordings.len());
    recordings.cards.insert(0, card::advise::joint(set));
    recordings
}
