//! The words of one line: numbers and names parted by single spaces, taken from left to right without allocating.

use crate::procfs::quoted;

/// What is wrong with a line, and what would be right. Boxed: it is rare and must not burden the other results.
#[derive(Debug)]
pub(super) struct Wrong(Box<(String, String)>);

impl Wrong {
    #[cold]
    pub(super) fn new(what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Wrong(Box::new((what.into(), allowed.into())))
    }

    pub(super) fn into_parts(self) -> (String, String) {
        *self.0
    }
}

/// What is left of a line.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// Whether the last word was taken with the space after it, so that another must follow.
    more: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Fields { rest: line, more: true }
    }

    /// The next word; empty when there is none.
    #[inline]
    pub(super) fn word(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|&b| b == b' ');
        let (word, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        (self.rest, self.more) = (rest, end.is_some());
        word
    }

    /// A decimal number up to `most`.
    #[inline]
    pub(super) fn decimal(&mut self, name: &str, most: u64, allowed: &str) -> Result<u64, Wrong> {
        let word = self.word();
        match decimal(word) {
            Some(value) if value <= most => Ok(value),
            _ => Err(wrong(name, word, allowed)),
        }
    }

    /// A hexadecimal number without `0x`, up to `most`.
    #[inline]
    pub(super) fn hex(&mut self, name: &str, most: u64, allowed: &str) -> Result<u64, Wrong> {
        let word = self.word();
        match hex(word) {
            Some(value) if value <= most => Ok(value),
            _ => Err(wrong(name, word, allowed)),
        }
    }

    /// Checks that the line ends here.
    #[inline]
    pub(super) fn end(self) -> Result<(), Wrong> {
        if self.rest.is_empty() && !self.more { Ok(()) } else { Err(surplus(self.rest)) }
    }
}

#[cold]
fn surplus(rest: &[u8]) -> Wrong {
    Wrong::new(format!("{} follows the last argument", lossy(rest)), "the end of the line")
}

/// The error for a word that is not what `allowed` says.
#[cold]
pub(super) fn wrong(name: &str, word: &[u8], allowed: &str) -> Wrong {
    let what = if word.is_empty() { format!("no {name}") } else { format!("{name} {} is not allowed", lossy(word)) };
    Wrong::new(what, allowed)
}

/// Bytes as they may stand in a message.
pub(super) fn lossy(bytes: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(bytes))
}

#[inline]
pub(super) fn decimal(word: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for &byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if word.is_empty() { None } else { Some(value) }
}

#[inline]
fn hex(word: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for &byte in word {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    if word.is_empty() { None } else { Some(value) }
}
