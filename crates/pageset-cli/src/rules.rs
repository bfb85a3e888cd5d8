//! `--rules` and `--set`: the tables of `--list-rules`, and how wrong rules end the command.

use pageset::tuning::PRESETS;
pub(crate) use pageset_rules::{Chosen, key_names as keys, nearest, suggestion};
use pageset_rules::{KEYS, RuleSet, RulesError, Value};

use crate::columns::{trimmed, wrapped};
use crate::error::{Exit, Failure};

/// Rules that cannot be used: exit code 2.
impl From<RulesError> for Failure {
    fn from(error: RulesError) -> Self {
        let failure = Failure::new(Exit::Usage, &error);
        match error.help() {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// All presets with the sets from files after them, and all keys.
pub(crate) fn list(chosen: &Chosen) -> String {
    let mut keys = wrapped(["key", "allowed", "what it changes"].into_iter());
    for key in KEYS {
        keys.add_row([key.name, &key.allowed(), key.about]);
    }
    format!("{}\n{}", sets(chosen), trimmed(&keys))
}

/// The sets: the name, where it was in use, and its rules as `--set` takes them, told as what differs from the set
/// above that is most like it. The first set has none above and is told by what it has.
fn sets(chosen: &Chosen) -> String {
    let presets = PRESETS.iter().map(|preset| (RuleSet::new(preset.name, preset.tuning), preset.about.to_owned()));
    let mut table = wrapped(["rules", "about", "as", "but for"].into_iter());
    let mut above: Vec<RuleSet> = Vec::new();
    for (rules, about) in presets.chain(chosen.files()) {
        let (like, differs) = match rules.most_like(&above) {
            Some((like, differs)) => (like.name.as_str(), differs),
            None => ("", rules.by_key().into_iter().filter(|(_, value)| *value != Value::Switch(false)).collect()),
        };
        let differs: Vec<String> = differs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let differs = if differs.is_empty() { "nothing".to_owned() } else { differs.join(" ") };
        table.add_row([&rules.name, &about, like, &differs]);
        above.push(rules);
    }
    trimmed(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_set_is_told_by_what_it_has() {
        let table = sets(&Chosen::parse(&[], &[], false).unwrap());
        assert!(table.contains("batch_cap_kib=512 high=six-batches"), "{table}");
        assert!(table.contains("nothing") && !table.contains("=off pageset"), "{table}");
    }
}
