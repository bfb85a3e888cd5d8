//! A part of a zone with free lists and a lock of its own, holds of that lock, and the sums over all parts.
//!
//! Blocks of different regions never merge, because a region consists of whole blocks of the largest order. A zone with one region
//! is a zone as the kernel has it.

use core::cell::Cell;
use core::iter;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU32};

use super::depot::Depot;
use super::{Env, MIXED, Zone};
use crate::frame::{List, MigrateType, Order};
use crate::machine::{Access, Guard, Line, LockPath, Machine};
use crate::policy::HighAtomicRule;
use crate::sync::{self, AtomicU64, Counter, LockedWord};

/// A part of a zone: a lock, and the free lists of the pages in this part. [`crate::ZoneMetadata`] brings the memory for it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Region<L> {
    pub(crate) lock: L,
    /// Pages on free lists of types other than ISOLATE.
    pub(crate) free_pages: AtomicU64,
    /// Free pages in CMA pageblocks.
    pub(crate) free_cma: AtomicU64,
    /// Free pages on HIGHATOMIC lists.
    pub(crate) free_highatomic: AtomicU64,
    /// The part of these three numbers that the zone's sums contain.
    added: Added,
    /// The orders, from 0 on, up to that of the largest block on lists of ordinary types.
    largest: AtomicU8,
    /// Holds of the lock by [`LockPath`].
    pub(crate) holds: [AtomicU64; LockPath::COUNT],
    /// Pages that bypassed the pagesets.
    pub(crate) direct_alloc_pages: AtomicU64,
    pub(crate) direct_free_pages: AtomicU64,
    /// Batches of blocks for the next refills.
    pub(crate) depot: Depot,
    pub(crate) bitmaps: InBitmaps,
    /// By order and migratetype.
    areas: [[List; MigrateType::COUNT]; Order::COUNT],
}

/// What a region knows of its bitmaps. A cache line of its own: drains and refills write it without the region's lock.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct InBitmaps {
    /// A part of the number of pages in the zone's bitmaps: [`Zone::bitmap_pages`]. CPUs that prefer the region count here, whatever the
    /// pages' regions, so a part may be below 0.
    pub(crate) pages: Counter,
    /// Refills that found pages in the region's bitmaps, and their number at the last tick that looked after them.
    pub(crate) refills: Counter,
    pub(crate) refills_seen: AtomicU32,
    /// The pageblock at which the next search for blocks of an order begins, by order. A hint.
    pub(crate) from: [AtomicU32; Order::PAGEBLOCK.index()],
}

/// Numbers of free pages.
#[derive(Debug)]
struct Added {
    free: AtomicU64,
    cma: AtomicU64,
    highatomic: AtomicU64,
}

impl<L: Default> Default for Region<L> {
    // Built in place: a kernel has a small stack.
    #[inline(always)]
    fn default() -> Self {
        Region::new(L::default())
    }
}

impl<L> Region<L> {
    /// A region without pages, behind an open lock.
    #[inline(always)]
    #[must_use]
    pub const fn new(lock: L) -> Self {
        Region {
            lock,
            free_pages: AtomicU64::new(0),
            free_cma: AtomicU64::new(0),
            free_highatomic: AtomicU64::new(0),
            added: Added { free: AtomicU64::new(0), cma: AtomicU64::new(0), highatomic: AtomicU64::new(0) },
            largest: AtomicU8::new(0),
            holds: [const { AtomicU64::new(0) }; LockPath::COUNT],
            direct_alloc_pages: AtomicU64::new(0),
            direct_free_pages: AtomicU64::new(0),
            depot: Depot::new(),
            bitmaps: InBitmaps {
                pages: Counter::new(),
                refills: Counter::new(),
                refills_seen: AtomicU32::new(0),
                from: [const { AtomicU32::new(0) }; Order::PAGEBLOCK.index()],
            },
            areas: const { [const { [const { List::new() }; MigrateType::COUNT] }; Order::COUNT] },
        }
    }

    pub(crate) fn list(&self, order: Order, list: MigrateType) -> &List {
        &self.areas[order.index()][list.index()]
    }

    pub(crate) fn free(&self) -> FreePages {
        FreePages { all: self.free_pages.get(), cma: self.free_cma.get(), highatomic: self.free_highatomic.get() }
    }
}

/// Free pages of a region or a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FreePages {
    /// On lists of types other than ISOLATE.
    pub(crate) all: u64,
    pub(crate) cma: u64,
    pub(crate) highatomic: u64,
}

