//! Fallback before 6.15: one search that steals what it finds. Specification: `linux-page-allocator.md` 1.6.

use crate::buddy::{Wanted, may_claim};
use crate::frame::{Order, start_of};
use crate::machine::Machine;
use crate::policy::FallbackRule;
use crate::zone::ZoneGuard;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes a block of another type: the largest, or for a small movable request the smallest.
    pub(crate) fn steal_before_615(&self, wanted: Wanted) -> Option<u32> {
        let Wanted { order, migratetype, .. } = wanted;
        let largest = Order::all()
            .skip(wanted.smallest_claim().index())
            .rev()
            .find_map(|found| Some((found, self.find_fallback(found, migratetype)?)))?;
        let (found, (list, page)) = if !may_claim(largest.0, migratetype) && largest.0 > order {
            self.smallest_fallback(order, migratetype)?
        } else {
            largest
        };
        if self.env.tuning.fallback == FallbackRule::Steal {
            self.bring_over(page, found, wanted);
            return self.take_smallest(order, migratetype);
        }
        if may_claim(found, migratetype)
            && let Some(page) = self.claim(page, found, wanted)
        {
            return Some(page);
        }
        self.steal(page, found, order, list);
        Some(page)
    }

    /// Moves a found block to the wanted type's lists, and also its pageblock's other free blocks if that qualifies.
    fn bring_over(&self, page: u32, found: Order, wanted: Wanted) {
        let Wanted { migratetype: wanted, wakes, .. } = wanted;
        let start = start_of(page, Order::PAGEBLOCK);
        let end = self.end_of_moves();
        let move_one = || {
            self.remove(page, found);
            self.put(page, found, wanted, end);
        };
        if found >= Order::PAGEBLOCK {
            self.retype(page, found, wanted);
            self.zone.claims.add(1);
            return move_one();
        }
        let ordinary = self.zone.frames.block_type(start).is_ordinary();
        if ordinary {
            self.note_break(wakes);
        }
        let whole = may_claim(found, wanted) && ordinary;
        let mostly = if whole { self.is_mostly(start, wanted) } else { None };
        let Some(mostly) = mostly else {
            self.zone.steals.add(1);
            return move_one();
        };
        self.move_free_blocks(start, wanted, end);
        if mostly {
            self.set_block_type(start, wanted);
            self.zone.claims.add(1);
        } else {
            self.zone.steals.add(1);
        }
    }
}
