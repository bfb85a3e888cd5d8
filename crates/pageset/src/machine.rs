//! The one trait through which the machine comes in: which CPU this is, the lock, what a touch of shared memory
//! costs, and how to wait.

use core::fmt;

use crate::frame::{CpuId, Order, Pfn};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::hint;
use crate::zone::ZoneKind;

/// The machine that an allocator runs on: a kernel's CPUs, a process's threads, or a simulator's virtual ones.
pub trait Machine {
    /// The lock of zones and pagesets.
    type Lock: RawLock;

    /// The CPU that the caller runs on now; below the number of CPUs in the allocator's configuration.
    ///
    /// It may be out of date as soon as it returns: the pageset's lock makes that harmless.
    fn cpu(&self) -> CpuId;

    /// As [`Self::cpu`] where that costs next to nothing, else any number that is no CPU's: the fast paths then leave the
    /// call to those that ask [`Self::cpu`].
    #[inline(always)]
    fn cpu_hint(&self) -> u32 {
        self.cpu().0
    }

    /// Takes the lock of `cpu`'s pageset if it is free, for a caller whom [`Self::cpu`] has just told that it runs there.
    /// False also where that is no longer so. The lock's own `unlock` gives it back; nothing else ever takes it but this,
    /// [`Self::lock_pageset`] and a [`Spot`], all of which agree on who has it.
    ///
    /// A machine that can tell whether a caller has been interrupted or moved needs no atomic exchange here: it takes the
    /// lock in a few plain steps that fail after an interruption, and lets [`Self::lock_pageset`] pay for it.
    #[inline(always)]
    fn try_lock_pageset(&self, lock: &Self::Lock, cpu: CpuId) -> bool {
        let _ = cpu;
        lock.try_lock()
    }

    /// Takes the lock of `cpu`'s pageset from any CPU, waiting for it. Rare: ticks, drains and settings.
    #[inline]
    fn lock_pageset(&self, lock: &Self::Lock, cpu: CpuId) {
        let _ = cpu;
        lock.lock();
    }

    /// Called where memory that other CPUs write is about to be touched. Does nothing in the real worlds and
    /// costs nothing there; a simulator charges its caller.
    #[inline(always)]
    fn touch(&self, line: Line) {
        let _ = line;
    }

    /// Whether the machine wants to know of touches that are found out for its sake only: those of pages that a drain
    /// picks, and whose buddies it fetches, before it takes the lock. Blocks then come and go one by one, with all that
    /// each touches, where otherwise a shorter way leads to the same.
    #[inline(always)]
    fn follows_picks(&self) -> bool {
        false
    }

    /// Whether such a machine lets a refill take a block apart at once all the same. It is told of all touches of splitting
    /// the block page by page, in their order; but a look at the free lists between two of them does not find the halves.
    #[inline(always)]
    fn splits_at_once(&self) -> bool {
        !self.follows_picks()
    }

    /// As [`Self::touch`], for a line that is only fetched ahead of its use: nobody waits for it.
    #[inline(always)]
    fn prefetch(&self, line: Line) {
        let _ = line;
    }

    /// Called some steps before a page may be looked at, with a word of the allocator's that is kept for it: time for a
    /// simulator to have both that word and what it keeps for the page itself brought into the cache of the machine that
    /// it runs on. Only those are told that follow picks. With or without the zone's lock; a page may be told of more
    /// than once, may be none of the zone's, and need not be looked at in the end.
    #[inline(always)]
    fn expect<T>(&self, page: Pfn, word: &T) {
        let _ = (page, word);
    }

    /// Called just before a zone's lock is taken. Does nothing in the real worlds; a simulator accounts the waiting
    /// to the path.
    #[inline(always)]
    fn locking(&self, zone: usize, path: LockPath) {
        let _ = (zone, path);
    }

    /// Called without a lock where a request found `zone` below its low mark, or where its marks were boosted. `order`
    /// and `highest` are the request's: what a background reclaimer is to make room for. It wakes that, or does nothing;
    /// the caller may be in an interrupt. See [`crate::reclaim`]. Specification: `linux-page-allocator.md` 1.6, 1.7.
    #[inline]
    fn wake_reclaim(&self, zone: usize, order: Order, highest: ZoneKind) {
        let _ = (zone, order, highest);
    }

    /// Called in each round of a wait for something that is no lock. What is waited for needs no lock that the caller
    /// holds. A scheduler of interleavings lets another thread run, a simulator lets time pass.
    #[inline(always)]
    fn relax(&self) {
        hint::spin_loop();
    }
}

/// Where a caller takes itself to be, and how it takes the lock of that CPU's pageset: what [`Machine::cpu_hint`] and
/// [`Machine::try_lock_pageset`] say, for a program that has a shorter way to it than to ask its machine. See
/// [`crate::Allocator::alloc_hot`].
pub trait Spot<L: RawLock>: Copy {
    /// The CPU, as [`Machine::cpu_hint`].
    fn cpu(self) -> u32;

