//! How a request is served when its own migratetype has no block: claiming and stealing.
//!
//! Specification: `linux-page-allocator.md` 1.6. Everything here is called with the zone lock held.

use crate::buddy::list::End;
use crate::frame::MigrateType;
use crate::frame::{Order, PageState, start_of};
use crate::machine::Machine;
use crate::policy::{FallbackRule, Tuning};
use crate::sync;
use crate::zone::Zone;

use MigrateType::{Cma, Movable, Reclaimable, Unmovable};

/// From this order on a found block is worth its whole pageblock, whatever was wanted: half the pageblock's order.
const CLAIM_ORDER: u8 = Order::PAGEBLOCK.get() / 2;

/// The stage that served the last page, kept over the pages of one refill; before 6.15 always the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Own,
    Cma,
    Claim,
    Steal,
}

/// What a request asks of the free lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
    /// Whether CMA pageblocks may serve it.
    pub(crate) cma: bool,
    /// Whether it takes no part of a pageblock of another type.
    pub(crate) no_fragment: bool,
    /// Whether reclaim may be told of a boost that it causes.
    pub(crate) wakes: bool,
}

impl Wanted {
    /// The smallest order from which a whole pageblock is looked for.
    fn least(&self) -> Order {
        if self.no_fragment { self.order.max(Order::PAGEBLOCK) } else { self.order }
    }
}

/// Where blocks go that change their type. Specification 1.6.
fn end_of_moves(tuning: &Tuning) -> End {
    if tuning.fallback_tail { End::Tail } else { End::Head }
}

/// The types whose blocks serve a request when its own has none, best first.
const fn fallbacks(wanted: MigrateType) -> [MigrateType; 2] {
    match wanted {
        Unmovable => [Reclaimable, Movable],
        Reclaimable => [Unmovable, Movable],
        _ => [Reclaimable, Unmovable],
    }
}

/// Whether a block of this order may bring its whole pageblock to the wanted type: predicate C.
fn may_claim(order: Order, wanted: MigrateType) -> bool {
    order.get() >= CLAIM_ORDER || wanted != Movable
}

