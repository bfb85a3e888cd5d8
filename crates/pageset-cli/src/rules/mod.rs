//! Sets of rules by what the user calls them: presets by name, the recorded kernel's, changes to them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `settings` | `--set key=value`: the keys, their values, and rules as such text |
//!
//! What is here reads `--rules`, and makes the table of `--list-rules`.

mod settings;

use pageset::tuning::{PRESETS, Preset, Tuning};
use pageset_trace::replay::RuleSet;

use self::settings::Settings;
pub(crate) use self::settings::described;
use crate::columns::{numbers, trimmed};
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

#[derive(Clone, Copy, Debug)]
enum Named {
    Kernel,
    Preset(&'static Preset),
}

impl Chosen {
    /// Reads the names and the changes.
    ///
    /// # Errors
    /// Usage, with what is allowed.
    pub(crate) fn parse(names: &[String], settings: &[String]) -> Result<Chosen, Failure> {
        let mut rules = Vec::new();
        for name in names {
            match name.as_str() {
                KERNEL => rules.push(Named::Kernel),
                ALL => rules.extend(PRESETS.iter().map(Named::Preset)),
                _ => rules.push(Named::Preset(Preset::find(name).ok_or_else(|| unknown(name))?)),
            }
        }
        if rules.is_empty() {
            rules.push(Named::Kernel);
        }
        let chosen = Chosen { rules, settings: Settings::parse(settings).map_err(usage)? };
        // What cannot be had is told before a recording is read; the kernel's rules are known only then.
        for named in &chosen.rules {
            if let Named::Preset(preset) = named {
                chosen.settings.apply(&of_preset(preset, preset.tuning.batch_scale_max)).map_err(usage)?;
            }
        }
        Ok(chosen)
    }

    /// The sets for a recording whose kernel had these rules, each once, in the order given.
    ///
    /// # Errors
    /// Changes that the kernel's rules cannot have: usage.
    pub(crate) fn for_kernel(&self, kernel: &RuleSet) -> Result<Vec<RuleSet>, Failure> {
        let mut sets: Vec<RuleSet> = Vec::new();
        for named in &self.rules {
            let rules = match named {
                Named::Kernel => kernel.clone(),
                // The largest scale is how the recorded machine's kernel was configured, whatever its rules.
                Named::Preset(preset) => of_preset(preset, kernel.tuning.batch_scale_max),
            };
            let rules = self.settings.apply(&rules).map_err(usage)?;
            if sets.iter().all(|set| set.name != rules.name) {
                sets.push(rules);
            }
        }
        Ok(sets)
    }
}

fn of_preset(preset: &Preset, batch_scale_max: u8) -> RuleSet {
    let tuning = Tuning { batch_scale_max, ..preset.tuning };
    RuleSet { name: preset.name.to_owned(), tuning, high_fraction: None }
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

fn unknown(name: &str) -> Failure {
    let names = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    let message = format!("there are no rules {name}; allowed: {KERNEL}, {ALL}, {names}");
    usage(message).help("pageset replay --list-rules says what each is")
}

/// All presets: the name, where it was in use, and what differs from the one before, as `--set` takes it.
pub(crate) fn list() -> String {
    let mut table = numbers(["rules", "about", "differs from the one before by"].into_iter(), 0..3);
    let mut before: Option<&Preset> = None;
    for preset in PRESETS {
        let old = before.map_or_else(Vec::new, |before| described(&before.tuning));
        let differs = described(&preset.tuning).into_iter().filter(|rule| !old.contains(rule));
        // The first differs from nothing: what it has, not what it lacks.
        let differs = differs.filter(|(_, value)| before.is_some() || value != "off");
        let differs = differs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        let differs = if differs.is_empty() { "nothing".to_owned() } else { differs.join(" ") };
        table.add_row([preset.name, preset.about, &differs]);
        before = Some(preset);
    }
    trimmed(&table)
}