/// Sums over the regions of a zone, without what each region has not yet added. A cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Totals {
    free: Counter,
    cma: Counter,
    highatomic: Counter,
}

impl Totals {
    #[inline]
    pub(crate) const fn new() -> Self {
        Totals { free: Counter::new(), cma: Counter::new(), highatomic: Counter::new() }
    }
}

impl<M: Machine> Zone<'_, M> {
    /// The free pages of the zone, with those in bitmaps, at a recent moment. Exact with one region and no bitmaps while the region's lock is
    /// held. Reads every region.
    #[inline]
    pub(crate) fn free_pages(&self) -> FreePages {
        FreePages {
            all: self.free(),
            cma: self.sum(|region| &region.free_cma),
            highatomic: self.sum(|region| &region.free_highatomic),
        }
    }

    /// Pages in bitmaps, at a recent moment.
    #[inline]
    pub(crate) fn bitmap_pages(&self) -> u64 {
        let sum =
            self.regions.iter().fold(0, |sum: usize, region| sum.wrapping_add(region.bitmaps.pages.get() as usize));
        // Below 0 if a page was counted as taken before it was counted as free.
        sum.cast_signed().max(0) as u64
    }

    /// Pages on free lists of types other than ISOLATE, and in bitmaps: [`Self::free_pages`].
    #[inline]
    pub(crate) fn free(&self) -> u64 {
        self.listed() + self.bitmap_pages()
    }

    /// Pages on free lists of types other than ISOLATE.
    #[inline]
    pub(crate) fn listed(&self) -> u64 {
        if let [one] = self.regions {
            return one.free_pages.get();
        }
        self.regions.iter().map(|region| region.free_pages.get()).sum()
    }

    /// Free blocks of one order and type.
    pub(crate) fn blocks(&self, order: Order, list: MigrateType) -> u32 {
        self.regions.iter().map(|region| region.list(order, list).len()).sum()
    }

    /// Whether a block of one order and type is on a list.
    pub(crate) fn has_listed(&self, order: Order, list: MigrateType) -> bool {
        self.regions.iter().any(|region| region.list(order, list).len() > 0)
    }

    /// The orders, from 0 on, that the zone's free lists of ordinary types have a block for; single pages need none. `region` is the one
    /// whose lock is held: only its lists have changed since the last call.
    pub(crate) fn orders_with_blocks(&self, region: &Region<M::Lock>) -> u8 {
        let ordinary = &MigrateType::ALL[..MigrateType::PCP_COUNT];
        let has = |order: &Order| ordinary.iter().any(|&migratetype| region.list(*order, migratetype).len() > 0);
        let orders = Order::all().rev().find(has).map_or(0, |order| order.get() + 1);
        if self.regions.len() == 1 {
            return orders.max(1);
        }
        let before = region.largest.get();
        if before != orders {
            region.largest.set(orders);
            let count = |orders: u8| orders.checked_sub(1).and_then(|order| self.largest.get(usize::from(order)));
            // Relaxed: only the sums count, and each region's part changes under its lock. Added first, so that a zone that has a
            // block never looks as if it had none.
            let _ = count(orders).map(|regions| regions.fetch_add(1, Relaxed));
            let _ = count(before).map(|regions| regions.fetch_sub(1, Relaxed));
        }
        let largest = self.largest.iter().rposition(|regions| regions.load(Relaxed) > 0);
        largest.map_or(1, |order| order as u8 + 1)
    }

    /// Free pages of the zone that certainly exist and serve every request: fewer than [`Self::free_pages`] would say, by what the regions may
    /// not have added to the sums yet. One read instead of one for each region. 0 with one region, which keeps no sums, and where pages
    /// are kept for some requests.
    #[inline]
    pub(crate) fn surely_free(&self) -> u64 {
        if self.regions.len() == 1 || self.highatomic != HighAtomicRule::Free {
            return 0;
        }
        let Totals { free, cma, highatomic } = &self.totals;
        let [free, cma, highatomic] = [free, cma, highatomic].map(Counter::get);
        free.saturating_sub(cma)
            .saturating_sub(highatomic)
            .saturating_sub(3 * self.region_drift() * self.regions.len() as u64)
    }

    /// How many pages a region may change before it adds them to the sums: together a 64th of the zone.
    fn region_drift(&self) -> u64 {
        u64::from(self.frames.len()) / (64 * self.regions.len().max(1) as u64)
    }

    /// Adds to the zone's sums what has changed in a region, whose lock is held, where that is more than a few pages.
    #[inline]
    pub(crate) fn add_up(&self, region: &Region<M::Lock>) {
        if self.regions.len() == 1 {
            return;
        }
        let most = self.region_drift();
        for (sum, added, now) in [
            (&self.totals.free, &region.added.free, region.free_pages.get()),
            (&self.totals.cma, &region.added.cma, region.free_cma.get()),
            (&self.totals.highatomic, &region.added.highatomic, region.free_highatomic.get()),
        ] {
            if now.abs_diff(added.get()) > most {
                // Wraps: the sum of all changes is never below 0.
                sum.add(now.wrapping_sub(added.get()));
                added.set(now);
            }
        }
    }

    /// The number of the region that a page is in.
    #[inline]
    pub(crate) fn region_of(&self, page: u32) -> usize {
        (u64::from(page) >> self.region_order) as usize
    }

    /// The page after the last one of a page's region.
    pub(crate) fn region_end(&self, page: u32) -> u32 {
        let end = (self.region_of(page) as u64 + 1) << self.region_order;
        end.min(u64::from(self.frames.len())) as u32
    }

    /// Cuts the pages from `first` to `end` into pieces of at most `most` pages, each in one region: their first pages and ends.
    pub(crate) fn pieces(&self, first: u32, end: u32, most: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut at = first;
        iter::from_fn(move || {
            let from = at;
            at = self.region_end(from).min(from.saturating_add(most)).min(end);
            (from < end).then_some((from, at))
        })
    }

    /// The pageblocks of a region by their numbers: the first, and the one after its last.
    pub(crate) fn pageblocks_of(&self, region: usize) -> (u32, u32) {
        let start = (region as u64) << self.region_order;
        let end = self.region_end(start as u32);
        (start as u32 >> Order::PAGEBLOCK.get(), end >> Order::PAGEBLOCK.get())
    }

    /// The numbers of all regions, from one on and around.
    pub(crate) fn regions_from(&self, first: usize) -> impl Iterator<Item = usize> + use<M> {
        (first..self.regions.len()).chain(0..first.min(self.regions.len()))
    }

    /// The sum of a counter over the regions, at a recent moment.
    #[inline]
    pub(crate) fn sum(&self, counter: impl Fn(&Region<M::Lock>) -> &AtomicU64) -> u64 {
        self.regions.iter().map(|region| counter(region).get()).sum()
    }
}

