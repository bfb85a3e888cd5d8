//! The machine that an allocator runs on: CPU numbers, locks, a probe of touched memory, and waiting. Uses `frame`.
//!
//! [`Machine`] is the trait that provides it. [`CpuHint`] is a cheap guess of the current CPU, for the fast path.
//! [`Access`] is what the allocator reports to its machine: the memory that it touches, and the zone locks that it takes.
//! [`RawLock`] is the trait of all its locks.

use core::fmt;

use crate::frame::{CpuId, Order, Pfn, ZoneKind};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{const_new, hint};

/// The machine that an allocator runs on: a kernel's CPUs, a process's threads, or a simulator's virtual CPUs.
pub trait Machine {
    /// The lock of zones and pagesets.
    type Lock: RawLock;

    /// The CPU that the caller runs on now; below the number of CPUs in the allocator's configuration.
    ///
    /// The answer may be out of date as soon as it returns: the pageset's lock makes that harmless.
    fn cpu(&self) -> CpuId;

    /// A cheap guess of the current CPU. A number that no CPU has, such as `u32::MAX`, selects the general path.
    #[inline(always)]
    fn cpu_hint(&self) -> u32 {
        self.cpu().0
    }

    /// Takes the lock of `cpu`'s pageset if it is free. The caller has just got `cpu` from [`Self::cpu`], except under
    /// [`crate::OwnerRule::Try`], [`crate::OwnerRule::List`] and [`crate::Tuning::drain_for_requests`], where it may name another CPU
    /// and do without the lock. Returns false
    /// also where the caller no longer runs on `cpu`. The lock's own `unlock` gives the lock back. Only this function,
    /// [`Self::lock_pageset`] and a [`CpuHint`] take the lock, and all three agree on its owner.
    ///
    /// A machine that detects interruption and migration needs no atomic exchange here: it takes the lock in a few plain
    /// steps that fail after an interruption, and [`Self::lock_pageset`] pays for it.
    #[inline(always)]
    fn try_lock_pageset(&self, lock: &Self::Lock, cpu: CpuId) -> bool {
        let _ = cpu;
        lock.try_lock()
    }

    /// Takes the lock of `cpu`'s pageset from any CPU, waiting for it. Rare: ticks, drains and settings call it; and frees, under
    /// [`crate::OwnerRule::Wait`].
    #[inline]
    fn lock_pageset(&self, lock: &Self::Lock, cpu: CpuId) {
        let _ = cpu;
        lock.lock();
    }

    /// Runs `work` while interrupts that allocate or free are masked on this CPU. Needed under
    /// [`ClusterRule::Refills`](crate::policy::ClusterRule::Refills) and
    /// [`RefillsAndDrains`](crate::policy::ClusterRule::RefillsAndDrains) where the lock of a pageset does not mask them; other rules never
    /// call it.
    #[inline(always)]
    fn without_interrupts<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// The allocator's only probe: it reports each access to memory that several CPUs write, and each zone lock that it is
    /// about to take. The allocator does the same work whether anyone listens or not. The default does nothing and costs
    /// nothing; a simulator charges its caller.
    #[inline(always)]
    fn probe(&self, access: Access) {
        let _ = access;
    }

    /// Called without a lock where a request found `zone` below its low mark, or where the zone's marks were boosted. `order`
    /// and `highest` are the request's: what a background reclaimer is to make room for. The machine wakes its reclaimer or
    /// does nothing; the caller may be in an interrupt. See [`crate::admin::reclaim`]. Specification:
    /// `linux-page-allocator.md` 1.6, 1.7.
    #[inline]
    fn wake_reclaim(&self, zone: usize, order: Order, highest: ZoneKind) {
        let _ = (zone, order, highest);
    }

    /// Called in each round of a wait for something other than a lock. The awaited event needs no lock that the caller
    /// holds. A scheduler of interleavings runs another thread; a simulator lets time pass.
    #[inline(always)]
    fn relax(&self) {
        crate::sync::hint::spin_loop();
    }
}

/// One report of [`Machine::probe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The allocator is about to read or write this line.
    Touch(Line),
    /// The allocator fetches this line ahead of its use and does not wait for it.
    Prefetch(Line),
    /// The allocator is about to take the lock of a region of a zone.
    ZoneLock {
        /// The zone's index.
        zone: usize,
        /// The region's number in the zone.
        region: usize,
        /// The reason.
        path: LockPath,
    },
}

/// The reason why a zone's lock is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockPath {
    /// To refill a pageset.
    Refill,
    /// To drain a pageset.
    Drain,
    /// To allocate a block past the pagesets.
    DirectAlloc,
    /// To free a block past the pagesets.
    DirectFree,
    /// To change the memory map or a pageblock's type, or to compact.
    Map,
}

impl LockPath {
    /// The number of paths.
    pub const COUNT: usize = 5;
}

