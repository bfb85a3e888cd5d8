//! Hints of the current CPU, for the fast path.

use super::{Machine, RawLock};
use crate::frame::CpuId;

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
