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

/// The setting in force and the advised setting, replayed for one load.
#[derive(Clone, Copy)]
pub(super) struct Replayed<'a> {
    pub(super) load: &'a str,
    /// Managed pages of the load's machine.
    pub(super) managed: u64,
    pub(super) now: &'a Setting,
    pub(super) then: &'a Setting,
}

impl Replayed<'_> {
    /// What pagesets hold at most under a setting, in percent of memory.
    fn held_percent(&self, setting: &Setting) -> f64 {
        100.0 * setting.held_pages_max as f64 / self.managed.max(1) as f64
    }

    /// What pagesets hold more than now, in percent of memory. Negative if they hold less.
    fn more_held_percent(&self) -> f64 {
        self.held_percent(self.then) - self.held_percent(self.now)
    }

    /// Huge pages free at the worst moment, now and then.
    fn huge_pages(&self) -> Option<[u64; 2]> {
        let [now, then] =
            [self.now, self.then].map(|setting| setting.high_order_pages_min.map(|pages| pages / HUGE_PAGES));
        Some([now?, then?])
    }

    /// Pages below which reclaim starts, now and then.
    fn low_watermarks(&self) -> Option<[u64; 2]> {
        Some([self.now.low_watermark_pages?, self.then.low_watermark_pages?])
    }
}

/// The cost of the advised setting. Each part compares the two settings under one load: the load that pays most.
pub(super) fn price(loads: &[Replayed<'_>]) -> String {
    // A single load needs no name.
    let under = |of: &Replayed<'_>| if loads.len() > 1 { format!(" under {}", of.load) } else { String::new() };
    let held = loads.iter().max_by(|a, b| a.more_held_percent().total_cmp(&b.more_held_percent())).map(|of| {
        format!(
            "pagesets hold up to {} pages instead of {}{}: {:.1} % of memory",
            grouped(of.then.held_pages_max),
            grouped(of.now.held_pages_max),
            under(of),
            of.held_percent(of.then)
        )
    });
    let reclaim = loads.iter().filter_map(|of| Some((of, of.low_watermarks()?)));
    let reclaim = reclaim.max_by_key(|(_, [now, then])| then.saturating_sub(*now)).map(|(of, [now, then])| {
        format!("reclaim starts below {} free pages instead of {}{}", grouped(then), grouped(now), under(of))
    });
    let parts: Vec<String> = [held, Some(huge_pages_lost(loads, under)), reclaim].into_iter().flatten().collect();
    parts.join("; ")
}

/// The huge pages that the load with the largest loss loses.
fn huge_pages_lost(loads: &[Replayed<'_>], under: impl Fn(&Replayed<'_>) -> String) -> String {
    let known = || loads.iter().filter_map(|of| Some((of, of.huge_pages()?)));
    let most = known().max_by_key(|(_, [now, then])| *now as i64 - *then as i64);
    let unknown = loads.len() - known().count();
    let Some((of, [now, then])) = most else {
        let recording = if loads.len() > 1 { "no recording tells" } else { "the recording does not tell" };
        return format!(
            "how many huge pages that costs cannot be known, for {recording} in what blocks memory was free (no \
             pagetypeinfo)"
        );
    };
    let change = match (then.saturating_sub(now), now.saturating_sub(then)) {
        (0, 0) => "none lost".to_owned(),
        (more, 0) => format!("{} more", grouped(more)),
        (_, fewer) => format!("{} lost", grouped(fewer)),
    };
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!(", not known for {unknown} of {} recordings (no pagetypeinfo)", loads.len()),
    };
    let (under, then, now) = (under(of), grouped(then), grouped(now));
    format!("huge pages free at the worst moment{under} {then} instead of {now} ({change}){unknown}")
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

    fn of_load<'a>(load: &'a str, managed: u64, now: &'a Setting, then: &'a Setting) -> Replayed<'a> {
        Replayed { load, managed, now, then }
    }

    #[test]
    fn the_price_is_in_pages_and_in_high_orders() {
        for (now, then, expected) in [
            (Some(5120), Some(4096), "huge pages free at the worst moment 8 instead of 10 (2 lost)"),
            (Some(4096), Some(5120), "huge pages free at the worst moment 10 instead of 8 (2 more)"),
            (Some(4096), Some(4096), "huge pages free at the worst moment 8 instead of 8 (none lost)"),
            (None, None, "how many huge pages that costs cannot be known"),
        ] {
            let price = price(&[of_load("a", 100_000, &measured(100, now), &measured(2000, then))]);
            let held = "pagesets hold up to 2,000 pages instead of 100: 2.0 % of memory; ";
            assert!(price.starts_with(&format!("{held}{expected}")), "{price}");
        }
    }

    #[test]
    fn the_price_of_watermarks_is_early_reclaim() {
        let of = |low: u64| Setting { low_watermark_pages: Some(low), ..measured(100, Some(4096)) };
        let price = price(&[of_load("a", 100_000, &of(21_116), &of(65_196))]);
        assert!(price.ends_with("; reclaim starts below 65,196 free pages instead of 21,116"), "{price}");
    }

    /// Memory in pagesets and huge pages are those of different loads, and of different machines.
    #[test]
    fn each_part_of_a_joint_price_is_that_of_the_load_that_pays_most() {
        let of = |held, huge_pages: Option<u64>, low| Setting {
            low_watermark_pages: Some(low),
            ..measured(held, huge_pages.map(|huge_pages| HUGE_PAGES * huge_pages))
        };
        let a = [of(100, Some(10), 500), of(4_000, Some(10), 1_500)];
        let b = [of(200, Some(100), 500), of(6_000, Some(50), 800)];
        let c = [of(300, None, 500), of(500, None, 600)];
        let loads = [("a", 50_000, &a), ("b", 1_000_000, &b), ("c", 100_000, &c)]
            .map(|(load, managed, [now, then])| of_load(load, managed, now, then));
        assert_eq!(
            price(&loads),
            "pagesets hold up to 4,000 pages instead of 100 under a: 8.0 % of memory; \
             huge pages free at the worst moment under b 50 instead of 100 (50 lost), \
             not known for 1 of 3 recordings (no pagetypeinfo); \
             reclaim starts below 1,500 free pages instead of 500 under a"
        );
        // A load whose pagesets hold much anyway pays nothing for it.
        let d = [of(5_000, None, 500), of(5_000, None, 500)];
        let with_d = price(&[loads[0], of_load("d", 50_000, &d[0], &d[1])]);
        assert!(with_d.starts_with("pagesets hold up to 4,000 pages instead of 100 under a: 8.0 %"), "{with_d}");
        let unknown = price(&[loads[2], loads[2]]);
        assert!(unknown.contains("cannot be known, for no recording tells in what blocks"), "{unknown}");
    }
}
