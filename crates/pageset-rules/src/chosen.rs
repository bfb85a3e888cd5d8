//! Several sets of rules, selected by name, with the same changes to each.

use pageset::policy::{HAS_RESEARCH, PRESETS, Preset};

use crate::error::RulesError;
use crate::file::{self, RuleFile};
use crate::nearest::suggestion;
use crate::set::{ALL, KERNEL, RuleSet, on_machine};
use crate::settings::Settings;

/// The selection of `--rules` and `--set`.
#[derive(Debug)]
pub struct Chosen {
    rules: Vec<Named>,
    settings: Settings,
}

#[derive(Debug)]
enum Named {
    Kernel,
    /// A preset, under the name that was given: a release such as `linux-7.3` may share the preset of another.
    Preset(&'static Preset, String),
    File(RuleFile),
}

impl Named {
    fn one(name: &str) -> Option<Result<Self, RulesError>> {
        if file::is_file(name) {
            return Some(RuleFile::read(name).map(Self::File));
        }
        Preset::find(name).map(|preset| Ok(Self::Preset(preset, name.to_owned())))
    }
}

impl RuleSet {
    /// Parses the name of a set as results print it: a preset or a rule file, then changes, such as `linux-6.18 batch=31`.
    pub fn parse(text: &str) -> Result<RuleSet, RulesError> {
        let (name, changes) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rule = Named::one(name).ok_or_else(|| unknown_set(name, &[]))??;
        let changes: Vec<&str> = changes.split_whitespace().collect();
        let settings = Settings::parse(&changes, "")?;
        let mut sets = Chosen { rules: vec![rule], settings }.sets()?;
        sets.pop().ok_or_else(|| unknown_set(name, &[]))
    }
}

impl Chosen {
    /// Parses the names, rule files and changes. `recorded` says whether there is a recorded kernel, and so whether the
    /// name `kernel` is allowed.
    pub fn parse(names: &[String], settings: &[String], recorded: bool) -> Result<Chosen, RulesError> {
        let mut rules = Vec::new();
        for name in names {
            match name.as_str() {
                KERNEL if recorded => rules.push(Named::Kernel),
                ALL => rules.extend(PRESETS.iter().map(|preset| Named::Preset(preset, preset.name.to_owned()))),
                name => rules.push(Named::one(name).ok_or_else(|| unknown(name, recorded))??),
            }
        }
        let chosen = Chosen { rules, settings: Settings::parse(settings, "--set ")? };
        // Report invalid sets before a recording is read. The kernel's rules are not known yet.
        chosen.sets()?;
        Ok(chosen)
    }

    /// The sets without a recorded kernel, without duplicates, in the given order.
    ///
    /// # Errors
    /// If a change is invalid for a set, or two different sets have the same name.
    pub fn sets(&self) -> Result<Vec<RuleSet>, RulesError> {
        self.resolve(None)
    }

    /// The sets for a recording whose kernel has these rules, without duplicates, in the given order.
    pub fn for_kernel(&self, kernel: &RuleSet) -> Result<Vec<RuleSet>, RulesError> {
        self.resolve(Some(kernel))
    }

    /// The recorded kernel's rules without changes, for the comparison with the kernel. `--set` may still supply data
    /// of the machine that the recording lacks.
    pub fn control(&self, kernel: &RuleSet) -> RuleSet {
        let mut rules = kernel.clone();
        let machine = self.settings.of_machine();
        // Settings of the machine need no rule, so they cannot fail.
        let _ = machine.apply(&mut rules);
        rules.name += &machine.suffix();
        rules
    }

    fn resolve(&self, kernel: Option<&RuleSet>) -> Result<Vec<RuleSet>, RulesError> {
        // The recorded kernel's configuration sets the largest scale, whatever the rules.
        let scale = kernel.map(|kernel| kernel.tuning.batch_scale_max);
        let mut sets: Vec<(RuleSet, &Named)> = Vec::new();
        for named in &self.rules {
            let mut rules = match (named, kernel) {
                (Named::Kernel, None) => continue,
                (Named::Kernel, Some(kernel)) => kernel.clone(),
                (Named::Preset(preset, name), _) => RuleSet::new(name, on_machine(preset.tuning, scale)),
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

    /// The releases whose rules are those of a preset of another name, each with the name of the preset.
    pub fn same_rules(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.rules.iter().filter_map(|named| match named {
            Named::Preset(preset, name) if name != preset.name => Some((name.as_str(), preset.name)),
            _ => None,
        })
    }

    /// The sets from files without changes, each with the file's `about` text or its path.
    pub fn files(&self) -> impl Iterator<Item = (RuleSet, String)> {
        self.rules.iter().filter_map(|named| match named {
            Named::File(file) => Some((file.rules(None), file.about.as_ref().unwrap_or(&file.path).clone())),
            _ => None,
        })
    }
}

/// The names of presets are unique and a file cannot take one. So these are two files, or one file that changed in the
/// meantime.
fn same_name(name: &str, one: &Named, other: &Named) -> RulesError {
    let from = |named: &Named| match named {
        Named::File(file) => file.path.clone(),
        Named::Preset(_, name) => name.clone(),
        Named::Kernel => KERNEL.to_owned(),
    };
    RulesError::SameName { name: name.to_owned(), one: from(one), other: from(other) }
}

fn unknown(name: &str, recorded: bool) -> RulesError {
    unknown_set(name, if recorded { &[KERNEL, ALL] } else { &[ALL] })
}

/// No set has this name. `others` are allowed besides presets and files.
fn unknown_set(name: &str, others: &[&'static str]) -> RulesError {
    let presets = || PRESETS.iter().map(|preset| preset.name);
    let words = || others.iter().copied().chain(presets());
    let absent = if HAS_RESEARCH { "" } else { "; this build has no rules of kernels before 6.15 and of the RFCs" };
    RulesError::Unknown { name: name.to_owned(), meant: suggestion(name, words()) + absent }
}
