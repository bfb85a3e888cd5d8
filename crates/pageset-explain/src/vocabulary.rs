//! Names of functions, sysctls, flags, fields and messages of the kernel, and of presets of rules, explained.

use std::sync::LazyLock;

use pageset::policy::{PRESETS, Preset};
use serde::Deserialize;

use crate::text::WIDTH;

/// An entry of `vocabulary.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    /// The name, and its other forms.
    names: Vec<String>,
    kind: String,
    what: String,
    /// When it is bad; empty if it is never bad by itself.
    #[serde(default)]
    bad: String,
    #[serde(default)]
    todo: String,
}

static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        word: Vec<Word>,
    }
    toml::from_str::<File>(include_str!("vocabulary.toml")).expect("a test reads vocabulary.toml").word
});

/// A name without what texts put around it.
fn bare(name: &str) -> String {
    let name = ["[k] ", "[.] "].iter().fold(name, |name, mark| name.split_once(mark).map_or(name, |(_, rest)| rest));
    let name = name.trim().trim_matches(['[', ']', '`', '"', '\'']);
    let ends = ["+0x", ".isra", ".constprop", ".part", ".cold", "=", "()"];
    let end = ends.iter().filter_map(|end| name.find(end)).min().unwrap_or(name.len());
    let name = name[..end].trim().trim_end_matches(':').to_lowercase();
    let prefixes = ["/proc/sys/vm/", "/sys/kernel/debug/extfrag/", "vm.", "config_"];
    let name = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
    name.trim_start_matches('_').replace([' ', '-'], "_")
}

/// The entries of a name as text in lines of `width` characters, `None` is 100; empty if there is none. The name may be a part of a
/// message, and may have a prefix or not.
pub fn explained(name: &str, width: Option<usize>) -> String {
    let width = width.unwrap_or(WIDTH);
    let wanted = bare(name);
    let is_named =
        |word: &&Word| word.names.iter().any(|known| bare(known) == wanted || bare(known) == format!("gfp_{wanted}"));
    let mut found: Vec<&Word> = WORDS.iter().filter(is_named).collect();
    // A whole line of a log.
    if found.is_empty() {
        let lower = name.to_lowercase();
        let is_in = |word: &&Word| {
            word.kind == "message" && word.names.iter().any(|known| lower.contains(&known.to_lowercase()))
        };
        found = WORDS.iter().filter(is_in).take(1).collect();
    }
    let mut texts: Vec<String> = found.into_iter().map(|word| text(word, width)).collect();
    texts.extend(preset(name.trim(), width));
    texts.join("\n")
}

/// The entry of a preset of rules.
fn preset(name: &str, width: usize) -> Option<String> {
    let preset = Preset::find(name)?;
    let (shown, same) = match preset.name == name {
        true => (name, String::new()),
        false => (name, format!(" The rules are those of {}.", preset.name)),
    };
    let body = format!("Rules of {}.{same}", preset.about);
    let todo = format!("to do: `pageset replay FILE --rules {name}` replays a recording under them.");
    Some(format!("{shown} (preset)\n{}{}", wrapped(&body, width), wrapped(&todo, width)))
}

fn text(word: &Word, width: usize) -> String {
    let mut text = format!("{} ({})\n{}", word.names[0], word.kind, wrapped(&word.what, width));
    if word.names.len() > 1 {
        text += &wrapped(&format!("also: {}", word.names[1..].join(", ")), width);
    }
    for (head, body) in [("bad: ", &word.bad), ("to do: ", &word.todo)] {
        if !body.is_empty() {
            text += &wrapped(&format!("{head}{body}"), width);
        }
    }
    text
}

/// A paragraph in lines that begin with two spaces.
fn wrapped(paragraph: &str, width: usize) -> String {
    crate::text::wrapped(paragraph, "  ", "  ", width)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    let words = WORDS.iter().flat_map(|word| word.names.iter().map(String::as_str));
    words.chain(PRESETS.iter().map(|preset| preset.name))
}

/// A list of all names, in lines of `width` characters; `None` is 100.
pub fn listed(width: Option<usize>) -> String {
    let wrapped = |paragraph: String| wrapped(&paragraph, width.unwrap_or(WIDTH));
    let words: Vec<&str> = WORDS.iter().map(|word| word.names[0].as_str()).collect();
    let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    format!("names of the kernel\n{}presets\n{}", wrapped(words.join(", ")), wrapped(presets.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_prefixes() {
        for (name, entry) in [
            ("free_pcp", "free_pcp (field)"),
            ("GFP_ATOMIC", "GFP_ATOMIC (flag)"),
            ("atomic", "GFP_ATOMIC (flag)"),
            ("__GFP_HIGH", "GFP_ATOMIC (flag)"),
            ("cma", "CMA (field)"),
            ("boost", "boost (field)"),
            ("lowmem_reserve", "lowmem_reserve (field)"),
            ("vm.min_free_kbytes", "min_free_kbytes (sysctl)"),
            ("/proc/sys/vm/min_free_kbytes", "min_free_kbytes (sysctl)"),
            ("vm.min_free_kbytes=67584", "min_free_kbytes (sysctl)"),
            ("CONFIG_PCP_BATCH_SCALE_MAX", "PCP_BATCH_SCALE_MAX (build option)"),
            ("pcp_batch_scale_max", "PCP_BATCH_SCALE_MAX (build option)"),
            ("percpu_pagelist_fraction", "percpu_pagelist_fraction (sysctl)"),
            ("[k] rmqueue_bulk", "rmqueue_bulk (function)"),
            ("rmqueue_bulk.isra.0+0x3a", "rmqueue_bulk (function)"),
            ("free_pcppages_bulk()", "free_pcppages_bulk"),
            ("native_queued_spin_lock_slowpath", "native_queued_spin_lock_slowpath (function)"),
            ("extfrag_index", "fragmentation index (field)"),
            ("page allocation failure", "page allocation failure (message)"),
            ("swapper/0: page allocation failure: order:0, mode:0x20", "page allocation failure (message)"),
            ("linux-6.18", "linux-6.18 (preset)"),
            ("linux-7.3", "linux-7.3 (preset)"),
            ("pageset-lists", "pageset-lists (preset)"),
        ] {
            assert!(explained(name, None).starts_with(entry), "{name}: {}", explained(name, None));
        }
        let sockets = explained("net.core.high_order_alloc_disable", None);
        for part in
            ["A replay cannot tell what 1 gains", "record --duration 10s", "pageset diff 0.pstrace", "else set 0"]
        {
            let words: Vec<&str> = sockets.split_whitespace().collect();
            assert!(words.join(" ").contains(part), "{part}: {sockets}");
        }
        assert_eq!(explained("nothing like it", None), "");
        assert!(explained("linux-7.3", None).contains("linux-6.19"));
    }

    #[test]
    fn entries_are_unique_and_fit() {
        for word in WORDS.iter() {
            for name in &word.names {
                let owners = WORDS.iter().filter(|other| other.names.iter().any(|other| bare(other) == bare(name)));
                assert_eq!(owners.count(), 1, "{name} has two entries");
                assert!(explained(name, None).starts_with(&word.names[0]), "{name}");
                assert!(explained(name, None).lines().all(|line| line.chars().count() <= 120), "{name}");
            }
        }
    }
}
