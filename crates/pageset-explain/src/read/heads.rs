//! A quick test whether a line can have one of many words: most lines of a log have none.

/// The first four bytes of each word, as a set of hashes.
pub(crate) struct Heads([u64; 1024]);

impl Heads {
    /// No words.
    pub(crate) const fn new() -> Heads {
        Heads([0; 1024])
    }

    /// These words too. Each has four bytes or more.
    pub(crate) const fn with(mut self, words: &[&str]) -> Heads {
        let mut at = 0;
        while at < words.len() {
            let word = words[at].as_bytes();
            let hash = hash([word[0], word[1], word[2], word[3]]);
            self.0[hash / 64] |= 1 << (hash % 64);
            at += 1;
        }
        self
    }

    /// Whether the text may have one of the words; `false` is certain.
    pub(crate) fn may_be_in(&self, text: &str) -> bool {
        let has = |four: &[u8]| {
            let hash = hash([four[0], four[1], four[2], four[3]]);
            self.0[hash / 64] >> (hash % 64) & 1 == 1
        };
        text.as_bytes().windows(4).any(has)
    }
}

/// 16 bits.
const fn hash(four: [u8; 4]) -> usize {
    (u32::from_le_bytes(four).wrapping_mul(0x9E37_79B1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_anywhere() {
        static HEADS: Heads = Heads::new().with(&["Mem-Info:", "free"]);
        for text in ["Mem-Info:", "x Mem-Inf", "a:free", "free"] {
            assert!(HEADS.may_be_in(text), "{text}");
        }
        for text in ["", "fre", "fr ee", "usb 1-1: new high-speed USB device number 7 using ehci-pci"] {
            assert!(!HEADS.may_be_in(text), "{text}");
        }
    }
}
