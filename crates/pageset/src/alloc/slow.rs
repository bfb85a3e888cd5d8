//! The slow path: a request that no zone can serve at its low mark.
//!
//! The slow path wakes reclaim, then tries the min marks with the request's rights. A caller that may wait for memory
//! and has an owner goes on in [`Allocator::alloc_with`]. Specification: `linux-page-allocator.md` 1.6, 1.7.

use super::Allocator;
use super::attempt::Attempt;
use super::error::AllocError;
use super::request::Wait;
use super::shortage;
use super::zonelist::Zonelist;
use crate::frame::Order;
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::zone::watermark::{Mark, Rights};

impl<'a, M: Machine> Allocator<'a, M> {
    /// The part of [`Self::walk`] after the low marks.
    #[cold]
    pub(crate) fn slow<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        mut take: impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Result<T, AllocError> {
        self.wake_reclaim(list);
        match self.at_min_marks(list, &mut take) {
            Some(taken) => Ok(taken),
            None => Err(AllocError::OutOfMemory(shortage::of(list))),
        }
    }

    /// Tries the zones at the min marks with the request's rights. Tries them once more if pages were merged for the
    /// request.
    pub(crate) fn at_min_marks<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        let attempt = Attempt::slow(list.request);
        let taken = self.attempt(list.zones(), list.request, attempt, take);
        if taken.is_none() && self.merge_for(list) {
            return self.attempt(list.zones(), list.request, attempt, take);
        }
        taken
    }

    /// Merges the pages that were freed without merging, for a request above order 0 that may wait for memory: the
    /// merge reads every page. Returns whether any page merged. Specification 6.1.
    fn merge_for(&self, list: &Zonelist<'_, 'a, M>) -> bool {
        let merge = |zone: &CachedZone<'a, M>| zone.shared.merge_skipped(self.env());
        let may = list.request.order > Order::ZERO && list.request.wait == Wait::Memory;
        may && list.zones().map(merge).sum::<u64>() > 0
    }

    /// Calls `wake_reclaim` for each zone that is below its low mark for this request.
    fn wake_reclaim(&self, list: &Zonelist<'_, 'a, M>) {
        let request = list.request;
        let test = request.mark_test(Rights::NONE);
        if request.wakes() {
            for zone in list.zones().filter(|zone| !zone.shared.passes_mark(Mark::Low, &test)) {
                self.machine.wake_reclaim(zone.shared.index, request.order, request.highest);
            }
        }
    }
}
