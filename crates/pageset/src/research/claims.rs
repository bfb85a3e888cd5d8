//! Whole pageblocks in pagesets: refills claim them, allocations split blocks, drains merge them first, and frees go to the
//! pageset of a pageblock's owner. The rules of [`Backing::Claims`](crate::policy::Backing::Claims).
//!
//! Specification: `frontier.md` 1.3 to 1.5, 1.9.

use core::iter::successors;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::fence;

use crate::buddy::free::next;
use crate::buddy::{Capture, Stage, Wanted};
use crate::frame::{CpuId, MigrateType, Order, PageState, Tag, pageblocks};
use crate::machine::{Line, LockPath, Machine};
use crate::pcp::{CachedZone, Freed, Pageset, PcpGuard};
use crate::policy::OwnerRule;
use crate::store::{Cache, Visit};
use crate::sync::{self, LockedWord};
use crate::zone::{Env, Mismatch, Zone, ZoneGuard};

/// The most own pageblocks that a refill looks through with the zone lock held: 512 tags each, a few microseconds. A guess.
const OWN_BLOCKS: usize = 4;

/// Orders below the pageblock's.
fn parts() -> impl DoubleEndedIterator<Item = Order> + ExactSizeIterator {
    Order::all().take(Order::PAGEBLOCK.index())
}