    /// Takes the lock of that CPU's pageset, as [`Machine::try_lock_pageset`].
    fn try_lock(self, lock: &L) -> bool;

    /// Gives back what [`Self::try_lock`] took.
    #[inline(always)]
    fn unlock(self, lock: &L) {
        lock.unlock();
    }
}

/// The spot that a machine hints at.
#[derive(Debug)]
pub(crate) struct Hint<'m, M> {
    machine: &'m M,
    cpu: u32,
}

impl<'m, M: Machine> Hint<'m, M> {
    #[inline(always)]
    pub(crate) fn of(machine: &'m M) -> Self {
        Hint { machine, cpu: machine.cpu_hint() }
    }
}

impl<M> Copy for Hint<'_, M> {}

impl<M> Clone for Hint<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Spot<M::Lock> for Hint<'_, M> {
    #[inline(always)]
    fn cpu(self) -> u32 {
        self.cpu
    }

    #[inline(always)]
    fn try_lock(self, lock: &M::Lock) -> bool {
        self.machine.try_lock_pageset(lock, CpuId(self.cpu))
    }
}

/// Holds a lock that was taken at a spot until dropped.
#[derive(Debug)]
pub(crate) struct SpotGuard<'l, L: RawLock, S: Spot<L>>(&'l L, S);

impl<'l, L: RawLock, S: Spot<L>> SpotGuard<'l, L, S> {
    #[inline(always)]
    pub(crate) fn try_lock(lock: &'l L, spot: S) -> Option<Self> {
        // Not then_some, as in Guard::taken.
        spot.try_lock(lock).then(|| SpotGuard(lock, spot))
    }
}

impl<L: RawLock, S: Spot<L>> Drop for SpotGuard<'_, L, S> {
    #[inline(always)]
    fn drop(&mut self) {
        self.1.unlock(self.0);
    }
}

/// Which way a zone's lock is come to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockPath {
    /// To fill a pageset.
    Refill,
    /// To empty one.
    Drain,
    /// For a block taken past the pagesets.
    DirectAlloc,
    /// For a block given back past them.
    DirectFree,
    /// For changes of the map and of pageblocks' types, and for compaction.
    Map,
}

impl LockPath {
    /// How many ways there are.
    pub const COUNT: usize = 5;
}

/// A piece of memory that several CPUs write, about one cache line each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The counters of a zone.
    Zone {
        /// The zone's index.
        zone: usize,
    },
    /// The head of a free list.
    FreeList {
        /// The zone's index.
        zone: usize,
        /// The order of its blocks.
        order: u8,
        /// The migratetype of its blocks.
        migratetype: u8,
    },
    /// A pageset.
    Pageset {
        /// The zone's index.
        zone: usize,
        /// Whose it is.
        cpu: CpuId,
    },
    /// The descriptor of an order-0 cluster; eight of them share a cache line.
    Cluster {
        /// The zone's index.
        zone: usize,
        /// The descriptor's number.
        number: u32,
    },
    /// The tag and links of a page.
    Page(Pfn),
}

/// A lock without data: what it protects are atomics, so that no misuse is more than a wrong count.
///
/// What one holder wrote is seen by the next: `lock` and a successful `try_lock` acquire, `unlock` releases. Where
/// interrupts allocate or free, `lock` keeps them away from its CPU until `unlock`: one that came between would wait for
/// what it has interrupted. A caller that no lock can keep away asks with [`crate::Wait::Nothing`].
pub trait RawLock: fmt::Debug + Default {
    /// Takes the lock, waiting for it.
    fn lock(&self);
    /// Takes the lock if it is free.
    fn try_lock(&self) -> bool;
    /// Gives the lock back. To be called by its holder, once.
    fn unlock(&self);
}

/// A lock that spins: one byte, no queue.
#[derive(Debug, Default)]
pub struct SpinLock(AtomicBool);

impl RawLock for SpinLock {
    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            // Relaxed: only waits; try_lock acquires.
            while self.0.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in unlock.
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with the acquire in try_lock.
        self.0.store(false, Ordering::Release);
    }
}

/// Holds a lock until dropped.
#[derive(Debug)]
pub(crate) struct Guard<'l, L: RawLock>(pub(crate) &'l L);

impl<'l, L: RawLock> Guard<'l, L> {
    #[inline]
    pub(crate) fn lock(lock: &'l L) -> Self {
        lock.lock();
        Guard(lock)
    }

    #[inline]
    pub(crate) fn try_lock(lock: &'l L) -> Option<Self> {
        Guard::taken(lock, L::try_lock)
    }

    /// The lock, if `take` takes it.
    #[inline(always)]
    pub(crate) fn taken(lock: &'l L, take: impl FnOnce(&L) -> bool) -> Option<Self> {
        // Not then_some: it would make the guard either way, and dropping it would open another's lock.
        take(lock).then(|| Guard(lock))
    }
}

impl<L: RawLock> Drop for Guard<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}
