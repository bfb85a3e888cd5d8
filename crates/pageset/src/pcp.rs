//! The per-CPU pageset: arrays of block numbers in front of the zone lock.
//!
//! Allocations pop the newest block of a list and frees push there; drains take the oldest. What one call reads and
//! writes of a pageset is its first cache line and the line of one list head. Specification:
//! `linux-page-allocator.md` 2 and 3.

mod runs;
mod whole;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use crate::attempt::Attempt;
use crate::chunks::{self, Pool, Stack};
use crate::compact::capture::Capture;
use crate::fallback::Mode;
use crate::frame::{CpuId, Order, PageState, Tag};
use crate::machine::{Guard, Line, LockPath, Machine, RawLock};
use crate::migrate::MigrateType;
use crate::request::{Request, Wait};
use crate::tuning::expiry::Expiry;
use crate::tuning::state::{State, words};
use crate::tuning::{Bounds, BulkFree, Decay, ListRule, PcpState, Tuning};
use crate::word::{self, Held};
use crate::zone::Zone;

/// Lists of a pageset: three types for each of orders 0 to 3, two for huge pages. Specification 2.1.
pub const LISTS: usize = 14;
const FIRST_HUGE_LIST: usize = 12;

/// One CPU's cache of one zone's pages. Specification 2.1.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Pageset<L> {
    lock: L,
    /// [`PcpState::free_factor`] before patch 10.
    free_factor: AtomicU8,
    alloc_factor: AtomicU8,
    prev_high_order: AtomicBool,
    large_cache: AtomicBool,
    count: AtomicU32,
    high: AtomicU32,
    high_min: AtomicU32,
    high_max: AtomicU32,
    batch: AtomicU32,
    free_count: AtomicU32,
    count_min: AtomicU32,
    /// Pages taken back through this pageset. Those handed out follow from it: see [`Pageset::alloc_pages`].
    pub(crate) free_pages: AtomicU64,

    lists: [Stack; LISTS],

    pub(crate) refills: AtomicU64,
    pub(crate) refill_pages: AtomicU64,
    pub(crate) drains: AtomicU64,
    pub(crate) drain_pages: AtomicU64,

    /// Pages handed out and taken back until the last tick, together.
    seen_pages: AtomicU64,
    /// [`Expiry::left`].
    expire: AtomicU8,

    /// Pages that its lists have room for, together.
    capacity: AtomicU32,
    pool: Pool,
}

// The layout that the fast path counts on: the state in the first line, no list head across two lines, all in 256
// bytes. One call touches the first line and one list head's. (A model checker's lock is larger.)
#[cfg(not(all(loom, test)))]
const _: () = {
    use crate::machine::SpinLock;
    assert!(size_of::<Pageset<SpinLock>>() <= 256);
    assert!(core::mem::offset_of!(Pageset<SpinLock>, lists) <= 64);
    assert!(core::mem::offset_of!(Pageset<SpinLock>, lists) % 8 == 0);
    assert!(64 % size_of::<Stack>() == 0);
};

/// The words of the arrays of a pageset that holds `capacity` pages.
pub(crate) const fn array_words(capacity: u32) -> u64 {
    chunks::words(capacity, LISTS as u32)
}

/// The capacity that lets a pageset reach `high` pages: a batch, what a cluster brings beyond it, and a block of each
/// cached order may enter before a drain.
pub(crate) const fn capacity_for(high: u32, batch: u32) -> u32 {
    high + 4 * batch + 64
}

impl ListRule {
    /// The list of blocks of this order and type, or nothing where they are not cached. Specification 2.1.
    #[inline]
    #[must_use]
    pub fn list(self, order: Order, migratetype: MigrateType) -> Option<usize> {
        let small = match self {
            Self::OrderZero => Order::ZERO,
            _ => Order::COSTLY,
        };
        // HIGHATOMIC and CMA pages wait among the movable ones.
        let kind = if migratetype.is_ordinary() { migratetype } else { MigrateType::Movable };
        if order == Order::ZERO {
            return Some(kind.index());
        }
        if order <= small {
            return Some(3 * order.index() + kind.index());
        }
        match self {
            Self::HugeShared if order == Order::PAGEBLOCK => Some(FIRST_HUGE_LIST),
            Self::HugeByMobility if order == Order::PAGEBLOCK => {
                Some(FIRST_HUGE_LIST + usize::from(migratetype == MigrateType::Movable))
            }
            _ => None,
        }
    }

