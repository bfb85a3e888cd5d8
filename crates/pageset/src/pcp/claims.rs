//! Whole pageblocks in pagesets: refills claim them, allocations split blocks, drains merge them first, and frees go to the
//! pageset of a pageblock's owner. The rules [`Tuning::claim_blocks`](crate::Tuning::claim_blocks),
//! [`Tuning::merge_blocks`](crate::Tuning::merge_blocks) and [`Tuning::owners`](crate::Tuning::owners).
//!
//! Specification: `frontier.md` 1.3 to 1.5, 1.9.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::fence;

use super::{CachedZone, PcpGuard};
use crate::buddy::free::next;
use crate::buddy::{Capture, Env, Locked, Stage, Wanted};
use crate::frame::{CpuId, MigrateType, Order, PageState, Tag};
use crate::machine::{Line, LockPath, Machine};
use crate::policy::{OwnerRule, Pressure};
use crate::store::Cache;
use crate::sync::{self, LockedWord};
use crate::zone::Zone;

/// The most own pageblocks that a refill looks through with the zone lock held: 512 tags each, a few microseconds. A guess.
const OWN_BLOCKS: usize = 4;

/// Orders below the pageblock's.
fn parts() -> impl DoubleEndedIterator<Item = Order> + ExactSizeIterator {
    Order::all().take(Order::PAGEBLOCK.index())
}

/// Allocations and refills.
impl<M: Machine> CachedZone<'_, M> {
    /// Takes the smallest sufficient block of the request's type in a pageset, and splits it. The upper halves stay. The zone lock is
    /// not held.
    pub(super) fn take_fit<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, wanted: Wanted) -> Option<u32> {
        let list = |order| env.tuning.lists.list(order, wanted.migratetype);
        let orders = Order::all().skip(wanted.order.index());
        let (from, page) = { orders }.find_map(|order| Some((order, pcp.pop(list(order)?)?)))?;
        for order in Order::all().take(from.index()).skip(wanted.order.index()).rev() {
            let half = page + order.pages() as u32;
            env.touch(Line::Page(self.frames().pfn(half)));
            self.frames().set_tag(half, Tag::new(PageState::Cached, order, wanted.migratetype));
            self.put_back(pcp, list(order), half, order);
        }
        Some(page)
    }

    /// Puts a block of a pageset on a list. If there is no room, the next holder of the zone lock frees it: the caller may wait for
    /// nothing.
    fn put_back<G>(&self, pcp: &PcpGuard<'_, M::Lock, G>, list: Option<usize>, page: u32, order: Order) {
        if !list.is_some_and(|list| pcp.push(list, page)) {
            // The block counts as allocated, and as freed.
            pcp.count.set(pcp.count.get() - order.pages() as u32);
            self.shared.defer(page);
        }
    }

    /// Refills a pageset with about `pages` pages, in one hold of the zone lock: with free parts of its CPU's own pageblocks, with
    /// whole pageblocks, with the largest blocks of the request's type, and with what any type has.
    pub(super) fn refill_with_pageblocks<G>(
        &self,
        env: Env<'_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        wanted: Wanted,
        pages: u32,
    ) {
        let Some(zone) = self.shared.lock_for(env, LockPath::Refill, wanted, 0) else { return };
        let mut refill = Refill { zone: &zone, pcp, wanted, left: u64::from(pages), got: 0, serves: false };
        refill.own_parts();
        if self.shared.pressure() == Pressure::default() {
            refill.pageblocks();
        }
        refill.largest();
        refill.any();
        let got = refill.got;
        pcp.count.set(pcp.count.get() + got as u32);
        sync::add(&pcp.refills, u64::from(got > 0));
        sync::add(&pcp.refill_pages, got);
    }
}

/// A refill in progress, with the zone lock held.
struct Refill<'r, 'g, 'a, M: Machine, G> {
    zone: &'r Locked<'g, 'a, M>,
    pcp: &'r PcpGuard<'r, M::Lock, G>,
    wanted: Wanted,
    /// Pages that are still wanted, and pages taken.
    left: u64,
    got: u64,
    /// Whether a block is large enough for the request.
    serves: bool,
}

