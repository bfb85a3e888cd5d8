//! Takes a block: of the own migratetype, from CMA, by claiming a pageblock, by stealing. Specification:
//! `linux-page-allocator.md` 1.6.

use crate::frame::{MigrateType, Order, start_of};
use crate::machine::Machine;
use crate::policy::FallbackRule;
use crate::sync::LockedWord;
use crate::zone::{Zone, ZoneGuard};

use MigrateType::{Cma, Movable, Reclaimable, Unmovable};

/// From this order on a found block justifies a claim of its pageblock, whatever the wanted type: half the pageblock's
/// order.
const CLAIM_ORDER: u8 = Order::PAGEBLOCK.get() / 2;

/// The stage that served the last page of a refill; before 6.15 always the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    Own,
    Cma,
    Claim,
    Steal,
}

/// A request to a zone's free lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
    /// Whether CMA pageblocks may serve the request.
    pub(crate) cma: bool,
    /// Whether the request must not take part of another type's pageblock.
    pub(crate) no_fragment: bool,
    /// Whether a boost that the request causes may wake reclaim.
    pub(crate) wakes: bool,
    /// Whether the request waits for the zone lock.
    pub(crate) waits: bool,
}

impl Wanted {
    /// The smallest order in which a fallback searches for a pageblock.
    pub(crate) fn smallest_claim(&self) -> Order {
        if self.no_fragment { self.order.max(Order::PAGEBLOCK) } else { self.order }
    }
}

/// The types whose blocks serve a request when its own type has none, best first.
const fn fallbacks(wanted: MigrateType) -> [MigrateType; 2] {
    match wanted {
        Unmovable => [Reclaimable, Movable],
        Reclaimable => [Unmovable, Movable],
        _ => [Reclaimable, Unmovable],
    }
}

/// Predicate C: whether a block of this order may claim its whole pageblock for the wanted type.
pub(crate) fn may_claim(order: Order, wanted: MigrateType) -> bool {
    order.get() >= CLAIM_ORDER || wanted != Movable
}

impl<M: Machine> Zone<'_, M> {
    /// Whether a free block would serve a request without stealing: a block of its own type, CMA for a movable request,
    /// or a block of another type in a pageblock that may be claimed. Only blocks on lists count, none in bitmaps. Reads without the lock.
    /// Specification 7.6, step 5.
    pub(crate) fn has_block_for(&self, order: Order, wanted: MigrateType) -> bool {
        Order::all().skip(order.index()).any(|order| {
            let has = |migratetype| self.has_listed(order, migratetype);
            has(wanted)
                || wanted == Movable && has(Cma)
                || may_claim(order, wanted) && fallbacks(wanted).into_iter().any(has)
        })
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Whether more than half of the free pages lie in CMA pageblocks.
    pub(crate) fn prefers_cma(&self) -> bool {
        self.region.free_cma.get() > self.region.free_pages.get() / 2
    }

    /// The first fallback type with a block of this order: the type and the block.
    pub(crate) fn find_fallback(&self, order: Order, wanted: MigrateType) -> Option<(MigrateType, u32)> {
        fallbacks(wanted).into_iter().find_map(|other| Some((other, self.first(order, other)?)))
    }

    /// The smallest sufficient block of a fallback type.
    pub(crate) fn smallest_fallback(&self, order: Order, wanted: MigrateType) -> Option<(Order, (MigrateType, u32))> {
        Order::all().skip(order.index()).find_map(|found| Some((found, self.find_fallback(found, wanted)?)))
    }

    /// Takes one block from the first stage that serves the request. Returns its first page, not yet tagged.
    pub(crate) fn take(&self, wanted: Wanted, stage: &mut Stage) -> Option<u32> {
        let Wanted { order, migratetype, cma, .. } = wanted;
        if cma
            && self.prefers_cma()
            && let Some(page) = self.take_smallest(order, Cma)
        {
            return Some(page);
        }
        if *stage <= Stage::Own
            && let Some(page) = self.take_smallest(order, migratetype)
        {
            return Some(page);
        }
        let remembers = self.env.tuning.fallback == FallbackRule::ClaimThenSteal;
        if cma
            && *stage <= Stage::Cma
            && let Some(page) = self.take_smallest(order, Cma)
        {
            *stage = if remembers { Stage::Cma } else { Stage::Own };
            return Some(page);
        }
        if !remembers {
            return self.steal_before_615(wanted);
        }
        if *stage <= Stage::Claim
            && let Some(page) = self.claim_any(wanted)
        {
            *stage = Stage::Own;
            return Some(page);
        }
        if wanted.no_fragment {
            return None;
        }
        let (found, (list, page)) = self.smallest_fallback(order, migratetype)?;
        self.steal(page, found, order, list);
        *stage = Stage::Steal;
        Some(page)
    }

    /// Stage CLAIM: claims a whole pageblock, starting with the largest blocks.
    fn claim_any(&self, wanted: Wanted) -> Option<u32> {
        for found in Order::all().skip(wanted.smallest_claim().index()).rev() {
            let Some((_, page)) = self.find_fallback(found, wanted.migratetype) else { continue };
            if !may_claim(found, wanted.migratetype) {
                return None;
            }
            if let Some(page) = self.claim(page, found, wanted) {
                return Some(page);
            }
        }
        None
    }

    /// Claims the pageblocks of a found block, if enough of their pages are free or of a compatible type.
    pub(crate) fn claim(&self, page: u32, found: Order, wanted: Wanted) -> Option<u32> {
        let Wanted { order, migratetype, wakes, .. } = wanted;
        if found >= Order::PAGEBLOCK {
            self.remove(page, found);
            self.retype(page, found, migratetype);
            self.split(page, found, order, migratetype);
            self.zone.claims.add(1);
            return Some(page);
        }
        let start = start_of(page, Order::PAGEBLOCK);
        if !self.zone.frames.block_type(start).is_ordinary() {
            return None;
        }
        self.note_break(wakes);
        if !self.is_mostly(start, migratetype)? {
            return None;
        }
        self.settle(start, Order::PAGEBLOCK);
        self.move_free_blocks(start, migratetype, self.end_of_moves());
        self.set_block_type(start, migratetype);
        let taken = self.take_smallest(order, migratetype);
        self.zone.claims.add(u64::from(taken.is_some()));
        taken
    }

    /// Stage STEAL: takes a block of another type and leaves its upper halves on that type's lists.
    pub(crate) fn steal(&self, page: u32, found: Order, order: Order, list: MigrateType) {
        self.remove(page, found);
        self.split(page, found, order, list);
        self.zone.steals.add(1);
    }
}