    /// How many lists there are.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::OrderZero => 3,
            Self::ToCostly => 12,
            Self::HugeShared => 13,
            Self::HugeByMobility => 14,
        }
    }
}

/// The order of the blocks on a list.
#[must_use]
pub fn order_of(list: usize) -> Order {
    if list < FIRST_HUGE_LIST { Order::new((list / 3) as u8).unwrap_or(Order::ZERO) } else { Order::PAGEBLOCK }
}

impl<L: RawLock> Pageset<L> {
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, L>> {
        Guard::try_lock(&self.lock)
    }

    pub(crate) fn lock(&self) -> Guard<'_, L> {
        Guard::lock(&self.lock)
    }

    /// Pages held, as of some recent moment.
    pub(crate) fn count(&self) -> u32 {
        self.count.get()
    }

    /// Pages handed out: what came, less what went otherwise and what is here. One counter less for the fast path.
    pub(crate) fn alloc_pages(&self) -> u64 {
        let came = self.refill_pages.get().wrapping_add(self.free_pages.get());
        came.wrapping_sub(self.drain_pages.get()).wrapping_sub(u64::from(self.count.get()))
    }

    pub(crate) fn batch(&self) -> u32 {
        self.batch.get()
    }

    /// Single pages that have room for certain; the lock is held. Each page is at least an entry's worth.
    fn room(&self) -> u32 {
        self.capacity.get().saturating_sub(self.count.get())
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.get()
    }

    /// Gives its lists their memory, which starts at word `start` of the zone's arrays.
    pub(crate) fn place(&self, start: u32, capacity: u32) {
        self.pool.place(start, array_words(capacity) as u32);
        self.capacity.set(capacity);
    }

    /// New bounds; `high` itself follows at once where nothing tunes it, else at its next use.
    pub(crate) fn set_bounds(&self, bounds: Bounds, tunes: bool, large_cache: bool) {
        self.batch.set(bounds.batch);
        self.high_min.set(bounds.high_min);
        self.high_max.set(bounds.high_max);
        self.large_cache.set(large_cache);
        if !tunes {
            self.high.set(bounds.high_min);
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> PcpState {
        PcpState {
            count: self.count.get(),
            high: self.high.get(),
            high_min: self.high_min.get(),
            high_max: self.high_max.get(),
            batch: self.batch.get(),
            free_count: self.free_count.get(),
            count_min: self.count_min.get(),
            free_factor: self.free_factor.get(),
            alloc_factor: self.alloc_factor.get(),
            prev_high_order: self.prev_high_order.get(),
            large_cache: self.large_cache.get(),
        }
    }

    /// Writes back what the state machine may have changed; the bounds and the cache flag are not among it.
    #[inline]
    pub(crate) fn set_state(&self, s: &PcpState) {
        self.count.set(s.count);
        self.high.set(s.high);
        self.free_count.set(s.free_count);
        self.count_min.set(s.count_min);
        self.free_factor.set(s.free_factor);
        self.alloc_factor.set(s.alloc_factor);
        self.prev_high_order.set(s.prev_high_order);
    }

    /// What the pages that lie idle since the last ticks ask for; the lock is held.
    fn expire(&self, remote: bool, all: bool) -> Decay {
        // Both only grow, so that their sum tells whether anything came or went, at no cost to who brings or takes it.
        let pages = self.alloc_pages().wrapping_add(self.free_pages.get());
        let used = pages != self.seen_pages.get();
        self.seen_pages.set(pages);
        let mut expiry = Expiry { left: self.expire.get() };
        let asked = expiry.tick(used, remote, self.count(), self.batch(), all);
        self.expire.set(expiry.left);
        asked
    }

    /// The blocks on a list, from the oldest on; the lock is held.
    pub(crate) fn blocks<'w>(&self, arrays: &'w [AtomicU32], list: usize) -> impl Iterator<Item = u32> + use<'w, L> {
        self.lists[list].iter(arrays)
    }

    /// How many there are; the lock is held.
    pub(crate) fn len(&self, arrays: &[AtomicU32], list: usize) -> u32 {
        self.lists[list].len(arrays)
    }
}

