//! The one trait through which the machine comes in: which CPU this is, the lock, what a touch of shared memory costs, and
//! how to wait. Uses `frame`.

mod hint;
mod lock;
mod probe;

use crate::frame::{CpuId, Order, Pfn, ZoneKind};
use crate::sync::hint as cpu_hint;

pub use hint::Spot;
pub(crate) use hint::{Hint, SpotGuard};
pub(crate) use lock::Guard;
pub use lock::{RawLock, SpinLock};
pub use probe::{Line, LockPath};

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
    /// the caller may be in an interrupt. See [`crate::admin::reclaim`]. Specification: `linux-page-allocator.md` 1.6, 1.7.
    #[inline]
    fn wake_reclaim(&self, zone: usize, order: Order, highest: ZoneKind) {
        let _ = (zone, order, highest);
    }

    /// Called in each round of a wait for something that is no lock. What is waited for needs no lock that the caller
    /// holds. A scheduler of interleavings lets another thread run, a simulator lets time pass.
    #[inline(always)]
    fn relax(&self) {
        cpu_hint::spin_loop();
    }
}
