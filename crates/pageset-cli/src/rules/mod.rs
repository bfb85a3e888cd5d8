//! Sets of rules by what the user calls them: presets by name, rule files, the recorded kernel's, changes to them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `words`, `keys` | what may be set: one key a rule, its values, and the way back to text and JSON |
//! | `nearest` | what a misspelt name was meant to be |
//! | `settings` | changes, from `--set` and from files |
//! | `file` | rule files |
//! | `list` | the tables of `--list-rules` |
//!
//! What is here reads `--rules`.

mod file;
mod keys;
mod list;
mod nearest;
mod settings;
mod words;

use pageset::tuning::{PRESETS, Preset, Tuning};
use pageset_trace::replay::RuleSet;

use self::file::RuleFile;
pub(crate) use self::keys::{described, names as keys};
pub(crate) use self::list::list;
pub(crate) use self::nearest::{nearest, suggestion};
use self::settings::Settings;
use crate::error::{Exit, Failure};

/// The name of the recorded kernel's rules, and that of all presets.
const KERNEL: &str = "kernel";
const ALL: &str = "all";

/// What was asked for with `--rules` and `--set`.
#[derive(Debug)]
pub(crate) struct Chosen {
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
    /// Usage, with what is allowed.
    pub(crate) fn parse(names: &[String], settings: &[String], recorded: bool) -> Result<Chosen, Failure> {
        let mut rules = Vec::new();
        for name in names {
            match name.as_str() {
                KERNEL if recorded => rules.push(Named::Kernel),
                ALL => rules.extend(PRESETS.iter().map(Named::Preset)),
                path if file::is_file(path) => rules.push(Named::File(RuleFile::read(path).map_err(usage)?)),
                _ => rules.push(Named::Preset(Preset::find(name).ok_or_else(|| unknown(name, recorded))?)),
            }
        }
        let chosen = Chosen { rules, settings: Settings::parse(settings).map_err(usage)? };
        // What cannot be had is told before a recording is read; the kernel's rules are known only then.
        chosen.sets()?;
        Ok(chosen)
    }

    /// The sets where no kernel was recorded, each once, in the order given.
    ///
    /// # Errors
    /// Usage: changes that a set cannot have, or two unlike sets of one name.
    pub(crate) fn sets(&self) -> Result<Vec<RuleSet>, Failure> {
        self.resolve(None)
    }

    /// The sets for a recording whose kernel had these rules, each once, in the order given.
    ///
    /// # Errors
    /// As [`Self::sets`].
    pub(crate) fn for_kernel(&self, kernel: &RuleSet) -> Result<Vec<RuleSet>, Failure> {
        self.resolve(Some(kernel))
    }

    /// The recorded kernel's rules without changes, for the comparison with the kernel; `--set` may still say what the
    /// recording does not know of the machine.
    pub(crate) fn control(&self, kernel: &RuleSet) -> RuleSet {
        let mut rules = kernel.clone();
        let machine = self.settings.of_machine();
        // What describes the machine needs no rule.
        let _ = machine.apply(&mut rules);
        rules.name += &machine.suffix();
        rules
    }

    fn resolve(&self, kernel: Option<&RuleSet>) -> Result<Vec<RuleSet>, Failure> {
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
            changed.map_err(|conflict| usage(format!("{}: {}", rules.name, conflict.message)))?;
            match sets.iter().find(|(other, _)| other.name == rules.name) {
                Some((other, _)) if *other == rules => {}
                Some((_, other)) => return Err(same_name(&rules.name, other, named)),
                None => sets.push((rules, named)),
            }
        }
        Ok(sets.into_iter().map(|(rules, _)| rules).collect())
    }

    /// The sets that were read from files as they stand there, each with what the file says of it, or its path.
    fn files(&self) -> impl Iterator<Item = (RuleSet, String)> {
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

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

/// Presets have names of their own, and a file cannot take one: it is two files, or one that changed meanwhile.
fn same_name(name: &str, one: &Named, other: &Named) -> Failure {
    let from = |named: &Named| match named {
        Named::File(file) => file.path.clone(),
        Named::Preset(preset) => preset.name.to_owned(),
        Named::Kernel => KERNEL.to_owned(),
    };
    let (one, other) = (from(one), from(other));
    usage(format!("two unlike sets of rules have the name {name}: {one} and {other}"))
        .help("give one of them another `name`")
}

fn unknown(name: &str, recorded: bool) -> Failure {
    let presets = || PRESETS.iter().map(|preset| preset.name);
    let words = || recorded.then_some(KERNEL).into_iter().chain([ALL]).chain(presets());
    let meant = suggestion(name, words());
    let allowed = words().collect::<Vec<_>>().join(", ");
    usage(format!("there are no rules {name}{meant}; allowed: {allowed}, or a file whose name ends in .toml"))
        .help("pageset replay --list-rules says what each is")
}
