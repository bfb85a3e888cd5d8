//! Pages in per-CPU lists: how many, whose, whether the lists tune themselves, and whether their sizes are those of the kernel's rule.

use pageset::policy::sizes::{ZoneSize, zone_batch};
use pageset::policy::{BatchRule, PRESETS, Preset, Release, Tuning};
use pageset_trace::number::grouped;

use crate::zone::Zone;

/// Whether the lists tune themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    On,
    Off,
    Unknown,
}

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            State::On => "on",
            State::Off => "off",
            State::Unknown => "unknown",
        }
    }

    /// For a sentence.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            State::On => "the lists tune themselves",
            State::Off => "the lists have fixed sizes",
            State::Unknown => "whether the lists tune themselves is not known",
        }
    }
}

/// The state and how it is known. `fraction` is `vm.percpu_pagelist_high_fraction` if the text has it.
pub(crate) fn tuning(zones: &[Zone], release: Option<&str>, fraction: Option<u64>) -> (State, String) {
    let sets = || zones.iter().flat_map(|zone| &zone.pagesets);
    let mut bounds = sets().filter_map(|set| set.high_min.zip(set.high_max)).peekable();
    // A high of 0 is that of a zone that no CPU has used.
    let differs = zones.iter().find(|zone| {
        let mut highs = zone.pagesets.iter().filter_map(|set| set.high).filter(|high| *high > 0);
        highs.next().is_some_and(|first| highs.any(|high| high != first))
    });
    if fraction.is_some_and(|fraction| fraction > 0) {
        let fraction = fraction.unwrap_or(0);
        return (State::Off, format!("vm.percpu_pagelist_high_fraction is {fraction}"));
    }
    if bounds.peek().is_some() {
        return match bounds.all(|(min, max)| min == max) {
            true => (State::Off, "high_min is high_max, as with vm.percpu_pagelist_high_fraction".to_owned()),
            false => (State::On, "the kernel prints high_min and high_max, which differ (6.13 and later)".to_owned()),
        };
    }
    if let Some(zone) = differs {
        let of = format!("`high` differs between the CPUs of {}, which no rule before 6.7 does", zone.title());
        return (State::On, of);
    }
    if let Some((release, number)) = release.and_then(|text| Some((text, Release::parse(text)?))) {
        return match Preset::of_release(number).tuning.auto_high {
            true => (
                State::On,
                format!("the release is {release}; auto-tuning exists since 6.7, its bounds are printed since 6.13"),
            ),
            false => (State::Off, format!("the release is {release}; auto-tuning came with 6.7")),
        };
    }
    let is_six = |zone: &Zone| {
        let mut sizes = zone.pagesets.iter().filter_map(|set| set.high.zip(set.batch));
        sizes.all(|(high, batch)| high == batch.saturating_mul(6) || high == 0)
    };
    let has_high = zones.iter().filter(|zone| zone.pagesets.iter().any(|set| set.high.is_some_and(|high| high > 0)));
    let mut has_high = has_high.peekable();
    if has_high.peek().is_some() && has_high.all(is_six) {
        return (State::Off, "`high` is 6 x batch, the rule up to 5.13".to_owned());
    }
    (State::Unknown, "no release, no bounds, and `high` does not differ within a zone; `uname -r` tells".to_owned())
}

/// Pages in the lists of a zone, and the CPU that has most of them.
pub(crate) fn most(zone: &Zone) -> Option<(u32, u64)> {
    let counts = zone.pagesets.iter().filter_map(|set| Some((set.cpu, set.count?)));
    counts.max_by_key(|(cpu, count)| (*count, std::cmp::Reverse(*cpu)))
}

/// What is odd about the sizes of a zone's lists.
pub(crate) fn odd_sizes(zone: &Zone, zones: &[Zone], release: Option<&str>) -> Vec<String> {
    let managed = zone.managed.or(zone.present).unwrap_or(0);
    let mut odd = Vec::new();
    let batches: Vec<u64> = zone.pagesets.iter().filter_map(|set| set.batch).collect();
    let (Some(&batch), true) = (batches.iter().max(), managed > 0) else { return odd };
    let title = zone.title();
    if batches.iter().any(|other| *other != batch) {
        odd.push(format!(
            "batch differs between the CPUs of {title}, which no kernel does; the text mixes two moments"
        ));
        return odd;
    }
    let preset = release.and_then(Release::parse).map(Preset::of_release);
    let allowed = by_rule(managed, preset);
    if !allowed.contains(&batch) {
        let rule = match (allowed.as_slice(), preset) {
            ([one], _) => format!("{one}"),
            ([old, new, ..], _) => format!("{new} ({old} up to 4.18)"),
            ([], _) => "another".to_owned(),
        };
        odd.push(format!(
            "batch is {batch} in {title}, but the kernel's rule gives {rule} for its {} pages{}; the zone grew after boot, memory was \
             added late, or the kernel is changed",
            grouped(managed),
            fits(batch)
        ));
    }
    if let Some(text) = fraction(zone, zones, managed) {
        odd.push(text);
    }
    odd
}

/// The batches that the kernel's rules give, each once, the oldest rule first.
fn by_rule(managed: u64, preset: Option<&Preset>) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    let tunings: Vec<&Tuning> = match preset {
        Some(preset) => vec![&preset.tuning],
        None => {
            PRESETS.iter().filter(|preset| preset.name.starts_with("linux-")).map(|preset| &preset.tuning).collect()
        }
    };
    for tuning in tunings {
        let batch = u64::from(tuning.bounds(ZoneSize { managed, low: 0, cpus: 1 }, 0).batch);
        if !all.contains(&batch) {
            all.push(batch);
        }
    }
    all
}

