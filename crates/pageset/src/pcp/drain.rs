//! Drains: blocks move from a pageset to the stores behind it after a free, and to the free lists once a second or on request.
//!
//! Specification: `linux-page-allocator.md` 3, 4.7, 8.1, 8.2.

use super::{CachedZone, MachineGuard, Pageset, PcpGuard};
use crate::buddy::Capture;
use crate::frame::CpuId;
use crate::machine::Machine;
use crate::policy::{Backing, BulkFree, SMALL};
use crate::store::{self, Drain, Given, Lists, Scope, Store};
use crate::sync::{self, LockedWord};
use crate::zone::Env;

/// What a hold of the pageset of an offline CPU drains at least, with short holds: as many single pages as a hold may move blocks. Unit: pages.
const OFFLINE_PAGES: u32 = Backing::REFILL_BLOCKS;

impl<M: Machine> CachedZone<'_, M> {
    /// Drains the requested pages: at once, or 512 blocks or one batch per hold of the pageset's lock. Returns the lock, unless
    /// `relock` refused it between two holds. If `leaves`, they may go to depots and bitmaps. Specification 3.3, "E7".
    #[cold]
    pub(super) fn drain_in_holds<'p>(
        &self,
        env: Env<'_, M>,
        pcp: MachineGuard<'p, M::Lock>,
        mut due: u32,
        list: usize,
        leaves: bool,
        relock: impl Fn() -> Option<MachineGuard<'p, M::Lock>>,
    ) -> Option<MachineGuard<'p, M::Lock>> {
        let is_chunked = env.tuning.backing.bulk_free() == Some(BulkFree::Chunked);
        let chunk = if is_chunked { pcp.batch.get() } else { due };
        let mut held = Some(pcp);
        while let Some(pcp) = &mut held {
            let pages = due.min(chunk);
            let drained = self.drain(env, pcp, pages, list, leaves, None);
            due = due.saturating_sub(env.tuning.backing.done(drained, chunk, due));
            if due == 0 {
                break;
            }
            // Other threads may take the pageset's lock between holds.
            drop(held.take());
            held = relock();
        }
        held
    }

    /// One hold's part of a drain of `pages` pages: whole lists from `start` on, the oldest blocks first. If `leaves`, and memory is not
    /// short, to the first store that takes any: depots, then bitmaps, then the free lists. Else to the free lists; the block that a
    /// compaction waits for is captured. Returns how many of the `pages` need no more work: those that moved, or all of
    /// them if depots took some and less than a batch is left. Specification 3.
    pub(super) fn drain<G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        pages: u32,
        start: usize,
        leaves: bool,
        capture: Option<&Capture>,
    ) -> u32 {
        // Most ticks. A small build does without: it comes to the same.
        if !SMALL && pages == 0 {
            return 0;
        }
        let (zone, batch, wanted) = (&self.shared, pcp.batch.get(), pages.min(pcp.count()));
        let mut drain = Drain { zone, env, wanted, start, batch, capture };
        let mut given = Given::default();
        if leaves && self.may_leave(pcp) {
            given = store::HIDDEN.give(&drain, pcp);
        }
        if given.pages == 0 {
            // None unless a rule of `research` is on: with the rules of 5.18 and later whole lists are drained. It may have
            // added pages that other CPUs left: the count is read again.
            let by_research = self.drain_by_research(env, pcp, pages, start, capture);
            drain.wanted = pages.min(pcp.count());
            given = match by_research {
                Some(pages) => Given { pages, ends: false },
                None if drain.wanted == 0 => return 0,
                None => Lists.give(&drain, pcp),
            };
        }
        if given.pages > 0 {
            pcp.count.set(pcp.count.get() - given.pages);
            sync::add(&pcp.drains, 1);
            sync::add(&pcp.drain_pages, u64::from(given.pages));
        }
        if given.ends { pages } else { given.pages }
    }

    /// The once-a-second decay of one pageset, and the expiry of pages of another node (`remote`). Returns true when
    /// another tick has more to do. If `waits` is false, a pageset whose lock is held is left for that next tick. `used`: whether
    /// the zone was used since the last tick, if the caller knows. Specification 4.7, 8.2.
    pub(crate) fn tick(&self, env: Env<'_, M>, cpu: CpuId, remote: bool, waits: bool, used: Option<bool>) -> bool {
        let pageset = self.pageset(env, cpu);
        let lock = || {
            if waits { Some(self.lock_again(env, pageset, cpu)) } else { self.try_lock_again(env, pageset, cpu) }
        };
        let Some(mut pcp) = lock() else { return true };
        self.absorb(env, &pcp);
        let decay = env.tuning.decay(&mut pcp);
        pcp.update_threshold();
        let Some(mut pcp) = self.drain_in_holds(env, pcp, decay.drain, 0, false, lock) else {
            return true;
        };
        let expired = pcp.expire(remote, env.tuning.expire_all, used);
        self.drain(env, &mut pcp, expired.drain, 0, false, None);
        self.return_loan(env, &pcp);
        env.tuning.end_tick(&mut pcp);
        decay.more || expired.more
    }

    /// Drains one pageset completely. A pageset that looks empty without its lock counts as empty: a page freed
    /// meanwhile stays, if the pageset may keep pages. A caller that has just set the pageset to keep nothing has held
    /// its lock, and so sees all earlier frees.
    pub(crate) fn drain_cpu(&self, env: Env<'_, M>, cpu: CpuId) {
        let pageset = self.pageset(env, cpu);
        self.drain_all(env, pageset, None, || Some(self.lock_again(env, pageset, cpu)));
    }

    /// As [`Self::drain_cpu`], and perhaps for a compaction that waits for a block. Waits for no pageset: returns false, and leaves the
    /// pages, if the lock is held, since the caller may have interrupted its holder.
    pub(crate) fn try_drain_cpu(&self, env: Env<'_, M>, cpu: CpuId, capture: Option<&Capture>) -> bool {
        let pageset = self.pageset(env, cpu);
        self.drain_all(env, pageset, capture, || self.try_lock_again(env, pageset, cpu))
    }

    /// Drains at most `pages` pages of one pageset, and the rest of the last block. Waits for no pageset: returns false if the lock is
    /// held.
    pub(crate) fn try_drain_pages(&self, env: Env<'_, M>, cpu: CpuId, pages: u32) -> bool {
        let pageset = self.pageset(env, cpu);
        let Some(mut pcp) = self.try_lock_again(env, pageset, cpu) else { return false };
        self.drain(env, &mut pcp, pages, 0, false, None);
        true
    }

    /// Drains a pageset in bounded holds of its lock, while `lock` takes it. Returns whether it was empty once.
    fn drain_all<'p>(
        &self,
        env: Env<'_, M>,
        pageset: &Pageset<M::Lock>,
        capture: Option<&Capture>,
        lock: impl Fn() -> Option<MachineGuard<'p, M::Lock>>,
    ) -> bool
    where
        M: 'p,
    {
        let nothing_waits = || self.nothing_waits(env, pageset);
        let mut is_empty = pageset.count() == 0 && nothing_waits();
        while !is_empty {
            let Some(mut pcp) = lock() else { return false };
            // The batch of a pageset that may keep nothing is 1. Short holds have a bound of their own, in blocks.
            let least = if env.tuning.backing.has_short_holds() && !pageset.may_keep() { OFFLINE_PAGES } else { 1 };
            let pages = (pcp.batch.get().max(1) << env.tuning.batch_scale_max).max(least);
            self.drain(env, &mut pcp, pages, 0, false, capture);
            is_empty = pcp.count() == 0;
            drop(pcp);
            // Others leave nothing more for a pageset that may keep nothing, but may have done so before they saw that.
            is_empty &= pageset.may_keep() || nothing_waits();
        }
        self.end_drain(env);
        true
    }
}