impl<M: Machine, G> Refill<'_, '_, '_, M, G> {
    /// Puts a block, which is on no list, into the pageset.
    fn add(&mut self, page: u32, order: Order) {
        let kind = self.wanted.migratetype;
        let list = self.zone.tuning().lists.list(order, kind);
        self.zone.frames.set_tag(page, Tag::new(PageState::Cached, order, kind));
        if !list.is_some_and(|list| self.pcp.push(list, page)) {
            debug_assert!(false, "a pageset with room has none for page {page} of order {order}");
            return self.zone.free_block(page, order, self.zone.frames.block_type(page));
        }
        self.left = self.left.saturating_sub(order.pages());
        self.got += order.pages();
        self.serves |= order >= self.wanted.order;
    }

    /// Phase 0: the free blocks of some of the CPU's own pageblocks, if they are large enough for the request.
    fn own_parts(&mut self) {
        let (zone, owners) = (self.zone, self.zone.owners);
        if !owners.are_kept() {
            return;
        }
        let mut last = None;
        for _ in 0..OWN_BLOCKS {
            let Some(slot) = owners.after(self.pcp.cpu(), last).filter(|_| self.left > 0) else { return };
            let start = slot << Order::PAGEBLOCK.get();
            if zone.frames.block_type(start) != self.wanted.migratetype {
                last = Some(slot);
                continue;
            }
            owners.unlist(slot);
            let mut stays = false;
            zone.each_block(start, |page, state, order| {
                if state != PageState::Free || order >= Order::PAGEBLOCK {
                    return;
                }
                if order < self.wanted.order || !self.pcp.has_room() {
                    stays = true;
                    return;
                }
                zone.remove(page, order);
                self.add(page, order);
                sync::add(&zone.own_parts, order.pages());
            });
            if stays {
                owners.list(start);
                // At the end of the list now: the next one takes its place.
                if owners.after(self.pcp.cpu(), last) == Some(slot) {
                    return;
                }
            }
        }
    }

    /// Phase 1: whole free pageblocks of the type. The CPU becomes their owner.
    fn pageblocks(&mut self) {
        let (zone, kind) = (self.zone, self.wanted.migratetype);
        let first =
            || Order::all().skip(Order::PAGEBLOCK.index()).find_map(|order| Some((order, zone.first(order, kind)?)));
        while self.left > 0
            && self.wanted.order <= Order::PAGEBLOCK
            && self.pcp.has_room()
            && let Some((order, page)) = first()
        {
            zone.remove(page, order);
            zone.split(page, order, Order::PAGEBLOCK, kind);
            self.add(page, Order::PAGEBLOCK);
            zone.owners.claim(page, self.pcp.cpu());
            sync::add(&zone.claimed_blocks, 1);
        }
    }

    /// Phase 2: the largest blocks below a pageblock that the type's own lists have.
    fn largest(&mut self) {
        let (zone, kind) = (self.zone, self.wanted.migratetype);
        for order in parts().skip(self.wanted.order.index()).rev() {
            while self.left > 0
                && self.pcp.has_room()
                && let Some(page) = zone.first(order, kind)
            {
                zone.remove(page, order);
                self.add(page, order);
            }
        }
    }

    /// Phase 3: blocks of the request's order, one at a time, also of other types.
    fn any(&mut self) {
        let mut stage = Stage::default();
        while (self.left > 0 || !self.serves)
            && self.pcp.has_room()
            && let Some(page) = self.zone.take(self.wanted, &mut stage)
        {
            self.add(page, self.wanted.order);
        }
    }
}

/// Drains.
impl<M: Machine> CachedZone<'_, M> {
    /// Merges the blocks of a pageset with each other, from the smallest order up.
    ///
    /// A pass over a list writes a label into each block's links, which only blocks on free lists use. A block whose buddy has the
    /// label of this pass is on the same list.
    pub(super) fn merge_in<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>) {
        // Only blocks that came since the last pass can merge.
        let came = pcp.free_pages.get() + pcp.refill_pages.get();
        if pcp.merged_at.get() == came {
            return;
        }
        pcp.merged_at.set(came);
        let frames = self.frames();
        for (order, kind) in parts().flat_map(|order| MigrateType::ORDINARY.map(|kind| (order, kind))) {
            let lists = [order, next(order)].map(|order| env.tuning.lists.list(order, kind));
            let [Some(list), Some(above)] = lists else { continue };
            let len = pcp.len(list);
            if len < 2 {
                continue;
            }
            let pass = pcp.merge_passes.get().wrapping_add(1);
            pcp.merge_passes.set(pass);
            // No slot of a free list has such a number: spans end well below.
            let label = u32::MAX - 1 - pcp.cpu().0;
            for page in pcp.blocks(list) {
                env.touch(Line::Page(frames.pfn(page)));
                frames.links.next(page).set(label);
                frames.links.prev(page).set(pass);
            }
            let is_here = |page: u32| {
                page < frames.len()
                    && frames.tag(page).is(PageState::Cached, order)
                    && (frames.links.next(page).get(), frames.links.prev(page).get()) == (label, pass)
            };
            for _ in 0..len {
                let Some(page) = pcp.pop_oldest(list) else { break };
                let buddy = page ^ order.pages() as u32;
                if !is_here(page) {
                    // It has merged with a block that came before it.
                    continue;
                }
                if !is_here(buddy) {
                    self.put_back(pcp, Some(list), page, order);
                    continue;
                }
                let head = page.min(buddy);
                frames.links.next(page).set(0);
                frames.links.next(buddy).set(0);
                frames.set_tag(head, Tag::new(PageState::Cached, next(order), kind));
                frames.set_tag(page.max(buddy), Tag::INSIDE);
                self.put_back(pcp, Some(above), head, next(order));
                sync::add(&pcp.merges, 1);
            }
        }
    }
}