/// Allocations and refills.
impl<M: Machine> CachedZone<'_, M> {
    /// Takes a block for a request from a pageset that refills with whole pageblocks, after a refill if no block is large enough. `None`
    /// if the pageset refills in another way: by other rules, or since it may keep nothing and gets the one block of the request.
    #[inline]
    pub(crate) fn refill_by_claims<G>(
        &self,
        env: Env<'_, M>,
        pcp: &mut PcpGuard<'_, M::Lock, G>,
        wanted: Wanted,
    ) -> Option<Option<u32>> {
        if !env.tuning.backing.claims() || !pcp.may_keep() {
            return None;
        }
        self.absorb(env, pcp);
        Some(self.take_fit(env, pcp, wanted).or_else(|| {
            let blocks = env.tuning.refill(pcp, wanted.order, self.shared.pressure()).0;
            pcp.update_threshold();
            self.refill_with_pageblocks(env, pcp, wanted, blocks << wanted.order.get());
            self.take_fit(env, pcp, wanted)
        }))
    }

    /// Takes the smallest sufficient block of the request's type in a pageset, and splits it. The upper halves stay. The zone lock is
    /// not held.
    fn take_fit<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, wanted: Wanted) -> Option<u32> {
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
    fn refill_with_pageblocks<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, wanted: Wanted, pages: u32) {
        let Some(guard) = self.shared.lock_for(env, LockPath::Refill, wanted) else { return };
        let mut refill = Refill { guard: &guard, pcp, wanted, left: u64::from(pages), got: 0, serves: false };
        refill.own_parts();
        if self.shared.pressure().is_none() {
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
    guard: &'r ZoneGuard<'g, 'a, M>,
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
        let list = self.guard.env.tuning.lists.list(order, kind);
        self.guard.zone.frames.set_tag(page, Tag::new(PageState::Cached, order, kind));
        if !list.is_some_and(|list| self.pcp.push(list, page)) {
            debug_assert!(false, "a pageset with room has none for page {page} of order {order}");
            return self.guard.free_block(page, order);
        }
        self.left = self.left.saturating_sub(order.pages());
        self.got += order.pages();
        self.serves |= order >= self.wanted.order;
    }

    /// Phase 0: the free blocks of some of the CPU's own pageblocks, if they are large enough for the request.
    fn own_parts(&mut self) {
        let (guard, owners) = (self.guard, self.guard.zone.research.owners);
        if !owners.are_kept() {
            return;
        }
        let mut last = None;
        for _ in 0..OWN_BLOCKS {
            let Some(slot) = owners.after(self.pcp.cpu(), last).filter(|_| self.left > 0) else { return };
            let start = slot << Order::PAGEBLOCK.get();
            if guard.zone.frames.block_type(start) != self.wanted.migratetype {
                last = Some(slot);
                continue;
            }
            owners.unlist(slot);
            let mut stays = false;
            guard.each_block(start, |page, state, order| {
                if state != PageState::Free || order >= Order::PAGEBLOCK {
                    return;
                }
                if order < self.wanted.order || !self.pcp.has_room() {
                    stays = true;
                    return;
                }
                guard.remove(page, order);
                self.add(page, order);
                sync::add(&guard.zone.research.own_parts, order.pages());
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
        let (guard, kind) = (self.guard, self.wanted.migratetype);
        let first =
            || Order::all().skip(Order::PAGEBLOCK.index()).find_map(|order| Some((order, guard.first(order, kind)?)));
        while self.left > 0
            && self.wanted.order <= Order::PAGEBLOCK
            && self.pcp.has_room()
            && let Some((order, page)) = first()
        {
            guard.remove(page, order);
            guard.split(page, order, Order::PAGEBLOCK, kind);
            self.add(page, Order::PAGEBLOCK);
            guard.zone.research.owners.claim(page, self.pcp.cpu());
            sync::add(&guard.zone.research.claimed_blocks, 1);
        }
    }

    /// Phase 2: the largest blocks below a pageblock that the type's own lists have.
    fn largest(&mut self) {
        let (guard, kind) = (self.guard, self.wanted.migratetype);
        for order in parts().skip(self.wanted.order.index()).rev() {
            while self.left > 0
                && self.pcp.has_room()
                && let Some(page) = guard.first(order, kind)
            {
                guard.remove(page, order);
                self.add(page, order);
            }
        }
    }

    /// Phase 3: blocks of the request's order, one at a time, also of other types.
    fn any(&mut self) {
        let mut stage = Stage::Own;
        while (self.left > 0 || !self.serves)
            && self.pcp.has_room()
            && let Some(page) = self.guard.take(self.wanted, &mut stage)
        {
            self.add(page, self.wanted.order);
        }
    }
}

/// Drains.
impl<M: Machine> CachedZone<'_, M> {
    /// Drains `wanted` pages by a rule of this folder. `None` if no such rule is on.
    #[inline]
    pub(crate) fn drain_by_research<G>(
        &self,
        env: Env<'_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        pages: u32,
        start: usize,
        capture: Option<&Capture>,
    ) -> Option<u32> {
        self.absorb(env, pcp);
        let wanted = pages.min(pcp.count());
        if wanted == 0 {
            return Some(0);
        }
        let merges = env.tuning.backing.merges_in_pageset();
        if merges {
            self.merge_in(env, pcp);
        }
        let drained = self.drain_by_old_rules(env, pcp, wanted, start, capture);
        // Lock order: pageset, then region.
        let largest = || drain_largest(&self.shared.lock(env, LockPath::Drain, 0), pcp, wanted, capture);
        drained.or_else(|| merges.then(largest))
    }

    /// Whether other CPUs have left nothing for a pageset that is about to be empty.
    pub(crate) fn nothing_waits(&self, env: Env<'_, M>, pageset: &Pageset<M::Lock>) -> bool {
        if env.tuning.backing.owners() == OwnerRule::List {
            // Pairs with the fence in leave_to_owner.
            fence(SeqCst);
        }
        !pageset.research.has_waiting()
    }

    /// Ends a drain of all pages of a pageset.
    pub(crate) fn end_drain(&self, env: Env<'_, M>) {
        if env.tuning.backing.owners() == OwnerRule::List || env.tuning.backing.merges_in_pageset() {
            // A pageset that may keep nothing defers the frees of what waited for it, and one without room those of merged blocks.
            self.shared.complete_deferred(env);
        }
    }

    /// Merges the blocks of a pageset with each other, from the smallest order up.
    ///
    /// A pass over a list writes a label into each block's links, which only blocks on free lists use. A block whose buddy has the
    /// label of this pass is on the same list.
    fn merge_in<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>) {
        // Only blocks that came since the last pass can merge.
        let came = pcp.free_pages.get() + pcp.refill_pages.get();
        if pcp.research.merged_at.get() == came {
            return;
        }
        pcp.research.merged_at.set(came);
        let frames = self.frames();
        for (order, kind) in parts().flat_map(|order| MigrateType::ORDINARY.map(|kind| (order, kind))) {
            let lists = [order, next(order)].map(|order| env.tuning.lists.list(order, kind));
            let [Some(list), Some(above)] = lists else { continue };
            let len = pcp.len(list);
            if len < 2 {
                continue;
            }
            let pass = pcp.research.merge_passes.get().wrapping_add(1);
            pcp.research.merge_passes.set(pass);
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
                sync::add(&pcp.research.merges, 1);
            }
        }
    }
}

