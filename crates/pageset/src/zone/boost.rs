//! The watermark boost: while types mix, a zone's marks are higher for a while, so that reclaim makes room in time.
//!
//! Specification: `linux-page-allocator.md` 1.6, "Watermark boost".

use crate::machine::Machine;
use crate::policy::sizes::boosted;
use crate::sync::Held;
use crate::zone::Zone;
use crate::zone::watermark::Mark;

impl<M: Machine> Zone<'_, M> {
    /// Raises the marks because a request broke into another type's pageblock; the zone lock is held. `wakes` says
    /// whether reclaim may be told of it.
    pub(crate) fn raise_boost(&self, wakes: bool) {
        let boost = self.boost.get();
        let high = self.mark(Mark::High) - boost;
        let more = boosted(boost, self.managed.get(), high, self.boost_factor);
        if more > 0 {
            self.set_boost(more);
            if wakes {
                self.set_boosted();
            }
        }
    }

    /// Takes up to `pages` off the boost; the zone lock is held. Returns what is left of it.
    pub(crate) fn lower_boost(&self, pages: u64) -> u64 {
        let left = self.boost.get().saturating_sub(pages);
        self.set_boost(left);
        left
    }

    /// The marks in force follow.
    fn set_boost(&self, boost: u64) {
        let old = self.boost.get();
        for mark in &self.marks {
            // A reader without the lock may see some marks with the old boost and some with the new.
            mark.set(mark.get() - old + boost);
        }
        self.boost.set(boost);
    }
}
