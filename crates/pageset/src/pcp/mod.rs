//! The per-CPU pageset: arrays of block numbers in front of the zone lock.
//!
//! Allocations pop the newest block of a list and frees push there; drains take the oldest. What one call reads and
//! writes of a pageset is its first cache line and the line of one list head. Specification:
//! `linux-page-allocator.md` 2 and 3.
//!
//! | module | what lives there |
//! | --- | --- |
//! | `lists` | which lists there are |
//! | `take` | one block taken, and refills |
//! | `give` | one block given |
//! | `runs` | many of both under one hold of the lock |
//! | `drain`, `turns`, `ahead` | blocks that go to the buddy; the turns of round-robin drains; what these will look at |
//! | `pieces` | blocks taken apart into single pages, and put together, at once |
//! | `whole` | whole clusters between zone and pageset |

mod ahead;
mod drain;
mod give;

mod pieces;
mod runs;
pub(crate) mod stack;
mod take;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use self::stack::{Pool, Stack};
use crate::frame::CpuId;
use crate::machine::{Guard, Line, Machine, RawLock, Spot, SpotGuard};
use crate::policy::expiry::Expiry;
pub use crate::policy::lists::{LISTS, order_of};
use crate::policy::state::{State, words};
use crate::policy::{Bounds, Decay, PcpState, Tuning};
use crate::sync::Held;
use crate::zone::Zone;

pub(crate) use take::FromCache;

/// One CPU's cache of one zone's pages. Specification 2.1.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Pageset<L> {
    lock: L,
    /// [`PcpState::free_factor`] before patch 10.
    free_factor: AtomicU8,
    pub(crate) alloc_factor: AtomicU8,
    pub(crate) prev_high_order: AtomicBool,
    large_cache: AtomicBool,
    pub(crate) count: AtomicU32,
    high: AtomicU32,
    high_min: AtomicU32,
    high_max: AtomicU32,
    pub(crate) batch: AtomicU32,
    pub(crate) free_count: AtomicU32,
    count_min: AtomicU32,
    /// Below this count a free drains nothing, and `high` stays, in a zone under no pressure: `high` within its bounds.
    pub(crate) calm: AtomicU32,
    /// Up to here `free_count` counts: the most that a drain moves.
    pub(crate) most: AtomicU32,
    /// Pages taken back through this pageset. Those handed out follow from it: see [`Pageset::alloc_pages`].
    pub(crate) free_pages: AtomicU64,

    pub(crate) lists: [Stack; LIST_PLACES],

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
    pub(crate) pool: Pool,
}

/// Lists and places for more: a power of two, so that an index needs no test.
const LIST_PLACES: usize = 16;
const _: () = assert!(LISTS <= LIST_PLACES);

// The layout that the fast path counts on: the state in the first line, no list head across two lines, all in 384
// bytes. One call touches the first line and one list head's. (A model checker's lock is larger.)
#[cfg(not(all(loom, test)))]
const _: () = {
    use crate::machine::SpinLock;
    assert!(size_of::<Pageset<SpinLock>>() <= 384);
    assert!(core::mem::offset_of!(Pageset<SpinLock>, lists) <= 64);
    assert!(core::mem::offset_of!(Pageset<SpinLock>, lists) % 16 == 0);
    assert!(64 % size_of::<Stack>() == 0);
};

/// The words of the arrays of a pageset that holds `capacity` pages.
pub(crate) const fn array_words(capacity: u32) -> u64 {
    stack::words(capacity, LISTS as u32)
}

/// The capacity that lets a pageset reach `high` pages: a batch, what a cluster brings beyond it, and a block of each
/// cached order may enter before a drain.
pub(crate) const fn capacity_for(high: u32, batch: u32) -> u32 {
    high + 4 * batch + 64
}

impl<L: RawLock> Pageset<L> {
    /// Its lock, if it is free, for a caller that takes itself to be on its CPU.
    #[inline(always)]
    pub(crate) fn try_lock<M: Machine<Lock = L>>(&self, machine: &M, cpu: CpuId) -> Option<Guard<'_, L>> {
        Guard::taken(&self.lock, |lock| machine.try_lock_pageset(lock, cpu))
    }

    /// Its lock, if it is free, for a caller at a spot.
    #[inline(always)]
    pub(crate) fn try_lock_at<S: Spot<L>>(&self, spot: S) -> Option<SpotGuard<'_, L, S>> {
        SpotGuard::try_lock(&self.lock, spot)
    }

    /// Its lock, waited for, from any CPU.
    pub(crate) fn lock<M: Machine<Lock = L>>(&self, machine: &M, cpu: CpuId) -> Guard<'_, L> {
        machine.lock_pageset(&self.lock, cpu);
        Guard(&self.lock)
    }

    /// Pages held, as of some recent moment.
    pub(crate) fn count(&self) -> u32 {
        self.count.get()
    }

    /// Pages handed out: what came, less what went otherwise and what is here. One counter less for the fast path.
    ///
    /// Without the lock the words may be of different moments, and what went more than what came: then it is 0.
    pub(crate) fn alloc_pages(&self) -> u64 {
        let gone = self.drain_pages.get() + u64::from(self.count.get());
        (self.refill_pages.get() + self.free_pages.get()).saturating_sub(gone)
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
    pub(crate) fn set_bounds(&self, bounds: Bounds, tuning: &Tuning, large_cache: bool) {
        self.batch.set(bounds.batch);
        self.high_min.set(bounds.high_min);
        self.high_max.set(bounds.high_max);
        self.large_cache.set(large_cache);
        if !tuning.auto_high {
            self.high.set(bounds.high_min);
        }
        self.most.set(bounds.batch << tuning.batch_scale_max);
        self.note_calm();
    }

    /// Brings `calm` to where it belongs, after `high` or a bound may have moved; the lock is held.
    pub(crate) fn note_calm(&self) {
        let high = self.high.get();
        let settled = self.high_min.get() <= high && high <= self.high_max.get();
        self.calm.set(if settled { high } else { 0 });
    }

    /// A list by its number.
    #[inline(always)]
    pub(crate) fn list(&self, list: usize) -> &Stack {
        &self.lists[list % LIST_PLACES]
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
        self.note_calm();
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

impl<M: Machine> Zone<'_, M> {
    #[inline(always)]
    fn pageset(&self, machine: &M, cpu: CpuId) -> &Pageset<M::Lock> {
        machine.touch(Line::Pageset { zone: self.index, cpu });
        &self.pagesets[cpu.0 as usize]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::SpinLock;

    #[test]
    fn words_of_different_moments_make_no_sum_wrap() {
        let pageset = Pageset::<SpinLock>::default();
        pageset.refill_pages.set(40);
        pageset.free_pages.set(5);
        pageset.drain_pages.set(31);
        pageset.count.set(4);
        assert_eq!(pageset.alloc_pages(), 10);
        // A reader that another CPU overtakes sees what has gone again before what had come.
        pageset.count.set(15);
        assert_eq!(pageset.alloc_pages(), 0);
    }
}
