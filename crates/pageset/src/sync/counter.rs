//! A counter whose writers hold different locks.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
