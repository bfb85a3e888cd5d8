//! The tables of `--list-rules`.

use pageset::tuning::PRESETS;
use pageset_trace::replay::RuleSet;

use super::Chosen;
use super::keys::{KEYS, Value, told};
use crate::columns::{trimmed, wrapped};

/// All presets with the sets from files after them, and all keys.
pub(crate) fn list(chosen: &Chosen) -> String {
    format!("{}\n{}", sets(chosen), keys())
}

/// The keys of `--set` and of rule files: what each may be, and what it changes.
fn keys() -> String {
    let mut table = wrapped(["key", "allowed", "what it changes"].into_iter());
    for key in KEYS {
        table.add_row([key.name, &key.allowed(), key.about]);
    }
    trimmed(&table)
}

/// The sets: the name, where it was in use, and its rules as `--set` takes them, told as what differs from the set
/// above that is most like it.
fn sets(chosen: &Chosen) -> String {
    let presets = PRESETS.iter().map(|preset| (RuleSet::new(preset.name, preset.tuning), preset.about.to_owned()));
    let mut table = wrapped(["rules", "about", "as", "but for"].into_iter());
    let mut above: Vec<RuleSet> = Vec::new();
    for (rules, about) in presets.chain(chosen.files()) {
        let (like, differs) = nearest(&rules, &above);
        table.add_row([&rules.name, &about, like, &differs]);
        above.push(rules);
    }
    trimmed(&table)
}

/// Of the sets above the one that differs least, the last of several, and in what; the first set has none above and is
/// told by what it has.
fn nearest<'a>(rules: &RuleSet, above: &'a [RuleSet]) -> (&'a str, String) {
    let text = |rules: Vec<(&str, Value)>| {
        let texts: Vec<String> = rules.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if texts.is_empty() { "nothing".to_owned() } else { texts.join(" ") }
    };
    let differs = |other: &RuleSet| {
        let other = told(other);
        told(rules).into_iter().filter(|rule| !other.contains(rule)).collect::<Vec<_>>()
    };
    let Some(like) = above.iter().rev().min_by_key(|other| differs(other).len()) else {
        return ("", text(told(rules).into_iter().filter(|(_, value)| *value != Value::Switch(false)).collect()));
    };
    (&like.name, text(differs(like)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_told_by_the_one_most_like_them() {
        let all: Vec<RuleSet> = PRESETS.iter().map(|preset| RuleSet::new(preset.name, preset.tuning)).collect();
        let at = |name: &str| all.iter().position(|rules| rules.name == name).unwrap();
        for (name, like, differs) in [
            ("linux-4.17", "linux-4.16", "bulk_free=two-pass"),
            ("linux-5.18", "linux-5.14", "bulk_free=single-pass drain_high_order=on"),
            // Not the one just above it.
            ("posted-5", "series-5", "cache_slice_batches=4"),
            ("linux-6.7", "series-8", "free_count=on"),
            ("linux-6.18", "linux-6.16", "nothing"),
        ] {
            assert_eq!(nearest(&all[at(name)], &all[..at(name)]), (like, differs.to_owned()), "{name}");
        }
        let (like, first) = nearest(&all[0], &[]);
        assert!(like.is_empty() && first.starts_with("batch_cap_kib=512 high=six-batches lists=order-zero"), "{first}");
        assert!(!first.contains("=off"), "{first}");
        // A fraction is told, although it is not a rule.
        let rules = RuleSet { high_fraction: Some(8), ..all[at("linux-6.18")].clone() };
        assert_eq!(nearest(&rules, &all[..=at("linux-6.18")]), ("linux-6.18", "high_fraction=8".to_owned()));
    }
}
