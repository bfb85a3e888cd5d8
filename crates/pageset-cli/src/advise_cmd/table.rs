//! The advice as text: the verdict first, then its reasons.

use comfy_table::{Table, presets};
use pageset_trace::advise::{Advice, AdviceSet, HUGE_PAGES, Knob, KnobName, Setting};

use crate::columns::{Fit, Shown, grouped};

const SYSCTL: &str = "vm.percpu_pagelist_high_fraction";

pub(super) fn text(advice: &Advice, fit: Fit) -> String {
    let mut text = fit.words(head(advice));
    text += &match advice.settings.iter().any(|row| row.high_fraction.is_some()) {
        true => format!("\nValues of {SYSCTL}; 0 is no fraction, * is in force\n"),
        false => "\nThe recorded kernel; vm.percpu_pagelist_fraction is not replayed, * is in force\n".to_owned(),
    };
    text += &table(&advice.settings, fit);
    text += &fit.prose(&huge_pages_off(advice.high_orders.replay_end_pages, advice.high_orders.kernel_end_pages));
    advice.knobs.iter().for_each(|knob| text += &of_knob(knob, fit));
    if !advice.other_kernels.is_empty() {
        text += "\nRules of other kernels\n";
        text += &table(&advice.other_kernels, fit);
    }
    if !advice.named_patterns.is_empty() {
        text += "\nPatterns\n";
        for pattern in &advice.named_patterns {
            text += &fit.prose(&format!(" {} [{}]\n", pattern.seen, pattern.name));
        }
    }
    text + "\n`pageset explain NAME` describes each column and pattern.\n"
}

/// The replays of a knob, and what a replay cannot tell of it.
fn of_knob(knob: &Knob, fit: Fit) -> String {
    let mut text = match knob.knob {
        KnobName::WatermarkScaleFactor => "\nValues of vm.watermark_scale_factor; * gives the watermarks in force\n",
        KnobName::Affinity => "\nPages freed on the CPU that allocated them\n",
        KnobName::HugePages => "\nHuge pages: transparent_hugepage/enabled and defrag, vm.nr_hugepages\n",
        KnobName::HighOrderAllocDisable => "\nBlocks of order 3 for sockets: net.core.high_order_alloc_disable\n",
    }
    .to_owned();
    if !knob.settings.is_empty() {
        text += &table(&knob.settings, fit);
    }
    for cannot in &knob.not_replayable {
        let setting = cannot.setting.as_ref().map(|setting| format!("{setting} ")).unwrap_or_default();
        text += &fit.prose(&format!(" {setting}not replayable: {}\n", cannot.why));
    }
    knob.notes.iter().for_each(|note| text += &fit.prose(&format!(" {note}\n")));
    text
}

/// The verdict and what it rests on, then what was recorded.
fn head(advice: &Advice) -> Table {
    let mut lines = Table::new();
    lines.load_preset(presets::NOTHING);
    let mut line = |name: &str, value: String| {
        lines.add_row([name.to_owned(), value]);
    };
    line("verdict", advice.verdict.text());
    line("why", advice.verdict.why.clone());
    for (name, said) in [("gain", &advice.gain), ("price", &advice.price)] {
        if let Some(said) = said {
            line(name, said.clone());
        }
    }
    if let Some(said) = advice.affinity_gain() {
        line("affinity", said);
    }
    let first = advice.sure.reasons.first().map_or("", |reason| reason.text.as_str());
    line("trust", format!("{}: {first}", advice.sure.trust.name()));
    advice.sure.reasons.iter().skip(1).for_each(|reason| line("", reason.text.clone()));
    let kernel = &advice.kernel;
    line("recording", advice.trace.clone());
    let guess = if kernel.known { "rules" } else { "assumed rules" };
    line("kernel", format!("{}, {guess} {}", kernel.release.as_deref().unwrap_or("not recorded"), kernel.rules));
    if let Some(disagreement) = &kernel.disagreement {
        line("traffic", disagreement.clone());
    }
    let seconds = advice.duration_ns as f64 / 1e9;
    line(
        "load",
        format!("{} allocations and frees in {seconds:.3} s on {} CPUs", grouped(advice.operations), advice.cpus),
    );
    lines
}

/// The verdict over several recordings.
pub(super) fn joint(set: &AdviceSet, fit: Fit) -> String {
    let mut lines = Table::new();
    lines.load_preset(presets::NOTHING);
    lines.add_row(["verdict".to_owned(), set.verdict.text()]);
    lines.add_row(["why".to_owned(), set.verdict.why.clone()]);
    for (name, said) in [("gain", &set.gain), ("price", &set.price)] {
        if let Some(said) = said {
            lines.add_row([name.to_owned(), said.clone()]);
        }
    }
    lines.add_row(["all recordings".to_owned(), set.recordings.len().to_string()]);
    if !set.left_out.is_empty() {
        let why = format!("{}: the replay does not follow the kernel", set.left_out.join(", "));
        lines.add_row(["left out".to_owned(), why]);
    }
    fit.words(lines)
}

/// The largest difference between the replay's room for huge pages and the kernel's that needs no note. A guess. Unit:
/// percent.
const HUGE_PAGES_OFF_PCT: f64 = 5.0;

/// A note on the column of huge pages, if the replay of the setting in force ends with other room than the kernel. Else
/// empty.
fn huge_pages_off(replay: Option<u64>, kernel: Option<u64>) -> String {
    let Some((replay, kernel)) = replay.zip(kernel) else { return String::new() };
    if replay.abs_diff(kernel) as f64 * 100.0 <= HUGE_PAGES_OFF_PCT * kernel as f64 {
        return String::new();
    }
    format!(
        " huge pages free: compare rows only; the replay ends with {}, the kernel ended with {}\n",
        grouped(replay / HUGE_PAGES),
        grouped(kernel / HUGE_PAGES)
    )
}

fn table(rows: &[Setting], fit: Fit) -> String {
    let shown = Shown::of::<Setting>("settings");
    let mut table = shown.table();
    for row in rows {
        let mut cells = shown.cells(row);
        cells[0] += if row.in_force { " *" } else { "" };
        table.add_row(cells);
    }
    fit.table(table, &shown.ranks())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_shows_other_room_for_huge_pages() {
        for (replay, kernel, said) in [
            (Some(100 * 512), Some(100 * 512), ""),
            (Some(105 * 512), Some(100 * 512), ""),
            (Some(94 * 512), Some(100 * 512), "the replay ends with 94, the kernel ended with 100\n"),
            (Some(1), None, ""),
        ] {
            let text = huge_pages_off(replay, kernel);
            assert!(text.ends_with(said) && text.is_empty() == said.is_empty(), "{text}");
        }
    }
}
