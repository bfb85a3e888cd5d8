//! The verdict: the setting to change, or none, from measured replays. Pure: numbers in, text out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::per_1000;
use crate::verdict::{Basis, Decided, Kind, LOCKS_LEFT_MAX};

/// The factor within which settings count as equal to the best. Among equal settings, no fraction is preferred, because
/// auto-tuning follows a load that changes. Otherwise the one with the fewest cached pages is advised. A guess.
pub(super) const EQUAL_FACTOR: f64 = 1.1;

/// The measurements of a replay under one setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// A value of vm.percpu_pagelist_high_fraction or of another knob, or the rules of another kernel. * marks the
    /// setting in force while recording.
    #[schemars(extend("tables" = "settings"))]
    pub setting: String,
    /// `vm.percpu_pagelist_high_fraction`; null for other kernels' rules, and for a kernel without this setting.
    pub high_fraction: Option<u32>,
    /// `vm.watermark_scale_factor`; null for the values of other sysctls.
    #[serde(default)]
    pub watermark_scale_factor: Option<u32>,
    /// The low watermarks of all zones together. Unit: pages; null where the setting does not change them.
    #[serde(default)]
    pub low_watermark_pages: Option<u64>,
    /// Whether the setting was in force while recording.
    pub in_force: bool,
    /// Allocations and frees.
    pub operations: u64,
    /// Acquisitions of zone locks.
    #[schemars(extend("as" = "locks/1000 ops"))]
    pub zone_lock_acquisitions: u64,
    /// Acquisitions of zone locks per 1000 allocations and frees.
    #[schemars(extend("heading" = "locks/1000 ops", "unit" = "per 1000 operations", "digits" = 1, "as" = "locks/1000 ops",
        "tables" = "settings", "rank" = 1, "figure" = "zone-lock holds"))]
    pub zone_lock_acquisitions_per_1000_operations: f64,
    /// Holds of zone locks per second, of all CPUs.
    #[schemars(extend("heading" = "locks/s", "tables" = "settings", "rank" = 3,
        "bad" = "Above 1,000 per CPU, on machines with many CPUs.",
        "todo" = "Compare rule sets. Change a setting only if it halves this number or better."))]
    pub zone_lock_acquisitions_per_s: u64,
    /// The pages of the largest single refill or drain: a measure of how long other CPUs may wait for the zone lock.
    /// Unit: pages.
    #[schemars(extend("heading" = "longest hold", "tables" = "settings", "rank" = 4,
        "bad" = "2016 (63 << 5), if one late allocation costs more than many slow ones.",
        "todo" = "Use a kernel built with a smaller CONFIG_PCP_BATCH_SCALE_MAX, or 6.19 and later."))]
    pub longest_hold_pages: u64,
    /// Pages that refills and drains moved between zones and pagesets.
    #[schemars(extend("heading" = "pages moved", "as" = "refill pages", "tables" = "settings", "rank" = 5))]
    pub moved_pages: u64,
    /// The most pages in pagesets at any time.
    #[schemars(extend("heading" = "most held", "as" = "most held", "unit" = "pages", "tables" = "settings",
        "rank" = 2, "figure" = "most held"))]
    pub held_pages_max: u64,
    /// The pages of huge_pages_free.
    #[schemars(extend("as" = "huge_pages_free"))]
    pub high_order_pages_min: Option<u64>,
    /// The smallest number of huge pages that fit into the zones' free lists: free blocks of order 9, and blocks of
    /// order 10 counted twice. A replay knows only memory that was free or is freed in the recording, so compare rows
    /// with each other. `-` if the recording does not contain the orders of free blocks.
    #[schemars(extend("unit" = "huge pages", "tables" = "settings", "rank" = 6, "figure" = "room for huge pages",
        "bad" = "Far fewer than under the setting in force, for loads that need huge pages.",
        "todo" = "Use a larger fraction, or none: smaller pagesets break up fewer large blocks."))]
    pub huge_pages_free: Option<u64>,
    /// Allocations that failed or went below the min watermark.
    #[schemars(extend("bad" = "More than under the setting in force: such a setting is not advised."))]
    pub short: u64,
}

