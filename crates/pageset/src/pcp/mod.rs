//! The per-CPU pagesets in front of a zone's lock: allocation, free, refill, drain. Uses `frame`, `machine`, `policy`, `zone`,
//! `buddy`, `store`.
//!
//! A pageset is an array of block numbers per order and migratetype. Allocations pop the newest block of a list and frees
//! push there; drains take the oldest. One call reads and writes the first cache line of the pageset, the line of one
//! list head, and the line of the block's number, which is at most four lines away from the head. Specification: `linux-page-allocator.md` 2 and 3.
//!
//! | module | contents |
//! | --- | --- |
//! | `alloc_free` | blocks allocated, with the refill, and freed: one, or many under one hold of the pageset's lock |
//! | `guard` | the guard of a pageset's lock |
//! | `research` | what the rules of the layer `research` keep |
//! | `drain` | blocks that go to the buddy: after a free, once a second, on request; the way of all hidden pages there |
//! | `shares` | what a pageset may keep, and what it borrows from idle ones |
//! | `stack` | the arrays of the lists |

mod alloc_free;
mod drain;
mod guard;
#[cfg(feature = "research")]
pub(crate) mod research;
#[cfg(not(feature = "research"))]
#[path = "no_research.rs"]
pub(crate) mod research;
mod shares;
pub(crate) mod stack;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

use crate::frame::{CpuId, Frames, Order};
use crate::machine::{CpuHint, Guard, HintGuard, Line, Machine};
use crate::policy::lists::{LISTS, order_of};
use crate::policy::{BULK, Bounds, PcpState};
use crate::store;
use crate::sync::{self, AtomicU64, LockedWord, const_new};
use crate::zone::region::Region;
use crate::zone::{Env, Zone};

pub(crate) use alloc_free::{Freed, FromCache, TAKEN_PER_HOLD};

pub(crate) use guard::{HintedGuard, MachineGuard, PcpGuard};
use research::PcpResearch;
use shares::Shares;
pub(crate) use stack::Place;
use stack::{Pool, Stack};

/// One CPU's cache of one zone's pages. Specification 2.1.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Pageset<L> {
    lock: L,
    /// [`PcpState::free_factor`] before patch 10.
    free_factor: AtomicU8,
    pub(crate) alloc_factor: AtomicU8,
    pub(crate) block_factor: AtomicU8,
    pub(crate) prev_high_order: AtomicBool,
    pub(crate) count: AtomicU32,
    pub(crate) high: AtomicU32,
    high_min: AtomicU32,
    high_max: AtomicU32,
    pub(crate) batch: AtomicU32,
    pub(crate) free_count: AtomicU32,
    count_min: AtomicU32,
    /// Below this count a free drains nothing and leaves `high` as it is, in a zone under no pressure: `high` if it is within
    /// its bounds, else 0. In pages.
    pub(crate) drain_threshold: AtomicU32,
    /// From this value on `free_count` no longer grows, in pages.
    pub(crate) free_count_cap: AtomicU32,
    /// Blocks of orders 1 to 3 drain nothing before so many pages were freed in a row, nor below this count.
    pub(crate) costly_frees: AtomicU32,
    pub(crate) costly_room: AtomicU32,
    /// Pages freed through this pageset. The number of allocated pages follows from it: [`Pageset::alloc_pages`].
    pub(crate) free_pages: AtomicU64,

    lists: [Stack; LISTS],

    /// The value of `free_pages` at which `alloc_factor`, `block_factor` and `prev_high_order` were written. Every later page was freed
    /// by itself, which halves the exponents and ends a row of frees of orders 1 to 3: [`Pageset::catch_up`].
    caught_up_at: AtomicU64,

    pub(crate) refills: AtomicU64,
    pub(crate) refill_pages: AtomicU64,
    pub(crate) drains: AtomicU64,
    pub(crate) drain_pages: AtomicU64,

    /// Pages allocated plus pages freed and, under the kernels' rule, drained, as of the last tick.
    seen_pages: AtomicU64,
    /// [`Expiry::left`].
    expire: AtomicU8,
    /// Whether the CPU has much of the last-level cache, as `Tuning::large_cache` says. The fast path reads `costly_room` instead.
    large_cache: AtomicBool,

    /// The capacity of all lists together, in pages.
    pub(crate) capacity: AtomicU32,
    /// Pages of the zone's share that the pageset may keep beyond its own: [`Shares`].
    pub(crate) loan: AtomicU32,
    /// The region that the next refill tries first. A hint.
    pub(crate) region: AtomicU32,
    /// Pages that drains left in a store, and that refills took from there, without a lock of the zone.
    pub(crate) unlocked_pages: AtomicU64,
    /// The CPU that the pageset belongs to.
    cpu: AtomicU32,
    pub(crate) research: PcpResearch,
    pool: Pool,
}

