//! `--set key=value`: one key for each rule of a [`Tuning`], the words for its values, and the way back to text.

use pageset::tuning::sizes::MIN_HIGH_FRACTION;
use pageset::tuning::{BatchRule, BulkFree, DecayRule, FallbackRule, HighRule, ListRule, Tuning};
use pageset_trace::replay::RuleSet;

/// The rules that are on or off, in the order of [`Tuning`]'s fields.
pub(super) const SWITCHES: [Switch; 15] = [
    ("merge_by_type", |t| &mut t.merge_by_type),
    ("type_at_drain", |t| &mut t.type_at_drain),
    ("merge_skip", |t| &mut t.merge_skip),
    ("scale_drain", |t| &mut t.scale_drain),
    ("drain_high_order", |t| &mut t.drain_high_order),
    ("reclaim_limit", |t| &mut t.reclaim_limit),
    ("prev_high_order", |t| &mut t.prev_high_order),
    ("cache_slice", |t| &mut t.cache_slice),
    ("scale_cap", |t| &mut t.scale_cap),
    ("alloc_factor", |t| &mut t.alloc_factor),
    ("auto_high", |t| &mut t.auto_high),
    ("below_high", |t| &mut t.below_high),
    ("count_min", |t| &mut t.count_min),
    ("free_count", |t| &mut t.free_count),
    ("high_threshold_616", |t| &mut t.high_threshold_616),
];

/// A switch's key and where it is.
type Switch = (&'static str, fn(&mut Tuning) -> &mut bool);

const SWITCH_VALUES: &str = "on or off";

const LISTS: [(&str, ListRule); 4] = [
    ("order-zero", ListRule::OrderZero),
    ("to-costly", ListRule::ToCostly),
    ("huge-shared", ListRule::HugeShared),
    ("huge-by-mobility", ListRule::HugeByMobility),
];

const BULK_FREE: [(&str, BulkFree); 4] = [
    ("pick-locked", BulkFree::PickLocked),
    ("two-pass", BulkFree::TwoPass),
    ("single-pass", BulkFree::SinglePass),
    ("chunked", BulkFree::Chunked),
];

const FALLBACK: [(&str, FallbackRule); 2] =
    [("steal", FallbackRule::Steal), ("claim-then-steal", FallbackRule::ClaimThenSteal)];

const DECAY: [(&str, DecayRule); 2] = [("eighth", DecayRule::Eighth), ("fifth", DecayRule::Fifth)];

const HIGH: [(&str, HighRule); 2] =
    [("six-batches", HighRule::SixBatches), ("from-low-watermark", HighRule::FromLowWatermark)];

/// A rule that has a value.
struct Key {
    name: &'static str,
    /// What may stand behind `=`, for messages.
    allowed: &'static str,
    /// Nothing where the value is not allowed.
    set: fn(&mut RuleSet, &str) -> Option<()>,
}

const KEYS: [Key; 11] = [
    Key {
        name: "batch",
        allowed: "1 to 65536 pages",
        set: |rules, value| {
            rules.tuning.batch = BatchRule::Fixed(value.parse().ok()?);
            Some(())
        },
    },
    Key {
        name: "batch_cap_kib",
        allowed: "1 to 1048576 KiB; the kernels have 512 and 1024",
        set: |rules, value| {
            rules.tuning.batch = BatchRule::FromZone { cap_kib: value.parse().ok()? };
            Some(())
        },
    },
    Key {
        name: "high",
        allowed: "0 to 268435456 pages, six-batches or from-low-watermark",
        set: |rules, value| {
            rules.tuning.high = match value.parse() {
                Ok(pages) => HighRule::Fixed { min: pages, max: pages },
                Err(_) => word(&HIGH, value)?,
            };
            Some(())
        },
    },
    Key {
        name: "high_min",
        allowed: "0 to 268435456 pages, at most high_max",
        set: |rules, value| {
            let min = value.parse().ok()?;
            let max = if let HighRule::Fixed { max, .. } = rules.tuning.high { max } else { min };
            rules.tuning.high = HighRule::Fixed { min, max };
            Some(())
        },
    },
    Key {
        name: "high_max",
        allowed: "0 to 268435456 pages, at least high_min",
        set: |rules, value| {
            let max = value.parse().ok()?;
            let min = if let HighRule::Fixed { min, .. } = rules.tuning.high { min } else { max };
            rules.tuning.high = HighRule::Fixed { min, max };
            Some(())
        },
    },
    Key {
        name: "high_fraction",
        allowed: "0 for none, or 8 and above",
        set: |rules, value| {
            let fraction = value.parse().ok().filter(|&f| f == 0 || f >= MIN_HIGH_FRACTION)?;
            rules.high_fraction = Some(fraction);
            Some(())
        },
    },
    Key {
        name: "batch_scale_max",
        allowed: "0 to 6",
        set: |rules, value| {
            rules.tuning.batch_scale_max = value.parse().ok()?;
            Some(())
        },
    },
    Key {
        name: "lists",
        allowed: "order-zero, to-costly, huge-shared or huge-by-mobility",
        set: |rules, value| {
            rules.tuning.lists = word(&LISTS, value)?;
            Some(())
        },
    },
    Key {
        name: "bulk_free",
        allowed: "pick-locked, two-pass, single-pass or chunked",
        set: |rules, value| {
            rules.tuning.bulk_free = word(&BULK_FREE, value)?;
            Some(())
        },
    },
    Key {
        name: "fallback",
        allowed: "steal or claim-then-steal",
        set: |rules, value| {
            rules.tuning.fallback = word(&FALLBACK, value)?;
            Some(())
        },
    },
    Key {
        name: "decay",
        allowed: "eighth or fifth",
        set: |rules, value| {
            rules.tuning.decay = word(&DECAY, value)?;
            Some(())
        },
    },
];

/// Keys that cannot stand together: each sets what the other sets.
const EXCLUSIVE: [(&str, &str); 5] = [
    ("batch", "batch_cap_kib"),
    ("high", "high_min"),
    ("high", "high_max"),
    ("high", "high_fraction"),
    ("high_min", "high_fraction"),
];

/// Changes to a set of rules, in the order given.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(Vec<(String, String)>);

impl Settings {
    /// Reads `key=value` texts.
    ///
    /// # Errors
    /// What is wrong with which, and what is allowed.
    pub(super) fn parse(texts: &[String]) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let mut scratch = RuleSet { name: String::new(), tuning: Tuning::default(), high_fraction: None };
        for text in texts {
            let Some((key, value)) = text.split_once('=') else {
                return Err(format!("--set {text}: no `=`; allowed: KEY=VALUE, where KEY is {}", keys()));
            };
            set(&mut scratch, key, value)?;
            if settings.has(key) {
                return Err(format!("--set {key} is given twice"));
            }
            settings.0.push((key.to_owned(), value.to_owned()));
        }
        if let Some((a, b)) = EXCLUSIVE.iter().find(|(a, b)| settings.has(a) && settings.has(b)) {
            return Err(format!("--set {a} and --set {b} exclude each other"));
        }
        if settings.has("high_min") != settings.has("high_max") {
            return Err("--set high_min and --set high_max go together".to_owned());
        }
        Ok(settings)
    }

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    /// The set of rules with these changes, named after them.
    ///
    /// # Errors
    /// Rules that do not go together or a value out of range, with the set's name.
    pub(super) fn apply(&self, rules: &RuleSet) -> Result<RuleSet, String> {
        let mut rules = rules.clone();
        for (key, value) in &self.0 {
            set(&mut rules, key, value)?;
            rules.name += &format!(" {key}={value}");
        }
        rules.tuning.check().map_err(|e| format!("{}: {e}", rules.name))?;
        Ok(rules)
    }
}