impl Setting {
    /// Zone lock acquisitions per 1000 allocations and frees.
    pub fn locks_per_1000(&self) -> f64 {
        per_1000(self.zone_lock_acquisitions, self.operations)
    }

    /// The values of the sysctls, of which one at most is known.
    pub(super) fn values(&self) -> (Option<u32>, Option<u32>) {
        (self.high_fraction, self.watermark_scale_factor)
    }
}

/// The advised change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The basis of the verdict: `not-felt` (locks are taken so rarely that no setting has a noticeable effect),
    /// `no-gain`, `gain`, `no-setting` (the kernel has none), or no verdict: `control-failed` (the replay of the setting
    /// in force does not follow the kernel), `events-lost` or `empty`.
    pub basis: Basis,
    /// The value of `vm.percpu_pagelist_high_fraction` to set; null to leave it.
    pub high_fraction: Option<u32>,
    /// The value of `vm.watermark_scale_factor` to set; null to leave it.
    #[serde(default)]
    pub watermark_scale_factor: Option<u32>,
    /// The reason in one sentence.
    pub why: String,
}

impl Verdict {
    pub(super) fn none(basis: Basis, why: String) -> Verdict {
        Verdict { basis, high_fraction: None, watermark_scale_factor: None, why }
    }

    /// What the verdict says of the setting in force.
    pub const fn kind(&self) -> Kind {
        self.basis.kind()
    }

    /// What to do, in a sentence without its full stop.
    pub fn text(&self) -> String {
        match (self.kind(), self.sysctl()) {
            (Kind::None, _) => "no verdict".to_owned(),
            (_, None) => "change nothing".to_owned(),
            (_, Some((name, value))) => format!("sysctl {name}={value}"),
        }
    }

    /// The sysctl to set, and its value.
    pub fn sysctl(&self) -> Option<(&'static str, u32)> {
        let fraction = self.high_fraction.map(|value| ("vm.percpu_pagelist_high_fraction", value));
        fraction.or(self.watermark_scale_factor.map(|value| ("vm.watermark_scale_factor", value)))
    }

    /// The advised one of these settings.
    pub fn chosen<'s>(&self, settings: impl IntoIterator<Item = &'s Setting>) -> Option<&'s Setting> {
        let values = (self.high_fraction, self.watermark_scale_factor);
        settings.into_iter().find(|setting| self.basis == Basis::Gain && setting.values() == values)
    }
}

/// Decides on a verdict. `settings` are the settings of the recorded kernel, including the one in force. `decided` is the verdict
/// that follows from the control alone.
pub(super) fn judge(settings: &[Setting], decided: Option<&Decided>) -> Verdict {
    if let Some(Decided { basis, why }) = decided {
        return Verdict::none(*basis, why.clone());
    }
    let nothing = |why: String| Verdict::none(Basis::NoGain, why);
    let Some(now) = settings.iter().find(|setting| setting.in_force) else {
        return nothing("the setting in force is not among those replayed".to_owned());
    };
    if now.values() == (None, None) {
        let why = "vm.percpu_pagelist_fraction, the setting of kernels before 5.14, is not replayed".to_owned();
        return Verdict::none(Basis::NoSetting, why);
    }
    // A setting that lacks memory more often than the one in force is no choice.
    let able = settings.iter().filter(|setting| setting.short <= now.short);
    let Some(best) = able.clone().min_by_key(|setting| setting.zone_lock_acquisitions) else {
        return nothing(String::new());
    };
    let limit = best.zone_lock_acquisitions as f64 * EQUAL_FACTOR;
    let chosen = able
        .filter(|setting| setting.zone_lock_acquisitions as f64 <= limit)
        .min_by_key(|setting| (setting.high_fraction != Some(0), setting.held_pages_max, !setting.in_force))
        .unwrap_or(best);
    let left = chosen.zone_lock_acquisitions as f64 / now.zone_lock_acquisitions.max(1) as f64;
    if chosen.in_force || left > LOCKS_LEFT_MAX {
        return nothing(format!(
            "no value takes the zone locks less than half as often; the best one takes them {:.0} % as often",
            100.0 * best.zone_lock_acquisitions as f64 / now.zone_lock_acquisitions.max(1) as f64
        ));
    }
    let why = format!(
        "zone locks are taken {:.1} times for 1000 allocations and frees instead of {:.1}",
        chosen.locks_per_1000(),
        now.locks_per_1000()
    );
    let (high_fraction, watermark_scale_factor) = chosen.values();
    Verdict { basis: Basis::Gain, high_fraction, watermark_scale_factor, why }
}

