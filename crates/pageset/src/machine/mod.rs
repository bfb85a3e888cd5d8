//! The trait that provides the machine: CPU numbers, locks, a probe of touched memory, and waiting. Uses `frame`.

mod hint;
mod lock;
mod probe;

use crate::frame::{CpuId, Order, ZoneKind};

pub use hint::CpuHint;
pub(crate) use hint::{HintGuard, MachineHint};
pub(crate) use lock::Guard;
pub use lock::{RawLock, SpinLock};
pub use probe::{Access, Line, LockPath};

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

    /// Takes the lock of `cpu`'s pageset if it is free. The caller has just got `cpu` from [`Self::cpu`]. Returns false
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

    /// Takes the lock of `cpu`'s pageset from any CPU, waiting for it. Rare: ticks, drains and settings call it.
    #[inline]
    fn lock_pageset(&self, lock: &Self::Lock, cpu: CpuId) {
        let _ = cpu;
        lock.lock();
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
