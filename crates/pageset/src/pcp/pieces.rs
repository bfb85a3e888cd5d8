//! Blocks taken apart at once into those that a pageset holds, and those put together to blocks at once.
//!
//! What comes of it is what comes of splitting and merging one by one: the same pages in the same order, the same blocks
//! in the same places of the same lists. On the way no block enters a list only to leave it again.
//! Specification: `linux-page-allocator.md` 1.5, 2.4, 3.3.

use core::sync::atomic::AtomicU32;

use super::Pageset;
use crate::buddy::fallback::Wanted;
use crate::buddy::list::End;
use crate::frame::range::largest_blocks;
use crate::frame::{Order, Tag};
use crate::machine::Machine;
use crate::policy::Tuning;
use crate::sync::Held;
use crate::zone::Zone;

/// What is left of a block that a refill takes apart: pages that are on no list, in pieces of `step`.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    next: u32,
    end: u32,
    step: u32,
}

impl Iterator for Pieces {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        (self.next < self.end).then(|| {
            self.next += self.step;
            self.next - self.step
        })
    }
}

impl<M: Machine> Zone<'_, M> {
    /// Whether a pageset's blocks may come in larger ones: nothing is kept for each.
    fn takes_pieces(&self, machine: &M) -> bool {
        machine.splits_at_once() && !self.clusters.exist()
    }

    /// Whether they may go in larger ones: also, nobody follows each.
    fn gives_blocks(&self, machine: &M) -> bool {
        !machine.follows_picks() && !self.clusters.exist()
    }

    /// Takes the smallest block of the wanted type, for its pieces one after the other; returns the first. The smaller lists
    /// of that type are empty, so that the pieces come in the order in which splitting would bring them. Nothing where other
    /// types come into it. The zone lock is held.
    pub(super) fn cut_pieces(&self, machine: &M, wanted: Wanted, pieces: &mut Pieces) -> Option<u32> {
        if !self.takes_pieces(machine) || self.free_cma.get() > 0 {
            return None;
        }
        let list = |order: Order| &self.areas[order.index()][wanted.migratetype.index()];
        let mut orders = Order::all().skip(wanted.order.index());
        let (order, slot) = orders.find_map(|order| Some((order, list(order).first()?)))?;
        let page = self.frames.page_of_slot(slot, order);
        self.remove(machine, page, order);
        self.touch_halves(machine, page, order, wanted);
        *pieces = Pieces { next: page, end: page + order.pages() as u32, step: wanted.order.pages() as u32 };
        pieces.next()
    }

    /// The next piece of a block that is taken apart. The zone lock is held.
    #[inline]
    pub(super) fn next_piece(&self, machine: &M, wanted: Wanted, pieces: &mut Pieces) -> Option<u32> {
        let page = pieces.next()?;
        if machine.follows_picks() {
            // Of the halves that splitting would have left the smallest begins here, alone on its list.
            let order = Order::new(page.trailing_zeros() as u8).unwrap_or(Order::MAX);
            self.touch_list(machine, page, order, wanted.migratetype);
            self.touch_halves(machine, page, order, wanted);
        }
        Some(page)
    }

    /// Tells of the halves that splitting a block would put on their lists, which are empty.
    fn touch_halves(&self, machine: &M, page: u32, order: Order, wanted: Wanted) {
        if machine.follows_picks() {
            for half in Order::all().take(order.index()).skip(wanted.order.index()).rev() {
                self.touch_list(machine, page + half.pages() as u32, half, wanted.migratetype);
            }
        }
    }

    /// Gives back what a refill did not need: the halves that splitting would have left. The zone lock is held.
    pub(super) fn give_rest(&self, machine: &M, wanted: Wanted, rest: Pieces) {
        for (page, order) in largest_blocks(rest.next, rest.end) {
            if machine.follows_picks() {
                self.put(machine, page, order, wanted.migratetype, End::Head);
            } else {
                self.add(machine, page, order, wanted.migratetype, End::Head);
            }
        }
    }

    /// Drains the oldest single pages of a list that make up a block, at most `most`, as that block; returns how many. None
    /// where they make up no block, or each has its own type. The locks of pageset and zone are held.
    pub(super) fn drain_together(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        most: u32,
    ) -> Option<u32> {
        if !tuning.type_at_drain || tuning.merge_skip || !self.gives_blocks(machine) {
            return None;
        }
        let oldest = pcp.list(list).oldest(self.arrays);
        let (page, order) = first_block(&oldest[..oldest.len().min(most as usize)])?;
        let pages = order.pages() as u32;
        pcp.list(list).drop_oldest(self.arrays, &pcp.pool, pages);
        (page..page + pages).for_each(|at| self.frames.set_tag(at, Tag::INSIDE));
        self.free_block(machine, tuning, page, order, self.frames.block_type(page));
        Some(pages)
    }

    /// Drains the oldest two pageblocks of a list that make up the largest block, as that block, where `most` pages are
    /// that many; returns how many. None where they do not, or are not of one type. The locks of pageset and zone are held.
    pub(super) fn drain_pair(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        most: u32,
    ) -> Option<u32> {
        let (half, pages) = (Order::PAGEBLOCK.pages() as u32, Order::MAX.pages() as u32);
        let [first, second, ..] = pcp.list(list).oldest(self.arrays) else { return None };
        let (first, second) = (first.get(), second.get());
        // Before 6.10 each goes where its own tag says.
        if second != first ^ half || most < pages || !tuning.type_at_drain || !self.gives_blocks(machine) {
            return None;
        }
        let migratetype = self.frames.block_type(first);
        if migratetype != self.frames.block_type(second) {
            return None;
        }
        pcp.list(list).drop_oldest(self.arrays, &pcp.pool, 2);
        self.frames.set_tag(first.max(second), Tag::INSIDE);
        self.put_whole(machine, tuning, first.min(second), migratetype);
        Some(pages)
    }
}