/// Moves the largest blocks of a pageset to the zone until at least `wanted` pages have moved. Returns the number moved.
fn drain_largest<M: Machine, G>(
    guard: &ZoneGuard<'_, '_, M>,
    pcp: &PcpGuard<'_, M::Lock, G>,
    wanted: u32,
    capture: Option<&Capture>,
) -> u32 {
    let mut drained = 0;
    for (order, kind) in Order::all().rev().flat_map(|order| MigrateType::ORDINARY.map(|kind| (order, kind))) {
        let Some(list) = guard.env.tuning.lists.list(order, kind) else { continue };
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
    fn keeper(&self, env: Env<'_, M>, page: u32, cpu: CpuId) -> CpuId {
        if env.tuning.backing.owners() == OwnerRule::Off {
            return cpu;
        }
        let gets_more = |owner: &CpuId| {
            let pageset = &self.pagesets[owner.0 as usize];
            pageset.may_keep() && pageset.research.waiting() < pageset.high.get().max(pageset.batch.get())
        };
        self.shared.research.owners.of(page).filter(gets_more).unwrap_or(cpu)
    }

    /// Frees a block, whose tag is Cached, into the pageset of another CPU, if that gets it. `cpu` is the caller's. Returns false if the
    /// block still belongs to the caller.
    #[inline]
    pub(crate) fn free_to_owner(&self, env: Env<'_, M>, cpu: CpuId, freed: Freed, drain: bool) -> Option<bool> {
        let keeper = self.keeper(env, freed.page, cpu);
        (keeper != cpu).then(|| self.free_to(env, (keeper, cpu), freed, drain))
    }

    #[cold]
    fn free_to(&self, env: Env<'_, M>, (owner, cpu): (CpuId, CpuId), freed: Freed, drain: bool) -> bool {
        let pcp = match env.tuning.backing.owners() {
            OwnerRule::Off => None,
            OwnerRule::Wait => Some(self.lock_pageset(env, owner)),
            OwnerRule::Try => self.try_lock_pageset(env, owner),
            OwnerRule::List => {
                self.leave_to_owner(env, owner, freed.page, freed.order);
                return true;
            }
        };
        let Some(pcp) = pcp else { return false };
        sync::add(&pcp.research.owner_pages, freed.order.pages());
        self.free_into(env, pcp, cpu, freed, drain)
    }

    /// Puts a block on an owner's list. Waits for nothing.
    fn leave_to_owner(&self, env: Env<'_, M>, owner: CpuId, page: u32, order: Order) {
        let pageset = &self.pagesets[owner.0 as usize];
        env.touch(Line::OwnerList { zone: self.shared.index, cpu: owner });
        // Relaxed: only the sum counts. Added first, so that the owner does not subtract more than there is.
        pageset.research.waiting.fetch_add(order.pages() as u32, Relaxed);
        pageset.research.remote.push(page, |before| link(&self.shared, page).set(before));
        // Pairs with the fence in drain_all: that drain sees the block, or this call sees that the pageset may keep nothing. If its
        // lock is held, the drain that holds it looks once more when it has let go.
        fence(SeqCst);
        if !pageset.may_keep()
            && let Some(pcp) = self.try_lock_pageset(env, owner)
        {
            self.absorb(env, &pcp);
        }
    }

    /// Visits, for the audit, the blocks that other CPUs left for pagesets, until `visit` fails. Nobody takes one meanwhile.
    pub(crate) fn audit_waiting(&self, visit: &mut Visit<'_>) -> Result<(), Mismatch> {
        let frames = self.frames();
        let link = |page| if page < frames.len() { link(&self.shared, page).get() } else { 0 };
        for pageset in self.pagesets {
            let (counted, mut pages) = (pageset.research.waiting(), 0);
            // Each block has a page.
            for page in pageset.research.remote.blocks(link).take(counted as usize + 1) {
                let order = if page < frames.len() { frames.tag(page).order() } else { Order::ZERO };
                visit(page, order)?;
                pages += order.pages();
            }
            if pages != u64::from(counted) {
                return Err((None, "the pages that wait for an owner", counted.into(), pages));
            }
        }
        Ok(())
    }

    /// Takes what other CPUs left for a pageset.
    pub(crate) fn absorb<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>) {
        if env.tuning.backing.owners() != OwnerRule::List || pcp.research.remote.is_empty() {
            return;
        }
        env.touch(Line::OwnerList { zone: self.shared.index, cpu: pcp.cpu() });
        while pcp.has_room()
            && let Some(page) = pcp.research.remote.take(|page| link(&self.shared, page).get())
        {
            env.touch(Line::Page(self.frames().pfn(page)));
            let (order, kind) = (self.frames().tag(page).order(), self.frames().block_type(page));
            let may_keep = pcp.may_keep() && kind != MigrateType::Isolate;
            let list = env.tuning.lists.list(order, kind).filter(|_| may_keep);
            if list.is_some_and(|list| pcp.push(list, page)) {
                pcp.count.set(pcp.count.get() + order.pages() as u32);
                pcp.count_freed(order.pages());
                sync::add(&pcp.research.owner_pages, order.pages());
            } else {
                // The caller may wait for nothing: the next holder of the zone lock frees it.
                self.shared.defer(page);
            }
            // Last, and Release, which pairs with the acquire in ZoneView::stats: a reader that misses the page here finds it where it is now.
            pcp.research.waiting.fetch_sub(order.pages() as u32, Release);
        }
    }
}

