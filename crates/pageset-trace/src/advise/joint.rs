//! One verdict over several recordings of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::price::Replayed;
use super::verdict::{EQUAL_FACTOR, Setting, Verdict, better, judge};
use super::{Advice, price};
use crate::verdict::{Basis, Cause, Decided, NOTICEABLE_PER_CPU_S, Sure};

schema!("pageset.advise-set/1");

/// The advice for several recordings, and one verdict over all of them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AdviceSet {
    /// `pageset.advise-set/1`.
    pub schema: Schema,
    /// The setting to change for all loads, or none.
    pub verdict: Verdict,
    /// The gain of the setting over all loads, in a sentence; null if nothing should change.
    #[serde(default)]
    pub gain: Option<String>,
    /// The cost of the setting, in a sentence; null if nothing should change. Each part of the cost is that of the load
    /// that pays most for it.
    #[serde(default)]
    pub price: Option<String>,
    /// The recordings that have no part in the verdict over several recordings, because the replay of the setting in
    /// force does not follow the kernel.
    #[schemars(extend("bad" = "Any.", "todo" = "Record them again, longer and with --empty-lists."))]
    pub left_out: Vec<String>,
    /// The advice for each recording.
    pub recordings: Vec<Advice>,
}

impl AdviceSet {
    /// Decides on one verdict. The loads count by their lock acquisitions. A setting that takes locks more often under a
    /// single load is no choice.
    pub fn of(recordings: Vec<Advice>) -> AdviceSet {
        let (used, failed): (Vec<&Advice>, Vec<&Advice>) = recordings.iter().partition(|advice| is_used(advice));
        let left_out = failed.into_iter().map(|advice| advice.trace.clone()).collect();
        let of_load = |advice: &&Advice| Load {
            name: advice.trace.clone(),
            rare: advice.verdict.basis == Basis::NotFelt,
            managed: advice.managed_pages,
            settings: advice.settings.clone(),
        };
        let by_fraction: Vec<Load> = used.iter().map(of_load).collect();
        let of_scale = |advice: &&Advice| Load { settings: advice.scales().to_vec(), ..of_load(advice) };
        let by_scale: Vec<Load> = used.iter().map(of_scale).collect();
        let rare = |advice: &&Advice| advice.verdict.basis == Basis::NotFelt;
        let verdict = match (over_both(&by_fraction, &by_scale), recordings.first()) {
            (mixed, _) if mixed.basis == Basis::Mixed => mixed,
            // No replay has a part in it.
            (_, Some(_)) if recordings.iter().all(|advice| rare(&advice)) => {
                let Decided { basis, why } = rare_in_all();
                Verdict::none(basis, why)
            }
            (verdict, _) => verdict,
        };
        let (gain, price) = gain_and_price(&by_fraction, &by_scale, &verdict).unzip();
        AdviceSet { schema: Schema::V1, verdict, gain, price, left_out, recordings }
    }

    /// How far to trust the verdict: as far as the least trusted recording that it uses.
    pub fn sure(&self) -> Sure {
        let recordings =
            || self.recordings.iter().filter(|advice| is_used(advice) || self.verdict.basis == Basis::NotFelt);
        match recordings().min_by_key(|advice| advice.sure.trust) {
            Some(least) => {
                let mut sure = least.sure.clone();
                sure.reasons.iter_mut().for_each(|reason| reason.text.insert_str(0, &format!("{}: ", least.trace)));
                sure
            }
            None => Sure::none(Cause::ControlFails, "the replay of no recording follows its kernel"),
        }
    }

    /// The recordings that have a part in the verdict.
    pub fn used(&self) -> impl Iterator<Item = &Advice> {
        self.recordings.iter().filter(|advice| is_used(advice))
    }
}

/// Whether a recording has a part in the verdict. Names do not tell: recordings of two folders may share one.
fn is_used(advice: &Advice) -> bool {
    advice.rows_follow()
}

/// The verdict where the locks of all recordings are rare.
fn rare_in_all() -> Decided {
    let why = format!(
        "in no recording does a CPU take a zone lock {NOTICEABLE_PER_CPU_S:.0} times a second; below that no setting can be felt"
    );
    Decided { basis: Basis::NotFelt, why }
}

/// What a verdict needs of one recording.
struct Load {
    name: String,
    /// Whether its locks are too rare to be felt.
    rare: bool,
    /// Managed pages of the machine.
    managed: u64,
    settings: Vec<Setting>,
}

impl Load {
    fn in_force(&self) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.in_force)
    }

    /// The setting of the same value.
    fn same(&self, other: &Setting) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.values() == other.values())
    }

    /// Whether a setting takes locks clearly more often than the one in force.
    fn is_worse(&self, setting: &Setting) -> bool {
        let locks = |setting: Option<&Setting>| setting.map_or(0.0, |setting| setting.zone_lock_acquisitions as f64);
        locks(self.same(setting)) > locks(self.in_force()) * EQUAL_FACTOR
    }
}