macro_rules! state_in_pageset {
    ($($get:ident $(/ $set:ident)?: $type:ty,)*) => {
        /// The words where they are; the lock is held.
        impl<L> State for &Pageset<L> {
            $(
                #[inline]
                fn $get(&self) -> $type {
                    self.$get.get()
                }
                $(
                    #[inline]
                    fn $set(&mut self, value: $type) {
                        self.$get.set(value);
                    }
                )?
            )*
        }
    };
}
words!(state_in_pageset);

/// The lists that a round-robin drain takes from, one entry a block. Specification 3.2.
struct RoundRobin {
    cursor: usize,
    run: u32,
    lists: usize,
}

impl RoundRobin {
    fn new(tuning: &Tuning) -> Self {
        // A batch of movable pages alone is found in the first round if they come last in it. Specification 6.3.
        let cursor = if tuning.cluster_free { MigrateType::Movable.index() } else { 0 };
        RoundRobin { cursor, run: 0, lists: tuning.lists.count() }
    }

    /// The next list to take a block from while `wanted` pages remain to be drained.
    fn next(&mut self, wanted: u32, is_empty: impl Fn(usize) -> bool) -> usize {
        if self.run == 0 || is_empty(self.cursor) {
            loop {
                self.cursor = (self.cursor + 1) % self.lists;
                self.run += 1;
                if !is_empty(self.cursor) {
                    break;
                }
            }
            if self.run as usize == self.lists {
                self.run = wanted;
            }
        }
        self.run -= 1;
        self.cursor
    }
}

/// What came of asking a pageset for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FromCache {
    Page(u32),
    /// One that was there only after the zone had filled it.
    Refilled(u32),
    /// Another thread holds it.
    Busy,
    /// It was empty and the zone had nothing to fill it with, or was busy for a caller that waits for nothing.
    Empty,
}

impl<'a, M: Machine> Zone<'a, M> {
    fn pageset(&self, machine: &M, cpu: CpuId) -> &Pageset<M::Lock> {
        machine.touch(Line::Pageset { zone: self.index, cpu });
        &self.pagesets[cpu.0 as usize]
    }

    /// Takes one block through a pageset.
    #[inline]
    pub(crate) fn alloc_cached(
        &self,
        machine: &M,
        tuning: &Tuning,
        cpu: CpuId,
        list: usize,
        request: &Request,
        attempt: Attempt,
    ) -> FromCache {
        let pcp = self.pageset(machine, cpu);
        let Some(_guard) = pcp.try_lock() else {
            return FromCache::Busy;
        };
        let mut state = pcp;
        tuning.on_alloc(&mut state);
        let from = match pcp.lists[list].pop(self.arrays, &pcp.pool) {
            Some(page) => FromCache::Page(page),
            None => {
                self.refill(machine, tuning, pcp, list, request, attempt).map_or(FromCache::Empty, FromCache::Refilled)
            }
        };
        if let FromCache::Page(page) | FromCache::Refilled(page) = from {
            tuning.on_take(&mut state, request.order.pages() as u32);
            self.frames.set_tag(page, Tag::new(PageState::Allocated, request.order, request.migratetype));
        }
        from
    }

    /// Fills an empty list and takes the first block: under one hold of the zone lock, or two where whole clusters did
    /// not make it all. Specification 2.4, 6.2.
    #[cold]
    fn refill(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        request: &Request,
        attempt: Attempt,
    ) -> Option<u32> {
        let wanted = attempt.wanted(self, request);
        let blocks = tuning.refill(&mut &*pcp, wanted.order, self.pressure()).0;
        // Lock order: pageset, then zone.
        let mut zone = Some(self.lock_for(machine, LockPath::Refill, request.wait)?);
        let cut = self.cut_clusters(machine, tuning, wanted, blocks, pcp.room());
        let mut taken = 0;
        if cut.first().is_some() {
            self.in_flight.begin();
            drop(zone.take());
            taken = self.take_in(machine, tuning, pcp, list, &cut, wanted);
            self.in_flight.end();
        }
        if taken < blocks
            && let Some(_zone) = zone.or_else(|| self.lock_for(machine, LockPath::Refill, request.wait))
        {
            let mut mode = Mode::default();
            taken += pcp.lists[list].fill(self.arrays, &pcp.pool, blocks - taken, || {
                let page = self.take(machine, tuning, wanted, &mut mode)?;
                let kind = self.remembered_type(tuning, page, wanted.migratetype);
                self.frames.set_tag(page, Tag::new(PageState::Cached, wanted.order, kind));
                Some(page)
            });
        }
        let pages = u64::from(taken) * wanted.order.pages();
        pcp.count.set(pcp.count.get() + pages as u32);
        word::add(&pcp.refills, u64::from(taken > 0));
        word::add(&pcp.refill_pages, pages);
        pcp.lists[list].pop(self.arrays, &pcp.pool)
    }

