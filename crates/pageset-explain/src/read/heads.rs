//! A quick test whether a line can have one of many words: most lines of a log have none.

/// The first four bytes of each word, as a set of hashes.
pub(crate) struct Heads([u64; 1024]);

impl Heads {
    /// Of these words. Each has four bytes or more.
    pub(crate) fn of<'w>(words: impl IntoIterator<Item = &'w str>) -> Heads {
        let mut heads = Heads([0; 1024]);
        for hash in words.into_iter().map(|word| hash(word.as_bytes())) {
            heads.0[hash / 64] |= 1 << (hash % 64);
        }
        heads
    }

    /// Whether the text may have one of the words; `false` is certain.
    pub(crate) fn may_be_in(&self, text: &str) -> bool {
        text.as_bytes().windows(4).map(hash).any(|hash| self.0[hash / 64] >> (hash % 64) & 1 == 1)
    }
}

/// 16 bits of the first four bytes.
fn hash(bytes: &[u8]) -> usize {
    let four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (four.wrapping_mul(0x9E37_79B1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_anywhere() {
        let heads = Heads::of(["Mem-Info:", "free"]);
        for text in ["Mem-Info:", "x Mem-Inf", "a:free", "free"] {
            assert!(heads.may_be_in(text), "{text}");
        }
        for text in ["", "fre", "fr ee", "usb 1-1: new high-speed USB device number 7 using ehci-pci"] {
            assert!(!heads.may_be_in(text), "{text}");
        }
    }
}
