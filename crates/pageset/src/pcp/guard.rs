//! The guard of a pageset's lock: pops, pushes and the state of a locked pageset.

use core::ops::Deref;
use core::sync::atomic::AtomicU32;

use super::{Pageset, Place};
use crate::machine::{Guard, HintGuard};
use crate::policy::expiry::Expiry;
use crate::policy::state::{State, words};
use crate::policy::{Bounds, Decay, PcpState, SMALL, Tuning};
use crate::store::Cache;
use crate::sync::{self, LockedWord};

/// Holds the lock of a pageset until dropped. Every change of the lists and of the state needs it. `G` is the guard of the lock.
#[derive(Debug)]
pub(crate) struct PcpGuard<'p, L, G> {
    pub(super) pageset: &'p Pageset<L>,
    /// The arrays of all pagesets of the zone, where the zone has them: the fast path reads them when it has the lock.
    pub(crate) words: &'p &'p [AtomicU32],
    pub(super) _guard: G,
}

/// The guard of a lock that was taken by way of the machine. The state of its pageset is up to date.
pub(crate) type MachineGuard<'p, L> = PcpGuard<'p, L, Guard<'p, L>>;

/// The guard of a lock that was taken by a hint of the CPU, for the fast path. The state may be behind.
pub(crate) type HintedGuard<'p, L, H> = PcpGuard<'p, L, HintGuard<'p, L, H>>;

impl<L, G> Deref for PcpGuard<'_, L, G> {
    type Target = Pageset<L>;

    #[inline(always)]
    fn deref(&self) -> &Pageset<L> {
        self.pageset
    }
}

impl<'p, L, G> PcpGuard<'p, L, G> {
    /// Whether any list certainly has room for a block.
    pub(crate) fn has_room(&self) -> bool {
        self.pool.has_room()
    }

    /// Whether any list can get another chunk, after empty lists have given back theirs.
    pub(super) fn can_grow(&self) -> bool {
        if !self.pool.has_room() {
            self.lists.iter().for_each(|list| list.release(self.words, &self.pool));
        }
        self.pool.has_room()
    }

    /// Takes the newest block of a list.
    #[inline]
    pub(crate) fn pop(&self, list: usize) -> Option<u32> {
        self.list(list).pop(self.words, &self.pool)
    }

    /// Takes the newest block of a list if the list's newest chunk has one.
    #[inline(always)]
    pub(crate) fn pop_within(&self, list: usize) -> Option<u32> {
        self.pageset.list(list).pop_within(self.words)
    }

