//! The words of one line: numbers and names, separated by single spaces. They are taken from left to right without
//! allocation.

use crate::procfs::quoted;

/// The fault of a line, and the allowed values. Boxed, because it is rare and would enlarge every result.
#[derive(Debug)]
pub(super) struct Fault(Box<(String, String)>);

impl Fault {
    #[cold]
    pub(super) fn new(what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Fault(Box::new((what.into(), allowed.into())))
    }

    pub(super) fn into_parts(self) -> (String, String) {
        *self.0
    }
}

/// The rest of a line.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// Whether a space followed the last word, so that another word must follow.
    more: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Fields { rest: line, more: true }
    }

    /// The bytes not taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next word; empty if there is none.
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

    /// A decimal number of at most `max`.
    #[inline]
    pub(super) fn decimal(&mut self, name: &str, max: u64, allowed: &str) -> Result<u64, Fault> {
        const DIGITS: usize = 19; // 19 digits never overflow
        let (mut value, mut length) = (0u64, 0);
        for &byte in self.rest.iter().take(DIGITS) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value * 10 + u64::from(digit);
            length += 1;
        }
        if value <= max && self.skip(length) {
            return Ok(value);
        }
        // Longer, too large or not a number: a rare case, which may be slow.
        let word = self.word();
        match decimal(word) {
            Some(value) if value <= max => Ok(value),
            _ => Err(fault(name, word, allowed)),
        }
    }

    /// A hexadecimal number without `0x`, of at most `max`.
    #[inline]
    pub(super) fn hex(&mut self, name: &str, max: u64, allowed: &str) -> Result<u64, Fault> {
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
        if value <= max && self.skip(length) { Ok(value) } else { Err(fault(name, self.word(), allowed)) }
    }

    /// Skips the first word if it has `length` bytes and at least one; returns whether it did.
    #[inline]
    fn skip(&mut self, length: usize) -> bool {
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

    /// The next word if it is one letter, else 0. After a 0 the position is undefined.
    #[inline]
    pub(super) fn letter(&mut self) -> u8 {
        let letter = self.rest.first().copied().unwrap_or(0);
        if self.skip(1) { letter } else { 0 }
    }

    /// Checks that the line ends here.
    #[inline]
    pub(super) fn end(self) -> Result<(), Fault> {
        if self.rest.is_empty() && !self.more { Ok(()) } else { Err(trailing_text(self.rest)) }
    }
}

#[cold]
fn trailing_text(rest: &[u8]) -> Fault {
    Fault::new(format!("{} follows the last argument", lossy(rest)), "the end of the line")
}

/// The error for a word that is not in `allowed`.
#[cold]
pub(super) fn fault(name: &str, word: &[u8], allowed: &str) -> Fault {
    let what = if word.is_empty() { format!("no {name}") } else { format!("{name} {} is not allowed", lossy(word)) };
    Fault::new(what, allowed)
}

/// Bytes, quoted for a message.
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

/// The value of each byte as a hexadecimal digit; 255 for other bytes.
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
