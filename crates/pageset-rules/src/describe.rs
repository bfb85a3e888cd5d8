//! Sets of rules told by their keys, and by what differs from another set.

use pageset::Tuning;

use crate::keys::Value;
use crate::set::RuleSet;
use crate::table::KEYS;

/// The rules by their keys, in the order of [`Tuning`]'s fields.
pub fn described(tuning: &Tuning) -> Vec<(&'static str, Value)> {
    RuleSet::new("", *tuning).by_key()
}

impl RuleSet {
    /// The rules by their keys, and what the set says of the machine.
    #[must_use]
    pub fn by_key(&self) -> Vec<(&'static str, Value)> {
        KEYS.iter().filter_map(|key| Some((key.name, key.get(self)?))).collect()
    }

    /// The one of `others` that differs least, the last of several, and in what this set differs from it. Nothing where
    /// there are no others.
    #[must_use]
    pub fn most_like<'a>(&self, others: &'a [RuleSet]) -> Option<(&'a RuleSet, Vec<(&'static str, Value)>)> {
        let own = self.by_key();
        let differs = |other: &RuleSet| {
            let other = other.by_key();
            own.iter().filter(|rule| !other.contains(rule)).cloned().collect::<Vec<_>>()
        };
        others.iter().rev().map(|other| (other, differs(other))).min_by_key(|(_, differs)| differs.len())
    }
}

#[cfg(test)]
mod tests {
    use pageset::tuning::PRESETS;

    use super::*;

    #[test]
    fn sets_are_told_by_the_one_most_like_them() {
        let all: Vec<RuleSet> = PRESETS.iter().map(|preset| RuleSet::new(preset.name, preset.tuning)).collect();
        let at = |name: &str| all.iter().position(|rules| rules.name == name).unwrap();
        let told = |rules: &RuleSet, others: &[RuleSet]| {
            let (like, differs) = rules.most_like(others).unwrap();
            let differs: Vec<String> = differs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (like.name.clone(), differs.join(" "))
        };
        for (name, like, differs) in [
            ("linux-4.17", "linux-4.16", "bulk_free=two-pass"),
            ("linux-5.18", "linux-5.14", "bulk_free=single-pass drain_high_order=on"),
            // Not the one just above it.
            ("posted-5", "series-5", "cache_slice_batches=4"),
            ("linux-6.7", "series-8", "free_count=on"),
            ("linux-6.18", "linux-6.16", ""),
        ] {
            assert_eq!(told(&all[at(name)], &all[..at(name)]), (like.to_owned(), differs.to_owned()), "{name}");
        }
        assert_eq!(all[0].most_like(&[]), None);
        // A fraction is told, although it is not a rule.
        let rules = RuleSet { high_fraction: Some(8), ..all[at("linux-6.18")].clone() };
        let told = told(&rules, &all[..=at("linux-6.18")]);
        assert_eq!(told, ("linux-6.18".to_owned(), "high_fraction=8".to_owned()));
    }
}
