//! The advice as text: the verdict first, then what it rests on.

use comfy_table::{Table, presets};

use super::Advice;
use super::verdict::{Measured, Verdict};
use crate::columns::{grouped, numbers, trimmed};

/// What heads the columns.
pub(super) const SETTINGS: [&str; 7] =
    ["setting", "locks/1000 ops", "locks/s", "longest hold", "pages moved", "most held", "huge pages free"];

const SYSCTL: &str = "vm.percpu_pagelist_high_fraction";

/// The whole advice.
pub(super) fn text(advice: &Advice<'_>) -> String {
    let mut text = trimmed(&head(advice));
    text += &format!("\n{SYSCTL} of this kernel, 0 for none; * is in force\n");
    text += &trimmed(&table(&advice.settings, advice));
    text += &huge_pages_off(advice.high_orders.replay_end_pages, advice.high_orders.kernel_end_pages);
    if !advice.other_kernels.is_empty() {
        text += "\nRules of other kernels\n";
        text += &trimmed(&table(&advice.other_kernels, advice));
    }
    if !advice.named_patterns.is_empty() {
        text += "\nPatterns\n";
        for pattern in &advice.named_patterns {
            text += &format!(" {} [{}]\n", pattern.seen, pattern.name);
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
    if let Some(disagreement) = &kernel.disagreement {
        line("traffic", disagreement.clone());
    }
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
    for (name, said) in [("gain", &advice.gain), ("price", &advice.price)] {
        if let Some(said) = said {
            line(name, said.clone());
        }
    }
    let mut reasons = advice.sure.reasons.iter();
    line("sure", format!("{}: {}", advice.sure.trust.name(), reasons.next().map_or("", String::as_str)));
    reasons.for_each(|reason| line("", reason.clone()));
    lines
}

/// What is in force, and what is advised instead.
pub(super) fn chosen<'a>(settings: &'a [Measured], verdict: &Verdict) -> Option<(&'a Measured, &'a Measured)> {
    let fraction = verdict.high_fraction?;
    let now = settings.iter().find(|setting| setting.in_force)?;
    Some((now, settings.iter().find(|setting| setting.high_fraction == Some(fraction))?))
}

pub(super) fn gain(now: &Measured, then: &Measured) -> String {
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

pub(super) fn price(now: &Measured, then: &Measured, managed: u64) -> String {
    let share = 100.0 * then.held_pages_max as f64 / managed.max(1) as f64;
    let high_orders = match (now.high_order_pages_min, then.high_order_pages_min) {
        (Some(now), Some(then)) => {
            let [now, then] = [now, then].map(|pages| pages / HUGE_PAGES);
            let change = match (then.saturating_sub(now), now.saturating_sub(then)) {
                (0, 0) => "none lost".to_owned(),
                (more, 0) => format!("{} more", grouped(more)),
                (_, fewer) => format!("{} lost", grouped(fewer)),
            };
            format!("huge pages free at the worst moment {} instead of {} ({change})", grouped(then), grouped(now))
        }
        _ => "how many huge pages that costs cannot be known, for the recording does not tell in what blocks memory \
              was free (no pagetypeinfo)"
            .to_owned(),
    };
    format!(
        "pagesets hold up to {} pages instead of {}: {share:.1} % of memory; {high_orders}",
        grouped(then.held_pages_max),
        grouped(now.held_pages_max)
    )
}

/// How far a replay's room for huge pages may be from the kernel's before that is said. A guess. Unit: percent.
const HUGE_PAGES_OFF_PCT: f64 = 5.0;

/// What is to be known of the column of huge pages, where the replay of what was in force ends with other room than the
/// kernel.
fn huge_pages_off(replay: Option<u64>, kernel: Option<u64>) -> String {
    let Some((replay, kernel)) = replay.zip(kernel) else { return String::new() };
    if replay.abs_diff(kernel) as f64 * 100.0 <= HUGE_PAGES_OFF_PCT * kernel as f64 {
        return String::new();
    }
    format!(
        " huge pages free: compare rows only; the replay ends with {}, the kernel did with {}\n",
        grouped(replay / HUGE_PAGES),
        grouped(kernel / HUGE_PAGES)
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
            row.high_order_pages_min.map_or("-".to_owned(), |pages| grouped(pages / HUGE_PAGES)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(held: u64, high_orders: Option<u64>) -> Measured {
        Measured {
            setting: String::new(),
            high_fraction: None,
            in_force: false,
            operations: 1000,
            zone_lock_acquisitions: 10,
            longest_hold_pages: 63,
            moved_pages: 630,
            held_pages_max: held,
            high_order_pages_min: high_orders,
            short: 0,
        }
    }

    #[test]
    fn other_room_than_the_kernel_had_is_said() {
        for (replay, kernel, said) in [
            (Some(100 * 512), Some(100 * 512), ""),
            (Some(105 * 512), Some(100 * 512), ""),
            (Some(94 * 512), Some(100 * 512), "the replay ends with 94, the kernel did with 100\n"),
            (Some(1), None, ""),
        ] {
            let text = huge_pages_off(replay, kernel);
            assert!(text.ends_with(said) && text.is_empty() == said.is_empty(), "{text}");
        }
    }

    #[test]
    fn the_price_is_in_pages_and_in_high_orders() {
        for (now, then, said) in [
            (Some(5120), Some(4096), "huge pages free at the worst moment 8 instead of 10 (2 lost)"),
            (Some(4096), Some(5120), "huge pages free at the worst moment 10 instead of 8 (2 more)"),
            (Some(4096), Some(4096), "huge pages free at the worst moment 8 instead of 8 (none lost)"),
            (None, None, "how many huge pages that costs cannot be known"),
        ] {
            let price = price(&measured(100, now), &measured(2000, then), 100_000);
            let held = "pagesets hold up to 2,000 pages instead of 100: 2.0 % of memory; ";
            assert!(price.starts_with(&format!("{held}{said}")), "{price}");
        }
    }
}
