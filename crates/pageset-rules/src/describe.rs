//! Sets of rules by key, and their differences.

use pageset::Tuning;

use crate::keys::Value;
use crate::layout::Draft;
use crate::set::RuleSet;
use crate::table::KEYS;

/// The rules by key, in the order of [`Tuning`]'s fields.
pub fn described(tuning: &Tuning) -> Vec<(&'static str, Value)> {
    RuleSet::new("", *tuning).by_key()
}

impl RuleSet {
    /// The rules by key, including the set's data of the machine.
    pub fn by_key(&self) -> Vec<(&'static str, Value)> {
        let draft = Draft::new(self);
        KEYS.iter().filter_map(|key| Some((key.name, key.get(&draft)?))).collect()
    }

    /// The set of `others` with the fewest differences (the last one of several), and the rules in which this set
    /// differs from it. `None` if `others` is empty.
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
    use pageset::policy::PRESETS;

    use super::*;

    #[test]
    fn a_set_is_described_by_its_difference_from_the_most_similar_set() {
        let all: Vec<RuleSet> = PRESETS.iter().map(|preset| RuleSet::new(preset.name, preset.tuning)).collect();
        let at = |name: &str| all.iter().position(|rules| rules.name == name).unwrap();
        let described_by = |rules: &RuleSet, others: &[RuleSet]| {
            let (like, differs) = rules.most_like(others).unwrap();
            let differs: Vec<String> = differs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (like.name.clone(), differs.join(" "))
        };
        for (name, like, differs) in [
            ("linux-4.17", "linux-4.16", "bulk_free=two-pass"),
            ("linux-5.18", "linux-5.14", "bulk_free=single-pass drain_high_order=on"),
            // The most similar set is not the previous one.
            ("posted-5", "series-5", "cache_slice_batches=4"),
            ("linux-6.7", "series-8", "free_count=on"),
            ("linux-6.18", "linux-6.16", ""),
        ] {
            assert_eq!(described_by(&all[at(name)], &all[..at(name)]), (like.to_owned(), differs.to_owned()), "{name}");
        }
        assert_eq!(all[0].most_like(&[]), None);
        // A fraction is included, although it is not a rule.
        let rules = RuleSet { high_fraction: Some(8), ..all[at("linux-6.18")].clone() };
        let described_by = described_by(&rules, &all[..=at("linux-6.18")]);
        assert_eq!(described_by, ("linux-6.18".to_owned(), "high_fraction=8".to_owned()));
    }
}
