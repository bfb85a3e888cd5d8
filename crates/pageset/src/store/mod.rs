//! What lies behind the pagesets: stores of free pages, asked in order. Uses `frame`, `machine`, `policy`, `zone`, `buddy`.
//!
//! A refill asks one store after the other until it has its blocks. A free that drains
//! offers blocks to depots, then bitmaps, then free lists; every other drain goes to the free lists at once. Who needs every free
//! page settles the stores: their pages go to the free lists. How long a store holds which lock is its own concern.
//!
//! | module | store |
//! | --- | --- |
//! | `depot` | [`Batches`]: batches that drains left as they were, for the next refill |
//! | `bitmaps` | [`Parts`]: free parts of pageblocks, set and taken without a lock |
//! | `lists` | [`Lists`]: the free lists of the regions, which have every other free page |
//! | `refill` | the way of blocks to a pageset or a request: which regions are asked, and how long their locks are held |
//! | `whole_blocks` | a block split at once into the pages of a list, and pages freed as one block |
//! | `memory` | the memory of the stores |
//! | `walk` | the audit's walk of the free lists |

pub(crate) mod bitmaps;
pub(crate) mod depot;
pub(crate) mod lists;
mod memory;
mod refill;
mod walk;
mod whole_blocks;

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::buddy::{Capture, Wanted};
use crate::frame::{MigrateType, Order};
use crate::machine::Machine;
use crate::policy::Tuning;
use crate::zone::{Env, Mismatch, Zone, ZoneGuard};

pub(crate) use bitmaps::Parts;
pub(crate) use depot::Batches;
pub(crate) use lists::Lists;
pub(crate) use memory::StoreMemory;
pub(crate) use refill::{Direct, refill, take_direct};
pub(crate) use walk::check_tag;

/// The stores whose pages are on no free list.
pub(crate) const HIDDEN: (Batches, Parts) = (Batches, Parts);
/// All stores, in the order in which refills ask them.
pub(crate) const ALL: (Batches, (Parts, Lists)) = (Batches, (Parts, Lists));

/// What the audit does with each block of a store: its first page and its order. An error ends the walk of all stores.
pub(crate) type Visit<'v> = dyn FnMut(u32, Order) -> Result<(), Mismatch> + 'v;

