//! Reclaim: pages for a request that finds no memory, and support for a background reclaimer.
//!
//! # Direct reclaim
//!
//! [`Allocator::alloc_with`] an owner serves a request that finds no memory: it compacts, asks the [`Owner`] for pages, and drains
//! the pagesets, in this order.
//!
//! # Background reclaim
//!
//! The allocator has no reclaimer of its own. [`crate::Machine::wake_reclaim`] reports that one is needed. The
//! reclaimer then
//!
//! 1. saves each zone's [`crate::admin::stats::ZoneStats::watermark_boost`] and calls
//!    [`NodeView::set_reclaim_active`];
//! 2. frees pages until [`NodeView::is_balanced`];
//! 3. removes the saved boosts with [`ZoneView::decay_boost`];
//! 4. makes blocks of the order it was woken for with [`NodeView::compact`], if that order is above 0;
//! 5. calls [`NodeView::forget_skipped`], since the freed pages make skip bits obsolete, and
//!    [`NodeView::set_reclaim_active`] with `false`.
//!
//! [`ZoneView::needs_reclaim`] tells which zones need reclaim.
//!
//! Specification: `linux-page-allocator.md` 1.6, 1.7, 4.11 "RECLAIM_ACTIVE", 8.1.

use super::compact::{CompactMode, CompactOutcome};
use super::owner::Owner;
use crate::admin::views::{NodeView, ZoneView};
use crate::alloc::error::AllocError;
use crate::alloc::request::{Request, Wait};
use crate::alloc::{Allocator, shortage};
use crate::frame::{Order, Pfn, ZoneKind};
use crate::machine::{LockPath, Machine, MachineHint};
use crate::zone::watermark::{Mark, MarkTest};

/// How often one request asks the owner for pages: the kernel's bound of reclaims without progress. From memory; the
/// specification says only that retries end.
const RECLAIM_ROUNDS: u32 = 16;

/// Direct reclaim.
impl<'a, M: Machine> Allocator<'a, M> {
    /// [`Self::alloc_with`] for a block, with an owner. Specification 1.7. A request that may wait for memory ([`Wait::Memory`]) goes on after the low marks and the min
    /// marks:
    ///
    /// 1. Above order 0, async direct compaction, then the zones at the min marks.
    /// 2. [`Owner::reclaim`]. If it frees nothing, on to step 4.
    /// 3. The zones again; then one HIGHATOMIC pageblock is returned, but not a zone's last one; all pagesets are
    ///    drained; the zones again.
    /// 4. Above order 0, compaction that scans more (`SyncLight`), then the zones again.
    /// 5. From step 2 on while the owner frees pages, up to 16 times in all; only once for orders above 3, which single
    ///    pages seldom make.
    /// 6. Before it fails, the request drains other CPUs' pagesets, one by one, under
    ///    [`Tuning::drain_for_requests`](crate::Tuning::drain_for_requests), and above order 0 compacts once more. [`Self::alloc`], which has
    ///    no owner to ask, drains at once. In this call that would be too early: CPUs would take pages from one another instead of reclaiming
    ///    some. (Step 3 drains under any rules.)
    /// 7. Then it returns all HIGHATOMIC pageblocks, one by one.
    pub(super) fn alloc_or_reclaim(&self, request: &Request, owner: &impl Owner) -> Result<Pfn, AllocError> {
        if request.wait != Wait::Memory {
            return self.alloc(request);
        }
        if let Some(pfn) = self.alloc_hot(request, MachineHint::of(&self.machine)) {
            return Ok(pfn);
        }
        let cpu = self.machine.cpu();
        if let Some(pfn) = self.take_first(request, cpu) {
            return Ok(pfn);
        }
        match self.walk_before_drains(&self.zonelist(request, cpu)?, &mut self.taking(request, cpu)) {
            Some(pfn) => Ok(pfn),
            None => self.reclaim_and_retry(request, owner),
        }
    }