    /// Takes up to `pages` of the newest blocks of a list: [`Stack::pop_run`].
    #[inline(always)]
    pub(crate) fn pop_run(&self, list: usize, pages: usize) -> &'p [AtomicU32] {
        self.pageset.list(list).pop_run(self.words, pages)
    }

    /// Puts a block on a list. Returns false if there is no room.
    #[inline]
    pub(crate) fn push(&self, list: usize, block: u32) -> bool {
        self.list(list).push(self.words, &self.pool, block)
    }

    /// The free place after the newest block of a list, if the list's newest chunk has one.
    #[inline(always)]
    pub(crate) fn place_within(&self, list: usize) -> Option<Place<'p>> {
        self.pageset.list(list).place_within()
    }

    /// Puts one block per entry on a list, until an entry has none or there is no more room. Returns the number of blocks.
    #[inline(always)]
    pub(crate) fn push_all<T>(&self, list: usize, entries: &[T], block: impl Fn(&T) -> Option<u32>) -> usize {
        self.list(list).push_all(self.words, &self.pool, entries, block)
    }

    /// Takes the `blocks` newest blocks off a list again.
    #[inline(always)]
    pub(crate) fn take_back(&self, list: usize, blocks: usize) {
        self.pageset.list(list).take_back(self.words, &self.pageset.pool, blocks);
    }

    /// The number of blocks on a list.
    pub(crate) fn len(&self, list: usize) -> u32 {
        self.list(list).len(self.words)
    }

    /// Sets the bounds. `high` follows at once without auto-tuning, else at its next use.
    pub(crate) fn set_bounds(&self, bounds: Bounds, tuning: &Tuning, large_cache: bool) {
        self.batch.set(bounds.batch);
        self.high_min.set(bounds.high_min);
        self.high_max.set(bounds.high_max);
        self.large_cache.set(large_cache);
        if !tuning.auto_high {
            self.high.set(bounds.high_min);
        }
        self.free_count_cap.set(tuning.free_count_cap(bounds.batch));
        self.costly_frees.set(tuning.costly_frees(bounds.batch, bounds.high_min));
        let room = tuning.costly_room(bounds.batch, bounds.high_min);
        self.costly_room.set(if tuning.cache_slice && large_cache { room } else { 0 });
        self.update_threshold();
    }

    /// Writes `drain_threshold`, after `high` or a bound may have changed.
    pub(crate) fn update_threshold(&self) {
        let high = self.high.get();
        let within = self.high_min.get() <= high && high <= self.high_max.get();
        self.drain_threshold.set(if within { high } else { 0 });
    }

    /// Writes the words that the state machine may have changed: all but the bounds and the cache flag.
    pub(crate) fn set_state(&self, s: &PcpState) {
        self.count.set(s.count);
        self.high.set(s.high);
        self.free_count.set(s.free_count);
        self.count_min.set(s.count_min);
        self.free_factor.set(s.free_factor);
        self.alloc_factor.set(s.alloc_factor);
        self.block_factor.set(s.block_factor);
        self.prev_high_order.set(s.prev_high_order);
        self.update_threshold();
    }

    /// The result of the remote expiry at a tick. `used`: whether the zone was used since the last tick, if the caller knows.
    pub(super) fn expire(&self, remote: bool, all: bool, used: Option<bool>) -> Decay {
        // The counters only grow, so their sum shows whether any page was allocated, freed or drained, at no cost to the
        // fast path. A drain is a use under the kernels' rule.
        let drained = if all { 0 } else { self.drain_pages.get() };
        let pages = self.alloc_pages().wrapping_add(self.free_pages.get()).wrapping_add(drained);
        let used = used.unwrap_or(pages != self.seen_pages.get());
        self.seen_pages.set(pages);
        let mut expiry = Expiry { left: self.expire.get() };
        let asked = expiry.tick(used, remote, self.count(), self.batch.get(), all);
        self.expire.set(expiry.left);
        asked
    }
}

/// The pageset as the stores behind it see it.
impl<L, G> Cache for PcpGuard<'_, L, G> {
    #[inline(always)]
    fn fill(&self, list: usize, blocks: u32, mut next: impl FnMut() -> Option<u32>) -> u32 {
        let stack = self.list(list);
        if SMALL {
            let next: &mut dyn FnMut() -> Option<u32> = &mut next;
            return stack.fill(self.words, &self.pool, blocks, next);
        }
        stack.fill(self.words, &self.pool, blocks, next)
    }

    #[inline(always)]
    fn oldest(&self, list: usize) -> &[AtomicU32] {
        let oldest = self.pageset.list(list).oldest(self.words);
        debug_assert!(self.list(list).is_empty() == oldest.is_empty(), "list {list} has a chunk without its blocks");
        oldest
    }

    #[inline(always)]
    fn drop_oldest(&self, list: usize, blocks: u32) {
        self.list(list).drop_oldest(self.words, &self.pool, blocks);
    }

    #[inline(always)]
    fn pop_oldest(&self, list: usize) -> Option<u32> {
        self.list(list).pop_oldest(self.words, &self.pool)
    }

    #[cfg(feature = "research")]
    fn room(&self) -> u32 {
        self.capacity.get().saturating_sub(self.count.get())
    }

    #[inline(always)]
    fn region(&self) -> &AtomicU32 {
        &self.pageset.region
    }

    #[inline(always)]
    fn count_unlocked(&self, pages: u64) {
        sync::add(&self.unlocked_pages, pages);
    }
}

macro_rules! state_in_pageset {
    ($($get:ident $(/ $set:ident)?: $type:ty,)*) => {
        /// The words in the pageset itself.
        impl<L, G> State for PcpGuard<'_, L, G> {
            $(
                #[inline]
                fn $get(&self) -> $type {
                    self.pageset.$get.get()
                }
                $(
                    #[inline]
                    fn $set(&mut self, value: $type) {
                        self.pageset.$get.set(value);
                    }
                )?
            )*
        }
    };
}
words!(state_in_pageset);