/// The verdict over two sysctls: the loads with the settings of each.
fn over_both(by_fraction: &[Load], by_scale: &[Load]) -> Verdict {
    let [first, second] = [by_fraction, by_scale].map(verdict);
    better(first, &sums(by_fraction), second, &sums(by_scale))
}

/// The gain of the advised setting over all loads, and its cost.
fn gain_and_price(by_fraction: &[Load], by_scale: &[Load], verdict: &Verdict) -> Option<(String, String)> {
    [by_fraction, by_scale].into_iter().find_map(|loads| {
        let sums = sums(loads);
        let (now, then) = price::chosen([sums.as_slice()], verdict)?;
        let of_load = |load| replayed(load, then);
        let loads: Vec<Replayed<'_>> = loads.iter().filter_map(of_load).collect();
        Some((price::gain(now, then), price::price(&loads)))
    })
}

/// The setting in force and `then` for one load.
fn replayed<'a>(load: &'a Load, then: &Setting) -> Option<Replayed<'a>> {
    Some(Replayed { load: &load.name, managed: load.managed, now: load.in_force()?, then: load.same(then)? })
}

fn verdict(loads: &[Load]) -> Verdict {
    let none = Verdict::none;
    let Some(now) = loads.first().and_then(Load::in_force) else {
        let why = "cannot judge: no recording has a replay that follows its kernel".to_owned();
        return none(Basis::ControlFailed, why);
    };
    let other = loads.iter().find(|load| load.in_force().is_none_or(|of| of.values() != now.values()));
    if let Some(other) = other {
        let why = format!(
            "cannot judge: {} was recorded under another setting than {}; try recordings of one machine and setting",
            other.name, loads[0].name
        );
        return none(Basis::Mixed, why);
    }
    let (harmful, able): (Vec<Setting>, Vec<Setting>) = sums(loads)
        .into_iter()
        .partition(|setting| !setting.in_force && loads.iter().any(|load| load.is_worse(setting)));
    let decided = loads.iter().all(|load| load.rare).then(rare_in_all);
    let verdict = judge(&able, decided.as_ref());
    let all = [able, harmful].concat();
    let tempting = judge(&all, decided.as_ref());
    if verdict.basis == Basis::NoGain
        && let Some(tempting) = tempting.chosen(&all)
    {
        let of_value =
            |load: &&Load| load.settings.iter().any(|of| of.values() == tempting.values() && load.is_worse(of));
        let harmed = loads.iter().find(of_value).map_or("", |load| load.name.as_str());
        let why =
            format!("{} would help on the whole, but takes zone locks more often under {harmed}", tempting.setting);
        return none(Basis::NoGain, why);
    }
    verdict
}