/// Free pages that are on no free list, and their way there. All who need every free page call `settle`, or the method of `ZoneGuard` of
/// that name with the lock of a region held.
impl<M: Machine> CachedZone<'_, M> {
    /// Moves the free pages of a scope to the free lists; of a whole zone also those of pagesets and of deferred frees. Waits for the lock of one
    /// pageset at a time, and under it for those of regions. The caller holds none. Pages that other CPUs free meanwhile may stay. Returns the scope of what is
    /// left to do.
    #[cfg_attr(not(feature = "rules"), inline(never))]
    pub(crate) fn settle(&self, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
        if scope == Scope::Zone {
            self.shared.complete_deferred(env);
            // An empty pageset of an offline CPU costs one read.
            self.cpus().for_each(|cpu| self.drain_cpu(env, cpu));
        }
        store::ALL.settle(&self.shared, env, scope)
    }

    /// As [`Self::settle`], until nothing is left to do.
    pub(crate) fn settle_all(&self, env: Env<'_, M>, scope: Scope) {
        let mut left = Some(scope);
        while let Some(scope) = left {
            left = self.settle(env, scope);
        }
    }

    /// Waits for the end of moves between pagesets and stores that have begun: a page that goes to a bitmap or comes from there is nowhere for a
    /// moment.
    pub(crate) fn finish_moves(&self, env: Env<'_, M>) {
        self.cpus().for_each(|cpu| drop(self.lock_pageset(env, cpu)));
    }

    fn cpus(&self) -> impl Iterator<Item = CpuId> + use<M> {
        (0..self.pagesets.len() as u32).map(CpuId)
    }
}
