//! Histograms of bpftrace and of bcc's tools.

use super::prefix::digits;

/// The values of one histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// What is counted: a map's name and key, or the heading of the values. Empty if the text has none.
    pub(crate) name: String,
    pub(crate) count: u64,
    /// The values of the fullest row, its least value, and the least value above it; `None` if it has no upper end.
    pub(crate) most: (u64, i64, Option<i64>),
    /// The value that all are below, if the last row with values has an upper end.
    pub(crate) below: Option<i64>,
}

/// A row: its least value, the least value above it, and how many values it has.
fn row(text: &str) -> Option<(i64, Option<i64>, u64)> {
    parts(text).filter(|(low, high, _)| high.is_none_or(|high| high > *low))
}

fn parts(text: &str) -> Option<(i64, Option<i64>, u64)> {
    let (text, _bar) = text.strip_suffix('|')?.split_once('|')?;
    if let Some(rest) = text.strip_prefix(['[', '(']) {
        let (range, count) = rest.split_once([')', ']'])?;
        let count = digits(count.trim())?;
        return Some(match range.split_once(',') {
            Some((low, high)) => (bound(low).unwrap_or(i64::MIN), bound(high), count),
            None => bound(range).map(|value| (value, value.checked_add(1), count))?,
        });
    }
    let (range, count) = text.split_once(':')?;
    let (low, high) = range.split_once("->")?;
    Some((bound(low)?, bound(high)?.checked_add(1), digits(count.trim())?))
}

/// `512`, `1K`, `-16`.
fn bound(text: &str) -> Option<i64> {
    let text = text.trim();
    let (number, unit) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        (at, 'T') => (&text[..at], 1_i64 << 40),
        _ => (text, 1),
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}

/// The name that stands above the rows: `@wait_ns[bash]:`, `usecs               : count     distribution`.
fn heading(text: &str) -> Option<String> {
    let name = text.strip_suffix("distribution").and_then(|text| Some(text.split_once(':')?.0));
    let name = name.or_else(|| text.strip_prefix('@')?.strip_suffix(':'));
    name.map(|name| name.trim().chars().take(64).collect())
}

/// Reads histograms, one line after the other.
#[derive(Debug, Default)]
pub(crate) struct Histograms {
    /// A text with more is cut.
    pub(crate) all: Vec<Histogram>,
    /// The name of the rows that follow.
    name: Option<String>,
    /// Whether the rows that follow are of a histogram too many.
    is_cut: bool,
}

impl Histograms {
    const MAX: usize = 256;

    /// Whether a line may be of a histogram.
    pub(crate) fn may_take(text: &str) -> bool {
        text.ends_with('|') && (text.starts_with(['[', '(']) || text.contains("->")) || heading(text).is_some()
    }

    /// Takes a line, and returns whether it is a row or a heading.
    pub(crate) fn line(&mut self, text: &str) -> bool {
        if let Some(name) = heading(text) {
            self.name = Some(name);
            return true;
        }
        let Some((low, high, count)) = row(text) else { return false };
        if self.name.is_some() || self.all.is_empty() {
            let name = self.name.take().unwrap_or_default();
            self.is_cut = self.all.len() == Self::MAX;
            if !self.is_cut {
                self.all.push(Histogram { name, ..Histogram::default() });
            }
        }
        if let Some(last) = self.all.last_mut().filter(|_| count > 0 && !self.is_cut) {
            last.count = last.count.saturating_add(count);
            last.below = high;
            if count > last.most.0 {
                last.most = (count, low, high);
            }
        }
        true
    }
}

impl Histogram {
    /// The unit of the values, if the name has it.
    pub(crate) fn unit(&self) -> &'static str {
        const UNITS: [(&str, &str); 6] =
            [("nsec", " ns"), ("usec", " µs"), ("msec", " ms"), ("ns", " ns"), ("us", " µs"), ("ms", " ms")];
        let words = || self.name.split(|c: char| !c.is_ascii_alphanumeric());
        let is = |word: &str, unit: &str| word == unit || word.strip_suffix('s') == Some(unit);
        UNITS.iter().find(|(unit, _)| words().any(|word| is(word, unit))).map_or("", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_tools() {
        for (text, expected) in [
            ("[512, 1K)             81 |@@@@          |", (512, Some(1024), 81)),
            ("[1K, 2K)               3 |              |", (1024, Some(2048), 3)),
            ("[1M, 2M)               2 |              |", (1 << 20, Some(2 << 20), 2)),
            ("(..., 0)               5 |@             |", (i64::MIN, Some(0), 5)),
            ("[400, ...)             6 |@             |", (400, None, 6)),
            ("[7]                   12 |@@            |", (7, Some(8), 12)),
            ("64 -> 127        : 16       |****|", (64, Some(128), 16)),
            ("8 -> 15         : 0        |    |", (8, Some(16), 0)),
        ] {
            assert_eq!(row(text), Some(expected), "{text}");
        }
        for text in [
            "| --0.86%--entry |",
            "[kernel] |",
            "a -> b : c |x|",
            "[1, 2) x |@|",
            "9223372036854775807T -> 1 : 1 ||",
            "[1, -9223372036854775808) 5 |@|",
            "(..., -9223372036854775808) 5 |@|",
            "8 -> 7 : 1 |*|",
        ] {
            assert_eq!(row(text), None, "{text}");
        }
    }

    #[test]
    fn names_begin_histograms() {
        let mut found = Histograms::default();
        let lines = [
            "@wait_ns[a, 4096]:",
            "[2K, 4K) 9 |@@|",
            "[4K, 8K) 1 | |",
            "[8K, 16K) 0 | |",
            "usecs : count distribution",
            "0 -> 1 : 2 |**|",
        ];
        assert!(lines.iter().all(|line| Histograms::may_take(line) && found.line(line)));
        let [first, second] = found.all.as_slice() else { panic!("{found:?}") };
        assert_eq!((first.name.as_str(), first.unit(), first.count), ("wait_ns[a, 4096]", " ns", 10));
        assert_eq!((first.most, first.below), ((9, 2048, Some(4096)), Some(8192)));
        assert_eq!((second.name.as_str(), second.unit(), second.below), ("usecs", " µs", Some(2)));
        // A long name is one too, and what is too much is not added to the last.
        let long = std::format!("@stacks[{}]:", "x".repeat(100));
        assert!(found.line(&long) && found.line("[1, 2) 7 |@|"));
        assert_eq!((found.all[2].count, found.all[2].name.len()), (7, 64));
        for _ in 0..Histograms::MAX {
            assert!(found.line("@x:") && found.line("[1, 2) 3 |@|"));
        }
        assert_eq!((found.all.len(), found.all.last().map(|last| last.count)), (Histograms::MAX, Some(3)));
    }
}
