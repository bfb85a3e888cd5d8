//! Text from an input, for a terminal or a page.

use std::borrow::Cow;

/// Returns `text` without characters that act on a terminal or hide other text: each is written as an escape of Rust,
/// such as `\u{1b}` or `\n`. Other characters are unchanged, so text without them is borrowed.
///
/// Commands, process names, file names and messages that contain parts of an input pass through this function before
/// they are printed.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::with_capacity(text.len() + 16), |mut safe, c| {
        if acts(c) {
            safe.extend(c.escape_default())
        } else {
            safe.push(c)
        }
        safe
    }))
}

/// Control characters (C0, DEL, C1), separators of lines, and Unicode's controls of direction and of tags.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_escaped() {
        let rows = [
            ("\u{1b}[2J\u{1b}]0;title\u{7}", r"\u{1b}[2J\u{1b}]0;title\u{7}"),
            ("two\nlines\r\tand\0", r"two\nlines\r\tand\u{0}"),
            ("\u{9b}31m\u{7f}", r"\u{9b}31m\u{7f}"),
            ("a\u{202e}b\u{2066}c\u{2028}d", r"a\u{202e}b\u{2066}c\u{2028}d"),
        ];
        for (text, safe) in rows {
            assert_eq!(printable(text), safe);
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in ["", "cargo build -j 2", r"C:\temp 'a' \n", "Größe 大 é"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
