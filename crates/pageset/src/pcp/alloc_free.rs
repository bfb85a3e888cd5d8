//! Allocates and frees blocks through a pageset: one block, or many under one hold of its lock. The zone refills a list that
//! is empty.
//!
//! Specification: `linux-page-allocator.md` 2.3 to 2.5, 4.11.

use super::{CachedZone, MachineGuard, Pageset, PcpGuard};
use crate::buddy::Wanted;
use crate::frame::{CpuId, MigrateType, Order, PageState, Pfn, Tag};
use crate::machine::Machine;
use crate::policy::lists::order_of;
use crate::store::{self, Cache, Refill};
use crate::sync::{self, LockedWord};
use crate::zone::Env;

/// The most blocks that a bulk allocation takes under one hold of a pageset's lock: as many as [`Tuning::long_free_run`] puts in.
pub(crate) const TAKEN_PER_HOLD: usize = 512;

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

/// A free block that a pageset may get: its tag is Cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) page: u32,
    pub(crate) order: Order,
    /// The list for blocks of its order and of its pageblock's type.
    pub(crate) list: usize,
}

/// One block allocated. Specification 2.3, 2.4.
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
            self.shared.frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
        }
        from
    }

    /// Refills an empty list from the stores and takes the first block. Specification 2.4, 6.2.
    // Not inlined: a small build has it in the code of each caller else.
    #[cold]
    #[inline(never)]
    fn refill<G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        list: usize,
        wanted: Wanted,
    ) -> Option<u32> {
        if self.bypasses(env, pcp) {
            return None;
        }
        if let Some(page) = self.refill_by_claims(env, pcp, wanted) {
            return page;
        }
        if !pcp.has_room() && wanted.waits {
            self.make_room(env, pcp, list);
        }
        self.borrow_for(env, pcp, pcp.high.get().max(pcp.count()) + wanted.order.pages() as u32);
        // Frees drain only the list that they fill. Blocks of other lists would stay until a tick, and each refill would bring little: the
        // other lists make room first.
        let room = env.tuning.refill_room(pcp, wanted.order);
        if wanted.waits && pcp.high_max.get().saturating_sub(pcp.count()) < room {
            self.drain(env, pcp, room, list + 1, false, None);
        }
        let blocks = env.tuning.refill(pcp, wanted.order, self.shared.pressure()).0;
        pcp.update_threshold();
        let (region, leaves) = (pcp.region.get() as usize, self.may_leave(pcp));
        let refill =
            Refill { zone: &self.shared, env, list, wanted, region, held: None, leaves, batch: pcp.batch.get() };
        let taken = store::refill(&refill, pcp, blocks);
        let pages = u64::from(taken) * wanted.order.pages();
        pcp.count.set(pcp.count.get() + pages as u32);
        sync::add(&pcp.refills, u64::from(taken > 0));
        sync::add(&pcp.refill_pages, pages);
        pcp.pop(list)
    }

    /// Whether blocks go to and from the free lists directly, since the pageset may keep nothing: under the rule
    /// [`Tuning::kept_fraction`]. In the kernels each is refilled or drained by itself.
    #[inline]
    pub(crate) fn bypasses(&self, env: Env<'_, M>, pageset: &Pageset<M::Lock>) -> bool {
        env.tuning.kept_fraction > 0 && !pageset.may_keep()
    }

    /// Whether refills and drains of this pageset may leave blocks in stores that hide them: while the zone has memory, and the pageset may keep pages.
    pub(super) fn may_leave<G>(&self, pcp: &PcpGuard<'_, M::Lock, G>) -> bool {
        pcp.may_keep() && self.shared.pressure().is_none()
    }
}