/// Changes one rule.
fn set(rules: &mut RuleSet, key: &str, value: &str) -> Result<(), String> {
    if let Some((_, switch)) = SWITCHES.iter().find(|(name, _)| *name == key) {
        *switch(&mut rules.tuning) = match value {
            "on" | "true" => true,
            "off" | "false" => false,
            _ => return Err(format!("--set {key}={value}: allowed: {SWITCH_VALUES}")),
        };
        return Ok(());
    }
    let Some(rule) = KEYS.iter().find(|rule| rule.name == key) else {
        return Err(format!("--set {key}={value}: there is no rule {key}; allowed: {}", keys()));
    };
    let wrong = || format!("--set {key}={value}: allowed: {}", rule.allowed);
    (rule.set)(rules, value).ok_or_else(wrong)
}

/// All keys, for messages.
fn keys() -> String {
    let names = KEYS.iter().map(|key| key.name).chain(SWITCHES.iter().map(|(name, _)| *name));
    names.collect::<Vec<_>>().join(", ")
}

/// The rules as `key=value`, such as [`Settings::parse`] takes, in the order of [`Tuning`]'s fields.
pub(super) fn described(tuning: &Tuning) -> Vec<(&'static str, String)> {
    let mut tuning = *tuning;
    let batch = match tuning.batch {
        BatchRule::FromZone { cap_kib } => ("batch_cap_kib", cap_kib.to_string()),
        BatchRule::Fixed(pages) => ("batch", pages.to_string()),
    };
    let mut all = vec![batch];
    match tuning.high {
        HighRule::Fixed { min, max } => {
            all.push(("high_min", min.to_string()));
            all.push(("high_max", max.to_string()));
        }
        rule => all.push(("high", name(&HIGH, rule))),
    }
    all.push(("lists", name(&LISTS, tuning.lists)));
    all.push(("bulk_free", name(&BULK_FREE, tuning.bulk_free)));
    all.push(("fallback", name(&FALLBACK, tuning.fallback)));
    for (key, switch) in SWITCHES {
        all.push((key, if *switch(&mut tuning) { "on" } else { "off" }.to_owned()));
    }
    all.push(("decay", name(&DECAY, tuning.decay)));
    all.push(("batch_scale_max", tuning.batch_scale_max.to_string()));
    all
}

fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Option<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

fn name<T: Copy + PartialEq>(words: &[(&str, T)], value: T) -> String {
    words.iter().find(|(_, v)| *v == value).map_or("?", |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use pageset::tuning::PRESETS;

    use super::*;

    fn changed(texts: &[&str]) -> Result<RuleSet, String> {
        let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
        let rules = RuleSet { name: "x".to_owned(), tuning: Tuning::default(), high_fraction: None };
        Settings::parse(&texts)?.apply(&rules)
    }

    /// Every preset comes back from its description, so no rule lacks a key and no value a word.
    #[test]
    fn every_rule_has_its_key() {
        for preset in PRESETS {
            let mut rules = RuleSet { name: String::new(), tuning: odd(), high_fraction: None };
            for (key, value) in described(&preset.tuning) {
                set(&mut rules, key, &value).unwrap();
            }
            assert_eq!(rules.tuning, preset.tuning, "{}", preset.name);
        }
    }

    /// Rules that no preset has.
    fn odd() -> Tuning {
        let mut tuning = Tuning {
            batch: BatchRule::Fixed(7),
            high: HighRule::Fixed { min: 1, max: 2 },
            decay: DecayRule::Fifth,
            batch_scale_max: 1,
            ..Tuning::default()
        };
        for (_, switch) in SWITCHES {
            *switch(&mut tuning) ^= true;
        }
        tuning
    }

    #[test]
    fn values() {
        let high = |texts: &[&str]| changed(texts).unwrap().tuning.high;
        assert_eq!(changed(&["batch=31"]).unwrap().tuning.batch, BatchRule::Fixed(31));
        assert_eq!(changed(&["batch_cap_kib=512"]).unwrap().tuning.batch, BatchRule::FromZone { cap_kib: 512 });
        assert_eq!(high(&["high=500"]), HighRule::Fixed { min: 500, max: 500 });
        assert_eq!(high(&["high_min=5", "high_max=9"]), HighRule::Fixed { min: 5, max: 9 });
        assert_eq!(high(&["high_max=9", "high_min=5"]), HighRule::Fixed { min: 5, max: 9 });
        assert_eq!(high(&["high=six-batches"]), HighRule::SixBatches);
        assert_eq!(changed(&["high_fraction=8"]).unwrap().high_fraction, Some(8));
        assert_eq!(changed(&["high_fraction=0"]).unwrap().high_fraction, Some(0));
        assert!(!changed(&["below_high=off"]).unwrap().tuning.below_high);
        assert!(!changed(&["below_high=false"]).unwrap().tuning.below_high);
        assert!(changed(&["count_min=true"]).unwrap().tuning.count_min);
        assert_eq!(changed(&["batch=31", "decay=fifth"]).unwrap().name, "x batch=31 decay=fifth");
    }

    #[test]
    fn what_cannot_be_had_says_what_can() {
        for (texts, part) in [
            (&["batch"][..], "no `=`; allowed: KEY=VALUE, where KEY is batch, batch_cap_kib,"),
            (&["bath=1"], "there is no rule bath; allowed: batch, batch_cap_kib,"),
            (&["batch=x"], "--set batch=x: allowed: 1 to 65536 pages"),
            (&["batch=0"], "x batch=0: batch is 0; allowed: 1 to 65536 pages"),
            (&["batch=-1"], "allowed: 1 to 65536 pages"),
            (&["batch=1", "batch_cap_kib=512"], "exclude each other"),
            (&["high=99999999999"], "allowed: 0 to 268435456 pages"),
            (&["high_min=9", "high_max=5"], "allowed: at most high_max"),
            (&["high_min=9"], "go together"),
            (&["high_fraction=7"], "allowed: 0 for none, or 8 and above"),
            (&["batch_scale_max=7"], "allowed: 0 to 6"),
            (&["auto_high=maybe"], "allowed: on or off"),
            (&["alloc_factor=off"], "the rule auto_high needs alloc_factor to be on as well"),
            (&["lists=all"], "allowed: order-zero,"),
            (&["decay=fifth", "decay=fifth"], "is given twice"),
        ] {
            let error = changed(texts).unwrap_err();
            assert!(error.contains(part), "{texts:?}: {error}");
        }
    }
}