impl<M: Machine> Zone<'_, M> {
    /// Takes one block by whatever stage serves it; returns its first page, untagged.
    pub(crate) fn take(&self, machine: &M, tuning: &Tuning, wanted: Wanted, mode: &mut Mode) -> Option<u32> {
        let Wanted { order, migratetype, cma, .. } = wanted;
        if cma
            && self.prefers_cma()
            && let Some(page) = self.take_smallest(machine, order, Cma)
        {
            return Some(page);
        }
        if *mode <= Mode::Own
            && let Some(page) = self.take_smallest(machine, order, migratetype)
        {
            return Some(page);
        }
        let remembers = tuning.fallback == FallbackRule::ClaimThenSteal;
        if cma
            && *mode <= Mode::Cma
            && let Some(page) = self.take_smallest(machine, order, Cma)
        {
            *mode = if remembers { Mode::Cma } else { Mode::Own };
            return Some(page);
        }
        match tuning.fallback {
            FallbackRule::Steal | FallbackRule::StealInPlace => self.steal_before_615(machine, tuning, wanted),
            FallbackRule::ClaimThenSteal => {
                if *mode <= Mode::Claim
                    && let Some(page) = self.claim_any(machine, tuning, wanted)
                {
                    *mode = Mode::Own;
                    return Some(page);
                }
                if wanted.no_fragment {
                    return None;
                }
                let page = self.steal(machine, order, migratetype)?;
                *mode = Mode::Steal;
                Some(page)
            }
        }
    }

    /// Whether more than half of the free pages lie in CMA pageblocks.
    pub(crate) fn prefers_cma(&self) -> bool {
        use crate::sync::Held;
        self.free_cma.get() > self.free() / 2
    }

    /// The first fallback type with a block of this order: the type and the block.
    fn find_fallback(&self, order: Order, wanted: MigrateType) -> Option<(MigrateType, u32)> {
        fallbacks(wanted).into_iter().find_map(|other| {
            let slot = self.areas[order.index()][other.index()].first()?;
            Some((other, self.frames.page_of_slot(slot, order)))
        })
    }

    /// Whether a free block would serve a request without stealing: of its own type, CMA for a movable one, or of
    /// another type in a pageblock that may be claimed. Reads without the lock. Specification 7.6, step 5.
    pub(crate) fn has_block_for(&self, order: Order, wanted: MigrateType) -> bool {
        Order::all().skip(order.index()).any(|order| {
            let has = |migratetype| self.blocks(order, migratetype) > 0;
            has(wanted)
                || wanted == Movable && has(Cma)
                || may_claim(order, wanted) && fallbacks(wanted).into_iter().any(has)
        })
    }

    /// Stage CLAIM: from the largest blocks down, bring a whole pageblock over.
    fn claim_any(&self, machine: &M, tuning: &Tuning, wanted: Wanted) -> Option<u32> {
        for found in Order::all().skip(wanted.least().index()).rev() {
            let Some((_, page)) = self.find_fallback(found, wanted.migratetype) else { continue };
            if !may_claim(found, wanted.migratetype) {
                return None;
            }
            if let Some(page) = self.claim(machine, tuning, page, found, wanted) {
                sync::add(&self.claims, 1);
                return Some(page);
            }
        }
        None
    }

    /// Claims the pageblocks of a found block, if enough of them is free or of the wanted kind.
    fn claim(&self, machine: &M, tuning: &Tuning, page: u32, found: Order, wanted: Wanted) -> Option<u32> {
        let Wanted { order, migratetype, wakes, .. } = wanted;
        if found >= Order::PAGEBLOCK {
            self.remove(machine, page, found);
            self.retype(page, found, migratetype);
            self.split(machine, page, found, order, migratetype);
            return Some(page);
        }
        let start = start_of(page, Order::PAGEBLOCK);
        if !self.frames.block_type(start).is_ordinary() {
            return None;
        }
        self.raise_boost(wakes);
        if !self.is_mostly(machine, start, migratetype)? {
            return None;
        }
        self.move_free_blocks(machine, start, migratetype, end_of_moves(tuning));
        self.set_block_type(start, migratetype);
        self.take_smallest(machine, order, migratetype)
    }

    fn retype(&self, page: u32, order: Order, migratetype: MigrateType) {
        for at in (page..page + order.pages() as u32).step_by(Order::PAGEBLOCK.pages() as usize) {
            self.set_block_type(at, migratetype);
        }
    }

    /// Whether at least half of a pageblock is free or of the wanted kind; nothing where it leaves the zone.
    fn is_mostly(&self, machine: &M, start: u32, wanted: MigrateType) -> Option<bool> {
        let pageblock = Order::PAGEBLOCK.pages() as u32;
        if start < self.frames.first || start + pageblock > self.frames.end {
            return None;
        }
        let (mut free, mut movable) = (0, 0);
        self.each_block(machine, start, |tag_page, state, order| match state {
            PageState::Free => free += order.pages() as u32,
            PageState::Allocated if self.frames.tag(tag_page).kind() == Some(Movable) => {
                movable += order.pages() as u32;
            }
            _ => {}
        });
        let alike = if wanted == Movable {
            movable
        } else if self.frames.block_type(start) == Movable {
            pageblock.saturating_sub(free + movable)
        } else {
            0
        };
        Some(free + alike >= pageblock / 2)
    }

    /// Visits the blocks that begin in a pageblock, by their first pages. None of them is on its way to a pageset.
    fn each_block(&self, machine: &M, start: u32, mut visit: impl FnMut(u32, PageState, Order)) {
        self.wait_for_refills(machine);
        let end = start + Order::PAGEBLOCK.pages() as u32;
        let mut page = start;
        while page < end {
            let tag = self.frames.tag(page);
            match tag.state() {
                PageState::Inside => page += 1,
                state => {
                    visit(page, state, tag.order());
                    page += tag.order().pages() as u32;
                }
            }
        }
    }

    /// Moves the free blocks of a pageblock to another type's lists.
    pub(crate) fn move_free_blocks(&self, machine: &M, start: u32, to: MigrateType, end: End) {
        self.each_block(machine, start, |page, state, order| {
            if state == PageState::Free {
                self.remove(machine, page, order);
                self.add(machine, page, order, to, end);
            }
        });
    }

    /// Gives one pageblock another type, and its free blocks with it.
    pub(crate) fn change_type(&self, machine: &M, tuning: &Tuning, start: u32, to: MigrateType) {
        let neighbour = start ^ Order::PAGEBLOCK.pages() as u32;
        let both = start & neighbour;
        if self.is_free(both, Order::MAX) {
            self.remove(machine, both, Order::MAX);
            for half in [start, neighbour] {
                self.add(machine, half, Order::PAGEBLOCK, self.frames.block_type(half), End::Tail);
            }
        }
        self.move_free_blocks(machine, start, to, end_of_moves(tuning));
        self.set_block_type(start, to);
        let is_whole = |half| self.is_free(half, Order::PAGEBLOCK) && self.frames.block_type(half) == to;
        if is_whole(start) && is_whole(neighbour) {
            self.remove(machine, start, Order::PAGEBLOCK);
            self.free_block(machine, tuning, start, Order::PAGEBLOCK, to);
        }
    }

    /// Stage STEAL: the smallest fallback block, split on its own type's lists.
    fn steal(&self, machine: &M, order: Order, wanted: MigrateType) -> Option<u32> {
        let (found, (list, page)) = self.smallest_fallback(order, wanted)?;
        self.remove(machine, page, found);
        self.split(machine, page, found, order, list);
        sync::add(&self.steals, 1);
        Some(page)
    }

    fn smallest_fallback(&self, order: Order, wanted: MigrateType) -> Option<(Order, (MigrateType, u32))> {
        Order::all().skip(order.index()).find_map(|found| Some((found, self.find_fallback(found, wanted)?)))
    }

    /// The single search of before 6.15: steal the largest block, or for small movable requests the smallest.
    fn steal_before_615(&self, machine: &M, tuning: &Tuning, wanted: Wanted) -> Option<u32> {
        let Wanted { order, migratetype, .. } = wanted;
        let largest = Order::all()
            .skip(wanted.least().index())
            .rev()
            .find_map(|found| Some((found, self.find_fallback(found, migratetype)?)))?;
        let (found, (list, page)) = if !may_claim(largest.0, migratetype) && largest.0 > order {
            self.smallest_fallback(order, migratetype)?
        } else {
            largest
        };
        if tuning.fallback == FallbackRule::Steal {
            self.steal_block(machine, tuning, page, found, wanted);
            return self.take_smallest(machine, order, migratetype);
        }
        if may_claim(found, migratetype)
            && let Some(page) = self.claim(machine, tuning, page, found, wanted)
        {
            sync::add(&self.claims, 1);
            return Some(page);
        }
        self.remove(machine, page, found);
        self.split(machine, page, found, order, list);
        sync::add(&self.steals, 1);
        Some(page)
    }

    /// Brings a found block over, with its pageblock's other free blocks where that is worth it.
    fn steal_block(&self, machine: &M, tuning: &Tuning, page: u32, found: Order, wanted: Wanted) {
        let Wanted { migratetype: wanted, wakes, .. } = wanted;
        let start = start_of(page, Order::PAGEBLOCK);
        let end = end_of_moves(tuning);
        let move_one = || {
            self.remove(machine, page, found);
            self.add(machine, page, found, wanted, end);
        };
        if found >= Order::PAGEBLOCK {
            self.retype(page, found, wanted);
            sync::add(&self.claims, 1);
            return move_one();
        }
        let ordinary = self.frames.block_type(start).is_ordinary();
        if ordinary {
            self.raise_boost(wakes);
        }
        let whole = may_claim(found, wanted) && ordinary;
        let mostly = if whole { self.is_mostly(machine, start, wanted) } else { None };
        match mostly {
            Some(mostly) => {
                self.move_free_blocks(machine, start, wanted, end);
                if mostly {
                    self.set_block_type(start, wanted);
                    sync::add(&self.claims, 1);
                } else {
                    sync::add(&self.steals, 1);
                }
            }
            None => {
                move_one();
                sync::add(&self.steals, 1);
            }
        }
    }
}
