//! Lines without what logs, mails and terminals put around them.

use std::borrow::Cow;

use super::envelope::Envelope;
use super::framing::{Framing, width};
use super::prefix::{is_log, stripped, unquoted};

/// A line of an input, without its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'t> {
    /// The line's number in the input, counted from 1. Lines that syslog has joined have the number of the joined line, and a line
    /// that a terminal has broken has that of its first part.
    pub(crate) at: u64,
    /// How many lines of the input it is.
    pub(crate) parts: u64,
    /// The line as it is in the input.
    pub(crate) raw: &'t str,
    /// The line without quotation marks and without the prefix of a log. Indentation stays.
    pub(crate) text: &'t str,
}

/// Gives each line of a text. syslog writes a line break as `#012`; JSON writes it as `\n`.
pub(super) fn each(text: &str, framing: &Framing, mut take: impl FnMut(Line<'_>)) {
    let width = wrapped_at(text);
    let envelope = Envelope::of(text);
    let is_doubled = is_doubled(text);
    let mut blanks = 0;
    let mut lines = text.lines().map(|line| framing.unframed(line)).zip(1_u64..).peekable();
    while let Some((first, at)) = lines.next() {
        blanks = if first.trim().is_empty() { blanks + 1 } else { 0 };
        if is_doubled && blanks % 2 == 1 {
            continue;
        }
        let (mut line, mut last, mut parts) = (Cow::Borrowed(first), first, 1);
        loop {
            let is_rest = |next: &str| width.is_some_and(|width| continues(width, &line, last, next));
            let joint = match lines.peek() {
                Some((next, _)) if is_rest(next) => "",
                Some((next, _)) if framing.continues_on(last, next) => " ",
                _ => break,
            };
            let Some((next, _)) = lines.next() else { break };
            line.to_mut().push_str(joint);
            line.to_mut().push_str(unquoted(next));
            (last, parts) = (next, parts + 1);
        }
        // A string of JSON ends at its quotation mark.
        let end = line.rfind("\\n").and_then(|at| Some(at + line[at..].find('"')?)).unwrap_or(line.len());
        for raw in line[..end].split("#012").flat_map(|part| part.split("\\n")) {
            if let Some(inner) = envelope.opened(raw) {
                take(Line { at, parts, raw, text: stripped(inner) });
            }
        }
    }
}

/// Whether a blank line follows each line: a web page has made two line breaks of one.
fn is_doubled(text: &str) -> bool {
    let is_blank = |line: &str| line.trim().is_empty();
    let mut pairs = text.lines().zip(text.lines().skip(1)).take(100);
    text.lines().nth(5).is_some() && pairs.all(|(line, next)| is_blank(line) || is_blank(next))
}

/// The text without the colours of a terminal and the tags of web pages and forums, and with the characters that they replace.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    const FIRST: [char; 11] = ['\u{1b}', '\u{a0}', '\u{feff}', '&', '<', '[', '{', '\r', '–', '—', '│'];
    const REPLACED: [(&str, &str); 16] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&#160;", " "),
        ("&nbsp;", " "),
        ("\u{a0}", " "),
        ("\u{feff}", ""),
        ("\u{1b}(B", ""),
        ("\r\r\n", "\n"),
        ("–", "--"),
        ("—", "---"),
        ("│", "|"),
    ];
    if !text.contains(FIRST) {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(FIRST) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((from, to)) = REPLACED.iter().find(|(from, _)| rest.starts_with(from)) {
            plain.push_str(to);
            rest = &rest[from.len()..];
        } else if let Some((is_break, after)) = tag(rest) {
            plain.push_str(if is_break && !after.starts_with(['\r', '\n']) { "\n" } else { "" });
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\u{1b}[").and_then(colour) {
            rest = after;
        } else {
            // Any other sequence stays, and is escaped when it is printed.
            let kept = rest.chars().next().unwrap_or(' ');
            plain.push(kept);
            rest = &rest[kept.len_utf8()..];
        }
    }
    Cow::Owned(plain + rest)
}

