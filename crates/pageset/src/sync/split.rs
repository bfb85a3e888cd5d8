//! A word of 64 bits made of words of 32 bits, for machines without 64-bit atomics.
//!
//! A word with a lock of its own would stop a reader in an interrupt that came between the writer's steps. Here readers and
//! writers wait for nothing.

use super::LockedWord;
use super::atomic::AtomicU32;
use super::atomic::Ordering::{Acquire, Relaxed, Release};

/// A word of 64 bits whose writers hold a lock. Its holder reads the value that was written last.
///
/// A reader without the lock gets a value that the word has, had, or passed on its way from one to the next. This holds for a
/// word that only grows, and for one that stays below 2^32. All words of the allocator are of one of these kinds: counters
/// of events, and numbers of pages in a zone.
#[derive(Debug)]
pub(crate) struct SplitWord {
    low: AtomicU32,
    /// The upper half. Written before the lower half.
    high: AtomicU32,
    /// The upper half again. Written after the lower half.
    high_after: AtomicU32,
}

impl SplitWord {
    const_new! {
        pub(crate) fn new(value: u64) -> Self {
            let (high, low) = ((value >> 32) as u32, value as u32);
            SplitWord { low: AtomicU32::new(low), high: AtomicU32::new(high), high_after: AtomicU32::new(high) }
        }
    }
}

impl LockedWord for SplitWord {
    type Value = u64;

    #[inline]
    fn get(&self) -> u64 {
        // The reads run against the order of the writes. Acquire, twice: pair with the releases in `set`.
        let after = self.high_after.load(Acquire);
        let low = self.low.load(Acquire);
        let high = self.high.load(Relaxed);
        if high == after {
            return u64::from(high) << 32 | u64::from(low);
        }
        // The upper half changed meanwhile, so the word passed a multiple of 2^32.
        u64::from(high.max(after)) << 32
    }

    #[inline]
    fn set(&self, value: u64) {
        let high = (value >> 32) as u32;
        let carries = self.high.load(Relaxed) != high;
        if carries {
            self.high.store(high, Relaxed);
        }
        // Release: a reader of this lower half, or of a later one, sees its upper half.
        self.low.store(value as u32, Release);
        if carries {
            // Release: a reader of this upper half sees its lower half, or a later one.
            self.high_after.store(high, Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_what_was_written() {
        const MIDDLE: u64 = 1 << 32;
        let word = SplitWord::new(MIDDLE - 1);
        assert_eq!(word.get(), MIDDLE - 1);
        for value in [MIDDLE, MIDDLE + 7, MIDDLE - 2, 0, u64::MAX, 5 * MIDDLE, 1] {
            word.set(value);
            assert_eq!(word.get(), value);
        }
    }
}
