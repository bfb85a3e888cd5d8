//! The seam without the feature `research`.

use crate::buddy::{Capture, Wanted};
use crate::frame::{CpuId, End, MigrateType, Order};
use crate::machine::Machine;
use crate::pcp::{CachedZone, Freed, Pageset, PcpGuard};
use crate::store::{Cache, Refill, Visit};
use crate::zone::{Env, Mismatch, Zone, ZoneGuard};

impl<M: Machine> Zone<'_, M> {
    #[inline(always)]
    pub(crate) fn refill_from_clusters(
        &self,
        _refill: &Refill<'_, M>,
        _cache: &impl Cache,
        _blocks: u32,
    ) -> Option<u32> {
        None
    }

    pub(crate) fn has_skipped(&self) -> bool {
        false
    }

    pub(crate) fn check_research(&self) -> Result<(), Mismatch> {
        Ok(())
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    #[inline(always)]
    pub(crate) fn note_put(&self, _page: u32, _order: Order, _list: MigrateType, _end: End) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn remove_from_cluster(&self, _page: u32, _order: Order, _list: MigrateType) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn put_unmerged(
        &self,
        _page: u32,
        _order: Order,
        _list: MigrateType,
        _end: impl FnOnce() -> End,
    ) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn end_ownership(&self, _page: u32, _order: Order) {}

    #[inline(always)]
    pub(crate) fn wait_for_refills(&self) {}

    #[inline(always)]
    pub(crate) fn steal_before_615(&self, _wanted: Wanted) -> Option<u32> {
        None
    }
}

impl<M: Machine> CachedZone<'_, M> {
    #[inline(always)]
    pub(crate) fn refill_by_claims<G>(
        &self,
        _env: Env<'_, M>,
        _pcp: &mut PcpGuard<'_, M::Lock, G>,
        _wanted: Wanted,
    ) -> Option<Option<u32>> {
        None
    }

    #[inline(always)]
    pub(crate) fn free_to_owner(&self, _env: Env<'_, M>, _cpu: CpuId, _freed: Freed, _drain: bool) -> Option<bool> {
        None
    }

    #[inline(always)]
    pub(crate) fn drain_by_research<G>(
        &self,
        _env: Env<'_, M>,
        _pcp: &PcpGuard<'_, M::Lock, G>,
        _pages: u32,
        _start: usize,
        _capture: Option<&Capture>,
    ) -> Option<u32> {
        None
    }

    #[inline(always)]
    pub(crate) fn absorb<G>(&self, _env: Env<'_, M>, _pcp: &PcpGuard<'_, M::Lock, G>) {}

    #[inline(always)]
    pub(crate) fn nothing_waits(&self, _env: Env<'_, M>, _pageset: &Pageset<M::Lock>) -> bool {
        true
    }

    #[inline(always)]
    pub(crate) fn end_drain(&self, _env: Env<'_, M>) {}

    pub(crate) fn audit_waiting(&self, _visit: &mut Visit<'_>) -> Result<(), Mismatch> {
        Ok(())
    }
}

/// All frees merge.
pub(crate) struct Merges;

impl<M: Machine> Zone<'_, M> {
    pub(crate) fn merges(&self, _env: Env<'_, M>) -> Merges {
        Merges
    }

    pub(crate) fn merge_skipped(&self, _env: Env<'_, M>) -> u64 {
        0
    }
}
