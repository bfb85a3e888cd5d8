//! The advice as text: the verdict first, then what it rests on.

use comfy_table::{Table, presets};

use super::Advice;
use super::verdict::Measured;
use crate::columns::{grouped, numbers, trimmed};

/// What heads the columns.
pub(super) const SETTINGS: [&str; 6] =
    ["setting", "locks/1000 ops", "locks/s", "longest hold", "pages moved", "most held"];

const SYSCTL: &str = "vm.percpu_pagelist_high_fraction";

/// The whole advice.
pub(super) fn text(advice: &Advice<'_>) -> String {
    let mut text = trimmed(&head(advice));
    text += &format!("\n{SYSCTL} of this kernel, 0 for none; * is in force\n");
    text += &trimmed(&table(&advice.settings, advice));
    if !advice.other_kernels.is_empty() {
        text += "\nRules of other kernels\n";
        text += &trimmed(&table(&advice.other_kernels, advice));
    }
    let patterns = advice.patterns.named();
    if !patterns.is_empty() {
        text += "\nPatterns\n";
        for (name, seen) in patterns {
            text += &format!(" {seen} [{name}]\n");
        }
    }
    text + "\n`pageset explain NAME` says more of each column and pattern.\n"
}

fn head(advice: &Advice<'_>) -> Table {
    let mut lines = Table::new();
    lines.load_preset(presets::NOTHING);
    let mut line = |name: &str, value: String| {
        lines.add_row([name.to_owned(), value]);
    };
    let kernel = &advice.kernel;
    line("recording", advice.trace.to_owned());
    let guess = if kernel.known { "rules" } else { "taken to have rules" };
    line("kernel", format!("{}, {guess} {}", kernel.release.unwrap_or("not recorded"), kernel.rules));
    let seconds = advice.duration_ns as f64 / 1e9;
    line(
        "load",
        format!("{} allocations and frees in {seconds:.3} s on {} CPUs", grouped(advice.operations), advice.cpus),
    );
    match advice.verdict.high_fraction {
        None => line("verdict", "change nothing".to_owned()),
        Some(fraction) => line("verdict", format!("sysctl {SYSCTL}={fraction}")),
    }
    line("why", advice.verdict.why.clone());
    if let Some((now, then)) = chosen(advice) {
        line("gain", gain(now, then));
        line("price", price(now, then, advice.managed_pages));
    }
    let mut reasons = advice.sure.reasons.iter();
    line("sure", format!("{}: {}", advice.sure.trust.name(), reasons.next().map_or("", String::as_str)));
    reasons.for_each(|reason| line("", reason.clone()));
    lines
}

/// What is in force, and what is advised instead.
fn chosen<'a>(advice: &'a Advice<'_>) -> Option<(&'a Measured, &'a Measured)> {
    let fraction = advice.verdict.high_fraction?;
    let now = advice.settings.iter().find(|setting| setting.in_force)?;
    Some((now, advice.settings.iter().find(|setting| setting.high_fraction == Some(fraction))?))
}

fn gain(now: &Measured, then: &Measured) -> String {
    format!(
        "zone locks taken {} times instead of {}, {} pages moved instead of {}, longest hold {} pages instead of {}",
        grouped(then.zone_lock_acquisitions),
        grouped(now.zone_lock_acquisitions),
        grouped(then.moved_pages),
        grouped(now.moved_pages),
        grouped(then.longest_hold_pages),
        grouped(now.longest_hold_pages)
    )
}

/// Pages of a huge page. Specification: `linux-page-allocator.md` 9.
const HUGE_PAGES: u64 = 512;

fn price(now: &Measured, then: &Measured, managed: u64) -> String {
    let share = 100.0 * then.held_pages_max as f64 / managed.max(1) as f64;
    format!(
        "pagesets hold up to {} pages instead of {}: {share:.1} % of memory, the room of up to {} huge pages",
        grouped(then.held_pages_max),
        grouped(now.held_pages_max),
        grouped(then.held_pages_max.div_ceil(HUGE_PAGES))
    )
}

fn table(rows: &[Measured], advice: &Advice<'_>) -> Table {
    let mut table = numbers(SETTINGS.into_iter(), 0..1);
    let seconds = (advice.duration_ns as f64 / 1e9).max(1e-9);
    for row in rows {
        table.add_row([
            format!("{}{}", row.setting, if row.in_force { " *" } else { "" }),
            format!("{:.1}", row.locks_per_1000()),
            grouped((row.zone_lock_acquisitions as f64 / seconds).round() as u64),
            grouped(row.longest_hold_pages),
            grouped(row.moved_pages),
            grouped(row.held_pages_max),
        ]);
    }
    table
}
