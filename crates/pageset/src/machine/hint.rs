//! Cheap guesses of the current CPU, for the fast path.

use super::{Machine, RawLock};
use crate::frame::CpuId;

/// A guess of the CPU that the caller runs on, and a way to take the lock of that CPU's pageset. It stands for
/// [`Machine::cpu_hint`] and [`Machine::try_lock_pageset`] in a program that has a shorter way to both. See
/// [`crate::Allocator::alloc_hot`].
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
        // Not then_some, as in Guard::taken.
        hint.try_lock(lock).then(|| HintGuard(lock, hint))
    }
}

impl<L: RawLock, H: CpuHint<L>> Drop for HintGuard<'_, L, H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.1.unlock(self.0);
    }
}
