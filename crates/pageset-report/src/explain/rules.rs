//! The rules, one paragraph each, taken from `docs/reference/rules.md`, so that their text exists once.

use super::{Kind, folded, wrapped};

const DOCUMENT: &str = include_str!("../../docs/rules.txt");

/// The text of the rule with this folded name in lines of `width` characters, if there is one.
pub(super) fn explained(wanted: &str, width: usize) -> Option<String> {
    let sections = DOCUMENT.split("\n### ").skip(1).filter_map(|section| section.split_once('\n'));
    for (heading, body) in sections {
        let keys: Vec<&str> = heading.split(", ").map(|key| key.trim_matches('`')).collect();
        let Some(key) = keys.iter().find(|key| folded(key) == wanted) else { continue };
        let body = body.split("\n## ").next().unwrap_or(body);
        let mut text = format!("{key} ({})\n", Kind::Rule.name());
        for point in body.split("\n- ").map(|point| point.trim().trim_start_matches("- ")).filter(|p| !p.is_empty()) {
            text += &wrapped(&point.replace('`', ""), width);
        }
        return Some(text);
    }
    None
}