/// Moves the largest blocks of a pageset to the zone until at least `wanted` pages have moved. Returns the number moved.
pub(super) fn drain_largest<M: Machine, G>(
    guard: &Locked<'_, '_, M>,
    pcp: &PcpGuard<'_, M::Lock, G>,
    wanted: u32,
    capture: Option<&Capture>,
) -> u32 {
    let mut drained = 0;
    for (order, kind) in Order::all().rev().flat_map(|order| MigrateType::ORDINARY.map(|kind| (order, kind))) {
        let Some(list) = guard.tuning().lists.list(order, kind) else { continue };
        while drained < wanted {
            let Some(pages) = guard.drain_one(pcp, list, capture) else { break };
            drained += pages;
        }
    }
    drained
}

/// Frees of pages whose pageblock another CPU owns.
impl<M: Machine> CachedZone<'_, M> {
    /// The CPU whose pageset gets a block that `cpu` frees: the owner of its pageblock, unless that may keep nothing, or as many pages
    /// wait for it as it may keep.
    #[inline]
    pub(super) fn keeper(&self, env: Env<'_, M>, page: u32, cpu: CpuId) -> CpuId {
        if env.tuning.owners == OwnerRule::Off {
            return cpu;
        }
        let gets_more = |owner: &CpuId| {
            let pageset = &self.pagesets[owner.0 as usize];
            pageset.may_keep() && pageset.waiting.get() < pageset.high.get().max(pageset.batch())
        };
        self.shared.buddy.owners.of(page).filter(gets_more).unwrap_or(cpu)
    }

    /// Frees a block, whose tag is Cached, into the pageset of another CPU. `cpu` is the caller's. Returns false if the block still
    /// belongs to the caller.
    #[cold]
    pub(super) fn free_to_owner(
        &self,
        env: Env<'_, M>,
        (owner, cpu): (CpuId, CpuId),
        list: usize,
        page: u32,
        order: Order,
        drain: bool,
    ) -> bool {
        let pcp = match env.tuning.owners {
            OwnerRule::Off => None,
            OwnerRule::Wait => Some(self.lock_pageset(env, owner)),
            OwnerRule::Try => self.try_lock_pageset(env, owner),
            OwnerRule::List => {
                self.leave_to_owner(env, owner, page, order);
                return true;
            }
        };
        let Some(pcp) = pcp else { return false };
        sync::add(&pcp.owner_pages, order.pages());
        self.free_into(env, pcp, cpu, list, page, order, drain)
    }

    /// Puts a block on an owner's list. Waits for nothing.
    fn leave_to_owner(&self, env: Env<'_, M>, owner: CpuId, page: u32, order: Order) {
        let pageset = &self.pagesets[owner.0 as usize];
        env.touch(Line::OwnerList { zone: self.shared.index, cpu: owner });
        // Relaxed: only the sum counts. Added first, so that the owner does not subtract more than there is.
        pageset.waiting.fetch_add(order.pages() as u32, Relaxed);
        pageset.remote.push(page, |before| link(&self.shared, page).set(before));
        // Pairs with the fence in drain_all: that drain sees the block, or this call sees that the pageset may keep nothing. If its
        // lock is held, the drain that holds it looks once more when it has let go.
        fence(SeqCst);
        if !pageset.may_keep()
            && let Some(pcp) = self.try_lock_pageset(env, owner)
        {
            self.absorb(env, &pcp);
        }
    }

    /// Takes what other CPUs left for each pageset.
    pub(crate) fn absorb_all(&self, env: Env<'_, M>) {
        for (cpu, pageset) in (0..).map(CpuId).zip(self.pagesets) {
            if !pageset.remote.is_empty() {
                self.absorb(env, &self.lock_pageset(env, cpu));
            }
        }
    }

    /// Takes what other CPUs left for a pageset.
    pub(super) fn absorb<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>) {
        if env.tuning.owners != OwnerRule::List || pcp.remote.is_empty() {
            return;
        }
        env.touch(Line::OwnerList { zone: self.shared.index, cpu: pcp.cpu() });
        while pcp.has_room()
            && let Some(page) = pcp.remote.take(|page| link(&self.shared, page).get())
        {
            env.touch(Line::Page(self.frames().pfn(page)));
            let (order, kind) = (self.frames().tag(page).order(), self.frames().block_type(page));
            let may_keep = pcp.may_keep() && kind != MigrateType::Isolate;
            let list = env.tuning.lists.list(order, kind).filter(|_| may_keep);
            if list.is_some_and(|list| pcp.push(list, page)) {
                pcp.count.set(pcp.count.get() + order.pages() as u32);
                pcp.count_freed(order.pages());
                sync::add(&pcp.owner_pages, order.pages());
            } else {
                // The caller may wait for nothing: the next holder of the zone lock frees it.
                self.shared.defer(page);
            }
            // Last, and Release, which pairs with the acquire in zone_stats: a reader that misses the page here finds it where it is now.
            pcp.waiting.fetch_sub(order.pages() as u32, Release);
        }
    }
}

/// The link of a block on an owner's list.
pub(crate) fn link<'z, M: Machine>(zone: &'z Zone<'_, M>, page: u32) -> &'z core::sync::atomic::AtomicU32 {
    let frames = &zone.buddy.frames;
    frames.links.next(frames.slot(page, frames.tag(page).order()))
}
