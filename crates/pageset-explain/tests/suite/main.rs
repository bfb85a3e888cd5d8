//! Texts as people post them, and what `explain` says. `texts`: whole texts, each with its sentence. `short`: texts of a few lines.
//! `damaged`: parts of texts, with lines changed. `dressed`: one text as different tools print it.

mod damaged;
mod dressed;
mod posted;
mod short;
mod texts;

use std::sync::LazyLock;

/// The files in `inputs`, and the sentence that the answer to each is.
static SENTENCES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| pairs(include_str!("../sentences.txt")));

/// The first word of each line, and the rest of the line.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    text.lines().map(|line| line.split_once(' ').unwrap()).collect()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/inputs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}
