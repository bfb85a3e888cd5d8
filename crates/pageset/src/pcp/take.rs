//! Allocates one block through a pageset, which the zone refills when it is empty.
//!
//! Specification: `linux-page-allocator.md` 2.3, 2.4.

use super::whole_blocks::SplitBlock;
use super::{CachedZone, PcpGuard};
use crate::buddy::{Env, Locked, Stage, Wanted};
use crate::frame::{CpuId, MigrateType, PageState, Tag};
use crate::machine::{LockPath, Machine};
use crate::policy::Tuning;
use crate::sync::{self, LockedWord};

/// The result of an allocation from a pageset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FromCache {
    Page(u32),
    /// A block from a refill.
    Refilled(u32),
    /// Another thread holds the pageset.
    Busy,
    /// The pageset was empty, and the zone had no block for a refill, or its lock was held and the caller waits for
    /// nothing.
    Empty,
}

impl<M: Machine> CachedZone<'_, M> {
    /// Allocates one block through a CPU's pageset.
    #[inline]
    pub(crate) fn alloc_cached(&self, env: Env<'_, M>, cpu: CpuId, list: usize, wanted: Wanted) -> FromCache {
        let Some(mut pcp) = self.try_lock_pageset(env, cpu) else { return FromCache::Busy };
        env.tuning.on_alloc(&mut pcp);
        let from = match pcp.pop(list) {
            Some(page) => FromCache::Page(page),
            None => self.refill(env, &mut pcp, list, wanted).map_or(FromCache::Empty, FromCache::Refilled),
        };
        if let FromCache::Page(page) | FromCache::Refilled(page) = from {
            env.tuning.on_take(&mut pcp, wanted.order.pages() as u32);
            self.shared.buddy.frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
        }
        from
    }

    /// Refills an empty list and takes the first block, under one hold of the zone lock; or two, if whole clusters did
    /// not supply all pages. Specification 2.4, 6.2.
    #[cold]
    pub(super) fn refill<G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        list: usize,
        wanted: Wanted,
    ) -> Option<u32> {
        let blocks = env.tuning.refill(pcp, wanted.order, self.shared.pressure()).0;
        pcp.update_threshold();
        let zone = self.shared.lock_for(env, LockPath::Refill, wanted)?;
        let (zone, mut taken) = self.refill_from_clusters(zone, pcp, list, wanted, blocks);
        if taken < blocks
            && let Some(zone) = zone.or_else(|| self.shared.lock_for(env, LockPath::Refill, wanted))
        {
            taken += refill_from_lists(&zone, pcp, list, wanted, blocks - taken);
        }
        let pages = u64::from(taken) * wanted.order.pages();
        pcp.count.set(pcp.count.get() + pages as u32);
        sync::add(&pcp.refills, u64::from(taken > 0));
        sync::add(&pcp.refill_pages, pages);
        pcp.pop(list)
    }
}

/// Fills a list with up to `blocks` blocks of the zone's free lists. Returns their number.
fn refill_from_lists<M: Machine, G>(
    zone: &Locked<'_, '_, M>,
    pcp: &PcpGuard<'_, M::Lock, G>,
    list: usize,
    wanted: Wanted,
    blocks: u32,
) -> u32 {
    let (mut stage, mut split) = (Stage::default(), SplitBlock::default());
    let taken = pcp.fill(list, blocks, || {
        let page = split.next(zone).or_else(|| split.begin(zone, wanted)).or_else(|| zone.take(wanted, &mut stage))?;
        let kind = remembered_type(zone, zone.tuning(), page, wanted.migratetype);
        zone.frames.set_tag(page, Tag::new(PageState::Cached, wanted.order, kind));
        Some(page)
    });
    split.end(zone, wanted.migratetype);
    taken
}

/// The type stored in a cached page's tag: its pageblock's type. Specification 2.6.
pub(crate) fn remembered_type(
    buddy: &crate::buddy::Buddy<'_>,
    tuning: &Tuning,
    page: u32,
    asked: MigrateType,
) -> MigrateType {
    if tuning.type_at_drain { asked } else { buddy.frames.block_type(page) }
}
