//! Locks without data, and their guards.

use core::fmt;

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{const_new, hint};

/// A lock without data. It protects atomics, so misuse corrupts counts and never memory.
///
/// `lock` and a successful `try_lock` acquire; `unlock` releases; so each holder sees what earlier holders wrote. Where
/// interrupts allocate or free, `lock` and a successful `try_lock` disable interrupts on their CPU until `unlock`: an interrupt
/// in between would wait for the code that it interrupted. A caller that no lock can keep out, such as an NMI, asks with [`crate::Wait::Nothing`].
pub trait RawLock: fmt::Debug + Default {
    /// Takes the lock, waiting for it.
    fn lock(&self);
    /// Takes the lock if it is free.
    fn try_lock(&self) -> bool;
    /// Releases the lock. Only the holder calls it, once.
    fn unlock(&self);
}

/// A lock that spins: one word, no queue. Its lowest bit says whether it is held. Four bytes, since x86-64 has an instruction that sets
/// a bit and tells what it was, for words but not for bytes: it needs no register and no comparison.
#[derive(Debug, Default)]
pub struct SpinLock(AtomicU32);

/// The bit of a lock that is held.
const HELD: u32 = 1;

impl SpinLock {
    const_new! {
        /// An open lock.
        #[must_use]
        pub fn new() -> Self {
            SpinLock(AtomicU32::new(0))
        }
    }
}

impl RawLock for SpinLock {
    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            // Relaxed: only waits; try_lock acquires.
            while self.0.load(Ordering::Relaxed) == HELD {
                hint::spin_loop();
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in unlock.
        #[cfg(not(all(loom, test)))]
        let before = self.0.fetch_or(HELD, Ordering::Acquire);
        // A model checker follows each write: there a try that fails writes nothing, or loops of tries have no end.
        #[cfg(all(loom, test))]
        let before = self.0.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).unwrap_or_else(|held| held);
        before & HELD == 0
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with the acquire in try_lock.
        self.0.store(0, Ordering::Release);
    }
}

/// Holds a lock until dropped.
#[derive(Debug)]
pub(crate) struct Guard<'l, L: RawLock>(pub(crate) &'l L);

impl<'l, L: RawLock> Guard<'l, L> {
    #[inline]
    pub(crate) fn lock(lock: &'l L) -> Self {
        lock.lock();
        Guard(lock)
    }

    #[inline]
    pub(crate) fn try_lock(lock: &'l L) -> Option<Self> {
        Guard::taken(lock, L::try_lock)
    }

    /// The guard of `lock` if `take` takes the lock.
    #[inline(always)]
    pub(crate) fn taken(lock: &'l L, take: impl FnOnce(&L) -> bool) -> Option<Self> {
        // Not then_some: it would build the guard in either case, and its drop would open another holder's lock.
        take(lock).then(|| Guard(lock))
    }
}

impl<L: RawLock> Drop for Guard<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}
