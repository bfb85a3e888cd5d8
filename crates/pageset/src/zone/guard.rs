//! Holds of a zone's lock.

use core::ops::Deref;

use super::watermark::Mark;
use super::{BOOSTED, MIXED, PLENTY, Zone};
use crate::buddy::{Env, Locked, Wanted};
use crate::frame::ZoneKind;
use crate::machine::{Access, Guard, Line, LockPath, Machine};
use crate::policy::Watermarks;
use crate::policy::sizes::boosted;
use crate::sync::{self, LockedWord};

/// The most deferred frees that one hold of the lock completes, in blocks: about as much work as a refill. A guess.
const DEFERRED_PER_HOLD: u32 = 32;

impl<'a, M: Machine> Zone<'a, M> {
    /// Takes the zone lock, waits for it, and counts the hold. First completes some of the deferred frees. Lock order: pageset,
    /// changes, zone.
    pub(crate) fn lock<'z>(&'z self, env: Env<'z, M>, path: LockPath) -> ZoneGuard<'z, 'a, M> {
        if !self.deferred.is_empty() {
            self.free_deferred(env);
        }
        env.machine.probe(Access::ZoneLock { zone: self.index, path });
        self.locked(env, path, Guard::lock(&self.lock))
    }

    /// Takes the zone lock, without counting the hold, for a caller that changes nothing.
    pub(crate) fn pause(&self, env: Env<'_, M>) -> Guard<'_, M::Lock> {
        env.machine.probe(Access::ZoneLock { zone: self.index, path: LockPath::Map });
        Guard::lock(&self.lock)
    }

    /// As [`Self::lock`], but only if the lock is free.
    pub(crate) fn try_lock<'z>(&'z self, env: Env<'z, M>, path: LockPath) -> Option<ZoneGuard<'z, 'a, M>> {
        env.machine.probe(Access::ZoneLock { zone: self.index, path });
        let guard = Guard::try_lock(&self.lock)?;
        // A holder may wait for refills in flight, and the caller may have interrupted one of them.
        (self.buddy.in_flight.refills() == 0).then(|| self.locked(env, path, guard))
    }

    /// Takes the lock for a request. Waits for it, unless the request waits for nothing.
    pub(crate) fn lock_for<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        wanted: Wanted,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        if wanted.waits { Some(self.lock(env, path)) } else { self.try_lock(env, path) }
    }

    /// Completes all deferred frees, in as many holds as that takes. The caller does not hold the lock.
    pub(crate) fn complete_deferred(&self, env: Env<'_, M>) {
        while !self.deferred.is_empty() {
            self.free_deferred(env);
        }
    }

    /// Frees some of the blocks whose free was deferred, in a hold of its own.
    #[cold]
    fn free_deferred(&self, env: Env<'_, M>) {
        env.machine.probe(Access::ZoneLock { zone: self.index, path: LockPath::DirectFree });
        let guard = self.locked(env, LockPath::DirectFree, Guard::lock(&self.lock));
        for _ in 0..DEFERRED_PER_HOLD {
            let Some(page) = self.deferred.take(|page| self.deferred_link(page).get()) else { break };
            let order = self.buddy.frames.tag(page).order();
            guard.free_block(page, order, guard.frames.block_type(page));
            guard.count_direct_free(order.pages());
        }
    }

    #[inline]
    fn locked<'z>(&'z self, env: Env<'z, M>, path: LockPath, guard: Guard<'z, M::Lock>) -> ZoneGuard<'z, 'a, M> {
        env.touch(Line::Zone { zone: self.index });
        sync::add(&self.holds[path as usize], 1);
        ZoneGuard { zone: self, locked: Locked::new(&self.buddy, env, guard) }
    }
}

/// Holds a zone's lock, and gives access to the zone's buddy ([`Locked`]). The drop raises the marks for each pageblock
/// of another type that the holder took part of, and updates the zone's flags.
#[derive(Debug)]
pub(crate) struct ZoneGuard<'z, 'a, M: Machine> {
    zone: &'z Zone<'a, M>,
    locked: Locked<'z, 'a, M>,
}

impl<'z, 'a, M: Machine> Deref for ZoneGuard<'z, 'a, M> {
    type Target = Locked<'z, 'a, M>;

    fn deref(&self) -> &Self::Target {
        &self.locked
    }
}

impl<M: Machine> Drop for ZoneGuard<'_, '_, M> {
    #[inline]
    fn drop(&mut self) {
        // The lock itself is released after this, with the field.
        if self.locked.breaks().count > 0 {
            self.raise_boosts();
        }
        let plenty = if self.zone.passes_for_all() { PLENTY } else { 0 };
        let mixed = if self.zone.buddy.is_all_movable() { 0 } else { MIXED };
        self.zone.flags.replace(PLENTY | MIXED, plenty | mixed);
    }
}

impl<'z, 'a, M: Machine> ZoneGuard<'z, 'a, M> {
    /// The zone whose lock is held.
    pub(crate) fn zone(&self) -> &'z Zone<'a, M> {
        self.zone
    }

    /// Sets the marks, without a boost.
    pub(crate) fn set_watermarks(&self, marks: Watermarks) {
        self.zone.boost.set(0);
        for (word, mark) in self.zone.marks.iter().zip([marks.min, marks.low, marks.high]) {
            word.set(mark);
        }
    }

    /// Sets the reserves by the highest zone of a request.
    pub(crate) fn set_reserve(&self, pages: [u64; ZoneKind::COUNT]) {
        for (word, pages) in self.zone.reserve.iter().zip(pages) {
            word.set(pages);
        }
        self.zone.largest_reserve.set(pages.into_iter().max().unwrap_or(0));
    }

    /// Counts pages allocated without a pageset.
    pub(crate) fn count_direct_alloc(&self, pages: u64) {
        sync::add(&self.zone.direct_alloc_pages, pages);
    }

    /// Counts pages freed without a pageset.
    pub(crate) fn count_direct_free(&self, pages: u64) {
        sync::add(&self.zone.direct_free_pages, pages);
    }

    /// Lowers the boost by up to `pages`. Returns the remaining boost.
    pub(crate) fn lower_boost(&self, pages: u64) -> u64 {
        let left = self.zone.boost.get().saturating_sub(pages);
        self.set_boost(left);
        left
    }

    #[cold]
    fn raise_boosts(&self) {
        let breaks = self.locked.breaks();
        (0..breaks.count).for_each(|_| self.raise_boost(breaks.wakes));
    }

    /// Raises the marks after a request took part of another type's pageblock. Specification 1.6, "Watermark boost".
    fn raise_boost(&self, wakes: bool) {
        let zone = self.zone;
        let boost = zone.boost.get();
        let more = boosted(boost, zone.buddy.managed.get(), zone.mark(Mark::High) - boost, zone.boost_factor);
        if more > 0 {
            self.set_boost(more);
            if wakes {
                zone.flags.set(BOOSTED, true);
            }
        }
    }

    /// Sets the boost and adapts the effective marks.
    fn set_boost(&self, boost: u64) {
        let old = self.zone.boost.get();
        for mark in &self.zone.marks {
            // A reader without the lock may see some marks with the old boost and some with the new.
            mark.set(mark.get() - old + boost);
        }
        self.zone.boost.set(boost);
    }
}