    #[cold]
    pub(super) fn reclaim_and_retry(&self, request: &Request, owner: &impl Owner) -> Result<Pfn, AllocError> {
        if let Some(pfn) = self.compact_and_retry(request, CompactMode::Async, owner)? {
            return Ok(pfn);
        }
        let rounds = if request.order > Order::COSTLY { 1 } else { RECLAIM_ROUNDS };
        for _ in 0..rounds {
            if !owner.keep_going() {
                break;
            }
            let given = owner.reclaim(request) > 0;
            if given {
                if let Some(pfn) = self.retry(request)? {
                    return Ok(pfn);
                }
                self.unreserve_highatomic(request, false)?;
                self.drain_for_reclaim();
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
        if self.tuning.drain_for_requests
            && let Some(pfn) = self.drain_and_retry(request, owner)?
        {
            return Ok(pfn);
        }
        while self.unreserve_highatomic(request, true)? {
            if let Some(pfn) = self.retry(request)? {
                return Ok(pfn);
            }
        }
        Err(AllocError::OutOfMemory(shortage::of(&self.zonelist(request, self.machine.cpu())?)))
    }

    /// Drains what other CPUs keep and tries again. Above order 0, pages that came from there may merge, or are what a compaction lacked.
    fn drain_and_retry(&self, request: &Request, owner: &impl Owner) -> Result<Option<Pfn>, AllocError> {
        let cpu = self.machine.cpu();
        let list = self.zonelist(request, cpu)?;
        let is_kept = list.zones().any(|zone| self.possible_cpus().any(|cpu| zone.may_serve(cpu, request.order)));
        let mut take = self.taking(request, cpu);
        let taken = self.after_settling(&list, &mut take).or_else(|| self.after_drains(&list, &mut take));
        if taken.is_some() || !is_kept || request.order == Order::ZERO {
            return Ok(taken);
        }
        match self.retry(request)? {
            Some(pfn) => Ok(Some(pfn)),
            None => self.compact_and_retry(request, CompactMode::SyncLight, owner),
        }
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
            zone.shared.deferral.reset(request.order, true);
        }
        Ok(got)
    }

    /// Tries the zones at the min marks again. The caller may be on another CPU by now.
    fn retry(&self, request: &Request) -> Result<Option<Pfn>, AllocError> {
        let cpu = self.machine.cpu();
        Ok(self.at_min_marks(&self.zonelist(request, cpu)?, &mut self.taking(request, cpu)))
    }

    /// Returns one HIGHATOMIC pageblock to the request's migratetype, from the first zone that can return one. Returns
    /// whether a zone could.
    fn unreserve_highatomic(&self, request: &Request, forced: bool) -> Result<bool, AllocError> {
        let list = self.zonelist(request, self.machine.cpu())?;
        // The check without the lock may miss a pageblock that is reserved right now.
        Ok(list.zones().filter(|zone| zone.shared.may_unreserve_highatomic(forced)).any(|zone| {
            zone.shared.lock_each(self.env(), LockPath::Map, 0..zone.frames().len(), u32::MAX).any(|(guard, _)| {
                zone.shared.may_unreserve_highatomic(forced) && guard.unreserve_highatomic(request.migratetype)
            })
        }))
    }
}

/// Background reclaim of a zone.
impl<'a, M: Machine> ZoneView<'_, 'a, M> {
    /// Whether the zone is not above its high mark, boost included, so that reclaim has work there. Takes no lock.
    #[must_use]
    pub fn needs_reclaim(self) -> bool {
        let zone = self.zone;
        zone.shared.managed.get() > 0
            && !zone.shared.passes_mark(Mark::High, &MarkTest { highest: zone.shared.kind, ..MarkTest::SINGLE })
    }

    /// Lowers the zone's watermark boost by up to `pages`, after reclaim has worked for it. Returns the remaining boost.
    /// Holds the zone lock. Specification 1.6, "Watermark boost".
    pub fn decay_boost(self, pages: u64) -> u64 {
        self.zone.shared.lock(self.allocator.env(), LockPath::Map, 0).lower_boost(pages)
    }
}

/// Background reclaim of a node.
impl<'a, M: Machine> NodeView<'_, 'a, M> {
    /// Whether reclaim of the node may rest: one of its zones up to `highest` has a block of `order` above its high mark,
    /// or the node has no such zone. Takes no lock.
    #[must_use]
    pub fn is_balanced(self, order: Order, highest: ZoneKind) -> bool {
        let test = MarkTest { order, highest, ..MarkTest::SINGLE };
        let mut zones = self.zones(highest).peekable();
        zones.peek().is_none() || zones.any(|zone| zone.shared.passes_mark(Mark::High, &test))
    }

    /// Sets whether reclaim works on the node's zones up to `highest`. While it does, pagesets of these zones keep at
    /// most four batches (5.14 on). Specification 4.11.
    pub fn set_reclaim_active(self, highest: ZoneKind, on: bool) {
        self.zones(highest).for_each(|zone| zone.shared.set_reclaim_active(on));
    }
}
