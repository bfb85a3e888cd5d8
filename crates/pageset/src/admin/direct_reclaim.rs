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

/// How often one request asks the owner for pages: the kernel's bound of reclaims without progress. From memory; the
/// specification says only that retries end.
const RECLAIM_ROUNDS: u32 = 16;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates a block as [`Self::alloc`] does. If that finds none, asks the owner for pages.
    ///
    /// Specification 1.7. A request that may wait for memory ([`Wait::Memory`]) goes on after the low marks and the min
    /// marks:
    ///
    /// 1. Above order 0, async direct compaction, then the zones at the min marks.
    /// 2. [`Owner::reclaim`]. If it frees nothing, on to step 4.
    /// 3. The zones again; then one HIGHATOMIC pageblock is returned, but not a zone's last one; all pagesets are
    ///    drained; the zones again.
    /// 4. Above order 0, compaction that scans more (`SyncLight`), then the zones again.
    /// 5. From step 2 on while the owner frees pages, up to 16 times in all; only once for orders above 3, which single
    ///    pages seldom make.
    /// 6. Before it fails, the request returns all HIGHATOMIC pageblocks, one by one.
    ///
    /// Calls the owner without a lock; the owner may allocate and free.
    ///
    /// # Errors
    /// An invalid request; or no memory, with the state of the zones and the reason.
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
            // The request got its block, so compaction is worthwhile again, whatever its outcome says.
            zone.shared.buddy.deferral.reset(request.order, true);
        }
        Ok(got)
    }

    /// Tries the zones at the min marks again. The caller may be on another CPU by now.
    fn retry(&self, request: &Request) -> Result<Option<Pfn>, AllocError> {
        let cpu = self.machine.cpu();
        let mut take = |zone: &CachedZone<'a, M>, attempt| {
            self.take(zone, cpu, request, attempt).map(|page| zone.frames().pfn(page))
        };
        Ok(self.at_min_marks(&self.zonelist(request, cpu)?, &mut take))
    }

    /// Returns one HIGHATOMIC pageblock to the request's migratetype, from the first zone that can return one. Returns
    /// whether a zone could.
    fn unreserve_highatomic(&self, request: &Request, forced: bool) -> Result<bool, AllocError> {
        let list = self.zonelist(request, self.machine.cpu())?;
        // The check without the lock may miss a pageblock that is reserved right now.
        Ok(list.zones().filter(|zone| zone.shared.may_unreserve_highatomic(forced)).any(|zone| {
            let guard = zone.shared.lock(self.env(), LockPath::Map);
            zone.shared.may_unreserve_highatomic(forced) && guard.unreserve_highatomic(request.migratetype)
        }))
    }
}