// The layout that the fast path relies on: the state is in the first line, no list head crosses a line. (A model checker's lock is
// larger.)
#[cfg(not(all(loom, test)))]
const _: () = {
    use crate::machine::SpinLock;
    assert!(core::mem::offset_of!(Pageset<SpinLock>, lists) <= 64);
};

/// The number of words of the arrays of a pageset with some lists that holds `capacity` pages. If `shares`, some of its lists at a time.
pub(crate) const fn array_words(capacity: u32, lists: usize, shares: bool) -> u64 {
    // Both ends of a list may be in chunks that are partly used.
    let partly = if shares && 2 * lists as u32 > capacity { capacity } else { 2 * lists as u32 };
    stack::words(capacity, if shares && partly > stack::PARTLY_USED { stack::PARTLY_USED } else { partly })
}

/// The entries in the arrays of a pageset with some capacity. Without the feature `bulk`, the arrays have 1.5 KiB: more pages fit in
/// larger blocks only, and a list of single pages drains where the arrays are full.
pub(crate) fn within_build(capacity: u32) -> u32 {
    if BULK { capacity } else { capacity.min(14 * stack::ENTRIES) }
}

/// The capacity for a pageset that reaches `high` pages. Before a drain, a batch, the excess of a cluster, and a block
/// of each cached order may enter.
pub(crate) const fn capacity_for(high: u32, batch: u32) -> u32 {
    high + 4 * batch + 64
}

impl<L: Default> Default for Pageset<L> {
    fn default() -> Self {
        Pageset::new(L::default())
    }
}

impl<L> Pageset<L> {
    const_new! {
        /// A pageset without pages and without room for them, behind an open lock.
        #[must_use]
        #[inline]
        pub fn new(lock: L) -> Self {
            Pageset {
                lock,
                free_factor: AtomicU8::new(0),
                alloc_factor: AtomicU8::new(0),
                block_factor: AtomicU8::new(0),
                prev_high_order: AtomicBool::new(false),
                large_cache: AtomicBool::new(false),
                count: AtomicU32::new(0),
                high: AtomicU32::new(0),
                high_min: AtomicU32::new(0),
                high_max: AtomicU32::new(0),
                batch: AtomicU32::new(0),
                free_count: AtomicU32::new(0),
                count_min: AtomicU32::new(0),
                drain_threshold: AtomicU32::new(0),
                free_count_cap: AtomicU32::new(0),
                costly_frees: AtomicU32::new(0),
                costly_room: AtomicU32::new(0),
                free_pages: AtomicU64::new(0),
                lists: [const { Stack::new() }; LISTS],
                caught_up_at: AtomicU64::new(0),
                refills: AtomicU64::new(0),
                refill_pages: AtomicU64::new(0),
                drains: AtomicU64::new(0),
                drain_pages: AtomicU64::new(0),
                seen_pages: AtomicU64::new(0),
                expire: AtomicU8::new(0),
                capacity: AtomicU32::new(0),
                loan: AtomicU32::new(0),
                region: AtomicU32::new(0),
                unlocked_pages: AtomicU64::new(0),
                cpu: AtomicU32::new(0),
                research: PcpResearch::new(),
                pool: Pool::new(),
            }
        }
    }

    /// Pages in the pageset at a recent moment.
    pub(crate) fn count(&self) -> u32 {
        self.count.get()
    }

    /// Pages in the pageset, and pages that other CPUs left for it, at a recent moment.
    fn pages(&self) -> u64 {
        u64::from(self.count()) + u64::from(self.research.waiting())
    }

    /// Pages allocated: pages that entered, minus pages that left by a drain, minus pages in the pageset. This saves
    /// the fast path a counter.
    ///
    /// Without the lock the words may be of different moments. If more pages have left than entered, the result is 0.
    pub(crate) fn alloc_pages(&self) -> u64 {
        let gone = self.drain_pages.get() + u64::from(self.count.get());
        (self.refill_pages.get() + self.free_pages.get()).saturating_sub(gone)
    }