/// The locks of the regions.
impl<'a, M: Machine> Zone<'a, M> {
    /// Takes the lock of a region, waits for it, and counts the hold. [`RawLock`](crate::machine::RawLock) has the order of the locks.
    pub(crate) fn lock_region<'z>(&'z self, env: Env<'z, M>, path: LockPath, number: usize) -> ZoneGuard<'z, 'a, M> {
        let region = self.before_lock(env, path, number);
        self.locked(env, path, number, region, Guard::lock(&region.lock))
    }

    /// As [`Self::lock_region`], for a caller that waits for the lock or does not.
    #[inline]
    pub(crate) fn lock_or_try<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
        waits: bool,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        if waits {
            return Some(self.lock_region(env, path, number));
        }
        let region = self.before_lock(env, path, number);
        let guard = Guard::try_lock(&region.lock)?;
        // A holder may wait for refills in flight, and the caller may have interrupted one of them.
        self.research.is_at_rest().then(|| self.locked(env, path, number, region, guard))
    }

    /// Takes the lock of the region that a page is in, and waits for it.
    pub(crate) fn lock_page<'z>(&'z self, env: Env<'z, M>, path: LockPath, page: u32) -> ZoneGuard<'z, 'a, M> {
        self.lock_region(env, path, self.region_of(page))
    }

    /// As [`Self::lock_page`], for a caller that waits for the lock or does not.
    pub(crate) fn lock_at<'z>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        page: u32,
        waits: bool,
    ) -> Option<ZoneGuard<'z, 'a, M>> {
        self.lock_or_try(env, path, self.region_of(page), waits)
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
        ZoneGuard { zone: self, number, region, env, breaks: Cell::new(Breaks::NONE), _held: held }
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
    pub(super) breaks: Cell<Breaks>,
    _held: Guard<'z, M::Lock>,
}

/// How often one hold of the lock took part of another type's pageblock. The zone raises its marks for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaks {
    pub(super) count: u32,
    /// Whether reclaim may be woken for it.
    pub(super) wakes: bool,
}

impl Breaks {
    const NONE: Breaks = Breaks { count: 0, wakes: false };
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

    /// Counts pages allocated without a pageset.
    pub(crate) fn count_direct_alloc(&self, pages: u64) {
        sync::add(&self.region.direct_alloc_pages, pages);
    }
}