/// `, as for a zone of 176 to 352 MiB`: the sizes whose rule gives this batch, with pages of 4 KiB.
fn fits(batch: u64) -> String {
    let newest =
        PRESETS.iter().rev().find(|preset| preset.name.starts_with("linux-")).map(|preset| preset.tuning.batch);
    let Some(BatchRule::FromZone { cap_kib }) = newest else { return String::new() };
    // The first size with at least this batch; sizes above 2 GiB have one batch.
    let first = |batch: u64| {
        let (mut below, mut at) = (0_u64, 1 << 19);
        while below + 1 < at {
            let middle = (below + at) / 2;
            match u64::from(zone_batch(middle, cap_kib)) >= batch {
                true => at = middle,
                false => below = middle,
            }
        }
        at
    };
    let (from, to) = (first(batch), first(batch + 1));
    match from < to && to < 1 << 19 {
        true => format!(", and {batch} for {} to {} pages", grouped(from), grouped(to - 1)),
        false => String::new(),
    }
}

/// Whether `high` is what an administrator's fraction gives.
fn fraction(zone: &Zone, zones: &[Zone], managed: u64) -> Option<String> {
    let mut highs = zone.pagesets.iter().filter_map(|set| set.high_max.or(set.high));
    let high = highs.next().filter(|first| *first > 0 && highs.all(|high| high == *first))?;
    let fixed = zone.pagesets.iter().all(|set| set.high_min == set.high_max);
    let batch = zone.pagesets.iter().find_map(|set| set.batch)?;
    let cpus = zone.pagesets.len() as u64;
    let nodes = u64::from(zones.iter().filter_map(|zone| zone.node).max().unwrap_or(0)) + 1;
    let shares = [cpus, (cpus / nodes).max(1)];
    let by_low = |cpus: u64| zone.low.is_some_and(|low| high == (low / cpus).max(batch.saturating_mul(4)));
    if !fixed || high == batch.saturating_mul(6) || shares.into_iter().any(by_low) {
        return None;
    }
    shares.into_iter().find_map(|cpus| {
        let fraction = managed / high.saturating_mul(cpus);
        let is_it = (8..=2000).contains(&fraction) && managed / fraction / cpus == high;
        is_it.then(|| {
            format!(
                "high is {} in {}, as vm.percpu_pagelist_high_fraction={fraction} gives",
                grouped(high),
                zone.title()
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use pageset_trace::procfs::PartialPageset;

    use super::*;
    use crate::zone::Unit;

    fn zone(managed: u64, highs: &[u64], batch: u64) -> Zone {
        let set = |(cpu, high): (usize, &u64)| PartialPageset {
            cpu: cpu as u32,
            count: Some(1),
            high: Some(*high),
            batch: Some(batch),
            ..PartialPageset::default()
        };
        let pagesets = highs.iter().enumerate().map(set).collect();
        Zone { managed: Some(managed), low: Some(8820), pagesets, ..Zone::new(Some(0), "Normal", Unit::Pages) }
    }

    #[test]
    fn a_batch_that_no_rule_gives() {
        let large = zone(1 << 20, &[90], 15);
        let odd = odd_sizes(&large, std::slice::from_ref(&large), None);
        assert_eq!(odd.len(), 1);
        assert!(odd[0].contains("batch is 15") && odd[0].contains("63 (31 up to 4.18)"), "{odd:?}");
        assert!(odd[0].contains("45,056 to 90,111 pages"), "{odd:?}");
        for batch in [31, 63] {
            let fits = zone(1 << 20, &[6 * batch], batch);
            assert_eq!(odd_sizes(&fits, std::slice::from_ref(&fits), None), [""; 0]);
        }
        assert_eq!(odd_sizes(&zone(1 << 20, &[186], 31), &[], Some("5.4.0")).len(), 1);
    }

    #[test]
    fn a_fraction_shows_in_high() {
        // 557056 / 8 / 2 CPUs.
        let set = zone(557_056, &[34_816, 34_816], 63);
        let odd = odd_sizes(&set, std::slice::from_ref(&set), None);
        assert!(odd[0].contains("percpu_pagelist_high_fraction=8 "), "{odd:?}");
        let by_rule = zone(557_056, &[4410, 4410], 63);
        assert_eq!(odd_sizes(&by_rule, std::slice::from_ref(&by_rule), None), [""; 0]);
    }

    #[test]
    fn how_tuning_is_known() {
        let state = |zones: &[Zone], release| tuning(zones, release, None).0;
        let same = [zone(1 << 20, &[4410, 4410], 63)];
        for (zones, release, expected) in [
            (&[zone(1 << 20, &[1392, 1449], 63)][..], None, State::On),
            (&[zone(1 << 20, &[1392, 1449], 63)], Some("5.15.0"), State::On),
            (&[zone(1 << 20, &[378, 378], 63)], None, State::Off),
            (&same, None, State::Unknown),
            (&same, Some("6.12.48"), State::On),
            (&same, Some("6.6.1"), State::Off),
        ] {
            assert_eq!(state(zones, release), expected, "{release:?}");
        }
        assert_eq!(tuning(&same, Some("6.12.48"), Some(8)).0, State::Off);
    }
}