/// One block freed. Specification 2.5, 4.11.
impl<M: Machine> CachedZone<'_, M> {
    /// Puts a block into a CPU's pageset, and drains the pages that are due. If `drain` is false,
    /// only a pageset that may keep nothing is drained. Returns false if the pageset is busy or has no room: the block
    /// then still belongs to the caller.
    #[inline]
    pub(crate) fn free_cached(&self, env: Env<'_, M>, cpu: CpuId, freed: Freed, drain: bool) -> bool {
        if let Some(done) = self.free_to_owner(env, cpu, freed, drain) {
            return done;
        }
        let Some(pcp) = self.try_lock_pageset(env, cpu) else { return false };
        self.free_into(env, pcp, cpu, freed, drain)
    }

    /// The rest of [`Self::free_cached`], with the lock of a pageset held. `cpu` is the caller's.
    #[inline(always)]
    pub(crate) fn free_into(
        &self,
        env: Env<'_, M>,
        mut pcp: MachineGuard<'_, M::Lock>,
        cpu: CpuId,
        Freed { page, order, list }: Freed,
        drain: bool,
    ) -> bool {
        self.borrow_for(env, &pcp, pcp.count() + order.pages() as u32);
        // A free that must not drain leaves the pageset within its share, and every free one that may keep nothing.
        let has_room = drain && pcp.may_keep() || order.pages() as u32 + pcp.count() <= pcp.high_max.get();
        if env.tuning.kept_fraction > 0 && !has_room {
            return false;
        }
        let Some(due) = self.put(env, &mut pcp, Freed { page, order, list }, drain) else { return false };
        if due > 0 && (drain || !pcp.may_keep()) {
            drop(self.drain_after_free(env, pcp, due, list, cpu));
        }
        true
    }

    /// Puts a freed block on its list. Drains others where there is no room, if `drain` allows that. Returns the pages that are due to
    /// be drained, or `None` without room.
    #[cfg_attr(feature = "rules", inline(always))]
    #[cfg_attr(not(feature = "rules"), inline(never))]
    fn put<G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        Freed { page, order, list }: Freed,
        drain: bool,
    ) -> Option<u32> {
        if !(pcp.push(list, page) || drain && self.make_room(env, pcp, list) && pcp.push(list, page)) {
            return None;
        }
        let due = env.tuning.commit(pcp, order, self.shared.pressure());
        pcp.update_threshold();
        pcp.count_freed(order.pages());
        Some(due)
    }

    /// Drains the pages that are due after a free, and clears "below high" of a zone that is above its high mark again.
    /// Returns the lock of the pageset to the caller, unless another thread took it between two chunks.
    #[cold]
    fn drain_after_free<'p>(
        &'p self,
        env: Env<'p, M>,
        pcp: MachineGuard<'p, M::Lock>,
        due: u32,
        list: usize,
        cpu: CpuId,
    ) -> Option<MachineGuard<'p, M::Lock>> {
        let pageset = pcp.pageset;
        // Chunked: the drain stops early if another thread holds the pageset meanwhile, or if the caller has moved to
        // another CPU.
        let relock = || if env.machine.cpu() == cpu { self.try_lock_again(env, pageset, pageset.cpu()) } else { None };
        let pcp = self.drain_in_holds(env, pcp, due, list, true, relock);
        self.shared.clear_below_high();
        pcp
    }
}

/// The chunks that the lists share.
impl<M: Machine> CachedZone<'_, M> {
    /// Makes room for a list that needs a chunk: drains the oldest blocks of another list where there is no chunk left, or of the list
    /// itself. Returns whether there is one now.
    #[cold]
    #[inline(never)]
    fn make_room<G>(&self, env: Env<'_, M>, pcp: &mut PcpGuard<'_, M::Lock, G>, list: usize) -> bool {
        let lists = env.tuning.lists.count();
        if env.tuning.kept_fraction > 0
            && !pcp.can_grow()
            && let Some(other) = (list + 1..lists).chain(0..=list).find(|&other| !pcp.list(other).is_empty())
        {
            if other == list {
                // The arrays have room for the pageset's own share in single pages. More in larger blocks may fit. As at a free above high.
                pcp.high.set(pcp.high.get().min(pcp.count()));
                let (order, limit) = (order_of(list), pcp.count());
                let due = env.tuning.drain_amount(pcp, order, false, limit);
                self.drain(env, pcp, due, list, true, None);
            }
            // Of another list, or what a drain smaller than the chunk has left of it.
            if !pcp.can_grow() {
                let pages = (pcp.oldest(other).len() as u32) << order_of(other).get();
                self.drain(env, pcp, pages, other, false, None);
            }
        }
        pcp.can_grow()
    }
}

