//! Rule files: a set of rules in TOML, as its difference from a preset.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use pageset::Tuning;
use pageset::policy::{PRESETS, Preset};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::RulesError;
use crate::keys::Value;
use crate::nearest::suggestion;
use crate::set::{ALL, KERNEL, RuleSet, on_machine};
use crate::settings::Settings;

/// The extension of a rule file's name.
const EXTENSION: &str = "toml";
/// The largest rule file, in bytes. A guess: a hundred times the size of a file with every key.
const MAX_BYTES: u64 = 1 << 17;
/// The longest name of a set, in characters: longer than any preset's name with several changes, and short enough for a
/// table.
const MAX_NAME: usize = 64;

/// A set of rules from a file.
#[derive(Clone, Debug)]
pub(crate) struct RuleFile {
    pub(crate) path: String,
    /// The set's name: from the file's `name`, or else from the file name.
    pub(crate) name: String,
    pub(crate) about: Option<String>,
    base: Tuning,
    changes: Settings,
}

/// Whether a name on the command line is the name of a rule file.
pub(crate) fn is_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == EXTENSION)
}

impl RuleFile {
    /// Reads and parses a file.
    pub(crate) fn read(path: &str) -> Result<RuleFile, RulesError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|source| RulesError::Io { path: path.to_owned(), source })?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(RulesError::invalid(path, format!("the file is too large; allowed: {MAX_BYTES} bytes")));
        }
        let text = str::from_utf8(&bytes).map_err(|e| {
            let before = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
            let at = place(path, &before, before.len());
            RulesError::invalid(at, "the text is not UTF-8, as TOML has to be")
        })?;
        Self::parse(path, text)
    }

    fn parse(path: &str, text: &str) -> Result<RuleFile, RulesError> {
        let table = DeTable::parse(text).map_err(|e| {
            let at = place(path, text, e.span().map_or(0, |span| span.start));
            RulesError::invalid(at, e.message())
        })?;
        let mut lines: Vec<_> = table.get_ref().iter().collect();
        lines.sort_by_key(|(key, _)| key.span().start);
        let (mut base, mut changes) = (Tuning::default(), Settings::default());
        let (mut name, mut about) = (None, None);
        for (key, value) in lines {
            let origin = origin(path, text, key.get_ref(), key.span().start, value);
            let wrong = |allowed: &str| RulesError::invalid(&origin, format!("allowed: {allowed}"));
            match key.get_ref().as_ref() {
                "base" => base = preset(value.get_ref()).map_err(|what| RulesError::invalid(&origin, what))?.tuning,
                "name" => {
                    name = Some(line(value.get_ref()).filter(|name| is_name(name)).ok_or_else(|| wrong(NAME_ALLOWED))?)
                }
                "about" => about = Some(line(value.get_ref()).ok_or_else(|| wrong(ABOUT_ALLOWED))?),
                rule => changes.add(rule, rule_value(value.get_ref()), origin)?,
            }
        }
        changes.check()?;
        let name = match name {
            Some(name) => name,
            None => stem(path).ok_or_else(|| {
                let what = "there is no `name`, and the file's own cannot be that of a set";
                RulesError::invalid(path, format!("{what}; allowed: {NAME_ALLOWED}"))
            })?,
        };
        let file = RuleFile { path: path.to_owned(), name, about, base, changes };
        let mut rules = RuleSet::new("", base);
        file.changes
            .apply(&mut rules)
            .map_err(|conflict| RulesError::invalid(conflict.origin.as_deref().unwrap_or(path), conflict.what))?;
        Ok(file)
    }

    /// The rules. `batch_scale_max` applies if the file does not set it.
    pub(crate) fn rules(&self, batch_scale_max: Option<u8>) -> RuleSet {
        let mut rules = RuleSet::new(&self.name, on_machine(self.base, batch_scale_max));
        // The changes were checked when the file was read; `batch_scale_max` needs no other rule.
        let _ = self.changes.apply(&mut rules);
        rules
    }
}

/// `FILE:LINE:COLUMN`; line and column count from 1, the column in characters.
fn place(path: &str, text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    format!("{path}:{line}:{column}")
}

