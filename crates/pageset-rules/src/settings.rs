//! Changes to a set of rules: from `--set key=value`, or from the lines of a rule file.

use pageset::policy::{HighRule, TuningError};

use crate::error::RulesError;
use crate::keys::{Key, Value};
use crate::layout::Draft;
use crate::nearest::suggestion;
use crate::set::RuleSet;
use crate::table::{CACHE_SLICE, EXCLUSIVE, TOGETHER, key_names};

/// Changes, in the given order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings(Vec<Change>);

#[derive(Clone, Debug)]
struct Change {
    key: &'static Key,
    value: Value,
    /// The place and text of the change, for messages.
    origin: String,
}

/// A conflict between rules.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) what: String,
    /// The place and text of the change that causes the conflict, if one does.
    pub(crate) origin: Option<String>,
}

impl Settings {
    /// Parses `key=value` texts. `prefix` stands before each in messages, such as `--set `.
    ///
    /// # Errors
    /// If a text is invalid; the error has the text, the fault and the allowed values.
    pub(crate) fn parse(texts: &[impl AsRef<str>], prefix: &str) -> Result<Settings, RulesError> {
        let mut settings = Settings::default();
        for text in texts {
            let text = text.as_ref();
            let origin = format!("{prefix}{text}");
            let Some((key, value)) = text.split_once('=') else {
                let what = match Key::find(text) {
                    // The value may stand behind a space.
                    Some(key) => format!("no `=`; write {origin}=VALUE; allowed: {}", key.allowed()),
                    None => format!("no `=`; allowed: KEY=VALUE, where KEY is {}", all_keys()),
                };
                return Err(RulesError::invalid(origin, what));
            };
            settings.add(key, Some(Value::from_text(value)), origin)?;
        }
        settings.check()?;
        Ok(settings)
    }

    /// Adds a change. `value` is `None` if no key can have the given value. `origin` is the place and text of the
    /// change, for messages.
    ///
    /// # Errors
    /// If there is no such key, the value is not allowed, or the key is repeated.
    pub(crate) fn add(&mut self, name: &str, value: Option<Value>, origin: String) -> Result<(), RulesError> {
        let Some(key) = Key::find(name) else {
            let meant = suggestion(name, key_names());
            let what = format!("unknown rule `{name}`{meant}; `pageset replay --list-rules` lists all");
            return Err(RulesError::invalid(origin, what));
        };
        let mut scratch = Draft::new(&RuleSet::new("", pageset::Tuning::default()));
        let allowed = value.filter(|value| key.set(&mut scratch, value).is_some());
        let Some(value) = allowed else {
            return Err(RulesError::invalid(origin, format!("allowed: {}", key.allowed())));
        };
        if self.find(name).is_some() {
            return Err(RulesError::invalid(origin, format!("{name} is given twice")));
        }
        self.0.push(Change { key, value, origin });
        Ok(())
    }