    /// Numbers that tell whether the pageset has changed: the pages that it holds, which only fall while no other number grows. The lock is
    /// held.
    pub(crate) fn version(&self) -> [u64; 6] {
        let [came, waiting] = self.research.version();
        [
            self.count.get().into(),
            self.free_pages.get() + self.refill_pages.get(),
            self.drain_pages.get(),
            came,
            waiting,
            self.high_max.get().into(),
        ]
    }

    /// Single pages that were freed since [`Self::catch_up`].
    #[inline]
    fn behind(&self) -> u64 {
        self.free_pages.get().wrapping_sub(self.caught_up_at.get())
    }

    /// `alloc_factor`, `block_factor` and `prev_high_order` with the frees since they were written.
    fn refill_state(&self) -> ([u8; 2], bool) {
        let singles = self.behind();
        let factors = [&self.alloc_factor, &self.block_factor].map(|factor| factor.get() >> singles.min(7));
        (factors, self.prev_high_order.get() && singles == 0)
    }

    /// Brings `alloc_factor`, `block_factor` and `prev_high_order` up to date. The fast path writes neither when it frees single pages.
    #[inline]
    pub(crate) fn catch_up(&self) {
        if self.behind() > 0 {
            let ([alloc_factor, block_factor], prev_high_order) = self.refill_state();
            self.alloc_factor.set(alloc_factor);
            self.block_factor.set(block_factor);
            self.prev_high_order.set(prev_high_order);
            self.caught_up_at.set(self.free_pages.get());
        }
    }

    /// Counts pages that were freed, after the state machine has noted the free.
    #[inline]
    pub(crate) fn count_freed(&self, pages: u64) {
        sync::add(&self.free_pages, pages);
        sync::add(&self.caught_up_at, pages);
    }

    /// High watermarks, or few online CPUs, can lead to bounds above the capacity.
    pub(crate) fn within_capacity(&self, bounds: Bounds) -> Bounds {
        let [high_min, high_max] = [bounds.high_min, bounds.high_max].map(|high| high.min(self.capacity.get()));
        Bounds { high_min, high_max, ..bounds }
    }

    /// The CPU that the pageset belongs to.
    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.cpu.get())
    }

    /// Sets the pageset's CPU, the lists' memory, which starts at word `start` of the zone's arrays, and the region of the first refill.
    pub(crate) fn place(&self, cpu: CpuId, start: u32, words: u32, capacity: u32, region: usize) {
        self.cpu.set(cpu.0);
        self.region.set(region as u32);
        self.pool.place(start, words);
        self.capacity.set(capacity);
    }

    /// A list by its number. Without the lock, only its emptiness is meaningful.
    #[inline(always)]
    pub(crate) fn list(&self, list: usize) -> &Stack {
        debug_assert!(list < LISTS, "list {list}");
        // No panic in a release build: it would happen with the lock held, and the fast path would need a frame for it.
        self.lists.get(list).unwrap_or(&self.lists[0])
    }

    /// Whether the pageset may keep any pages.
    pub(crate) fn may_keep(&self) -> bool {
        self.high_max.get() > 0
    }

    /// The state at a recent moment.
    pub(crate) fn state(&self) -> PcpState {
        let ([alloc_factor, block_factor], prev_high_order) = self.refill_state();
        PcpState {
            count: self.count.get(),
            high: self.high.get(),
            high_min: self.high_min.get(),
            high_max: self.high_max.get(),
            batch: self.batch.get(),
            free_count: self.free_count.get(),
            count_min: self.count_min.get(),
            free_factor: self.free_factor.get(),
            alloc_factor,
            block_factor,
            prev_high_order,
            large_cache: self.large_cache.get(),
        }
    }
}

/// The memory for a zone's metadata, on the zone's node where a machine has several. Each slice has exactly the length that
/// [`crate::Config::zone_metadata_size`] gives; a longer static is lent in part, as `&TAGS[..size.tags]`. The tags and words
/// must be zero. Memory that the operating system zeroes on first touch is best, since most of it is never touched.
#[derive(Debug)]
pub struct ZoneMetadata<'a, L> {
    /// A tag for each page of the span, then a byte for each pageblock.
    pub tags: &'a [AtomicU8],
    /// The words of links, clusters, pageset arrays, depots, owners and bitmaps.
    pub words: &'a [AtomicU32],
    /// A pageset for each possible CPU.
    pub pagesets: &'a [Pageset<L>],
    /// The regions of the zone.
    pub regions: &'a [Region<L>],
}