/// The place and text of a line, with a shortened value if it is long.
fn origin(path: &str, text: &str, key: &str, offset: usize, value: &Spanned<DeValue<'_>>) -> String {
    const CHARS_MAX: usize = 40;
    let written = text.get(value.span()).unwrap_or_default().lines().next().unwrap_or_default();
    let mut short: String = written.chars().take(CHARS_MAX).collect();
    if short.len() < written.len() {
        short.push('…');
    }
    format!("{}: {key} = {short}", place(path, text, offset))
}

/// The value of a rule; `None` for a value that no rule can have.
fn rule_value(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::Boolean(on) => Some(Value::Switch(*on)),
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Number),
        DeValue::String(text) => match Value::from_text(text) {
            // TOML distinguishes a quoted number from a number, so a quoted one is an error.
            Value::Number(_) => None,
            value => Some(value),
        },
        _ => None,
    }
}

fn preset(value: &DeValue<'_>) -> Result<&'static Preset, String> {
    let names = || PRESETS.iter().map(|preset| preset.name);
    let all = names().collect::<Vec<_>>().join(", ");
    let DeValue::String(name) = value else { return Err(format!("allowed: {all}, in quotes")) };
    Preset::find(name)
        .ok_or_else(|| format!("unknown preset{}; `pageset replay --list-rules` lists all", suggestion(name, names())))
}

const NAME_ALLOWED: &str = "1 to 64 characters in quotes, on one line; not a preset's name, `kernel` or `all`";
const ABOUT_ALLOWED: &str = "a text in quotes, on one line";

/// Whether this is a valid name of a set.
fn is_name(name: &str) -> bool {
    let taken = Preset::find(name).is_some() || [KERNEL, ALL].contains(&name);
    !taken && name.chars().count() <= MAX_NAME && !name.trim().is_empty()
}

/// The text of a string without control characters, which include newlines.
fn line(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) if !text.contains(char::is_control) => Some(text.to_string()),
        _ => None,
    }
}

/// The file name without its extension, if it is a valid name of a set.
fn stem(path: &str) -> Option<String> {
    let stem = Path::new(path).file_stem()?.to_str()?.to_owned();
    (is_name(&stem) && !stem.contains(char::is_control)).then_some(stem)
}

#[cfg(test)]
mod tests {
    use pageset::policy::presets::*;
    use pageset::policy::{Backing, BatchRule, BulkFree, HighRule};

    use super::*;

