//! The verdict on a machine: numbers in, findings out, the most important first. Pure; it knows no screen and no view.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LOCKS_LEFT_MAX, NOTICEABLE_PER_CPU_S};
use crate::number::grouped;

/// A CPU that waits this share of its time for zone locks is not healthy: a twentieth is noticeable. A guess. Unit: percent.
pub const WAIT_PERCENT: f64 = 5.0;
/// How many times the limit is severe. A guess.
const SEVERE: f64 = 4.0;

/// What sizes the lists, as far as a verdict needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// The lists tune themselves.
    Tuned,
    /// The kernel tunes lists (6.7 and later), but `vm.percpu_pagelist_high_fraction` of this value fixes them.
    Fraction(u32),
    /// The kernel does not tune lists, and has this `vm.percpu_pagelist_high_fraction`; 0 is none.
    Fixed(u32),
    /// The kernel does not tune lists, and has no setting: before 5.14.
    Without,
    /// Nobody knows, or no setting changes it.
    #[default]
    Unknown,
}

/// The smallest fraction that the kernel accepts: it makes the largest lists. Specification: `linux-page-allocator.md` 9.
const FRACTION_MIN: u32 = 8;
/// From this fraction on, lists that tune themselves take zone locks less often; smaller fractions may serve a load better.
/// Measured: docs/guide/advice.md, "What can be set".
const FRACTION_POOR: u32 = 100;

/// How far the share of holds with the largest lists may be off: next to the limit only a recording decides. A guess.
const ESTIMATE: f64 = 0.1;

/// A setting that makes lists larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Larger {
    /// No fraction: the lists tune themselves again. It is the kernel's default, so nothing has to be weighed.
    Tune,
    /// The largest lists: an eighth of the zone, which a recording has to justify.
    Eighth,
}

impl Larger {
    /// The setting, as `sysctl -w` takes it.
    pub const fn text(self) -> &'static str {
        match self {
            Larger::Tune => "vm.percpu_pagelist_high_fraction=0",
            Larger::Eighth => "vm.percpu_pagelist_high_fraction=8",
        }
    }
}

impl Lists {
    /// The setting that makes these lists larger, if there is one.
    pub const fn larger(self) -> Option<Larger> {
        match self {
            Lists::Fraction(fraction) if fraction >= FRACTION_POOR => Some(Larger::Tune),
            Lists::Fixed(0) => Some(Larger::Eighth),
            Lists::Fraction(fraction) | Lists::Fixed(fraction) if fraction > FRACTION_MIN => Some(Larger::Eighth),
            _ => None,
        }
    }
}

/// What was measured between two looks; `None` is not measured.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// What sizes the lists.
    pub lists: Lists,
    /// The zones that are short of memory.
    pub short: Vec<Short>,
    /// Direct reclaims per second.
    pub stalls_per_s: Option<f64>,
    /// The CPUs whose waits are measured.
    pub waits: Option<Vec<Wait>>,
    /// The CPU that takes zone locks most often, and how often a second.
    pub moves: Option<(u32, f64)>,
    /// What else is known of these holds; `None` if they are pages per batch, of which one hold may move 32.
    pub held: Option<Held>,
    /// Whether moves are counted, even if there was only one look.
    pub counted: bool,
    /// Whether there were two looks.
    pub two_looks: bool,
    /// Whether the looks are from a file: nothing more can be counted.
    pub saved: bool,
}

/// Holds of zone locks that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// The share of all CPUs' holds that no size of lists avoids: a CPU takes from zones what other CPUs free, a hold moves no more than the
    /// kernel's rules allow, and some frees empty any list. `None` is not measured, and decides nothing.
    pub unavoidable: Option<f64>,
    /// The share of all CPUs' holds that would be left with the largest lists that a setting makes. `None` is not measured.
    pub with_largest: Option<f64>,
    /// Whether the lists of the CPU that takes zone locks most often are as large as any setting makes them.
    pub are_largest: bool,
}

/// What counted holds decide without a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The lists should tune themselves, as they do by default.
    Tune,
    /// The largest lists at least halve the holds.
    Eighth,
    /// Lists of no size halve the holds: pages travel between CPUs, or the kernel's rules empty any list.
    Any,
    /// The lists are as large as any setting makes them.
    Largest,
}