// Derived, both would need a lock that can be copied.
impl<L> Copy for ZoneMetadata<'_, L> {}

impl<L> Clone for ZoneMetadata<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

/// A zone with the pagesets in front of it, one per possible CPU.
#[derive(Debug)]
pub struct CachedZone<'a, M: Machine> {
    /// The part that all CPUs share.
    pub(crate) shared: Zone<'a, M>,
    pub(crate) pagesets: &'a [Pageset<M::Lock>],
    /// How often the pagesets are disabled; written under the lock of changes.
    pub(crate) disabled: AtomicU32,
    /// The bounds that the pagesets of online CPUs have, or will have soon; written under the lock of changes.
    pub(crate) bounds: SharedBounds,
    pub(crate) shares: Shares,
    /// The arrays of all pagesets' lists.
    pub(crate) arrays: &'a [AtomicU32],
}

impl<'a, M: Machine> CachedZone<'a, M> {
    const_new! {
        /// A zone without pages, with the memory for its metadata. [`crate::Allocator::new`] fills the zone in.
        #[must_use]
        #[inline]
        pub fn new(metadata: ZoneMetadata<'a, M::Lock>) -> Self {
            let mut zone = CachedZone {
                shared: Zone::new(),
                pagesets: &[],
                disabled: AtomicU32::new(0),
                bounds: SharedBounds { batch: AtomicU32::new(0), high_min: AtomicU32::new(0), high_max: AtomicU32::new(0) },
                shares: Shares::new(),
                arrays: &[],
            };
            zone.set_metadata(metadata);
            zone
        }
    }

    /// Gives the zone its memory, before it is filled in: which tags are the pages' and which words are the pagesets' is not known yet.
    pub(crate) const fn set_metadata(&mut self, metadata: ZoneMetadata<'a, M::Lock>) {
        let ZoneMetadata { tags, words, pagesets, regions } = metadata;
        self.shared.frames.tags = tags;
        self.shared.regions = regions;
        self.arrays = words;
        self.pagesets = pagesets;
    }

    /// The memory that the zone was given, before it is filled in.
    pub(crate) fn metadata(&self) -> ZoneMetadata<'a, M::Lock> {
        let Zone { frames, regions, .. } = &self.shared;
        ZoneMetadata { tags: frames.tags, words: self.arrays, pagesets: self.pagesets, regions }
    }

    /// The metadata of the zone's pages.
    #[inline(always)]
    pub(crate) fn frames(&self) -> &Frames<'a> {
        &self.shared.frames
    }

    /// Whether a drain of a CPU's pageset may give a block of an order: for orders up to 3 if it has as many pages, since pages may
    /// merge; above, if it has a block that is large enough. At a recent moment.
    pub(crate) fn may_serve(&self, cpu: CpuId, order: Order) -> bool {
        let pageset = &self.pagesets[cpu.0 as usize];
        let has_block = |list| order_of(list) >= order && !pageset.list(list).is_empty();
        pageset.research.waiting() > 0
            || u64::from(pageset.count()) >= order.pages() && (order <= Order::COSTLY || (0..LISTS).any(has_block))
    }

    /// Pages in the pagesets, on the lists of owners, in depots, and of deferred frees, at a recent moment.
    pub(crate) fn cached_pages(&self) -> u64 {
        let pagesets: u64 = self.pagesets.iter().map(Pageset::pages).sum();
        pagesets + store::cached_pages(&self.shared) + self.shared.deferred_pages()
    }

    /// The guard of a pageset whose lock `guard` holds.
    #[inline(always)]
    fn held<'p, G>(&'p self, pageset: &'p Pageset<M::Lock>, guard: G) -> PcpGuard<'p, M::Lock, G> {
        PcpGuard { pageset, words: &self.arrays, _guard: guard }
    }

    #[inline(always)]
    fn pageset(&self, env: Env<'_, M>, cpu: CpuId) -> &Pageset<M::Lock> {
        env.touch(Line::Pageset { zone: self.shared.index, cpu });
        &self.pagesets[cpu.0 as usize]
    }

    /// The lock of a CPU's pageset, if it is free, for a caller that expects to run on that CPU.
    #[inline(always)]
    pub(crate) fn try_lock_pageset<'p>(&'p self, env: Env<'p, M>, cpu: CpuId) -> Option<MachineGuard<'p, M::Lock>> {
        self.try_lock_again(env, self.pageset(env, cpu), cpu)
    }

    /// As [`Self::try_lock_pageset`], for a caller that has just had the lock.
    #[inline(always)]
    fn try_lock_again<'p>(
        &'p self,
        env: Env<'p, M>,
        pageset: &'p Pageset<M::Lock>,
        cpu: CpuId,
    ) -> Option<MachineGuard<'p, M::Lock>> {
        if !env.machine.try_lock_pageset(&pageset.lock, cpu) {
            return None;
        }
        pageset.catch_up();
        Some(self.held(pageset, Guard(&pageset.lock)))
    }

    /// As [`Self::try_lock_pageset`], by a hint of the CPU.
    #[inline(always)]
    pub(crate) fn try_lock_hinted<'p, H: CpuHint<M::Lock>>(
        &'p self,
        env: Env<'p, M>,
        hint: H,
    ) -> Option<HintedGuard<'p, M::Lock, H>> {
        let pageset = self.pagesets.get(hint.cpu() as usize)?;
        env.touch(Line::Pageset { zone: self.shared.index, cpu: CpuId(hint.cpu()) });
        Some(self.held(pageset, HintGuard::try_lock(&pageset.lock, hint)?))
    }

    /// The lock of a CPU's pageset, waited for, from any CPU.
    pub(crate) fn lock_pageset<'p>(&'p self, env: Env<'p, M>, cpu: CpuId) -> MachineGuard<'p, M::Lock> {
        let pageset = self.pageset(env, cpu);
        self.lock_again(env, pageset, cpu)
    }

    fn lock_again<'p>(
        &'p self,
        env: Env<'p, M>,
        pageset: &'p Pageset<M::Lock>,
        cpu: CpuId,
    ) -> MachineGuard<'p, M::Lock> {
        env.machine.lock_pageset(&pageset.lock, cpu);
        pageset.catch_up();
        self.held(pageset, Guard(&pageset.lock))
    }
}

