//! The boost of a zone's marks. Specification 1.6, "Watermark boost".

use core::sync::atomic::AtomicU32;

use crate::sync::atomic::Ordering::Relaxed;

/// What each mark of a zone is raised by, in pages. It has no lock: holders of several regions raise it at the same time, and a call
/// that waits for nothing may have interrupted one of them.
#[derive(Debug)]
pub(crate) struct Boost(AtomicU32);

impl Boost {
    #[inline]
    pub(crate) const fn new() -> Self {
        Boost(AtomicU32::new(0))
    }

    /// The boost at a recent moment.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed here and below: an amount that orders nothing.
        self.0.load(Relaxed).into()
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// Raises the boost to what `more` makes of it, unless that is 0. Returns whether it was raised.
    pub(crate) fn raise(&self, more: impl Fn(u64) -> u64) -> bool {
        let raised = |boost: u32| match more(boost.into()) {
            0 => None,
            // Pages have numbers of 32 bits.
            more => Some(u32::try_from(more).unwrap_or(u32::MAX)),
        };
        self.0.fetch_update(Relaxed, Relaxed, raised).is_ok()
    }

    /// Lowers the boost by up to `pages`. Returns the rest.
    pub(crate) fn lower(&self, pages: u64) -> u64 {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let lowered = |boost: u32| Some(boost.saturating_sub(pages));
        let before = self.0.fetch_update(Relaxed, Relaxed, lowered).unwrap_or_else(|boost| boost);
        before.saturating_sub(pages).into()
    }
}