/// A store of free pages behind the pagesets of a zone.
///
/// Callers hold the pageset's lock in [`Self::take`] and [`Self::give`], and no lock in [`Self::find`], [`Self::settle`] and [`Self::tick`];
/// that of a region only where [`Refill::held`] is set. `take` tags blocks Cached, `find` Allocated. The caller counts the pageset's pages.
/// The last store of [`ALL`] takes all that is offered; the others may give and take nothing. A store that has pages is also named in
/// [`hides`], [`counts`], [`Scope`] and [`StoreMemory`].
pub(crate) trait Store {
    /// Fills the list of a refill with up to `most` blocks. Returns their number.
    fn take<M: Machine>(&self, refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32;

    /// Whether a refill that holds no lock should take the region's first, for this store's blocks.
    #[inline(always)]
    fn is_worth_a_lock<M: Machine>(&self, _refill: &Refill<'_, M>) -> bool {
        false
    }

    /// Takes the oldest blocks of a pageset's lists: at most 512 blocks if holds are short; no pages if it takes none.
    fn give<M: Machine>(&self, drain: &Drain<'_, M>, cache: &impl Cache) -> Given;

    /// Takes a block for a request that bypasses the pageset, and tags it. Searches from `region` on.
    #[inline(always)]
    fn find<M: Machine>(&self, _zone: &Zone<'_, M>, _env: Env<'_, M>, _wanted: Wanted, _region: usize) -> Option<u32> {
        None
    }

    /// Moves the pages of a scope to the free lists. Waits for the locks of regions, one at a time. Pages that other CPUs free meanwhile may
    /// stay. Returns the scope of what is left to do.
    fn settle<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, scope: Scope) -> Option<Scope>;

    /// Moves those pages of a region to the free lists that no refill needed since the last call.
    #[inline(always)]
    fn tick<M: Machine>(&self, _zone: &Zone<'_, M>, _env: Env<'_, M>, _region: usize) {}

    /// Whether a region may have a block for a request of so many pages, at a recent moment.
    fn may_serve<M: Machine>(&self, zone: &Zone<'_, M>, region: usize, pages: u64) -> bool;

    /// The free pages here, at a recent moment.
    fn pages<M: Machine>(&self, zone: &Zone<'_, M>) -> u64;

    /// Visits the largest blocks here that a request of their order could have, by their orders and their pageblocks' types, at a recent
    /// moment.
    fn each_block<M: Machine>(&self, _zone: &Zone<'_, M>, _visit: &mut dyn FnMut(Order, MigrateType)) {}

    /// Visits, for the audit, the blocks here that are tagged Cached, until `visit` fails. Compares their number with the counters.
    fn audit_cached<M: Machine>(&self, _zone: &Zone<'_, M>, _visit: &mut Visit<'_>) -> Result<(), Mismatch> {
        Ok(())
    }

    /// Checks, for the audit, the pages here that count as free pages of the zone. Returns their number.
    fn audit_free<M: Machine>(&self, _zone: &Zone<'_, M>) -> Result<Audited, Mismatch> {
        Ok(Audited::default())
    }
}

/// Two stores, asked one after the other.
impl<A: Store, B: Store> Store for (A, B) {
    #[inline(always)]
    fn take<M: Machine>(&self, refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32 {
        if refill.held.is_none() && self.0.is_worth_a_lock(refill) {
            return 0;
        }
        let taken = self.0.take(refill, cache, most);
        if taken < most { taken + self.1.take(refill, cache, most - taken) } else { taken }
    }

    #[inline(always)]
    fn is_worth_a_lock<M: Machine>(&self, refill: &Refill<'_, M>) -> bool {
        self.0.is_worth_a_lock(refill) || self.1.is_worth_a_lock(refill)
    }

    #[inline(always)]
    fn give<M: Machine>(&self, drain: &Drain<'_, M>, cache: &impl Cache) -> Given {
        let given = self.0.give(drain, cache);
        if given.pages == 0 { self.1.give(drain, cache) } else { given }
    }

    fn find<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, wanted: Wanted, region: usize) -> Option<u32> {
        self.0.find(zone, env, wanted, region).or_else(|| self.1.find(zone, env, wanted, region))
    }

    fn settle<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
        let left = self.0.settle(zone, env, scope);
        // Only bitmaps leave anything.
        self.1.settle(zone, env, scope).or(left)
    }

    #[inline(always)]
    fn tick<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, region: usize) {
        self.1.tick(zone, env, region);
        self.0.tick(zone, env, region);
    }

    #[inline(always)]
    fn may_serve<M: Machine>(&self, zone: &Zone<'_, M>, region: usize, pages: u64) -> bool {
        // The last one first: free lists tell at once.
        self.1.may_serve(zone, region, pages) || self.0.may_serve(zone, region, pages)
    }

    fn pages<M: Machine>(&self, zone: &Zone<'_, M>) -> u64 {
        self.0.pages(zone) + self.1.pages(zone)
    }

    fn each_block<M: Machine>(&self, zone: &Zone<'_, M>, visit: &mut dyn FnMut(Order, MigrateType)) {
        self.0.each_block(zone, visit);
        self.1.each_block(zone, visit);
    }

    fn audit_cached<M: Machine>(&self, zone: &Zone<'_, M>, visit: &mut Visit<'_>) -> Result<(), Mismatch> {
        self.0.audit_cached(zone, visit)?;
        self.1.audit_cached(zone, visit)
    }

    fn audit_free<M: Machine>(&self, zone: &Zone<'_, M>) -> Result<Audited, Mismatch> {
        let (one, other) = (self.0.audit_free(zone)?, self.1.audit_free(zone)?);
        Ok(Audited { listed: one.listed + other.listed, unlisted: one.unlisted + other.unlisted })
    }
}

/// The free pages that the audit found in a store: `listed` are in blocks, which its walk over all tags meets again; `unlisted` are in none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Audited {
    pub(crate) listed: u64,
    pub(crate) unlisted: u64,
}

impl Audited {
    pub(crate) fn all(self) -> u64 {
        self.listed + self.unlisted
    }
}

/// The counters of the stores.
pub(crate) struct Counts {
    /// Pages in depots, that came there, and that refills took from there.
    pub(crate) depot: u64,
    pub(crate) depot_in_pages: u64,
    pub(crate) depot_out_pages: u64,
    /// Pages in bitmaps.
    pub(crate) bitmap: u64,
}

/// The counters of a zone's stores, at a recent moment.
pub(crate) fn counts<M: Machine>(zone: &Zone<'_, M>) -> Counts {
    Counts {
        depot: Batches.pages(zone),
        depot_in_pages: zone.sum(|region| &region.depot.pages_in),
        depot_out_pages: zone.sum(|region| &region.depot.pages_out),
        bitmap: Parts.pages(zone),
    }
}

/// A pageset whose lock is held, as the stores see it.
pub(crate) trait Cache {
    /// Inserts up to `blocks` blocks at the bottom of a list, the first of which is the newest of them. Returns their number.
    fn fill(&self, list: usize, blocks: u32, next: impl FnMut() -> Option<u32>) -> u32;
    /// The oldest blocks of a list, as many as lie together.
    fn oldest(&self, list: usize) -> &[AtomicU32];
    /// Takes `blocks` blocks of [`Self::oldest`] off their list.
    fn drop_oldest(&self, list: usize, blocks: u32);
    /// Takes the oldest block of a list.
    fn pop_oldest(&self, list: usize) -> Option<u32>;
    /// The number of single pages for which there is certainly room: each page needs at most one entry.
    #[cfg(feature = "research")]
    fn room(&self) -> u32;
    /// The region that the pageset prefers. A hint.
    fn region(&self) -> &AtomicU32;
    /// Counts pages that came or left without a lock of the zone.
    fn count_unlocked(&self, pages: u64);
}

/// What a refill wants.
pub(crate) struct Refill<'r, M: Machine> {
    pub(crate) zone: &'r Zone<'r, M>,
    pub(crate) env: Env<'r, M>,
    pub(crate) list: usize,
    pub(crate) wanted: Wanted,
    /// The region whose pages are wanted, and its lock where the caller holds it.
    pub(crate) region: usize,
    pub(crate) held: Option<&'r ZoneGuard<'r, 'r, M>>,
    /// Whether the rest of a block that is split may go to a store that hides it. Where memory is short, it goes to the lists, as
    /// drains do.
    pub(crate) leaves: bool,
    /// The batch of the pageset, in pages.
    pub(crate) batch: u32,
}

