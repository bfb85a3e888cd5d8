//! Several sets of rules by what the user calls them, with the same changes to each.

use pageset::tuning::{PRESETS, Preset, Tuning};

use crate::error::RulesError;
use crate::file::{self, RuleFile};
use crate::nearest::suggestion;
use crate::set::{ALL, KERNEL, RuleSet};
use crate::settings::Settings;

/// What was asked for with `--rules` and `--set`.
#[derive(Debug)]
pub struct Chosen {
    rules: Vec<Named>,
    settings: Settings,
}

#[derive(Debug)]
enum Named {
    Kernel,
    Preset(&'static Preset),
    File(RuleFile),
}

impl Chosen {
    /// Reads the names, the files among them, and the changes. `kernel` is a name where `recorded` says that there
    /// is a recorded kernel.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn parse(names: &[String], settings: &[String], recorded: bool) -> Result<Chosen, RulesError> {
        let mut rules = Vec::new();
        for name in names {
            match name.as_str() {
                KERNEL if recorded => rules.push(Named::Kernel),
                ALL => rules.extend(PRESETS.iter().map(Named::Preset)),
                path if file::is_file(path) => rules.push(Named::File(RuleFile::read(path)?)),
                _ => rules.push(Named::Preset(Preset::find(name).ok_or_else(|| unknown(name, recorded))?)),
            }
        }
        let chosen = Chosen { rules, settings: Settings::parse(settings)? };
        // What cannot be had is told before a recording is read; the kernel's rules are known only then.
        chosen.sets()?;
        Ok(chosen)
    }

    /// The sets where no kernel was recorded, each once, in the order given.
    ///
    /// # Errors
    /// Changes that a set cannot have, or two unlike sets of one name.
    pub fn sets(&self) -> Result<Vec<RuleSet>, RulesError> {
        self.resolve(None)
    }

    /// The sets for a recording whose kernel had these rules, each once, in the order given.
    ///
    /// # Errors
    /// As [`Self::sets`].
    pub fn for_kernel(&self, kernel: &RuleSet) -> Result<Vec<RuleSet>, RulesError> {
        self.resolve(Some(kernel))
    }

    /// The recorded kernel's rules without changes, for the comparison with the kernel; `--set` may still say what the
    /// recording does not know of the machine.
    #[must_use]
    pub fn control(&self, kernel: &RuleSet) -> RuleSet {
        let mut rules = kernel.clone();
        let machine = self.settings.of_machine();
        // What describes the machine needs no rule.
        let _ = machine.apply(&mut rules);
        rules.name += &machine.suffix();
        rules
    }

    fn resolve(&self, kernel: Option<&RuleSet>) -> Result<Vec<RuleSet>, RulesError> {
        // The largest scale is how the recorded machine's kernel was configured, whatever its rules.
        let scale = kernel.map(|kernel| kernel.tuning.batch_scale_max);
        let mut sets: Vec<(RuleSet, &Named)> = Vec::new();
        for named in &self.rules {
            let mut rules = match (named, kernel) {
                (Named::Kernel, None) => continue,
                (Named::Kernel, Some(kernel)) => kernel.clone(),
                (Named::Preset(preset), _) => of_preset(preset, scale),
                (Named::File(file), _) => file.rules(scale),
            };
            let changed = self.settings.apply(&mut rules);
            rules.name += &self.settings.suffix();
            changed.map_err(|conflict| RulesError::invalid(&rules.name, conflict.what))?;
            match sets.iter().find(|(other, _)| other.name == rules.name) {
                Some((other, _)) if *other == rules => {}
                Some((_, other)) => return Err(same_name(&rules.name, other, named)),
                None => sets.push((rules, named)),
            }
        }
        Ok(sets.into_iter().map(|(rules, _)| rules).collect())
    }

    /// The sets that were read from files as they stand there, each with what the file says of it, or its path.
    pub fn files(&self) -> impl Iterator<Item = (RuleSet, String)> {
        self.rules.iter().filter_map(|named| match named {
            Named::File(file) => Some((file.rules(None), file.about.as_ref().unwrap_or(&file.path).clone())),
            _ => None,
        })
    }
}

fn of_preset(preset: &Preset, batch_scale_max: Option<u8>) -> RuleSet {
    let batch_scale_max = batch_scale_max.unwrap_or(preset.tuning.batch_scale_max);
    RuleSet::new(preset.name, Tuning { batch_scale_max, ..preset.tuning })
}

/// Presets have names of their own, and a file cannot take one: it is two files, or one that changed meanwhile.
fn same_name(name: &str, one: &Named, other: &Named) -> RulesError {
    let from = |named: &Named| match named {
        Named::File(file) => file.path.clone(),
        Named::Preset(preset) => preset.name.to_owned(),
        Named::Kernel => KERNEL.to_owned(),
    };
    RulesError::SameName { name: name.to_owned(), one: from(one), other: from(other) }
}

fn unknown(name: &str, recorded: bool) -> RulesError {
    let presets = || PRESETS.iter().map(|preset| preset.name);
    let words = || recorded.then_some(KERNEL).into_iter().chain([ALL]).chain(presets());
    let meant = suggestion(name, words());
    let allowed = words().collect::<Vec<_>>().join(", ");
    RulesError::Unknown { name: name.to_owned(), meant, allowed }
}
