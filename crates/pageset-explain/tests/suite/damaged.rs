//! Parts of texts, with lines changed.

use pageset_explain::explain;
use proptest::prelude::*;

use crate::{SENTENCES, read};

proptest! {
    /// Parts of texts, in any order, with lines changed and numbers without bounds, are read without a panic.
    #[test]
    fn damaged_texts_are_read(
        first in 0..SENTENCES.len(),
        second in 0..SENTENCES.len(),
        cuts in prop::collection::vec((0..400_usize, 0..200_usize, 0..7_u8), 0..12),
        end in 0..4000_usize,
    ) {
        let text = read(SENTENCES[first].0) + &read(SENTENCES[second].0);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (line, at, how) in cuts {
            let count = lines.len().max(1);
            let Some(line) = lines.get_mut(line % count) else { continue };
            let at = line.char_indices().map(|(at, _)| at).nth(at % line.chars().count().max(1)).unwrap_or(0);
            match how {
                0 => line.truncate(at),
                1 => line.insert_str(at, "18446744073709551615"),
                2 => line.insert(at, '\u{1b}'),
                3 => *line = line.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect(),
                4 => line.insert_str(at, " 99999999999999999999kB "),
                5 => *line = line.repeat(3),
                _ => lines.swap(at % count, 0),
            }
        }
        let mut text = lines.join("\n");
        let end = text.char_indices().map(|(at, _)| at).nth(end).unwrap_or(text.len());
        text.truncate(end);
        if let Some(found) = explain(&[("-", &text)]) {
            prop_assert!(found.answer.ends_with('.'));
            prop_assert!(pageset_explain::text(&found, None).len() > 10);
        }
    }
}
