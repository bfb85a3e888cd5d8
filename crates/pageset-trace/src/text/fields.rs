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

    /// What has not been taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
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
        const DIGITS: usize = 19; // as many never overflow
        let (mut value, mut length) = (0u64, 0);
        for &byte in self.rest.iter().take(DIGITS) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value * 10 + u64::from(digit);
            length += 1;
        }
        if value <= most && self.pass(length) {
            return Ok(value);
        }
        // Longer, too large or no number at all: rare, and told apart without haste.
        let word = self.word();
        match decimal(word) {
            Some(value) if value <= most => Ok(value),
            _ => Err(wrong(name, word, allowed)),
        }
    }

    /// A hexadecimal number without `0x`, up to `most`.
    #[inline]
    pub(super) fn hex(&mut self, name: &str, most: u64, allowed: &str) -> Result<u64, Wrong> {
        const DIGITS: usize = 16;
        let (mut value, mut length) = (0u64, 0);
        for &byte in self.rest.iter().take(DIGITS) {
            let digit = HEX_DIGITS[byte as usize];
            if digit > 15 {
                break;
            }
            value = value << 4 | u64::from(digit);
            length += 1;
        }
        if value <= most && self.pass(length) { Ok(value) } else { Err(wrong(name, self.word(), allowed)) }
    }

    /// Whether the first word has `length` bytes and at least one; passes over it if so.
    #[inline]
    fn pass(&mut self, length: usize) -> bool {
        match self.rest.get(length) {
            _ if length == 0 => false,
            Some(b' ') => {
                (self.rest, self.more) = (&self.rest[length + 1..], true);
                true
            }
            Some(_) => false,
            None => {
                (self.rest, self.more) = (&[], false);
                true
            }
        }
    }

    /// The next word if it is one letter, else 0; what follows a 0 is not told.
    #[inline]
    pub(super) fn letter(&mut self) -> u8 {
        let letter = self.rest.first().copied().unwrap_or(0);
        if self.pass(1) { letter } else { 0 }
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

/// What each byte is worth as a hexadecimal digit; 255 for those that are none.
const HEX_DIGITS: [u8; 256] = {
    let mut values = [255; 256];
    let mut digit = 0;
    while digit < 10 {
        values[b'0' as usize + digit] = digit as u8;
        digit += 1;
    }
    while digit < 16 {
        values[b'a' as usize + digit - 10] = digit as u8;
        values[b'A' as usize + digit - 10] = digit as u8;
        digit += 1;
    }
    values
};