/// The largest block that pages make up, the first of them and those after it, in rising or in falling order: its first page.
/// Nothing for a single page.
fn first_block(pages: &[AtomicU32]) -> Option<(u32, Order)> {
    let at = |i: usize| pages.get(i).map(Held::get);
    let (first, second) = (at(0)?, at(1)?);
    let rises = second == first ^ 1 && second > first;
    if second != first ^ 1 {
        return None;
    }
    let mut order = 1;
    // As long as the block of twice the pages begins where this one begins, or ends where it ends, and its pages follow.
    while order < Order::PAGEBLOCK.get() {
        let (len, twice) = (1_u32 << order, 2_u32 << order);
        let is_end = if rises { first % twice == 0 } else { first % twice == twice - 1 };
        let next = |i: u32| if rises { first + i } else { first - i };
        if !is_end || twice as usize > pages.len() || (len..twice).any(|i| at(i as usize) != Some(next(i))) {
            break;
        }
        order += 1;
    }
    let start = if rises { first } else { first - ((1 << order) - 1) };
    Order::new(order).map(|order| (start, order))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    #[test]
    fn blocks_that_pages_make_up() {
        for (pages, expected) in [
            (&[][..], None),
            (&[8], None),
            (&[8, 9], Some((8, 1))),
            (&[9, 8], Some((8, 1))),
            (&[9, 10], None),
            (&[10, 9], None),
            (&[8, 9, 10, 11], Some((8, 2))),
            (&[8, 9, 10, 12], Some((8, 1))),
            (&[8, 9, 11, 10], Some((8, 1))),
            (&[11, 10, 9, 8], Some((8, 2))),
            (&[11, 10, 9, 8, 7, 6, 5, 4], Some((8, 2))),
            (&[10, 11, 12, 13], Some((10, 1))),
            (&[4, 5, 6, 7, 8, 9, 10, 11], Some((4, 2))),
            (&[0, 1, 2, 3, 4, 5, 6, 7, 8], Some((0, 3))),
        ] {
            let words: Vec<_> = pages.iter().map(|&page| AtomicU32::new(page)).collect();
            assert_eq!(first_block(&words).map(|(page, order)| (page, order.get())), expected, "{pages:?}");
        }
    }
}