    fn read(text: &str) -> Result<RuleSet, String> {
        RuleFile::parse("mine.toml", text).map(|file| file.rules(None)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_a_difference_from_its_base() {
        for (text, name, tuning) in [
            ("", "mine", Tuning::default()),
            ("# nothing\nbase = \"linux-5.18\"", "mine", LINUX_5_18),
            (
                "base = 'linux-4.19'\nname = 'a b'\nabout = 'x'\nbatch = 10",
                "a b",
                Tuning { batch: BatchRule::Fixed(10), ..LINUX_4_19 },
            ),
            // Types of TOML, and words as on the command line.
            (
                "base = 'linux-5.18'\nprev_high_order = true\nmerge_by_type = 'off'\nbulk_free = 'chunked'",
                "mine",
                Tuning {
                    prev_high_order: true,
                    merge_by_type: false,
                    backing: Backing::Kernel(BulkFree::Chunked),
                    ..LINUX_5_18
                },
            ),
            (
                "high_min = 1_000\nhigh_max = 0x1000",
                "mine",
                Tuning { high: HighRule::Fixed { min: 1000, max: 4096 }, ..Tuning::default() },
            ),
            (
                "high = 'six-batches'\n\"batch_cap_kib\" = 512",
                "mine",
                Tuning { high: HighRule::SixBatches, batch: BatchRule::FromZone { cap_kib: 512 }, ..Tuning::default() },
            ),
        ] {
            let rules = read(text).unwrap();
            assert_eq!((rules.name.as_str(), rules.tuning, rules.high_fraction), (name, tuning, None), "{text}");
        }
        assert_eq!(read("high_fraction = 8").unwrap().high_fraction, Some(8));
    }

    #[test]
    fn the_largest_scale_comes_from_the_file_or_else_the_machine() {
        let scale = |text| RuleFile::parse("mine.toml", text).unwrap().rules(Some(2)).tuning.batch_scale_max;
        assert_eq!((scale("base = \"linux-6.18\""), scale("batch_scale_max = 6")), (2, 6));
        assert_eq!(scale(""), 3, "these rules have a scale of their own");
    }

    #[test]
    fn errors_name_their_place() {
        for (text, message) in [
            // The place is the key's; the column counts characters.
            ("# é\n  bath = 3", "mine.toml:2:3: bath = 3: unknown rule `bath`; the closest are batch, "),
            ("name = 'é' \nzzz = 3", "mine.toml:2:1: zzz = 3: unknown rule `zzz`; the closest are "),
            ("batch = 0", "mine.toml:1:1: batch = 0: allowed: 1 to 65536 pages"),
            ("batch = -5", "batch = -5: allowed: 1 to 65536 pages"),
            ("batch = 99999999999999999999999", "batch = 99999999999999999999999: allowed: 1 to 65536 pages"),
            ("batch = 3.0", "batch = 3.0: allowed: 1 to 65536 pages"),
            ("batch = '31'", "batch = '31': allowed: 1 to 65536 pages"),
            ("batch = [31]", "batch = [31]: allowed: 1 to 65536 pages"),
            ("batch.pages = 31", "mine.toml:1:1: batch = "),
            ("[batch]\npages = 31", "mine.toml:1:2: batch = "),
            ("auto_high = 'maybe'", "auto_high = 'maybe': allowed: on (true) or off (false)"),
            ("auto_high = 1", "auto_high = 1: allowed: on (true) or off (false)"),
            (
                "lists = 'all'",
                "lists = 'all': allowed: order-zero, to-costly, huge-shared, huge-by-mobility, huge-by-type or all-orders",
            ),
            ("high_fraction = 7", "high_fraction = 7: allowed: 0 for none, or 8 to 4294967295"),
            ("batch = 1\nbatch = 2", "mine.toml:2:1: duplicate key"),
            ("batch = ", "mine.toml:1:"),
            ("name = 'é' 2", "mine.toml:1:12: "),
            (
                "batch = 1\nbatch_cap_kib = 512",
                "mine.toml:2:1: batch_cap_kib = 512: batch is given as well; they exclude",
            ),
            ("high_min = 4", "mine.toml:1:1: high_min = 4: high_max is not given; they go together"),
            ("high_max = 4\nhigh_min = 5", "mine.toml:2:1: high_min = 5: high_min is 5; allowed: at most high_max"),
            (
                "\nalloc_factor = false",
                "mine.toml:2:1: alloc_factor = false: the rule auto_high needs alloc_factor = on",
            ),
            (
                "base = 'linux-4.16'\nauto_high = true",
                "mine.toml:2:1: auto_high = true: the rule auto_high needs alloc_factor = on",
            ),
            ("base = 'linux-6.x'", "mine.toml:1:1: base = 'linux-6.x': unknown preset; the closest are linux-6."),
            ("base = 'kernel'", "unknown preset; the closest are "),
            ("base = 6.18", "mine.toml:1:1: base = 6.18: allowed: linux-4.16, "),
            ("name = ''", "name = '': allowed: 1 to 64 characters"),
            ("name = 'linux-6.18'", "not a preset's name"),
            ("name = 'all'", "`kernel` or `all`"),
            ("name = \"a\\nb\"", "on one line"),
            ("name = 5", "name = 5: allowed: 1 to 64 characters in quotes"),
            ("about = 5", "about = 5: allowed: a text in quotes, on one line"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("mine.toml:") && error.contains(message), "{text:?}: {error}");
        }
        let long = read(&format!("name = '{}'", "x".repeat(65))).unwrap_err();
        assert_eq!(long, format!("mine.toml:1:1: name = '{}…: allowed: {NAME_ALLOWED}", "x".repeat(39)));
        for path in ["linux-6.18.toml", "all.toml", "kernel.toml"] {
            let error = RuleFile::parse(path, "").unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path}: there is no `name`")), "{error}");
        }
    }
}
