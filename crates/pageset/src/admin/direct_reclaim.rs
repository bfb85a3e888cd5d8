//! Direct reclaim: a request that finds no memory compacts, asks the owner for pages, and drains the pagesets.
//!
//! Specification: `linux-page-allocator.md` 1.6, 1.7, 8.1.

use super::compact::{CompactMode, CompactOutcome};
use super::owner::Owner;
use crate::alloc::error::AllocError;
use crate::alloc::request::{Request, Wait};
use crate::alloc::{Allocator, shortage};
use crate::frame::{Order, Pfn};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;

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
            zone.zone.buddy.deferral.reset(request.order, true);
        }
        Ok(got)
    }

    /// The zones once more. The caller may be on another CPU by now.
    fn retry(&self, request: &Request) -> Result<Option<Pfn>, AllocError> {
        let cpu = self.machine.cpu();
        let mut take = |zone: &CachedZone<'a, M>, attempt| {
            self.take(zone, cpu, request, attempt).map(|page| zone.frames().pfn(page))
        };
        Ok(self.at_min_marks(&self.zonelist(request, cpu)?, &mut take))
    }

    /// Gives one HIGHATOMIC pageblock back to the type of a request, of the first zone that has one to give. True when
    /// there was one.
    fn unreserve_highatomic(&self, request: &Request, forced: bool) -> Result<bool, AllocError> {
        let list = self.zonelist(request, self.machine.cpu())?;
        // The look without the lock may miss one that comes right now.
        Ok(list.zones().filter(|zone| zone.zone.may_unreserve_highatomic(forced)).any(|zone| {
            let guard = zone.zone.lock(self.env(), LockPath::Map);
            zone.zone.may_unreserve_highatomic(forced) && guard.unreserve_highatomic(request.migratetype)
        }))
    }
}