impl Held {
    /// The decision, if there is one.
    fn decides(self, lists: Lists) -> Option<Decision> {
        let unavoidable = self.unavoidable?;
        let is_fixed = matches!(lists, Lists::Fraction(_) | Lists::Fixed(_) | Lists::Without);
        match (lists.larger(), self.with_largest) {
            _ if unavoidable >= LOCKS_LEFT_MAX => Some(Decision::Any),
            (Some(Larger::Tune), _) => Some(Decision::Tune),
            (Some(Larger::Eighth), Some(left)) if left <= LOCKS_LEFT_MAX - ESTIMATE => Some(Decision::Eighth),
            (Some(Larger::Eighth), Some(left)) if left >= LOCKS_LEFT_MAX + ESTIMATE => Some(Decision::Any),
            (None, _) if is_fixed || lists == Lists::Tuned && self.are_largest => Some(Decision::Largest),
            _ => None,
        }
    }
}

/// A zone below a watermark. Unit: pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Short {
    /// The zone's name.
    pub zone: String,
    /// Its free pages.
    pub free: u64,
    /// Whether `mark` is min; else it is low.
    pub is_min: bool,
    /// The watermark.
    pub mark: u64,
}

/// A CPU's waits for zone locks, in percent of its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The CPU.
    pub cpu: u32,
    /// The share of its time.
    pub percent: f64,
    /// What most of the waits were for: one of [`PURPOSES`].
    pub mostly: &'static str,
}

/// What a CPU wants a zone lock for. Larger lists make only the first two rarer.
pub const PURPOSES: [&str; 4] = ["to refill", "to drain", "to allocate directly", "to free directly"];

impl Wait {
    /// Whether larger lists can make the waits rarer.
    fn is_for_lists(&self) -> bool {
        PURPOSES[..2].contains(&self.mostly)
    }
}

/// How urgent a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Something is wrong.
    Severe,
    /// Something is worth a look.
    Unusual,
    /// There is not enough to judge.
    Unknown,
    /// Nothing is to do.
    Healthy,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A zone is short of memory.
    Short(Short),
    /// Allocations wait for direct reclaim, so many a second.
    Stalls(f64),
    /// The CPU that waits longest, and the number of CPUs above the limit.
    Waits {
        /// The CPU that waits longest.
        worst: Wait,
        /// CPUs above the limit.
        cpus: usize,
        /// How urgent it is.
        level: Level,
        /// The setting that may help.
        larger: Option<Larger>,
    },
    /// Waits are not measured, and a CPU takes zone locks often.
    Moves {
        /// The CPU.
        cpu: u32,
        /// Holds a second, or pages per batch.
        per_s: f64,
        /// Whether these are counted holds.
        are_holds: bool,
        /// The limit.
        limit: f64,
        /// The setting that may help.
        larger: Option<Larger>,
        /// What is decided without a recording.
        decided: Option<Decision>,
    },
    /// Nothing is counted.
    Uncounted,
    /// Saved looks without counts, as copies of `/proc/zoneinfo` are.
    Saved,
    /// Nothing changed yet.
    FirstLook,
    /// Nothing is to do.
    Healthy {
        /// The CPU that takes zone locks most often, and how often a second.
        moves: Option<(u32, f64)>,
        /// The limit of moves.
        limit: f64,
        /// The CPU that waits longest.
        worst: Option<Wait>,
    },
}

/// All values of [`Finding::key`].
pub const KEYS: [&str; 9] = [
    "memory-short",
    "direct-reclaim",
    "zone-lock-waits",
    "zone-lock-moves",
    "tuning-off",
    "lists-too-small",
    "not-counted",
    "one-look",
    "healthy",
];