/// The sums of the settings that were replayed for every load.
fn sums(loads: &[Load]) -> Vec<Setting> {
    let Some(first) = loads.first() else { return Vec::new() };
    let sums = first.settings.iter().filter_map(|setting| {
        let all: Vec<&Setting> = loads.iter().map(|load| load.same(setting)).collect::<Option<_>>()?;
        let sum = |of: fn(&Setting) -> u64| all.iter().map(|setting| of(setting)).sum();
        let most = |of: fn(&Setting) -> u64| all.iter().map(|setting| of(setting)).max().unwrap_or(0);
        Some(Setting {
            operations: sum(|setting| setting.operations),
            zone_lock_acquisitions: sum(|setting| setting.zone_lock_acquisitions),
            longest_hold_pages: most(|setting| setting.longest_hold_pages),
            moved_pages: sum(|setting| setting.moved_pages),
            held_pages_max: most(|setting| setting.held_pages_max),
            // Loads of several machines have no smallest number and no watermark in common.
            high_order_pages_min: None,
            huge_pages_free: None,
            low_watermark_pages: None,
            short: sum(|setting| setting.short),
            ..setting.clone()
        })
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::rare;

    /// A load of one second on one CPU; fraction and lock acquisitions, the first in force.
    fn load(name: &str, settings: &[(u32, u64)]) -> Load {
        let setting = |(place, &(fraction, locks)): (usize, &(u32, u64))| Setting {
            setting: fraction.to_string(),
            high_fraction: Some(fraction),
            in_force: place == 0,
            operations: 1_000_000,
            zone_lock_acquisitions: locks,
            longest_hold_pages: 63,
            moved_pages: 0,
            held_pages_max: 10,
            ..Setting::default()
        };
        let name = name.to_owned();
        let rare = settings.first().is_some_and(|&(_, locks)| rare(locks as f64, 1.0).is_some());
        Load { name, rare, managed: 100_000, settings: settings.iter().enumerate().map(setting).collect() }
    }

    #[test]
    fn one_verdict_over_several_loads() {
        let gains = || load("gains", &[(0, 100_000), (8, 10_000), (16, 30_000)]);
        let cases = [
            (vec![gains()], Basis::Gain, Some(8), "zone locks are taken 10.0 times"),
            (vec![gains(), gains()], Basis::Gain, Some(8), "instead of 100.0"),
            // A load that hardly takes locks does not matter.
            (vec![gains(), load("idle", &[(0, 10), (8, 10), (16, 10)])], Basis::Gain, Some(8), ""),
            // The best value on the whole harms one load: the next one is advised.
            (vec![gains(), load("b", &[(0, 5_000), (8, 9_000), (16, 5_000)])], Basis::Gain, Some(16), ""),
            // Every value that helps one load harms the other.
            (
                vec![gains(), load("other", &[(0, 5_000), (8, 9_000), (16, 9_000)])],
                Basis::NoGain,
                None,
                "8 would help on the whole, but takes zone locks more often under other",
            ),
            (
                vec![gains(), load("b", &[(8, 10_000), (0, 10_000)])],
                Basis::Mixed,
                None,
                "b was recorded under another setting",
            ),
            (vec![load("idle", &[(0, 10), (8, 1)])], Basis::NotFelt, None, "1000 times a second; below that"),
            (vec![], Basis::ControlFailed, None, "no recording has a replay"),
        ];
        for (loads, basis, fraction, why) in cases {
            let names: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
            let verdict = verdict(&loads);
            assert_eq!((verdict.basis, verdict.high_fraction), (basis, fraction), "{names:?}: {verdict:?}");
            assert!(verdict.why.contains(why), "{names:?}: {verdict:?}");
        }
    }

    /// Lock acquisitions are those of all loads, and the longest hold is that of the worst load. Loads pay at different
    /// places, and on machines of different sizes: the smallest of a number over all loads would hide a loss.
    #[test]
    fn a_joint_verdict_has_its_price() {
        let mut loads = [load("a", &[(0, 100_000), (8, 10_000)]), load("b", &[(0, 5_000), (8, 1_000)])];
        for (of, (held, hold)) in loads.iter_mut().zip([(4_000, 504), (2_000, 4_032)]) {
            (of.settings[1].held_pages_max, of.settings[1].longest_hold_pages) = (held, hold);
        }
        for (of, (managed, pages)) in loads.iter_mut().zip([(100_000, [5_120, 5_120]), (25_000, [51_200, 25_600])]) {
            of.managed = managed;
            of.settings.iter_mut().zip(pages).for_each(|(setting, pages)| setting.high_order_pages_min = Some(pages));
        }
        let said = gain_and_price(&loads, &[], &verdict(&loads));
        let (gain, price) = said.expect("fraction 8 gains");
        assert!(gain.starts_with("zone locks taken 11,000 times instead of 105,000, "), "{gain}");
        assert!(gain.ends_with(", longest hold 4,032 pages instead of 63"), "{gain}");
        assert_eq!(
            price,
            "pagesets hold up to 2,000 pages instead of 10 under b: 8.0 % of memory; \
             huge pages free at the worst moment under b 50 instead of 100 (50 lost)"
        );
        let idle = [load("idle", &[(0, 10), (8, 1)])];
        assert_eq!(gain_and_price(&idle, &[], &verdict(&idle)), None);
    }

    #[test]
    fn the_scale_is_judged_over_all_loads() {
        let scales = |name: &str, locks: &[(u32, u64)]| {
            let by_fraction = load(name, locks);
            let of = |row: Setting| Setting { watermark_scale_factor: row.high_fraction, high_fraction: None, ..row };
            Load { settings: by_fraction.settings.into_iter().map(of).collect(), ..by_fraction }
        };
        let fractions = [load("a", &[(0, 50_000), (8, 40_000)]), load("b", &[(0, 50_000), (8, 40_000)])];
        let a = || scales("a", &[(10, 50_000), (200, 2_000), (1000, 1_000)]);
        let of = |other: Load| over_both(&fractions, &[a(), other]).sysctl();
        assert_eq!(of(scales("b", &[(10, 50_000), (200, 40_000)])), Some(("vm.watermark_scale_factor", 200)));
        // 200 harms the other load, was not replayed for it, or its recording has another scale.
        assert_eq!(of(scales("b", &[(10, 50_000), (200, 60_000)])), None);
        assert_eq!(of(scales("b", &[(10, 50_000)])), None);
        assert_eq!(of(scales("b", &[(200, 50_000), (10, 50_000)])), None);
        assert_eq!(of(scales("b", &[])), None);
    }
}