    /// The type that a cached page carries: its pageblock's. Specification 2.6.
    fn remembered_type(&self, tuning: &Tuning, page: u32, fallback: MigrateType) -> MigrateType {
        if tuning.type_at_drain { fallback } else { self.frames.block_type(page) }
    }

    /// Puts a block whose tag is Cached into a pageset and drains what is due. False when the pageset is busy or
    /// has no room: the block is then the caller's.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "all of a free's inputs")]
    pub(crate) fn free_cached(
        &self,
        machine: &M,
        tuning: &Tuning,
        cpu: CpuId,
        list: usize,
        page: u32,
        order: Order,
        drain: bool,
    ) -> bool {
        let pcp = self.pageset(machine, cpu);
        let Some(guard) = pcp.try_lock() else { return false };
        if !pcp.lists[list].push(self.arrays, &pcp.pool, page) {
            return false;
        }
        let due = tuning.commit(&mut &*pcp, order, self.pressure());
        word::add(&pcp.free_pages, order.pages());
        // A pageset that may keep nothing is drained even for those who drain nothing else.
        if due == 0 || !drain && pcp.high_max.get() > 0 {
            return true;
        }
        drop(self.drain_committed(machine, tuning, pcp, guard, due, list, cpu));
        true
    }

    /// Drains what is due after a free, and looks whether the zone is above its high mark again. Gives the lock back to
    /// the caller unless it was given up.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "all of a drain's inputs")]
    fn drain_committed<'p>(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &'p Pageset<M::Lock>,
        guard: Guard<'p, M::Lock>,
        due: u32,
        list: usize,
        cpu: CpuId,
    ) -> Option<Guard<'p, M::Lock>> {
        // Chunked: what is left is given up when another holds the pageset meanwhile, or this is another CPU by now.
        let relock = || (machine.cpu() == cpu).then(|| pcp.try_lock()).flatten();
        let guard = self.drain_due(machine, tuning, pcp, guard, due, list, relock);
        self.clear_below_high();
        guard
    }

    /// Drains what the rules ask for: at once, or a batch a hold of the pageset's lock, which the caller has again
    /// afterwards unless `relock` refused it. Specification 3.3, "E7".
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "all of a drain's inputs")]
    fn drain_due<'p>(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &'p Pageset<M::Lock>,
        guard: Guard<'p, M::Lock>,
        mut due: u32,
        list: usize,
        relock: impl Fn() -> Option<Guard<'p, M::Lock>>,
    ) -> Option<Guard<'p, M::Lock>> {
        let chunk = if tuning.bulk_free == BulkFree::Chunked { pcp.batch.get() } else { due };
        let mut guard = Some(guard);
        while guard.is_some() {
            self.drain(machine, tuning, pcp, due.min(chunk), list, None);
            due = due.saturating_sub(chunk);
            if due == 0 {
                break;
            }
            // Between chunks others get at the pageset.
            drop(guard.take());
            guard = relock();
        }
        guard
    }

    /// Moves about `pages` pages, oldest first, from a pageset to the buddy; its lock is held. Specification 3.
    /// What becomes a block that a compaction waits for is captured.
    pub(crate) fn drain(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        pages: u32,
        start: usize,
        capture: Option<&Capture>,
    ) {
        let wanted = pages.min(pcp.count());
        if wanted == 0 {
            return;
        }
        let drained = if self.drains_cluster(tuning, pcp, wanted, start) {
            self.drain_cluster(machine, tuning, pcp, wanted)
        } else {
            self.drain_blocks(machine, tuning, pcp, wanted, start, capture)
        };
        pcp.count.set(pcp.count.get() - drained);
        word::add(&pcp.drains, 1);
        word::add(&pcp.drain_pages, u64::from(drained));
    }

    fn drain_blocks(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        wanted: u32,
        start: usize,
        capture: Option<&Capture>,
    ) -> u32 {
        // Lock order: pageset, then zone.
        let _zone = self.lock(machine, LockPath::Drain);
        match tuning.bulk_free {
            // Which blocks go, and in which order, is the same whether they were picked before or under the lock.
            BulkFree::PickLocked | BulkFree::TwoPass => self.drain_round_robin(machine, tuning, pcp, wanted, capture),
            BulkFree::SinglePass | BulkFree::Chunked => {
                self.drain_whole_lists(machine, tuning, pcp, wanted, start, capture)
            }
        }
    }

    fn drain_round_robin(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        wanted: u32,
        capture: Option<&Capture>,
    ) -> u32 {
        let mut turns = RoundRobin::new(tuning);
        let mut drained = 0;
        while drained < wanted {
            let list = turns.next(wanted - drained, |list| pcp.lists[list].is_empty());
            drained += self.drain_one(machine, tuning, pcp, list, capture).unwrap_or(0);
        }
        drained
    }

    fn drain_whole_lists(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        wanted: u32,
        start: usize,
        capture: Option<&Capture>,
    ) -> u32 {
        let lists = tuning.lists.count();
        let mut drained = 0;
        for list in (start..lists).chain(0..start) {
            while drained < wanted {
                let Some(pages) = self.drain_one(machine, tuning, pcp, list, capture) else { break };
                drained += pages;
            }
        }
        drained
    }

    /// Moves the oldest block of a list; returns its pages.
    fn drain_one(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        capture: Option<&Capture>,
    ) -> Option<u32> {
        let page = pcp.lists[list].pop_oldest(self.arrays, &pcp.pool)?;
        let order = order_of(list);
        self.free_or_capture(machine, tuning, page, order, self.drained_type(tuning, page), capture);
        Some(order.pages() as u32)
    }

    /// The list that a drained block goes to; the zone lock is held. Specification 2.6.
    fn drained_type(&self, tuning: &Tuning, page: u32) -> MigrateType {
        let block_type = self.frames.block_type(page);
        if tuning.type_at_drain || block_type == MigrateType::Isolate {
            block_type
        } else {
            self.frames.tag(page).kind().unwrap_or(block_type)
        }
    }

    /// The once-a-second decay of one pageset, and the expiry of pages of another node (`remote`). True when another tick
    /// has more to do. Specification 4.7, 8.2.
    pub(crate) fn tick(&self, machine: &M, tuning: &Tuning, cpu: CpuId, remote: bool) -> bool {
        let pcp = self.pageset(machine, cpu);
        let guard = pcp.lock();
        let decay = tuning.decay(&mut &*pcp);
        let _guard = self.drain_due(machine, tuning, pcp, guard, decay.drain, 0, || Some(pcp.lock()));
        let expired = pcp.expire(remote, tuning.expire_all);
        self.drain(machine, tuning, pcp, expired.drain, 0, None);
        tuning.end_tick(&mut &*pcp);
        decay.more || expired.more
    }

    /// Empties one pageset. One that looks empty without its lock is taken for that: a page that comes in meanwhile stays,
    /// where the pageset may keep it. Whoever has just told it to keep nothing had its lock, and so sees all that came
    /// before.
    pub(crate) fn drain_cpu(&self, machine: &M, tuning: &Tuning, cpu: CpuId) {
        self.drain_or_capture(machine, tuning, cpu, None);
    }

    /// As [`Self::drain_cpu`], for a compaction that waits for a block.
    pub(crate) fn drain_or_capture(&self, machine: &M, tuning: &Tuning, cpu: CpuId, capture: Option<&Capture>) {
        let pcp = self.pageset(machine, cpu);
        if pcp.count() == 0 {
            return;
        }
        // A lock hold is bounded. Specification 8.1.
        loop {
            let _guard = pcp.lock();
            self.drain(machine, tuning, pcp, pcp.batch.get().max(1) << tuning.batch_scale_max, 0, capture);
            if pcp.count() == 0 {
                break;
            }
        }
    }

    /// As [`Self::lock`], where the lock is free.
    pub(crate) fn try_lock(&self, machine: &M, path: LockPath) -> Option<ZoneGuard<'_, 'a, M>> {
        machine.locking(self.index, path);
        let guard = Guard::try_lock(&self.lock)?;
        // What it does with the lock may wait for refills on their way, and one of them may be what it interrupted.
        (self.in_flight.refills() == 0).then(|| self.locked(machine, path, guard))
    }

    /// Takes the zone lock and counts the hold.
    pub(crate) fn lock(&self, machine: &M, path: LockPath) -> ZoneGuard<'_, 'a, M> {
        machine.locking(self.index, path);
        self.locked(machine, path, Guard::lock(&self.lock))
    }

    /// The same for a caller that may wait for nothing: only where the lock is free.
    pub(crate) fn lock_for(&self, machine: &M, path: LockPath, wait: Wait) -> Option<ZoneGuard<'_, 'a, M>> {
        if wait != Wait::Nothing {
            return Some(self.lock(machine, path));
        }
        let guard = Guard::try_lock(&self.lock)?;
        // What it does with the lock may wait for refills on their way, and one of them may be what it interrupted.
        (self.in_flight.refills() == 0).then(|| self.locked(machine, path, guard))
    }

    #[inline]
    fn locked<'z>(&'z self, machine: &M, path: LockPath, guard: Guard<'z, M::Lock>) -> ZoneGuard<'z, 'a, M> {
        machine.touch(Line::Zone { zone: self.index });
        word::add(&self.holds[path as usize], 1);
        ZoneGuard { zone: self, _guard: guard }
    }
}