/// The findings, at least one.
pub fn judge(numbers: &Numbers) -> Vec<Finding> {
    let mut found: Vec<Finding> = numbers.short.iter().cloned().map(Finding::Short).collect();
    found.extend(numbers.stalls_per_s.filter(|stalls| *stalls >= 0.5).map(Finding::Stalls));
    let waits = numbers.waits.as_deref().unwrap_or_default();
    let worst = waits.iter().max_by(|a, b| a.percent.total_cmp(&b.percent)).cloned();
    let limit = NOTICEABLE_PER_CPU_S;
    // Where memory is short, larger lists take more of it.
    let larger = numbers.lists.larger().filter(|_| numbers.short.is_empty());
    match (&worst, numbers.moves) {
        (Some(wait), _) if wait.percent >= WAIT_PERCENT => {
            let cpus = waits.iter().filter(|wait| wait.percent >= WAIT_PERCENT).count();
            let severe = wait.percent >= SEVERE * WAIT_PERCENT;
            let level = if severe { Level::Severe } else { Level::Unusual };
            let larger = larger.filter(|_| wait.is_for_lists());
            found.push(Finding::Waits { worst: wait.clone(), cpus, level, larger });
        }
        (None, Some((cpu, per_s))) if per_s >= limit => {
            let decided = numbers.held.and_then(|held| held.decides(numbers.lists));
            let larger = larger.filter(|_| !matches!(decided, Some(Decision::Any | Decision::Largest)));
            // Where memory is short, larger lists are not the remedy.
            let decided = decided.filter(|is| !matches!(is, Decision::Tune | Decision::Eighth) || larger.is_some());
            let are_holds = numbers.held.is_some();
            found.push(Finding::Moves { cpu, per_s, are_holds, limit, larger, decided });
        }
        _ if !found.is_empty() => {}
        (_, None) if !numbers.counted => found.push(if numbers.saved { Finding::Saved } else { Finding::Uncounted }),
        _ if !numbers.two_looks => found.push(Finding::FirstLook),
        (_, moves) => found.push(Finding::Healthy { moves, limit, worst }),
    }
    // Stable: findings of one level stay in the order above.
    found.sort_by_key(Finding::level);
    found
}

impl Finding {
    /// The finding's name in outputs, which `pageset explain` knows: one of [`KEYS`].
    pub const fn key(&self) -> &'static str {
        match self {
            Finding::Short(_) => "memory-short",
            Finding::Stalls(_) => "direct-reclaim",
            Finding::Waits { larger: None, .. } => "zone-lock-waits",
            Finding::Moves { larger: None, .. } => "zone-lock-moves",
            Finding::Waits { larger: Some(Larger::Tune), .. } | Finding::Moves { larger: Some(Larger::Tune), .. } => {
                "tuning-off"
            }
            Finding::Waits { .. } | Finding::Moves { .. } => "lists-too-small",
            Finding::Uncounted | Finding::Saved => "not-counted",
            Finding::FirstLook => "one-look",
            Finding::Healthy { .. } => "healthy",
        }
    }

    /// The setting that may help, if there is one.
    pub const fn set(&self) -> Option<Larger> {
        match self {
            Finding::Waits { larger, .. } | Finding::Moves { larger, .. } => *larger,
            _ => None,
        }
    }

    /// Whether only a recording can say what to do. Counted holds decide some cases; `advise` judges by the same number.
    pub const fn needs_recording(&self) -> bool {
        match self {
            Finding::Waits { larger, .. } => !matches!(larger, Some(Larger::Tune)),
            Finding::Moves { decided, .. } => decided.is_none(),
            _ => false,
        }
    }

    /// How urgent the finding is.
    pub fn level(&self) -> Level {
        match self {
            Finding::Short(Short { is_min: true, .. }) | Finding::Stalls(_) => Level::Severe,
            Finding::Short(_) | Finding::Moves { .. } => Level::Unusual,
            Finding::Waits { level, .. } => *level,
            Finding::Uncounted | Finding::Saved | Finding::FirstLook => Level::Unknown,
            Finding::Healthy { .. } => Level::Healthy,
        }
    }

    /// How busy the machine is, to compare findings of one level: percent of a CPU's time, or holds a second where waits are not
    /// measured.
    pub fn busy(&self) -> f64 {
        match self {
            Finding::Waits { worst, .. } | Finding::Healthy { worst: Some(worst), .. } => worst.percent,
            Finding::Moves { per_s, .. } | Finding::Healthy { moves: Some((_, per_s)), .. } => *per_s,
            _ => 0.0,
        }
    }

    /// The sentence in parts: what it is, and what to do. A narrow screen omits parts from the end.
    pub fn parts(&self) -> Vec<String> {
        match self {
            Finding::Short(Short { zone, free, is_min, mark }) => {
                let (name, remedy) = if *is_min { ("min", "free memory") } else { ("low", "kswapd frees memory") };
                let (free, mark) = (grouped(*free), grouped(*mark));
                vec![format!("zone {zone} is below {name}: {free} of {mark} pages are free"), format!("; {remedy}")]
            }
            Finding::Stalls(per_s) => {
                vec![
                    format!("allocations wait for direct reclaim: {} a second", whole(*per_s)),
                    "; free memory".to_owned(),
                ]
            }
            Finding::Waits { worst: Wait { cpu, percent, mostly }, cpus, larger, .. } => vec![
                format!("CPU {cpu} waits {percent:.0} % of its time for zone locks"),
                next(*larger, *larger == Some(Larger::Tune)),
                format!("; mostly {mostly}{}", others(*cpus)),
            ],
            Finding::Moves { cpu, per_s, are_holds, limit, larger, decided } => vec![
                if *are_holds {
                    format!("CPU {cpu} takes zone locks {} times a second, limit {}", whole(*per_s), whole(*limit))
                } else {
                    format!("CPU {cpu} moves {} batches a second, limit {}", whole(*per_s), whole(*limit))
                },
                match decided {
                    Some(Decision::Any) => "; lists of no size halve that".to_owned(),
                    Some(Decision::Largest) => "; no setting makes its lists larger".to_owned(),
                    Some(Decision::Tune | Decision::Eighth) | None => next(*larger, decided.is_some()),
                },
                "; waits are not measured".to_owned(),
            ],
            Finding::Uncounted => {
                let parts = ["memory is not short", "; moves and waits are not counted: run as root"];
                parts.map(str::to_owned).into()
            }
            Finding::Saved => {
                let parts = ["memory is not short", "; the file has no moves and no waits: save `pageset top --json`"];
                parts.map(str::to_owned).into()
            }
            Finding::FirstLook => {
                let parts = ["memory is not short", "; moves and waits need a second look"];
                parts.map(str::to_owned).into()
            }
            Finding::Healthy { moves, limit, worst } => {
                let moves = moves.map(|(_, per_s)| {
                    let of = if per_s < *limit { format!(" of {}", whole(*limit)) } else { String::new() };
                    format!("{} moves a second{of}", whole(per_s))
                });
                let waits = worst.as_ref().map(|wait| format!("waits {:.1} % of the time", wait.percent));
                let unmeasured = if waits.is_none() { "; waits are not measured" } else { "" };
                let healthy = match (moves, &waits) {
                    (Some(moves), None) => moves,
                    (Some(moves), Some(waits)) => format!("{moves}, {waits}"),
                    (None, _) => waits.unwrap_or_else(|| "memory is not short".to_owned()),
                };
                vec![format!("healthy: {healthy}"), ", nothing to tune".to_owned(), unmeasured.to_owned()]
            }
        }
    }

    /// The whole sentence, without a full stop.
    pub fn sentence(&self) -> String {
        self.parts().concat()
    }
}

