//! Text of several lines that is safe to print.

use pageset_trace::printable;

/// `text` with its line breaks; other characters that act on a terminal are escaped.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}