/// The ends of ownerships.
impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// The pageblocks of a block, if it has whole ones, have no owner any more.
    #[inline]
    pub(crate) fn end_ownership(&self, page: u32, order: Order) {
        if order >= Order::PAGEBLOCK && self.zone.research.owners.are_kept() {
            pageblocks(page, order).for_each(|start| self.zone.research.owners.end(start));
        }
    }

    /// A block entered a free list: the ownership of whole pageblocks ends. A part is noted for its pageblock's owner.
    #[cold]
    pub(super) fn note_owned(&self, page: u32, order: Order) {
        if order < Order::PAGEBLOCK {
            return self.zone.research.owners.list(page);
        }
        self.end_ownership(page, order);
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Checks that no free pageblock has an owner, and that each owned pageblock with free blocks is on its owner's list.
    pub(super) fn check_owners(&self) -> Result<(), Mismatch> {
        let (frames, owners) = (&self.frames, &self.research.owners);
        let pages = Order::PAGEBLOCK.pages() as u32;
        for start in (0..owners.pageblocks()).map(|slot| slot * pages) {
            let Some(owner) = owners.of(start) else { continue };
            let is_free = |order: Order| frames.tag(start & !(order.pages() as u32 - 1)).is(PageState::Free, order);
            if Order::all().skip(Order::PAGEBLOCK.index()).any(is_free) {
                return Err((Some(start), "the owner of a free pageblock", 0, u64::from(owner.0) + 1));
            }
            let has_free = (start..start + pages).any(|page| frames.tag(page).state() == PageState::Free);
            let listed = || {
                successors(owners.after(owner, None), |&slot| owners.after(owner, Some(slot)))
                    .take(owners.pageblocks() as usize)
            };
            let is_listed = listed().any(|slot| slot * pages == start);
            let of_others = listed().find(|&slot| owners.of(slot * pages) != Some(owner));
            if let Some(slot) = of_others {
                return Err((Some(slot * pages), "a pageblock on the list of a CPU that does not own it", 0, 1));
            }
            if has_free && !is_listed {
                return Err((Some(start), "an owned pageblock with free blocks is on its owner's list", 1, 0));
            }
        }
        Ok(())
    }
}

/// The link of a block on an owner's list.
fn link<'z, M: Machine>(zone: &'z Zone<'_, M>, page: u32) -> &'z core::sync::atomic::AtomicU32 {
    let frames = &zone.frames;
    frames.links.next(frames.slot(page, frames.tag(page).order()))
}