/// Whether the tag that the text begins with breaks the line, and what follows it: `<pre>`, `<br />`, `[code]`, `{noformat}`.
fn tag(text: &str) -> Option<(bool, &str)> {
    let close = match text.as_bytes().first()? {
        b'<' => b'>',
        b'[' => b']',
        b'{' => b'}',
        _ => return None,
    };
    let end = text.bytes().take(82).position(|byte| byte == close)?;
    let (inner, after) = (&text[1..end], &text[end + 1..]);
    let name = inner.split([' ', '=', ':', '/']).find(|part| !part.is_empty())?;
    let is_known = ["pre", "code", "br", "noformat"].iter().any(|known| name.eq_ignore_ascii_case(known));
    is_known.then(|| (name.eq_ignore_ascii_case("br"), after))
}

/// What follows the rest of a sequence that changes the colour (`m`), clears the line (`K`) or turns a mode of pasting on or off.
fn colour(sequence: &str) -> Option<&str> {
    let sequence = sequence.strip_prefix("?2004").filter(|rest| rest.starts_with(['h', 'l'])).unwrap_or(sequence);
    sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix(['m', 'K', 'h', 'l'])
}

/// The width at which a terminal or a form has broken the lines of a log within words; `None` if it has not.
fn wrapped_at(text: &str) -> Option<usize> {
    // Only a report of the kernel has such long lines and needs each word.
    if !text.contains("kB") {
        return None;
    }
    let (mut width, mut count) = (0, 0);
    for line in text.lines() {
        let length = self::width(line);
        count = if length > width { 1 } else { count + u64::from(length == width) };
        width = width.max(length);
    }
    (width >= 60 && count >= 2).then_some(width)
}

/// Whether `next` is the rest of `line`, whose last part fills the width: `next` has no prefix of a log, but `line` has one.
fn continues(width: usize, line: &str, last: &str, next: &str) -> bool {
    let is_long = self::width(last) == width && line.len() < 10_000;
    is_long && !next.trim().is_empty() && is_log(line) && !is_log(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        each(&clean(text), &Framing::default(), |line| all.push((line.at, line.text.to_owned())));
        all
    }

    #[test]
    fn broken_lines_are_joined() {
        let head = "> Mar 26 12:32:25 host kernel: [126752.433957] ";
        let long = "Normal free:20212kB min:16384kB low:20480kB high:24576kB present:970752kB managed:949448kB";
        let text =
            format!("{head}{}\n> {}\n{head}{}\n> {}\n{head}end", &long[..50], &long[50..], &long[..50], &long[50..]);
        let expected = [(1, long), (3, long), (5, "end")].map(|(at, text)| (at, text.to_owned()));
        assert_eq!(all(&text), expected);
        // A part that is shorter is a line of its own, as the kernel prints some.
        let parts = text.replace(&long[..50], &long[..40]).replacen(&long[..40], &long[..39], 1);
        assert_eq!(all(&parts).len(), 5, "{parts}");
    }

    #[test]
    fn colours_and_entities_go() {
        let text = "\u{1b}[32m[    1.500000] \u{1b}[0m\u{1b}[33mMem-Info:\u{1b}[0m &lt;IRQ&gt; a\u{a0}b & c";
        assert_eq!(all(text), [(1, "Mem-Info: <IRQ> a b & c".to_owned())]);
        for text in ["\u{1b}", "\u{1b}[31", "\u{1b}[2J", "\u{1b}]0;x"] {
            assert_eq!(all(text), [(1, text.to_owned())]);
        }
    }

    #[test]
    fn joined_lines_are_split() {
        assert_eq!(
            all("a#012 b\r\nc\\nd"),
            [(1, "a"), (1, " b"), (2, "c"), (2, "d")].map(|(at, text)| (at, text.to_owned()))
        );
    }
}
