//! The seam without the feature `history`.

use crate::buddy::list::End;
use crate::buddy::{Buddy, Capture, Clusters, Env, Locked, Mismatch, Wanted};
use crate::frame::{MigrateType, Order};
use crate::machine::Machine;
use crate::pcp::{CachedZone, PcpGuard};
use crate::zone::{Zone, ZoneGuard};

impl<'a> Clusters<'a> {
    pub(crate) fn new(_words: &'a [core::sync::atomic::AtomicU32], _pages: usize, _limit: u32) -> Self {
        Clusters::none()
    }

    /// The words that a zone needs.
    pub(crate) const fn words(_span: u64, _pages: u64, _batch: u32) -> u64 {
        0
    }

    pub(crate) fn set_limit(&self, _pages: u32) {}
}

impl<L> Buddy<'_, L> {
    pub(crate) fn check_clusters(&self) -> Result<(), Mismatch> {
        Ok(())
    }

    pub(crate) fn has_skipped(&self) -> bool {
        false
    }
}

impl<M: Machine> Locked<'_, '_, M> {
    #[inline(always)]
    pub(crate) fn put_in_cluster(&self, _page: u32, _order: Order, _list: MigrateType, _end: End) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn remove_from_cluster(&self, _page: u32, _order: Order, _list: MigrateType) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn skips_merge(&self, _order: Order) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn count_skips(&self, _pages: u64) {}

    #[inline(always)]
    pub(crate) fn wait_for_refills(&self) {}

    pub(crate) fn steal_before_615(&self, _wanted: Wanted) -> Option<u32> {
        None
    }
}

impl<'a, M: Machine> CachedZone<'a, M> {
    #[inline(always)]
    pub(crate) fn refill_from_clusters<'z, G>(
        &'z self,
        zone: ZoneGuard<'z, 'a, M>,
        _pcp: &PcpGuard<'_, M::Lock, G>,
        _list: usize,
        _wanted: Wanted,
        _blocks: u32,
    ) -> (Option<ZoneGuard<'z, 'a, M>>, u32) {
        (Some(zone), 0)
    }

    #[inline(always)]
    pub(crate) fn drain_by_old_rules<G>(
        &self,
        _env: Env<'_, M>,
        _pcp: &PcpGuard<'_, M::Lock, G>,
        _wanted: u32,
        _start: usize,
        _capture: Option<&Capture>,
    ) -> Option<u32> {
        None
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