    /// Checks, after all changes are added, that no two exclude each other and none lacks a required other one.
    ///
    /// # Errors
    /// The error names the later of two exclusive changes, or the incomplete change.
    pub(crate) fn check(&self) -> Result<(), RulesError> {
        for (i, change) in self.0.iter().enumerate() {
            let name = change.key.name;
            let others = EXCLUSIVE.iter().filter_map(|&(a, b)| other_of(name, a, b));
            if let Some(other) = self.0[..i].iter().find(|earlier| others.clone().any(|o| o == earlier.key.name)) {
                let what = format!("{} is given as well; they exclude each other", other.key.name);
                return Err(RulesError::invalid(&change.origin, what));
            }
            let mut lacks = TOGETHER.iter().filter_map(|&(a, b)| other_of(name, a, b));
            if let Some(lack) = lacks.find(|lack| self.find(lack).is_none()) {
                return Err(RulesError::invalid(&change.origin, format!("{lack} is not given; they go together")));
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Change> {
        self.0.iter().find(|change| change.key.name == name)
    }

    /// The changes that describe the machine, not its rules.
    pub(crate) fn of_machine(&self) -> Settings {
        Settings(self.0.iter().filter(|change| change.key.name == CACHE_SLICE).cloned().collect())
    }

    /// The changes as a part of a name: ` key=value` for each.
    pub(crate) fn suffix(&self) -> String {
        self.0.iter().map(|change| format!(" {}={}", change.key.name, change.value)).collect()
    }

    /// Applies the changes to a set of rules.
    ///
    /// # Errors
    /// If the resulting rules conflict; some changes are then applied.
    pub(crate) fn apply(&self, rules: &mut RuleSet) -> Result<(), Conflict> {
        let mut draft = Draft::new(rules);
        for change in &self.0 {
            // `add` has checked the value.
            let _ = change.key.set(&mut draft, &change.value);
        }
        (rules.high_fraction, rules.cache_slice_pages) = (draft.high_fraction, draft.cache_slice_pages);
        let tuning = draft.tuning();
        rules.tuning = tuning.unwrap_or(draft.tuning);
        let (what, culprits) = match tuning {
            Err(error @ TuningError::Needs { rule, needs }) => {
                // A key, or `KEY = VALUE`.
                let key = needs.split_once(" = ").map_or(needs, |(key, _)| key);
                (error.to_string(), [rule, key])
            }
            Err(error @ TuningError::OutOfRange { field, .. }) => (error.to_string(), [field, field]),
            Err(error @ TuningError::NeedsResearch { rule }) => (error.to_string(), [rule, rule]),
            Ok(_) if fixed_high_and_fraction(rules) => {
                let what = "high_fraction changes nothing where high is set by hand".to_owned();
                (what, ["high_fraction", "high"])
            }
            Ok(_) => return Ok(()),
        };
        let origin = culprits.iter().find_map(|name| self.find(name)).map(|change| change.origin.clone());
        Err(Conflict { what, origin })
    }
}

fn fixed_high_and_fraction(rules: &RuleSet) -> bool {
    matches!(rules.tuning.high, HighRule::Fixed { .. }) && rules.high_fraction.is_some_and(|fraction| fraction > 0)
}

/// The other member of a pair, if `name` is a member.
fn other_of(name: &str, a: &'static str, b: &'static str) -> Option<&'static str> {
    if name == a {
        Some(b)
    } else if name == b {
        Some(a)
    } else {
        None
    }
}

fn all_keys() -> String {
    key_names().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use pageset::policy::presets::{LINUX_6_18, PAGESET};
    use pageset::policy::{BatchRule, HighRule};

    use super::*;

    fn changed(texts: &[&str]) -> Result<RuleSet, String> {
        let settings = Settings::parse(texts, "--set ").map_err(|error| error.to_string())?;
        let mut rules = RuleSet::new("x", LINUX_6_18);
        settings.apply(&mut rules).map_err(|conflict| conflict.what)?;
        rules.name += &settings.suffix();
        Ok(rules)
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
        assert_eq!(changed(&["cache_slice_pages=4096"]).unwrap().cache_slice_pages, Some(4096));
        assert!(!changed(&["below_high=off"]).unwrap().tuning.below_high);
        assert!(!changed(&["below_high=false"]).unwrap().tuning.below_high);
        assert!(changed(&["count_min=true"]).unwrap().tuning.count_min);
        assert_eq!(changed(&["batch=31", "decay=fifth"]).unwrap().name, "x batch=31 decay=fifth");
    }

    #[test]
    fn one_message_names_all_that_merge_skip_needs() {
        let on_pageset = |texts: &[&str]| {
            let settings = Settings::parse(texts, "--set ").unwrap();
            settings.apply(&mut RuleSet::new("x", PAGESET)).map_err(|conflict| conflict.what)
        };
        let error = on_pageset(&["merge_skip=on"]).unwrap_err();
        for part in ["regions = one", "depot = off", "bitmaps = off", "bulk_free = pick-locked"] {
            assert!(error.contains(part), "{error}");
        }
        let all = ["merge_skip=on", "regions=one", "depot=off", "bitmaps=off", "bulk_free=pick-locked"];
        assert_eq!(on_pageset(&all), Ok(()));
    }

    #[test]
    fn errors_name_the_allowed_values() {
        for (texts, part) in [
            (&["bath"][..], "--set bath: no `=`; allowed: KEY=VALUE, where KEY is batch, batch_cap_kib,"),
            (&["high_fraction"], "no `=`; write --set high_fraction=VALUE; allowed: 0 for none, or 8 to 4294967295"),
            (&["bath=1"], "--set bath=1: unknown rule `bath`; the closest are batch, "),
            (&["zzz=1"], "unknown rule `zzz`; the closest are "),
            (&["batch=x"], "--set batch=x: allowed: 1 to 65536 pages"),
            (&["batch=on"], "--set batch=on: allowed: 1 to 65536 pages"),
            (&["batch=0"], "--set batch=0: allowed: 1 to 65536 pages"),
            (&["batch=65537"], "--set batch=65537: allowed: 1 to 65536 pages"),
            (&["batch=-1"], "allowed: 1 to 65536 pages"),
            (&["batch=18446744073709551616"], "allowed: 1 to 65536 pages"),
            (&["batch_cap_kib=0"], "allowed: 1 to 1048576 KiB"),
            (&["batch=1", "batch_cap_kib=512"], "--set batch_cap_kib=512: batch is given as well; they exclude"),
            (&["high_fraction=8", "high=1"], "--set high=1: high_fraction is given as well; they exclude each other"),
            (&["high=99999999999"], "allowed: 0 to 268435456 pages, six-batches or from-low-watermark"),
            (&["high_min=9", "high_max=5"], "high_min is 9; allowed: at most high_max"),
            (&["high_min=9"], "--set high_min=9: high_max is not given; they go together"),
            (&["high_fraction=7"], "allowed: 0 for none, or 8 to 4294967295"),
            (&["batch_scale_max=7"], "allowed: 0 to 6"),
            (&["auto_high=maybe"], "allowed: on (true) or off (false)"),
            (&["auto_high=1"], "allowed: on (true) or off (false)"),
            (&["alloc_factor=off"], "the rule auto_high needs alloc_factor = on"),
            (
                &["lists=all"],
                "allowed: order-zero, to-costly, huge-shared, huge-by-mobility, huge-by-type or all-orders",
            ),
            (&["decay=fifth", "decay=fifth"], "--set decay=fifth: decay is given twice"),
        ] {
            let error = changed(texts).unwrap_err();
            assert!(error.contains(part), "{texts:?}: {error}");
        }
    }
}