/// The verdict over two sysctls from the verdicts on each. The second one is advised only if the first one gains
/// nothing, or clearly less.
pub(super) fn better(first: Verdict, of_first: &[Setting], second: Verdict, of_second: &[Setting]) -> Verdict {
    let locks = |chosen: Option<&Setting>| chosen.map(|setting| setting.zone_lock_acquisitions as f64);
    let (Basis::NoGain | Basis::Gain, Some(then)) = (first.basis, locks(second.chosen(of_second))) else {
        return first;
    };
    match locks(first.chosen(of_first)) {
        Some(now) if then * EQUAL_FACTOR >= now => first,
        _ => second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::rare;

    /// The verdict on a load of so many seconds on two equal CPUs.
    fn judged(settings: &[Setting], seconds: f64) -> Verdict {
        let now = settings.iter().find(|setting| setting.in_force);
        let rare = now.and_then(|now| rare(now.zone_lock_acquisitions as f64 / 2.0, seconds));
        judge(settings, rare.as_ref())
    }

    fn failed() -> Decided {
        Decided { basis: Basis::ControlFailed, why: "the replay's drains differ by +886.0 %".to_owned() }
    }

    /// Fraction, lock holds, pages held, shortages; the first is in force.
    fn verdict(settings: &[(u32, u64, u64, u64)], seconds: f64) -> Option<u32> {
        let measured = |(place, (fraction, locks, held, short)): (usize, &(u32, u64, u64, u64))| Setting {
            setting: fraction.to_string(),
            high_fraction: Some(*fraction),
            in_force: place == 0,
            operations: 1_000_000,
            zone_lock_acquisitions: *locks,
            longest_hold_pages: 63,
            moved_pages: 0,
            held_pages_max: *held,
            short: *short,
            ..Setting::default()
        };
        let settings: Vec<Setting> = settings.iter().enumerate().map(measured).collect();
        judged(&settings, seconds).high_fraction
    }

    #[test]
    fn no_verdict_without_a_control_or_a_setting() {
        let setting = |fraction: Option<u32>, locks: u64, in_force: bool| Setting {
            setting: String::new(),
            high_fraction: fraction,
            in_force,
            operations: 1_000_000,
            zone_lock_acquisitions: locks,
            longest_hold_pages: 63,
            moved_pages: 0,
            held_pages_max: 10,
            ..Setting::default()
        };
        // The replay of the setting in force fails, and another setting would gain much, or nothing could be felt.
        let settings = [setting(Some(0), 100_000, true), setting(Some(8), 4_000, false)];
        let verdict = judge(&settings, Some(&failed()));
        assert_eq!((verdict.basis, verdict.high_fraction), (Basis::ControlFailed, None));
        assert!(verdict.why.contains("+886.0 %"), "{verdict:?}");
        assert_eq!(judged(&settings, 1.0).high_fraction, Some(8));
        // 5.10 has no such setting.
        let verdict = judged(&[setting(None, 100_000, true)], 1.0);
        assert_eq!((verdict.basis, verdict.high_fraction), (Basis::NoSetting, None));
    }

    #[test]
    fn verdicts() {
        for (settings, seconds, advised) in [
            // A setting must at least halve the lock acquisitions.
            (&[(0, 100_000, 10, 0), (8, 40_000, 20, 0)][..], 1.0, Some(8)),
            (&[(0, 100_000, 10, 0), (8, 51_000, 20, 0)], 1.0, None),
            // The same load in a minute is not noticeable.
            (&[(0, 100_000, 10, 0), (8, 40_000, 20, 0)], 60.0, None),
            // An equal setting with fewer cached pages wins.
            (&[(0, 100_000, 10, 0), (8, 40_000, 90, 0), (16, 43_000, 50, 0), (32, 46_000, 20, 0)], 1.0, Some(16)),
            // A setting that runs short of memory loses.
            (&[(0, 100_000, 10, 0), (8, 40_000, 90, 5), (16, 45_000, 50, 0)], 1.0, Some(16)),
            // The fraction in force should be removed.
            (&[(100, 100_000, 10, 0), (0, 9_000, 50, 0), (8, 10_000, 90, 0)], 1.0, Some(0)),
            // Without a fraction the result is equal.
            (&[(1000, 100_000, 10, 0), (0, 3_480, 47, 0), (8, 3_330, 63, 0), (50, 3_630, 43, 0)], 1.0, Some(0)),
            // The setting in force is the best.
            (&[(0, 100_000, 10, 0), (8, 100_000, 10, 0), (16, 200_000, 5, 0)], 1.0, None),
            (&[], 1.0, None),
        ] {
            assert_eq!(verdict(settings, seconds), advised, "{settings:?}");
        }
    }

    /// Lock acquisitions by value, the first in force.
    fn rows(locks: &[(u32, u64)], is_scale: bool) -> Vec<Setting> {
        let row = |(place, &(value, zone_lock_acquisitions)): (usize, &(u32, u64))| Setting {
            high_fraction: (!is_scale).then_some(value),
            watermark_scale_factor: is_scale.then_some(value),
            in_force: place == 0,
            operations: 1_000_000,
            zone_lock_acquisitions,
            ..Setting::default()
        };
        locks.iter().enumerate().map(row).collect()
    }

    #[test]
    fn the_second_sysctl_must_be_clearly_better() {
        let scale = ("vm.watermark_scale_factor", 200);
        let fraction = ("vm.percpu_pagelist_high_fraction", 8);
        for (fractions, scales, seconds, sysctl) in [
            // The fraction gains nothing.
            (&[(0, 100_000), (8, 60_000)][..], &[(10, 100_000), (200, 40_000)][..], 1.0, Some(scale)),
            // It gains less, the same, or only a little less.
            (&[(0, 100_000), (8, 40_000)], &[(10, 100_000), (200, 10_000)], 1.0, Some(scale)),
            (&[(0, 100_000), (8, 40_000)], &[(10, 100_000), (200, 40_000)], 1.0, Some(fraction)),
            (&[(0, 100_000), (8, 40_000)], &[(10, 100_000), (200, 37_000)], 1.0, Some(fraction)),
            // Neither gains enough; the scale cannot be replayed; locks are rare.
            (&[(0, 100_000), (8, 60_000)], &[(10, 100_000), (200, 60_000)], 1.0, None),
            (&[(0, 100_000), (8, 40_000)], &[], 1.0, Some(fraction)),
            (&[(0, 100_000), (8, 60_000)], &[(10, 100_000), (200, 40_000)], 60.0, None),
        ] {
            let (fractions, scales) = (rows(fractions, false), rows(scales, true));
            let [first, second] = [&fractions, &scales].map(|rows| judged(rows, seconds));
            assert_eq!(better(first, &fractions, second, &scales).sysctl(), sysctl, "{fractions:?} {scales:?}");
            // A failed control has no verdict.
            let [first, second] = [&fractions, &scales].map(|rows| judge(rows, Some(&failed())));
            assert_eq!(better(first, &fractions, second, &scales).basis, Basis::ControlFailed);
        }
    }
}
