//! The gain and cost of the advised setting, in a sentence each.

use super::verdict::{Setting, Verdict};
use crate::number::grouped;

/// The setting in force and the advised setting, from the settings of the sysctl that the verdict names.
pub(super) fn chosen<'a>(
    sysctls: impl IntoIterator<Item = &'a [Setting]>,
    verdict: &Verdict,
) -> Option<(&'a Setting, &'a Setting)> {
    let found = |settings: &'a [Setting]| {
        let now = settings.iter().find(|setting| setting.in_force)?;
        Some((now, verdict.chosen(settings)?))
    };
    sysctls.into_iter().find_map(found)
}

pub(super) fn gain(now: &Setting, then: &Setting) -> String {
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
pub const HUGE_PAGES: u64 = 512;

pub(super) fn price(now: &Setting, then: &Setting, managed: u64) -> String {
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
    let reclaim = match (now.low_watermark_pages, then.low_watermark_pages) {
        (Some(now), Some(then)) => {
            format!("; reclaim starts below {} free pages instead of {}", grouped(then), grouped(now))
        }
        _ => String::new(),
    };
    format!(
        "pagesets hold up to {} pages instead of {}: {share:.1} % of memory; {high_orders}{reclaim}",
        grouped(then.held_pages_max),
        grouped(now.held_pages_max)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(held: u64, high_orders: Option<u64>) -> Setting {
        Setting {
            setting: String::new(),
            high_fraction: None,
            in_force: false,
            operations: 1000,
            zone_lock_acquisitions: 10,
            longest_hold_pages: 63,
            moved_pages: 630,
            held_pages_max: held,
            high_order_pages_min: high_orders,
            ..Setting::default()
        }
    }

    #[test]
    fn the_price_is_in_pages_and_in_high_orders() {
        for (now, then, expected) in [
            (Some(5120), Some(4096), "huge pages free at the worst moment 8 instead of 10 (2 lost)"),
            (Some(4096), Some(5120), "huge pages free at the worst moment 10 instead of 8 (2 more)"),
            (Some(4096), Some(4096), "huge pages free at the worst moment 8 instead of 8 (none lost)"),
            (None, None, "how many huge pages that costs cannot be known"),
        ] {
            let price = price(&measured(100, now), &measured(2000, then), 100_000);
            let held = "pagesets hold up to 2,000 pages instead of 100: 2.0 % of memory; ";
            assert!(price.starts_with(&format!("{held}{expected}")), "{price}");
        }
    }

    #[test]
    fn the_price_of_watermarks_is_early_reclaim() {
        let of = |low: u64| Setting { low_watermark_pages: Some(low), ..measured(100, Some(4096)) };
        let price = price(&of(21_116), &of(65_196), 100_000);
        assert!(price.ends_with("; reclaim starts below 65,196 free pages instead of 21,116"), "{price}");
    }
}
