//! What stands around the lines of a text, found by trying: the text before each line, and the width at which lines are broken. A form
//! counts if the readers understand lines with it that they do not understand without it.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::prefix::{is_log, stripped, unquoted};

/// Lines of a text that are tried. A longer text has its form from the first ones.
const TRIED: usize = 1000;
/// Forms that are tried in one round, and rounds: two programs may have put text before a line.
const FORMS: usize = 16;
const ROUNDS: usize = 3;

/// What stands around the lines of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Framing {
    /// The shapes of the text before each line, the outermost first.
    heads: Vec<String>,
    /// Lines are broken between words at this width.
    width: Option<usize>,
}

/// What readers make of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    /// How many lines say something; a line in parts counts once.
    pub(super) known: u64,
    /// The numbers of the other lines.
    pub(super) unknown: Vec<u64>,
}

impl Framing {
    /// The form of a text, which the readers try.
    pub(super) fn of(text: &str, read: impl Fn(&str, &Framing) -> Read) -> Framing {
        let end = text.char_indices().filter(|(_, c)| *c == '\n').nth(TRIED).map_or(text.len(), |(at, _)| at);
        let text = &text[..end];
        let mut framing = Framing::default();
        let mut last = read(text, &framing);
        // The same word and colon before all lines are no part of them, even if they are understood with it.
        if let Some(head) = common(text) {
            let form = Framing { heads: vec![head], width: None };
            let tried = read(text, &form);
            if tried.known >= last.known && tried.unknown.len() <= last.unknown.len() {
                (last, framing) = (tried, form);
            }
        }
        for _ in 0..ROUNDS {
            let forms = framing.forms(text, &last.unknown).into_iter();
            let tried = forms.map(|(form, changed)| (read(text, &form), changed, form));
            // Half of the lines that change become lines of a known kind, and no line that was of one is lost in another.
            let is_better = |read: &Read, changed: usize| {
                read.unknown.len() + changed.div_ceil(2) <= last.unknown.len() && read.known >= last.known
            };
            let better = tried.filter(|(read, changed, _)| is_better(read, *changed));
            let best = better.min_by_key(|(read, _, _)| (read.unknown.len(), Reverse(read.known)));
            let Some((read, _, form)) = best else { break };
            (last, framing) = (read, form);
        }
        framing
    }

    /// This form with one thing more, as the lines that are not understood suggest, and how many lines it changes.
    fn forms(&self, text: &str, unknown: &[u64]) -> Vec<(Framing, usize)> {
        if unknown.is_empty() {
            return Vec::new();
        }
        let lines: Vec<&str> = text.lines().map(|line| self.unframed(line)).collect();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for line in unknown.iter().filter_map(|at| lines.get(*at as usize - 1)).map(|line| stripped(line)) {
            // A number alone says nothing.
            for (_, shape) in shapes(line).filter(|(end, _)| line[*end..].contains(char::is_alphabetic)) {
                *counts.entry(shape).or_default() += 1;
            }
        }
        let mut heads: Vec<(String, usize)> = counts.into_iter().collect();
        heads.retain(|(_, count)| *count * 5 >= unknown.len());
        heads.sort_by_key(|(shape, count)| (Reverse(*count), shape.len(), shape.clone()));
        let headed = heads.into_iter().take(FORMS).map(|(shape, count)| {
            let heads = self.heads.iter().cloned().chain([shape]).collect();
            (Framing { heads, ..self.clone() }, count)
        });
        let widest = lines.iter().map(|line| width(unquoted(line))).max().unwrap_or(0);
        let widths = [widest, 80, 79, 78, 76, 74, 72].into_iter().filter(|at| (50..=100).contains(at));
        let broken = widths.filter(|_| self.width.is_none()).map(|at| {
            let framing = Framing { width: Some(at), ..self.clone() };
            let changed = lines.windows(2).filter(|pair| framing.continues_on(pair[0], pair[1])).count();
            (framing, changed)
        });
        headed.chain(broken.filter(|(_, changed)| *changed > 0)).collect()
    }

    /// The line without the text before it.
    pub(super) fn unframed<'t>(&self, line: &'t str) -> &'t str {
        let strip = |line: &'t str, head: &String| {
            let message = stripped(line);
            shapes(message).find(|(_, shape)| shape == head).map_or(line, |(end, _)| &message[end..])
        };
        self.heads.iter().fold(line, strip)
    }

    /// Whether the next line is the rest of this one: its first word did not fit.
    pub(super) fn continues_on(&self, line: &str, next: &str) -> bool {
        let Some(at) = self.width else { return false };
        let (line, next) = (unquoted(line).trim_end(), unquoted(next));
        let Some(first) = next.split_whitespace().next().map(width) else { return false };
        let length = width(line);
        // A share in per cent begins a row.
        let is_row = next.starts_with(char::is_whitespace)
            || next.split_ascii_whitespace().next().is_some_and(|word| word.ends_with('%'));
        // perf prints many blanks before a symbol, and a break takes them away.
        let is_symbol = line.contains("% ") && (next.starts_with("[k] ") || next.starts_with("[.] "));
        length <= at && (length + 1 + first > at || is_symbol) && !is_row && !is_log(next)
    }
}

/// The longest head of one word and a mark, such as `node07:`, that all lines have.
fn common(text: &str) -> Option<String> {
    let is_alone = |shape: &str| {
        let word = shape.trim_start().strip_suffix([':', '|', '\t']);
        word.is_some_and(|word| !word.trim_end().contains(char::is_whitespace))
    };
    let mut lines = text.lines().map(stripped).filter(|line| !line.trim().is_empty());
    let mut heads: Vec<String> =
        shapes(lines.next()?).map(|(_, shape)| shape).filter(|shape| is_alone(shape)).collect();
    let mut count = 1;
    for line in lines {
        count += 1;
        heads.retain(|head| shapes(line).any(|(_, shape)| shape == *head));
    }
    heads.pop().filter(|_| count >= 4)
}

/// The number of characters.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// The beginnings of a line that may be a head: the end of each, and its shape, in which a number is `0` and blanks are one.
fn shapes(line: &str) -> impl Iterator<Item = (usize, String)> {
    const MARKS: [char; 9] = [':', '|', '>', ']', ')', ';', ',', '\t', '"'];
    let mut shape = String::new();
    let mut found = Vec::new();
    let mut last = ' ';
    for (at, c) in line.char_indices().take(100) {
        let end = at + c.len_utf8();
        // The head ends with one blank. Further blanks are the line's indentation.
        let is_end = MARKS.contains(&c) || c == ' ' && !last.is_whitespace();
        match c {
            '0'..='9' if last.is_ascii_digit() => {}
            '0'..='9' => shape.push('0'),
            c if c.is_whitespace() && (last.is_whitespace() && !shape.is_empty()) => {}
            c => shape.push(c),
        }
        last = c;
        if is_end && found.len() < 16 && !shape.trim().is_empty() {
            found.push((end, shape.clone()));
        }
    }
    found.into_iter()
}
