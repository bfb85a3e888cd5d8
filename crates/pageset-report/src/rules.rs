//! `--rules` and `--set`: the tables of `--list-rules`, and the errors of invalid rules.

use pageset::policy::PRESETS;
pub use pageset_rules::{Chosen, closest, key_names as keys, suggestion};
use pageset_rules::{KERNEL, KEYS, RuleSet, RulesError, Value};

use crate::columns::{trimmed, wrapped};
use crate::error::{Exit, Failure};
use crate::host::Host;

/// Invalid rules, or a file of rules that cannot be read.
impl From<RulesError> for Failure {
    fn from(error: RulesError) -> Self {
        let exit = if matches!(error, RulesError::Io { .. }) { Exit::Unreadable } else { Exit::Usage };
        let failure = Failure::new(exit, &error);
        match error.help() {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// Parses `--rules` and `--set` of a command without a recording. The name `kernel` is the kernel of this machine.
pub fn on_this_machine(names: &[String], settings: &[String]) -> Result<Chosen, Failure> {
    of_kernel(names, settings, || Host::read().rules.name)
}

/// Parses `--rules` and `--set`, with the name of the preset that `kernel` stands for.
pub fn of_kernel(
    names: &[String],
    settings: &[String],
    kernel: impl FnOnce() -> &'static str,
) -> Result<Chosen, Failure> {
    if !names.iter().any(|name| name == KERNEL) {
        return of_recording(names, settings);
    }
    let kernel = kernel();
    let named = |name: &String| if name == KERNEL { kernel.to_owned() } else { name.clone() };
    of_recording(&names.iter().map(named).collect::<Vec<_>>(), settings)
}

/// Parses `--rules` and `--set` of a command with a recording. A note on standard error names releases that have the
/// rules of another one.
pub fn of_recording(names: &[String], settings: &[String]) -> Result<Chosen, Failure> {
    let chosen = Chosen::parse(names, settings, true)?;
    for (name, preset) in chosen.same_rules() {
        eprintln!("note: {name} has the same rules as {preset}");
    }
    Ok(chosen)
}

/// A table of all presets and the sets from files, and a table of all keys.
pub fn list(chosen: &Chosen) -> String {
    let mut keys = wrapped(["key", "allowed", "what it changes"].into_iter());
    for key in KEYS {
        keys.add_row([key.name, &key.allowed(), key.about]);
    }
    format!("{}\n{}", sets(chosen), trimmed(&keys))
}

/// A table of the sets: the name, the description, and the rules in the form of `--set`. A set is described by its
/// differences from the most similar set above it. The first set is described by all rules that are not off.
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
    fn the_first_set_lists_its_rules() {
        let table = sets(&Chosen::parse(&[], &[], false).unwrap());
        assert!(table.contains("batch_cap_kib=512 high=six-batches"), "{table}");
        assert!(table.contains("nothing") && !table.contains("=off pageset"), "{table}");
    }
}