/// Holds a zone's lock until dropped.
#[derive(Debug)]
pub(crate) struct ZoneGuard<'z, 'a, M: Machine> {
    zone: &'z Zone<'a, M>,
    _guard: Guard<'z, M::Lock>,
}

impl<M: Machine> Drop for ZoneGuard<'_, '_, M> {
    fn drop(&mut self) {
        // Before the lock is given back: the fields are dropped after this.
        self.zone.note_plenty();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::tuning::ListRule;
    use crate::tuning::presets::LINUX_4_17;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Specification 3.2 word by word: pages taken from each list when `n` are drained.
    fn as_specified(lens: &[u32], n: u32) -> Vec<u32> {
        let (mut left, mut n, mut cursor, mut run) = (lens.to_vec(), n.min(lens.iter().sum()), 0, 0);
        while n > 0 {
            loop {
                cursor = (cursor + 1) % lens.len();
                run += 1;
                if left[cursor] > 0 {
                    break;
                }
            }
            if run == lens.len() as u32 {
                run = n;
            }
            let take = run.min(left[cursor]).min(n);
            left[cursor] -= take;
            n -= take;
            run -= take;
        }
        lens.iter().zip(left).map(|(len, left)| len - left).collect()
    }

    fn taken(lists: ListRule, lens: &[u32], n: u32) -> Vec<u32> {
        let mut turns = RoundRobin::new(&Tuning { lists, ..LINUX_4_17 });
        let (mut left, n) = (lens.to_vec(), n.min(lens.iter().sum()));
        for done in 0..n {
            let list = turns.next(n - done, |list| left[list] == 0);
            left[list] -= 1;
        }
        lens.iter().zip(left).map(|(len, left)| len - left).collect()
    }

    #[test]
    fn round_robin_by_hand() {
        for (lens, n, expected) in [
            // One of each in turn, from list 1 on.
            ([9, 9, 9], 4, [1, 2, 1]),
            // Only one list has pages: it gives all.
            ([0, 0, 9], 5, [0, 0, 5]),
            // List 2 gives one, the empty list 0 and 1 make the next run of list 2 three, which means all the rest.
            ([0, 1, 9], 7, [0, 1, 6]),
            // List 1 is skipped once: 2 of list 2, one of list 0, 2 of list 2, one of list 0.
            ([9, 0, 9], 6, [2, 0, 4]),
            // The remainder is carried over: list 2 had one of its two, so list 0 gives two.
            ([9, 0, 1], 3, [2, 0, 1]),
        ] {
            assert_eq!(taken(ListRule::OrderZero, &lens, n), expected, "{lens:?}, {n}");
            assert_eq!(as_specified(&lens, n), expected, "{lens:?}, {n}");
        }
    }

    proptest! {
        #[test]
        fn round_robin_is_as_specified(
            three in prop::collection::vec(0..40_u32, 3),
            // Mostly empty lists, so that runs are carried over.
            thirteen in prop::collection::vec(prop_oneof![Just(0), Just(0), 0..5_u32, 0..40_u32], 13),
            n in 1..150_u32,
        ) {
            prop_assert_eq!(taken(ListRule::OrderZero, &three, n), as_specified(&three, n));
            prop_assert_eq!(taken(ListRule::HugeShared, &thirteen, n), as_specified(&thirteen, n));
        }
    }
}