/// Many blocks under one hold of the pageset's lock. Specification 2.3, 2.5 "Batched free".
impl<M: Machine> CachedZone<'_, M> {
    /// Allocates blocks until `blocks` is full, the list is empty, or 512 are taken. Ends after the first block if that needed
    /// a refill: the zone then has fewer pages, and the next block may come from another zone.
    ///
    /// Returns the number of blocks: 0 if the zone had none for a refill, `None` if another thread holds the
    /// pageset.
    pub(crate) fn alloc_run(
        &self,
        env: Env<'_, M>,
        cpu: CpuId,
        list: usize,
        wanted: Wanted,
        blocks: &mut [Pfn],
    ) -> Option<usize> {
        let mut pcp = self.try_lock_pageset(env, cpu)?;
        let got = self.take_run_apart(env, &mut pcp, list, wanted.order, wanted.migratetype, blocks);
        if got > 0 {
            return Some(got);
        }
        if env.tuning.bulk_counts {
            // The attempt that needs a refill counts as an allocation as well.
            env.tuning.on_allocs(&mut pcp, 1);
        }
        let Some(slot) = blocks.first_mut() else { return Some(0) };
        let Some(page) = self.refill(env, &mut pcp, list, wanted) else { return Some(0) };
        let frames = &self.shared.frames;
        frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
        *slot = frames.pfn(page);
        env.tuning.on_take(&mut pcp, wanted.order.pages() as u32);
        Some(1)
    }

    /// As [`Self::take_run`], as a call.
    #[inline(never)]
    pub(crate) fn take_run_apart<G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        list: usize,
        order: Order,
        migratetype: MigrateType,
        blocks: &mut [Pfn],
    ) -> usize {
        self.take_run(env, pcp, list, order, migratetype, blocks)
    }

    /// Takes blocks of a list, until `blocks` is full: at most [`TAKEN_PER_HOLD`], since the lock of the pageset is held.
    /// Returns their number.
    #[inline(always)]
    pub(crate) fn take_run<G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        list: usize,
        order: Order,
        migratetype: MigrateType,
        blocks: &mut [Pfn],
    ) -> usize {
        let (blocks, _) = blocks.split_at_mut(blocks.len().min(TAKEN_PER_HOLD));
        let allocated = Tag::new(PageState::Allocated, order, migratetype);
        // Copies: the compiler would read the zone's own words again after each store.
        let (tags, base) = (self.shared.frames.tags, self.shared.frames.base.0);
        let give = |slot: &mut Pfn, page: u32| {
            // A block of a list has a tag. An index that may panic costs the loop its registers.
            if let Some(tag) = tags.get(page as usize) {
                tag.set(allocated.0);
            }
            *slot = Pfn(base + u64::from(page));
        };
        let mut got = 0;
        while let Some(rest) = blocks.get_mut(got..).filter(|rest| !rest.is_empty()) {
            let run = pcp.pop_run(list, rest.len());
            env.tuning.on_take(pcp, (run.len() as u32) << order.get());
            // Eight at a time, at constant places: the loop's own instructions and its tests count once for eight blocks.
            let (odd, eights) = run.as_rchunks::<8>();
            let (front, back) = rest[..run.len()].split_at_mut(8 * eights.len());
            for (slots, pages) in front.as_chunks_mut::<8>().0.iter_mut().zip(eights.iter().rev()) {
                for at in 0..8 {
                    give(&mut slots[at], pages[7 - at].get());
                }
            }
            back.iter_mut().zip(odd.iter().rev()).for_each(|(slot, page)| give(slot, page.get()));
            got += run.len();
            if run.is_empty() {
                let Some(page) = pcp.pop(list) else { break };
                env.tuning.on_take(pcp, order.pages() as u32);
                give(&mut rest[0], page);
                got += 1;
            }
        }
        if got > 0 && env.tuning.bulk_counts {
            env.tuning.on_allocs(pcp, got as u32);
        }
        got
    }

    /// Puts blocks into a CPU's pageset, and drains the pages that are due after each. Returns the number of blocks. It is
    /// smaller if another thread holds the pageset, if the pageset has no room, or if another thread took its lock during a drain.
    pub(crate) fn free_run(&self, env: Env<'_, M>, cpu: CpuId, blocks: impl Iterator<Item = Freed>) -> usize {
        let Some(mut pcp) = self.try_lock_pageset(env, cpu) else { return 0 };
        let mut done = 0;
        for Freed { page, order, list } in blocks {
            self.borrow_for(env, &pcp, pcp.count() + order.pages() as u32);
            let Some(due) = self.put(env, &mut pcp, Freed { page, order, list }, true) else { break };
            done += 1;
            if due > 0 {
                match self.drain_after_free(env, pcp, due, list, cpu) {
                    Some(held) => pcp = held,
                    None => break,
                }
            }
        }
        done
    }
}