/// What a drain offers: about `wanted` pages, of whole lists from `start` on.
pub(crate) struct Drain<'d, M: Machine> {
    pub(crate) zone: &'d Zone<'d, M>,
    pub(crate) env: Env<'d, M>,
    pub(crate) wanted: u32,
    pub(crate) start: usize,
    pub(crate) batch: u32,
    /// The compaction that waits for a block.
    pub(crate) capture: Option<&'d Capture>,
}

/// Whether one hold of the zone's only lock serves a refill or a drain, as in the kernels.
#[inline]
pub(crate) fn is_one_hold<M: Machine>(zone: &Zone<'_, M>, env: Env<'_, M>) -> bool {
    matches!(zone.regions, [_]) && !env.tuning.backing.has_short_holds()
}

/// What a store took from a drain.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given {
    pub(crate) pages: u32,
    /// The rest is not worth another hold of the pageset's lock.
    pub(crate) ends: bool,
}

/// Whether the zone has stores whose pages are on no free list.
#[inline(always)]
pub(crate) fn hides<M: Machine>(zone: &Zone<'_, M>) -> bool {
    Batches.are_kept(zone) || Parts.are_kept(zone)
}

/// Pages of the stores that do not count as free pages of the zone, at a recent moment.
pub(crate) fn cached_pages<M: Machine>(zone: &Zone<'_, M>) -> u64 {
    Batches.pages(zone)
}

/// Whose pages [`Store::settle`] moves to free lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Of all stores of the zone: of depots, then of bitmaps. [`CachedZone::settle`](crate::pcp::CachedZone::settle) also moves those of
    /// pagesets and of deferred frees.
    Zone,
    /// What a request of this order may lack on the free lists: of depots; for an order above 0, for which parts must merge, then of
    /// bitmaps. Single pages are taken from bitmaps as they are.
    Request(Order),
    /// Small free blocks whose merge waits: single pages that were freed without merging, and the parts in bitmaps.
    Unmerged,
    /// Of bitmaps: free parts of pageblocks, from the pageblock of this number on. One call looks after 64 pageblocks.
    Parts(u32),
    /// Of the bitmap of the pageblock that begins at this page, if it may have free parts.
    Pageblock(u32),
}

/// Whether [`Scope::Request`] has pages to move for a request of an order, at a recent moment.
#[cfg_attr(not(feature = "rules"), inline(never))]
pub(crate) fn may_settle_for<M: Machine>(zone: &Zone<'_, M>, order: Order) -> bool {
    Batches.pages(zone) > 0 || order > Order::ZERO && Parts.pages(zone) > 0
}

/// Settles the pages of some regions that no refill needed for a round. A round is `cpus` ticks, of any CPUs. Each tick looks after the next
/// regions in turn, so no region depends on one CPU. Returns whether a region has hidden pages.
pub(crate) fn tick<M: Machine>(zone: &Zone<'_, M>, env: Env<'_, M>, cpus: u32) -> bool {
    let regions = zone.regions.len() as u32;
    if !hides(zone) || cpus == 0 {
        return false;
    }
    // Relaxed: which tick looks after which region does not matter. The sum wraps, and a turn may then come early.
    let turn = u64::from(zone.turn.fetch_add(regions, Relaxed));
    let (first, end) = (turn / u64::from(cpus), (turn + u64::from(regions)) / u64::from(cpus));
    for number in (first..end).map(|turn| (turn % u64::from(regions)) as usize) {
        HIDDEN.tick(zone, env, number);
    }
    (0..regions as usize).any(|number| HIDDEN.may_serve(zone, number, 1))
}

/// The type stored in a cached page's tag: its pageblock's type. Specification 2.6.
pub(crate) fn remembered_type<M: Machine>(
    zone: &Zone<'_, M>,
    tuning: &Tuning,
    page: u32,
    asked: MigrateType,
) -> MigrateType {
    if tuning.type_at_drain { asked } else { zone.frames.block_type(page) }
}
