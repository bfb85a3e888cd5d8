//! The slow path: what stands behind a request that no zone serves at its low mark.
//!
//! Reclaim is woken, the min marks are tried with the request's rights; then, for a caller that may wait for memory and
//! brings its owner, memory is compacted and reclaimed, pagesets drained, reserved pageblocks given back; then it is
//! out of memory. Specification: `linux-page-allocator.md` 1.6, 1.7, 8.1.

use crate::admin::compact::{CompactMode, CompactOutcome};
use crate::admin::owner::Owner;
use crate::alloc::Allocator;
use crate::alloc::attempt::Attempt;
use crate::alloc::error::AllocError;
use crate::alloc::general::Zonelist;
use crate::alloc::request::{Request, Wait};
use crate::alloc::shortage;
use crate::frame::{Order, Pfn};
use crate::machine::{LockPath, Machine};
use crate::zone::Zone;
use crate::zone::watermark::{Mark, Rights};

/// How often the owner is asked for pages in one request: the kernel's bound of reclaims without progress. From memory; the
/// specification says only that retries end.
const RECLAIM_ROUNDS: u32 = 16;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Takes a block as [`Self::alloc`] does, and where that finds none, asks the owner for pages.
    ///
    /// Specification 1.7. After the low marks and the min marks, for a request that may wait for memory
    /// ([`Wait::Memory`]):
    ///
    /// 1. above order 0 direct compaction of the first kind, and the zones again at the min marks;
    /// 2. [`Owner::reclaim`]; where it gives nothing, on to 4;
    /// 3. the zones again; one HIGHATOMIC pageblock is given back, but not a zone's last; all pagesets are drained; the
    ///    zones again;
    /// 4. above order 0 compaction that looks at more, and the zones again;
    /// 5. from 2 on while the owner gives, up to 16 times in all; once for orders above 3, which single pages seldom make.
    /// 6. Before it gives up, all HIGHATOMIC pageblocks are given back, one by one.
    ///
    /// The owner is called without a lock, and may allocate and free.
    ///
    /// # Errors
    /// A request that cannot be had; no memory, with what there is and what stood in the way.
    pub fn alloc_with(&self, request: &Request, owner: &impl Owner) -> Result<Pfn, AllocError> {
        match self.alloc(request) {
            Err(AllocError::OutOfMemory(_)) if request.wait == Wait::Memory => self.reclaim_and_retry(request, owner),
            other => other,
        }
    }

    /// What [`Self::walk`] does after the low marks.
    #[cold]
    pub(crate) fn slow<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        mut take: impl FnMut(&Zone<'a, M>, Attempt) -> Option<T>,
    ) -> Result<T, AllocError> {
        self.wake_reclaim(list);
        match self.at_min_marks(list, &mut take) {
            Some(taken) => Ok(taken),
            None => Err(AllocError::OutOfMemory(shortage::of(list))),
        }
    }

    /// The zones at the min marks with the rights of the request, and once more where something was merged for it.
    fn at_min_marks<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&Zone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        let attempt = Attempt::slow(list.request);
        let taken = self.attempt(list.zones(), list.request, attempt, take);
        if taken.is_none() && self.merge_for(list) {
            return self.attempt(list.zones(), list.request, attempt, take);
        }
        taken
    }

    /// Merges what was freed without merging, for a request above order 0 that found nothing and has the time: it takes a
    /// look at every page. True if there was any. Specification 6.1.
    fn merge_for(&self, list: &Zonelist<'_, 'a, M>) -> bool {
        let merge = |zone: &Zone<'a, M>| zone.merge_skipped(&self.machine, &self.tuning);
        let may = list.request.order > Order::ZERO && list.request.wait == Wait::Memory;
        may && list.zones().map(merge).sum::<u64>() > 0
    }

    #[cold]
    fn reclaim_and_retry(&self, request: &Request, owner: &impl Owner) -> Result<Pfn, AllocError> {
        if let Some(pfn) = self.compact_and_retry(request, CompactMode::Async, owner)? {
            return Ok(pfn);
        }
        let rounds = if request.order > Order::COSTLY { 1 } else { RECLAIM_ROUNDS };
        for _ in 0..rounds {
            let given = owner.reclaim(request) > 0;
            if given {
                if let Some(pfn) = self.retry(request)? {
                    return Ok(pfn);
                }
                self.unreserve_highatomic(request, false)?;
                self.drain_all();
                if let Some(pfn) = self.retry(request)? {
                    return Ok(pfn);
                }
            }
            if let Some(pfn) = self.compact_and_retry(request, CompactMode::SyncLight, owner)? {
                return Ok(pfn);
            }
            if !given {
                break;
            }
        }
        while self.unreserve_highatomic(request, true)? {
            if let Some(pfn) = self.retry(request)? {
                return Ok(pfn);
            }
        }
        Err(AllocError::OutOfMemory(shortage::of(&self.zonelist(request, self.machine.cpu())?)))
    }

    /// Compacts for a request above order 0 and tries again, or takes what the compaction captured. Specification 7.6.
    fn compact_and_retry(
        &self,
        request: &Request,
        mode: CompactMode,
        owner: &impl Owner,
    ) -> Result<Option<Pfn>, AllocError> {
        if request.order == Order::ZERO {
            return Ok(None);
        }
        let report = self.compact(request, mode, owner);
        if report.captured.is_some() {
            return Ok(report.captured);
        }
        let got = match report.outcome {
            CompactOutcome::Skipped | CompactOutcome::Deferred => None,
            _ => self.retry(request)?,
        };
        if let Some((zone, _)) = got.and_then(|pfn| self.locate(pfn)) {
            // It helped, whatever it thought of itself, and so is worth while again.
            zone.deferral.reset(request.order, true);
        }
        Ok(got)
    }

    /// The zones once more. The caller may be on another CPU by now.
    fn retry(&self, request: &Request) -> Result<Option<Pfn>, AllocError> {
        let cpu = self.machine.cpu();
        let mut take =
            |zone: &Zone<'a, M>, attempt| self.take(zone, cpu, request, attempt).map(|page| zone.frames.pfn(page));
        Ok(self.at_min_marks(&self.zonelist(request, cpu)?, &mut take))
    }

    /// Tells the owner of each zone that is below its low mark for this request.
    fn wake_reclaim(&self, list: &Zonelist<'_, 'a, M>) {
        let request = list.request;
        let test = request.mark_test(Rights::NONE);
        if request.wakes() {
            for zone in list.zones().filter(|zone| !zone.passes_mark(Mark::Low, &test)) {
                self.machine.wake_reclaim(zone.index, request.order, request.highest);
            }
        }
    }

    /// Keeps the pageblock of a block that an urgent request just got for the next one. Specification 1.6.
    pub(crate) fn reserve_highatomic(&self, zone: &Zone<'a, M>, page: u32, order: Order) {
        if zone.may_reserve_highatomic() {
            let _guard = zone.lock(&self.machine, LockPath::Map);
            zone.reserve_highatomic(&self.machine, &self.tuning, page, order);
        }
    }

    /// Gives one HIGHATOMIC pageblock back to the type of a request, of the first zone that has one to give. True when
    /// there was one.
    fn unreserve_highatomic(&self, request: &Request, forced: bool) -> Result<bool, AllocError> {
        let list = self.zonelist(request, self.machine.cpu())?;
        // The look without the lock may miss one that comes right now.
        Ok(list.zones().filter(|zone| zone.may_unreserve_highatomic(forced)).any(|zone| {
            let _guard = zone.lock(&self.machine, LockPath::Map);
            zone.unreserve_highatomic(&self.machine, &self.tuning, request.migratetype, forced)
        }))
    }
}