/// The next command.
const ADVISE: &str = "`pageset advise --live 5`";

/// What to do about zone locks, if that is decided without a recording.
fn next(larger: Option<Larger>, is_decided: bool) -> String {
    match larger {
        None => format!("; run {ADVISE}"),
        Some(Larger::Tune) if is_decided => format!("; set {}: lists tune themselves again", Larger::Tune.text()),
        Some(larger) if is_decided => {
            format!("; set {}: larger lists take them less than half as often", larger.text())
        }
        Some(larger) => format!("; run {ADVISE}: {} may help", larger.text()),
    }
}

fn whole(number: f64) -> String {
    grouped(number.round() as u64)
}

/// The number of other CPUs, as the end of a sentence.
pub fn others(all: usize) -> String {
    match all {
        0 | 1 => String::new(),
        2 => "; another CPU too".to_owned(),
        _ => format!("; {} other CPUs too", grouped(all as u64 - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(cpu: u32, percent: f64) -> Wait {
        Wait { cpu, percent, mostly: "to drain" }
    }

    #[test]
    fn the_most_important_finding_comes_first() {
        let short = |is_min| Short { zone: "0 Normal".to_owned(), free: 7, is_min, mark: 1234 };
        let calm = Numbers { moves: Some((1, 9.2)), counted: true, two_looks: true, ..Numbers::default() };
        let with = |waits: &[Wait]| Numbers { waits: Some(waits.to_vec()), ..calm.clone() };
        for (numbers, level, sentence) in [
            (
                calm.clone(),
                Level::Healthy,
                "healthy: 9 moves a second of 1,000, nothing to tune; waits are not measured",
            ),
            (
                with(&[wait(0, 0.4)]),
                Level::Healthy,
                "healthy: 9 moves a second of 1,000, waits 0.4 % of the time, nothing to tune",
            ),
            (
                with(&[wait(0, 6.0), wait(3, 12.4), wait(4, 4.9)]),
                Level::Unusual,
                "CPU 3 waits 12 % of its time for zone locks; run `pageset advise --live 5`; mostly to drain; another CPU \
                 too",
            ),
            (
                Numbers { moves: Some((2, 1000.0)), held: Some(Held::default()), ..calm.clone() },
                Level::Unusual,
                "CPU 2 takes zone locks 1,000 times a second, limit 1,000; run `pageset advise --live 5`; waits are not measured",
            ),
            // Measured waits decide, not the number of moves.
            (
                Numbers { moves: Some((2, 5000.0)), ..with(&[wait(0, 0.0)]) },
                Level::Healthy,
                "healthy: 5,000 moves a second, waits 0.0 % of the time, nothing to tune",
            ),
            (
                Numbers { short: vec![short(false)], ..with(&[wait(0, 20.0)]) },
                Level::Severe,
                "CPU 0 waits 20 % of its time for zone locks; run `pageset advise --live 5`; mostly to drain",
            ),
            (
                Numbers { short: vec![short(true)], ..with(&[wait(0, 19.9)]) },
                Level::Severe,
                "zone 0 Normal is below min: 7 of 1,234 pages are free; free memory",
            ),
            (
                Numbers { stalls_per_s: Some(12.0), ..calm.clone() },
                Level::Severe,
                "allocations wait for direct reclaim: 12 a second; free memory",
            ),
            // Lists that a fraction keeps small tune themselves without it; those of 6.6 and earlier have no other way.
            (
                Numbers { lists: Lists::Fraction(100), ..with(&[wait(0, 12.0)]) },
                Level::Unusual,
                "CPU 0 waits 12 % of its time for zone locks; set vm.percpu_pagelist_high_fraction=0: lists tune \
                 themselves again; mostly to drain",
            ),
            (
                Numbers { lists: Lists::Fixed(0), moves: Some((2, 1000.0)), ..calm.clone() },
                Level::Unusual,
                "CPU 2 moves 1,000 batches a second, limit 1,000; run `pageset advise --live 5`: \
                 vm.percpu_pagelist_high_fraction=8 may help; waits are not measured",
            ),
            // Moves alone do not show that a CPU waits, and larger lists would take from a zone that is short.
            (
                Numbers { lists: Lists::Fraction(100), moves: Some((2, 1000.0)), ..calm.clone() },
                Level::Unusual,
                "CPU 2 moves 1,000 batches a second, limit 1,000; run `pageset advise --live 5`: \
                 vm.percpu_pagelist_high_fraction=0 may help; waits are not measured",
            ),
            (
                Numbers { lists: Lists::Fraction(100), short: vec![short(false)], ..with(&[wait(0, 20.0)]) },
                Level::Severe,
                "CPU 0 waits 20 % of its time for zone locks; run `pageset advise --live 5`; mostly to drain",
            ),
            // What is not measured is no number.
            (
                Numbers { two_looks: true, ..Numbers::default() },
                Level::Unknown,
                "memory is not short; moves and waits are not counted: run as root",
            ),
            (
                Numbers { two_looks: true, saved: true, ..Numbers::default() },
                Level::Unknown,
                "memory is not short; the file has no moves and no waits: save `pageset top --json`",
            ),
            (
                Numbers { counted: true, ..Numbers::default() },
                Level::Unknown,
                "memory is not short; moves and waits need a second look",
            ),
        ] {
            let found = judge(&numbers);
            assert_eq!((found[0].level(), found[0].sentence().as_str()), (level, sentence), "{numbers:?}");
        }
    }

    /// Counted holds decide where pages per batch cannot.
    #[test]
    fn counted_holds_decide_without_a_recording() {
        let decided = |lists, held: Option<Held>, short: bool| {
            let short = short.then(|| Short { zone: "0 Normal".to_owned(), free: 7, is_min: false, mark: 9 });
            let short = short.into_iter().collect();
            let moves = Some((2, 1000.0));
            let found =
                judge(&Numbers { lists, moves, held, short, counted: true, two_looks: true, ..Numbers::default() });
            let moves = found.iter().find(|finding| matches!(finding, Finding::Moves { .. })).unwrap();
            (moves.key(), moves.set().map(Larger::text), moves.needs_recording())
        };
        let held =
            |unavoidable, are_largest| Some(Held { unavoidable: Some(unavoidable), are_largest, with_largest: None });
        let number_only = Some(Held { are_largest: true, ..Held::default() });
        let left = |left| Some(Held { unavoidable: Some(0.0), with_largest: Some(left), are_largest: false });
        let (tune, eighth) = (Larger::Tune.text(), Larger::Eighth.text());
        for (lists, held, short, expected) in [
            (Lists::Fraction(1000), None, false, ("tuning-off", Some(tune), true)),
            // Holds decide nothing if it is unknown how many of them larger lists avoid.
            (Lists::Fraction(1000), number_only, false, ("tuning-off", Some(tune), true)),
            (Lists::Tuned, number_only, false, ("zone-lock-moves", None, true)),
            (Lists::Fraction(1000), held(0.49, false), false, ("tuning-off", Some(tune), false)),
            (Lists::Fraction(1000), held(0.5, false), false, ("zone-lock-moves", None, false)),
            (Lists::Fraction(1000), held(0.0, false), true, ("zone-lock-moves", None, true)),
            // Lists that tune themselves may have grown as far as they go.
            (Lists::Tuned, held(0.0, false), false, ("zone-lock-moves", None, true)),
            (Lists::Tuned, held(0.0, true), false, ("zone-lock-moves", None, false)),
            (Lists::Tuned, None, false, ("zone-lock-moves", None, true)),
            (Lists::Unknown, held(0.0, true), false, ("zone-lock-moves", None, true)),
            // Whether the largest lists halve the holds, pages that they would keep tell; next to the limit, a recording.
            (Lists::Fixed(0), left(0.4), false, ("lists-too-small", Some(eighth), false)),
            (Lists::Fixed(0), left(0.41), false, ("lists-too-small", Some(eighth), true)),
            (Lists::Fixed(0), left(0.59), false, ("lists-too-small", Some(eighth), true)),
            (Lists::Fixed(0), left(0.6), false, ("zone-lock-moves", None, false)),
            (Lists::Fixed(0), left(0.0), true, ("zone-lock-moves", None, true)),
            (Lists::Fraction(50), left(0.3), false, ("lists-too-small", Some(eighth), false)),
            (Lists::Fraction(1000), left(0.9), false, ("tuning-off", Some(tune), false)),
            (Lists::Tuned, left(0.0), false, ("zone-lock-moves", None, true)),
            (Lists::Fixed(0), held(0.49, false), false, ("lists-too-small", Some(eighth), true)),
            (Lists::Fixed(0), held(0.5, false), false, ("zone-lock-moves", None, false)),
            (Lists::Without, held(0.0, false), false, ("zone-lock-moves", None, false)),
            (Lists::Fixed(8), held(0.0, false), false, ("zone-lock-moves", None, false)),
            (Lists::Fraction(50), held(0.0, false), false, ("lists-too-small", Some(eighth), true)),
        ] {
            assert_eq!(decided(lists, held, short), expected, "{lists:?} {held:?}");
        }
    }

    #[test]
    fn the_key_and_the_setting_follow_from_what_sizes_the_lists() {
        let key = |lists, wait: Wait| {
            let waits = Some(vec![wait]);
            let numbers = Numbers { lists, waits, counted: true, two_looks: true, ..Numbers::default() };
            let found = judge(&numbers);
            assert!(KEYS.contains(&found[0].key()), "{found:?}");
            (found[0].key(), found[0].set().map(Larger::text), found[0].needs_recording())
        };
        let (tune, eighth) = (Larger::Tune.text(), Larger::Eighth.text());
        for (lists, expected) in [
            (Lists::Tuned, ("zone-lock-waits", None, true)),
            (Lists::Unknown, ("zone-lock-waits", None, true)),
            (Lists::Fraction(100), ("tuning-off", Some(tune), false)),
            // A smaller fraction may be better than none.
            (Lists::Fraction(99), ("lists-too-small", Some(eighth), true)),
            // Nothing makes larger lists than a fraction of 8.
            (Lists::Fraction(8), ("zone-lock-waits", None, true)),
            (Lists::Fixed(8), ("zone-lock-waits", None, true)),
            (Lists::Fixed(9), ("lists-too-small", Some(eighth), true)),
            (Lists::Fixed(0), ("lists-too-small", Some(eighth), true)),
        ] {
            assert_eq!(key(lists, wait(0, 9.0)), expected, "{lists:?}");
        }
        let direct = Wait { mostly: PURPOSES[2], ..wait(0, 9.0) };
        assert_eq!(key(Lists::Fraction(100), direct), ("zone-lock-waits", None, true), "lists are not in the way");
        assert_eq!(key(Lists::Fraction(100), wait(0, 1.0)), ("healthy", None, false));
    }
}
