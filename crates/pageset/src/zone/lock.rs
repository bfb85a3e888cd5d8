//! Holds of a zone's lock: counted, and ended with a look at how much the zone has.

use crate::alloc::request::Wait;
use crate::machine::{Guard, Line, LockPath, Machine};
use crate::sync;
use crate::zone::Zone;

impl<'a, M: Machine> Zone<'a, M> {
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
        if wait == Wait::Nothing { self.try_lock(machine, path) } else { Some(self.lock(machine, path)) }
    }

    #[inline]
    fn locked<'z>(&'z self, machine: &M, path: LockPath, guard: Guard<'z, M::Lock>) -> ZoneGuard<'z, 'a, M> {
        machine.touch(Line::Zone { zone: self.index });
        sync::add(&self.holds[path as usize], 1);
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