/// A piece of memory that several CPUs write, about one cache line each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The counters of a region of a zone.
    Zone {
        /// The zone's index.
        zone: usize,
        /// The region's number in the zone.
        region: usize,
    },
    /// The depot of a region of a zone: its head and one batch, five cache lines.
    Depot {
        /// The zone's index.
        zone: usize,
        /// The region's number in the zone.
        region: usize,
    },
    /// The head of a free list.
    FreeList {
        /// The zone's index.
        zone: usize,
        /// The region's number in the zone.
        region: usize,
        /// The order of its blocks.
        order: u8,
        /// The migratetype of its blocks.
        migratetype: u8,
    },
    /// A pageset.
    Pageset {
        /// The zone's index.
        zone: usize,
        /// The CPU that the pageset belongs to.
        cpu: CpuId,
    },
    /// The head of the list of blocks that other CPUs leave for a pageset.
    OwnerList {
        /// The zone's index.
        zone: usize,
        /// The CPU that the pageset belongs to.
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

/// A guess of the CPU that the caller runs on, and a way to take the lock of that CPU's pageset. It stands for
/// [`Machine::cpu_hint`] and [`Machine::try_lock_pageset`] in a program that has a shorter way to both. See
/// [`crate::Allocator::fast_path`].
pub trait CpuHint<L: RawLock>: Copy {
    /// The CPU, as [`Machine::cpu_hint`].
    fn cpu(self) -> u32;

    /// Takes the lock of that CPU's pageset, as [`Machine::try_lock_pageset`].
    fn try_lock(self, lock: &L) -> bool;

    /// Releases the lock that [`Self::try_lock`] took.
    #[inline(always)]
    fn unlock(self, lock: &L) {
        lock.unlock();
    }
}

/// The hint that a machine gives itself.
#[derive(Debug)]
pub(crate) struct MachineHint<'m, M> {
    machine: &'m M,
    cpu: u32,
}

impl<'m, M: Machine> MachineHint<'m, M> {
    #[inline(always)]
    pub(crate) fn of(machine: &'m M) -> Self {
        MachineHint { machine, cpu: machine.cpu_hint() }
    }
}

impl<M> Copy for MachineHint<'_, M> {}

impl<M> Clone for MachineHint<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> CpuHint<M::Lock> for MachineHint<'_, M> {
    #[inline(always)]
    fn cpu(self) -> u32 {
        self.cpu
    }

    #[inline(always)]
    fn try_lock(self, lock: &M::Lock) -> bool {
        self.machine.try_lock_pageset(lock, CpuId(self.cpu))
    }
}

/// Holds a lock that was taken through a hint, until dropped.
#[derive(Debug)]
pub(crate) struct HintGuard<'l, L: RawLock, H: CpuHint<L>>(&'l L, H);

impl<'l, L: RawLock, H: CpuHint<L>> HintGuard<'l, L, H> {
    #[inline(always)]
    pub(crate) fn try_lock(lock: &'l L, hint: H) -> Option<Self> {
        if hint.try_lock(lock) { Some(HintGuard(lock, hint)) } else { None }
    }
}

impl<L: RawLock, H: CpuHint<L>> Drop for HintGuard<'_, L, H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.1.unlock(self.0);
    }
}

/// A lock without data. It protects atomics, so misuse corrupts counts and never memory.
///
/// `lock` and a successful `try_lock` acquire; `unlock` releases; so each holder sees what earlier holders wrote. Where
/// interrupts allocate or free, `lock` and a successful `try_lock` disable interrupts on their CPU until `unlock`: an interrupt
/// in between would wait for the code that it interrupted. A caller that no lock can keep out, such as an NMI, asks with [`crate::Wait::Nothing`].
///
/// # Order
///
/// The allocator has three kinds of locks, and waits for each only in this order:
///
/// | lock of | held by one call | is waited for while the call holds |
/// | --- | --- | --- |
/// | a pageset: one CPU's pages of one zone | one | nothing |
/// | changes: the settings of the allocator | the one | a pageset that gets new bounds |
/// | a region: a part of a zone with free lists | one; where deferred frees are completed, the first of the zone and another | a pageset that refills or drains; changes, where marks and reserves are set |
pub trait RawLock: fmt::Debug + Default {
    /// Takes the lock, waiting for it.
    fn lock(&self);
    /// Takes the lock if it is free.
    fn try_lock(&self) -> bool;
    /// Releases the lock. Only the holder calls it, once.
    fn unlock(&self);
}

/// A lock that spins: one word, no queue. Its lowest bit says whether it is held. Four bytes, since x86-64 has an instruction that sets
/// a bit and tells what it was, for words but not for bytes: it needs no register and no comparison.
#[derive(Debug, Default)]
pub struct SpinLock(AtomicU32);

/// The bit of a lock that is held.
const HELD: u32 = 1;

impl SpinLock {
    const_new! {
        /// An open lock.
        #[must_use]
        pub fn new() -> Self {
            SpinLock(AtomicU32::new(0))
        }
    }
}

impl RawLock for SpinLock {
    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            // Relaxed: only waits; try_lock acquires.
            while self.0.load(Ordering::Relaxed) == HELD {
                hint::spin_loop();
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in unlock.
        #[cfg(not(all(loom, test)))]
        let before = self.0.fetch_or(HELD, Ordering::Acquire);
        // A model checker follows each write: there a try that fails writes nothing, or loops of tries have no end.
        #[cfg(all(loom, test))]
        let before = self.0.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).unwrap_or_else(|held| held);
        before & HELD == 0
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with the acquire in try_lock.
        self.0.store(0, Ordering::Release);
    }
}

/// Holds a lock until dropped. Who took the lock in another way builds it.
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
        if lock.try_lock() { Some(Guard(lock)) } else { None }
    }
}

impl<L: RawLock> Drop for Guard<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}
