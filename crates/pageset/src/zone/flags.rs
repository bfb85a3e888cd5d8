//! A zone's flags: hints that several CPUs set and clear concurrently without losing an update.
//!
//! Specification: `linux-page-allocator.md` 1.1.

use crate::sync::atomic::AtomicU8;
use crate::sync::atomic::Ordering::Relaxed;

/// Reclaim is balancing the zone's node.
pub(crate) const RECLAIM_ACTIVE: u8 = 1;
/// An allocation found the zone below its high mark.
pub(crate) const BELOW_HIGH: u8 = 2;
/// Every request passes at the high mark: `Zone::has_plenty`.
pub(crate) const PLENTY: u8 = 4;
/// The marks were boosted, and reclaim is not yet woken for it.
pub(crate) const BOOSTED: u8 = 8;

/// Not all pageblocks are MOVABLE.
pub(crate) const MIXED: u8 = 16;

/// The flags of one zone, one bit each.
#[derive(Debug, Default)]
pub(crate) struct Flags(AtomicU8);

impl Flags {
    /// All flags at a recent moment.
    #[inline]
    pub(crate) fn get(&self) -> u8 {
        // Relaxed: hints. An old value moves some pages earlier or later.
        self.0.load(Relaxed)
    }

    /// Sets or clears one flag.
    pub(crate) fn set(&self, flag: u8, on: bool) {
        // Relaxed: a hint that orders nothing.
        if on {
            self.0.fetch_or(flag, Relaxed);
        } else {
            self.0.fetch_and(!flag, Relaxed);
        }
    }

    /// Sets the flags of `mask` to `values`. If they have these values already, the cache line stays shared.
    #[inline]
    pub(crate) fn replace(&self, mask: u8, values: u8) {
        let wrong = (self.get() & mask) ^ values;
        if wrong != 0 {
            self.set(wrong & values, true);
            self.set(wrong & !values, false);
        }
    }

    /// Clears one flag. Returns true for the one caller that found it set.
    pub(crate) fn take(&self, flag: u8) -> bool {
        // Relaxed, both: a hint that orders nothing. The read first keeps the line shared if the flag is clear.
        self.0.load(Relaxed) & flag != 0 && self.0.fetch_and(!flag, Relaxed) & flag != 0
    }
}
