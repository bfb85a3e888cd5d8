//! The tables of `--list-rules`.

use pageset::tuning::{PRESETS, Preset};

use super::keys::{KEYS, Value, described};
use crate::columns::{numbers, trimmed, wrapped};

/// All presets, and after them all keys.
pub(crate) fn text() -> String {
    format!("{}\n{}", presets(), keys())
}

/// The keys of `--set` and of rule files: what each may be, and what it changes.
fn keys() -> String {
    let mut table = wrapped(["key", "allowed", "what it changes"].into_iter());
    for key in KEYS {
        table.add_row([key.name, &key.allowed(), key.about]);
    }
    trimmed(&table)
}

/// The presets: the name, where it was in use, and what differs from the one before, as `--set` takes it.
fn presets() -> String {
    let mut table = numbers(["rules", "about", "differs from the one before by"].into_iter(), 0..3);
    let mut before: Option<&Preset> = None;
    for preset in PRESETS {
        let old = before.map_or_else(Vec::new, |before| described(&before.tuning));
        let differs = described(&preset.tuning).into_iter().filter(|rule| !old.contains(rule));
        // The first differs from nothing: what it has, not what it lacks.
        let differs = differs.filter(|(_, value)| before.is_some() || *value != Value::Switch(false));
        let differs = differs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        let differs = if differs.is_empty() { "nothing".to_owned() } else { differs.join(" ") };
        table.add_row([preset.name, preset.about, &differs]);
        before = Some(preset);
    }
    trimmed(&table)
}