/// The bounds of a zone's pagesets.
#[derive(Debug)]
pub(crate) struct SharedBounds {
    batch: AtomicU32,
    high_min: AtomicU32,
    high_max: AtomicU32,
}

impl SharedBounds {
    /// The lock of changes is held.
    pub(crate) fn get(&self) -> Bounds {
        Bounds { batch: self.batch.get(), high_min: self.high_min.get(), high_max: self.high_max.get() }
    }

    /// The lock of changes is held.
    pub(crate) fn set(&self, bounds: Bounds) {
        self.batch.set(bounds.batch);
        self.high_min.set(bounds.high_min);
        self.high_max.set(bounds.high_max);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::SpinLock;

    /// A free of a single page on the fast path writes the number of freed pages only. By hand from specification 4.11: each such
    /// free halves both exponents and ends a row of frees of orders 1 to 3.
    #[test]
    fn frees_of_single_pages_count_when_the_state_is_read() {
        let pageset = Pageset::new(SpinLock::new());
        let seen = || (pageset.state().alloc_factor, pageset.state().block_factor, pageset.state().prev_high_order);
        pageset.alloc_factor.set(5);
        pageset.block_factor.set(3);
        pageset.prev_high_order.set(true);
        assert_eq!(seen(), (5, 3, true));
        sync::add(&pageset.free_pages, 1);
        assert_eq!(seen(), (2, 1, false));
        pageset.catch_up();
        let words = (pageset.alloc_factor.get(), pageset.block_factor.get(), pageset.prev_high_order.get());
        assert_eq!((words, seen()), ((2, 1, false), (2, 1, false)));
        pageset.count_freed(8);
        assert_eq!(seen(), (2, 1, false), "the state machine has noted these");
        sync::add(&pageset.free_pages, 1000);
        assert_eq!(seen(), (0, 0, false));
    }

    #[test]
    fn words_of_different_moments_make_no_sum_wrap() {
        let pageset = Pageset::new(SpinLock::new());
        pageset.refill_pages.set(40);
        pageset.free_pages.set(5);
        pageset.drain_pages.set(31);
        pageset.count.set(4);
        assert_eq!(pageset.alloc_pages(), 10);
        // A reader that another CPU overtakes may see the drained pages before the pages that entered.
        pageset.count.set(15);
        assert_eq!(pageset.alloc_pages(), 0);
    }
}
