//! Shared words: the atomics of protocols, and words whose writers hold a lock.
//!
//! Nearly every word of the allocator is written only by the holder of a lock. Loads and stores of such a word are
//! `Relaxed`: the acquire and the release of the lock order them. [`LockedWord`] states that once. A word that is read
//! or written without its lock states its ordering where it is used.
//!
//! `AtomicU64` is the machine's, or a [`split::SplitWord`] on a machine without 64-bit atomics. All its uses are
//! [`LockedWord`]s.

#[cfg(not(all(loom, test)))]
pub(crate) use core::{hint, sync::atomic};
#[cfg(all(loom, test))]
pub(crate) use loom::{hint, sync::atomic};

/// A constructor that is `const`, except under the model checker, whose atomics have no constant value.
macro_rules! const_new {
    ($(#[$attribute:meta])* $vis:vis fn $($rest:tt)*) => {
        $(#[$attribute])*
        #[cfg(not(all(loom, test)))]
        $vis const fn $($rest)*

        $(#[$attribute])*
        #[cfg(all(loom, test))]
        $vis fn $($rest)*
    };
}
pub(crate) use const_new;

#[cfg(any(test, split_words, not(target_has_atomic = "64")))]
pub(crate) mod split;

#[cfg(all(target_has_atomic = "64", not(split_words)))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(any(split_words, not(target_has_atomic = "64")))]
pub(crate) use split::SplitWord as AtomicU64;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// A word whose writers hold a lock. All accesses are `Relaxed`: the lock's acquire and release order them. A reader
/// without the lock gets some recent value.
pub(crate) trait LockedWord {
    type Value: Copy;
    fn get(&self) -> Self::Value;
    fn set(&self, value: Self::Value);
}

macro_rules! locked_word {
    ($($atomic:ty => $value:ty),*) => {$(
        impl LockedWord for $atomic {
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

locked_word!(AtomicBool => bool, AtomicU8 => u8, AtomicU32 => u32);
#[cfg(target_has_atomic = "64")]
locked_word!(core::sync::atomic::AtomicU64 => u64);

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

/// A counter of events or of pages whose writers hold different locks, or none. All accesses are `Relaxed`: a sum of what its
/// writers added, at a recent moment.
///
/// On a 32-bit machine it has 32 bits, since such a machine may lack 64-bit atomics: enough for the pages of any of its zones.
/// Numbers of events wrap.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicUsize);

impl Counter {
    #[inline]
    pub(crate) const fn new() -> Self {
        Counter(AtomicUsize::new(0))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed) as u64
    }

    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n as usize, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn sub(&self, n: u64) {
        self.0.fetch_sub(n as usize, Relaxed);
    }
}
