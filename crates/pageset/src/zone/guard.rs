//! Holds of the locks of a zone's regions.

use core::cell::Cell;

use super::region::Region;
use super::watermark::Mark;
use super::{BOOSTED, Env, MIXED, Zone};
use crate::frame::ZoneKind;
use crate::machine::{Access, Guard, Line, LockPath, Machine};
use crate::policy::Watermarks;
use crate::policy::sizes::boosted;
use crate::sync::{self, LockedWord};

impl<'a, M: Machine> Zone<'a, M> {
    /// Takes the lock of a region, waits for it, and counts the hold. Lock order: pageset, changes, region.
    pub(crate) fn lock_region<'z>(&'z self, env: Env<'z, M>, path: LockPath, number: usize) -> ZoneGuard<'z, 'a, M> {
        let region = self.before_lock(env, path, number);
        self.locked(env, path, number, region, Guard::lock(&region.lock))
    }

    /// As [`Self::lock_region`], but only if the lock is free.
    pub(crate) fn try_lock_region<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        let region = self.before_lock(env, path, number);
        let guard = Guard::try_lock(&region.lock)?;
        // A holder may wait for refills in flight, and the caller may have interrupted one of them.
        self.research.is_at_rest().then(|| self.locked(env, path, number, region, guard))
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

    /// The holds of the regions' locks so far. Takes each lock once, without counting that hold.
    pub(crate) fn holds(&self, env: Env<'_, M>) -> u64 {
        let holds = (0..self.regions.len()).map(|number| {
            let region = self.before_lock(env, LockPath::Map, number);
            let _guard = Guard::lock(&region.lock);
            region.holds.iter().map(LockedWord::get).sum::<u64>()
        });
        holds.sum()
    }

    /// The region whose lock is about to be taken.
    #[inline(always)]
    fn before_lock(&self, env: Env<'_, M>, path: LockPath, number: usize) -> &Region<M::Lock> {
        env.machine.probe(Access::ZoneLock { zone: self.index, region: number, path });
        &self.regions[number]
    }

    /// The guard of a region whose lock `held` holds.
    #[inline]
    fn locked<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
        region: &'z Region<M::Lock>,
        held: Guard<'z, M::Lock>,
    ) -> ZoneGuard<'z, 'a, M> {
        env.touch(Line::Zone { zone: self.index, region: number });
        sync::add(&region.holds[path as usize], 1);
        ZoneGuard { zone: self, number, region, env, breaks: Cell::default(), _held: held }
    }
}

/// Holds the lock of a region of a zone: the proof that the region's free lists may change. The drop raises the marks for each pageblock
/// of another type that the holder took part of, updates the zone's sums and flags, and releases the lock.
#[derive(Debug)]
pub(crate) struct ZoneGuard<'z, 'a, M: Machine> {
    pub(crate) zone: &'z Zone<'a, M>,
    /// The number of the region in its zone.
    pub(crate) number: usize,
    pub(crate) region: &'z Region<M::Lock>,
    pub(crate) env: Env<'z, M>,
    /// What this hold has taken from pageblocks of other types.
    breaks: Cell<Breaks>,
    _held: Guard<'z, M::Lock>,
}

/// How often one hold of the lock took part of another type's pageblock. The zone raises its marks for each.
#[derive(Clone, Copy, Debug, Default)]
struct Breaks {
    count: u32,
    /// Whether reclaim may be woken for it.
    wakes: bool,
}

impl<M: Machine> Drop for ZoneGuard<'_, '_, M> {
    #[inline]
    fn drop(&mut self) {
        // The lock itself is released after this, with the field.
        if self.breaks.get().count > 0 {
            self.raise_boosts();
        }
        self.zone.add_up(self.region);
        self.zone.note_plenty(self.region);
        let mixed = if self.zone.other_blocks.get() == 0 { 0 } else { MIXED };
        self.zone.flags.replace(MIXED, mixed);
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Whether this is the lock of a page's region.
    #[inline]
    pub(crate) fn covers(&self, page: u32) -> bool {
        self.zone.region_of(page) == self.number
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

    /// Lowers the boost by up to `pages`. Returns the remaining boost.
    pub(crate) fn lower_boost(&self, pages: u64) -> u64 {
        self.zone.boost.lower(pages)
    }

    /// Records that a request took part of a pageblock of another type.
    pub(crate) fn note_break(&self, wakes: bool) {
        self.breaks.set(Breaks { count: self.breaks.get().count + 1, wakes });
    }

    /// Raises the marks after requests took part of other types' pageblocks. Specification 1.6, "Watermark boost".
    #[cold]
    fn raise_boosts(&self) {
        let (zone, Breaks { count, wakes }) = (self.zone, self.breaks.get());
        let (managed, high) = (zone.managed.get(), zone.marks[Mark::High as usize].get());
        for _ in 0..count {
            if zone.boost.raise(|boost| boosted(boost, managed, high, zone.boost_factor)) && wakes {
                zone.flags.set(BOOSTED, true);
            }
        }
    }
}
