//! Holds of the locks of a zone's regions.

use core::ops::Deref;

use super::watermark::Mark;
use super::{BOOSTED, MIXED, Zone};
use crate::buddy::{Env, Locked, Wanted};
use crate::frame::{Order, ZoneKind};
use crate::machine::{Access, Guard, Line, LockPath, Machine};
use crate::policy::Watermarks;
use crate::policy::sizes::boosted;
use crate::sync::atomic::Ordering::Release;
use crate::sync::{self, LockedWord};

/// The most deferred frees that one hold of the lock completes, in blocks: about as much work as a refill. A guess.
const DEFERRED_PER_HOLD: u32 = 32;

impl<'a, M: Machine> Zone<'a, M> {
    /// Takes the lock of the region that a page is in, waits for it, and counts the hold. First completes some of the deferred
    /// frees. Lock order: pageset, changes, region.
    pub(crate) fn lock<'z>(&'z self, env: Env<'z, M>, path: LockPath, page: u32) -> ZoneGuard<'z, 'a, M> {
        self.complete_some_deferred(env);
        self.lock_region(env, path, self.buddy.region_of(page))
    }

    /// Completes some of the deferred frees.
    #[inline]
    pub(crate) fn complete_some_deferred(&self, env: Env<'_, M>) {
        if !self.deferred.is_empty() {
            self.free_deferred(env);
        }
    }

    /// As [`Self::lock`], for a region by its number, and without a look at the deferred frees.
    pub(crate) fn lock_region<'z>(&'z self, env: Env<'z, M>, path: LockPath, number: usize) -> ZoneGuard<'z, 'a, M> {
        env.machine.probe(Access::ZoneLock { zone: self.index, region: number, path });
        self.locked(env, path, number, self.buddy.lock(number))
    }

    /// The holds of the regions' locks so far. Takes each lock once, without counting that hold.
    pub(crate) fn holds(&self, env: Env<'_, M>) -> u64 {
        self.buddy.holds(|region| {
            env.machine.probe(Access::ZoneLock { zone: self.index, region, path: LockPath::Map });
        })
    }

    /// As [`Self::lock`], but only if the lock is free.
    pub(crate) fn try_lock<'z>(&'z self, env: Env<'z, M>, path: LockPath, page: u32) -> Option<ZoneGuard<'z, 'a, M>> {
        self.try_lock_region(env, path, self.buddy.region_of(page))
    }

    /// As [`Self::try_lock`], for a region by its number.
    pub(crate) fn try_lock_region<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        env.machine.probe(Access::ZoneLock { zone: self.index, region: number, path });
        let guard = self.buddy.try_lock(number)?;
        // A holder may wait for refills in flight, and the caller may have interrupted one of them.
        self.buddy.research.is_at_rest().then(|| self.locked(env, path, number, guard))
    }

    /// Takes the lock of a region, for a caller that waits for it or does not.
    #[inline]
    pub(crate) fn lock_or_try<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
        waits: bool,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        if waits { Some(self.lock_region(env, path, number)) } else { self.try_lock_region(env, path, number) }
    }

    /// Takes the lock of a zone's only region for a request. Waits for it, unless the request waits for nothing.
    pub(crate) fn lock_for<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        wanted: Wanted,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        if wanted.waits {
            self.complete_some_deferred(env);
        }
        self.lock_or_try(env, path, 0, wanted.waits)
    }

    /// Completes all deferred frees, in as many holds as that takes. The caller does not hold the lock.
    pub(crate) fn complete_deferred(&self, env: Env<'_, M>) {
        while !self.deferred.is_empty() {
            self.free_deferred(env);
        }
    }

    /// Frees some of the blocks whose free was deferred, in a hold of its own: the first region's. A block of another region
    /// takes that region's lock as well. No other call takes two regions' locks.
    #[cold]
    fn free_deferred(&self, env: Env<'_, M>) {
        let path = LockPath::DirectFree;
        let first = self.lock_region(env, path, 0);
        let mut pages = 0;
        for _ in 0..DEFERRED_PER_HOLD {
            let Some(page) = self.deferred.take(|page| self.deferred_link(page).get()) else { break };
            let other = match self.buddy.region_of(page) {
                0 => None,
                number => Some(self.lock_region(env, path, number)),
            };
            let guard = other.as_ref().unwrap_or(&first);
            let order = self.buddy.frames.tag(page).order();
            guard.free_direct(page, order);
            pages += order.pages() as u32;
        }
        // Release: pairs with the acquire in deferred_pages.
        self.deferred_pages.fetch_sub(pages, Release);
    }

    #[inline]
    fn locked<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
        guard: Guard<'z, M::Lock>,
    ) -> ZoneGuard<'z, 'a, M> {
        env.touch(Line::Zone { zone: self.index, region: number });
        let locked = Locked::new(&self.buddy, number, env, guard);
        sync::add(&locked.region.holds[path as usize], 1);
        ZoneGuard { zone: self, locked }
    }
}

/// Holds the lock of a zone's region, and gives access to it ([`Locked`]). The drop raises the marks for each pageblock
/// of another type that the holder took part of, and updates the zone's sums and flags.
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
        self.locked.buddy.add_up(self.locked.region);
        self.zone.note_plenty(self.locked.region);
        let mixed = if self.zone.buddy.is_all_movable() { 0 } else { MIXED };
        self.zone.flags.replace(MIXED, mixed);
    }
}

impl<'z, 'a, M: Machine> ZoneGuard<'z, 'a, M> {
    /// Goes on with the region of a page: keeps the lock if it is the same region.
    pub(crate) fn at(self, page: u32) -> Self {
        let (zone, env) = (self.zone, self.locked.env);
        if self.covers(page) {
            return self;
        }
        drop(self);
        zone.lock(env, LockPath::Map, page)
    }

    /// The zone one of whose regions is locked.
    pub(crate) fn zone(&self) -> &'z Zone<'a, M> {
        self.zone
    }

    /// Sets the marks, without a boost.
    pub(crate) fn set_watermarks(&self, marks: Watermarks) {
        self.zone.boost.clear();
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
        sync::add(&self.region.direct_alloc_pages, pages);
    }

    /// Frees a block without a pageset.
    pub(crate) fn free_direct(&self, page: u32, order: Order) {
        self.free_block(page, order);
        sync::add(&self.region.direct_free_pages, order.pages());
    }

    /// Lowers the boost by up to `pages`. Returns the remaining boost.
    pub(crate) fn lower_boost(&self, pages: u64) -> u64 {
        self.zone.boost.lower(pages)
    }

    #[cold]
    fn raise_boosts(&self) {
        let breaks = self.locked.breaks();
        (0..breaks.count).for_each(|_| self.raise_boost(breaks.wakes));
    }

    /// Raises the marks after a request took part of another type's pageblock. Specification 1.6, "Watermark boost".
    fn raise_boost(&self, wakes: bool) {
        let zone = self.zone;
        let (managed, high) = (zone.buddy.managed.get(), zone.marks[Mark::High as usize].get());
        if zone.boost.raise(|boost| boosted(boost, managed, high, zone.boost_factor)) && wakes {
            zone.flags.set(BOOSTED, true);
        }
    }
}
