//! Shared words: atomics, so that a racy look is defined behaviour.
//!
//! Nearly all of the allocator's words are written by the holder of a lock only. Their loads and stores are
//! `Relaxed`: the acquire and release of that lock order them. [`Held`] says so once; words that are read or
//! written without the lock show their ordering where they are used.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A word whose writers hold a lock. `Relaxed` throughout: the lock's acquire and release order it; a reader
/// without the lock gets some recent value.
pub(crate) trait Held {
    type Value: Copy;
    fn get(&self) -> Self::Value;
    fn set(&self, value: Self::Value);
}

macro_rules! held {
    ($($atomic:ty => $value:ty),*) => {$(
        impl Held for $atomic {
            type Value = $value;
            #[inline(always)]
            fn get(&self) -> $value {
                self.load(Relaxed)
            }
            #[inline(always)]
            fn set(&self, value: $value) {
                self.store(value, Relaxed);
            }
        }
    )*};
}

held!(AtomicBool => bool, AtomicU8 => u8, AtomicU32 => u32, AtomicU64 => u64);

/// Adds to a word whose writers hold a lock.
#[inline(always)]
pub(crate) fn add(word: &AtomicU64, n: u64) {
    word.set(word.get() + n);
}

/// Subtracts from a word whose writers hold a lock.
#[inline(always)]
pub(crate) fn sub(word: &AtomicU64, n: u64) {
    word.set(word.get() - n);
}
