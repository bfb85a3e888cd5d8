//! Splits a block at once into the pages of a list, and drains pages of a list as one block: the rule
//! [`Tuning::whole_blocks`](crate::Tuning::whole_blocks).
//!
//! The result equals that of splitting and merging page by page: the same pages in the same order, and the same blocks
//! at the same places of the same lists. No block enters a list only to leave it again, so fewer cache lines are
//! touched. Specification: `linux-page-allocator.md` 1.5, 2.4, 3.3.

use core::sync::atomic::AtomicU32;

use super::Cache;
use crate::buddy::Wanted;
use crate::frame::{End, MigrateType, Order, PAGEBLOCK, Tag, largest_blocks};
use crate::machine::Machine;
use crate::sync::LockedWord;
use crate::zone::ZoneGuard;

/// The rest of a block that a refill splits: pages that are on no list, in blocks of `step` pages.
#[derive(Debug)]
pub(super) struct SplitBlock {
    next: u32,
    end: u32,
    step: u32,
    /// Whether the block was a pageblock or larger, so that no part of the same pageblock is on a list.
    whole: bool,
}

impl SplitBlock {
    /// No block.
    pub(super) const NONE: SplitBlock = SplitBlock { next: 0, end: 0, step: 0, whole: false };

    /// Takes the smallest block of the wanted type and returns its first part. That type's smaller lists are empty, so
    /// the parts come in the same order as from splitting one by one. `None` if other types could also serve the
    /// request.
    pub(super) fn begin<M: Machine>(&mut self, guard: &ZoneGuard<'_, '_, M>, wanted: Wanted) -> Option<u32> {
        let tuning = guard.env.tuning;
        if !tuning.whole_blocks || tuning.backing.has_clusters() || guard.region.free_cma.get() > 0 {
            return None;
        }
        let orders = Order::all().skip(wanted.order.index());
        let (order, page) = { orders }.find_map(|order| Some((order, guard.first(order, wanted.migratetype)?)))?;
        guard.remove(page, order);
        let (end, step) = (page + order.pages() as u32, wanted.order.pages() as u32);
        *self = SplitBlock { next: page, end, step, whole: order >= Order::PAGEBLOCK };
        self.next(guard)
    }

    /// The next part.
    #[inline]
    pub(super) fn next<M: Machine>(&mut self, guard: &ZoneGuard<'_, '_, M>) -> Option<u32> {
        (self.next < self.end).then(|| {
            let page = self.next;
            self.next += self.step;
            guard.touch_page(page);
            page
        })
    }

    /// As [`Self::end`], with the parts of a pageblock that was whole in its bitmap, where the next refill with blocks of `wanted` finds them.
    pub(super) fn end_in_bitmap<M: Machine>(self, guard: &ZoneGuard<'_, '_, M>, list: MigrateType, wanted: Order) {
        if !self.whole {
            return self.end(guard, list);
        }
        for (page, order) in largest_blocks(self.next, self.end) {
            if order >= Order::PAGEBLOCK || !guard.zone.frames.block_type(page).is_ordinary() {
                guard.put(page, order, list, End::Head);
                continue;
            }
            guard.region.bitmaps.pages.add(order.pages());
            if guard.zone.bitmaps.put_back(page, order) {
                guard.free_whole(page, None);
            }
            if wanted > Order::ZERO
                && let Some(from) = guard.region.bitmaps.from.get(wanted.index())
            {
                from.set(page / PAGEBLOCK);
            }
        }
    }

    /// Frees the unused parts: the halves that splitting one by one would have left.
    pub(super) fn end<M: Machine>(self, guard: &ZoneGuard<'_, '_, M>, list: MigrateType) {
        for (page, order) in largest_blocks(self.next, self.end) {
            guard.put(page, order, list, End::Head);
        }
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Whether a drain may free blocks together: each goes to its pageblock's list and merges at once.
    pub(super) fn drains_whole_blocks(&self) -> bool {
        let tuning = self.env.tuning;
        // Before 6.10 each block goes to the list that its own tag names.
        tuning.whole_blocks && tuning.type_at_drain && !tuning.backing.skips_merges()
    }

    /// Drains the oldest blocks of a list as one block of at most `most` pages, if they form one. Returns its pages, or `None`.
    #[cfg_attr(feature = "rules", inline(always))]
    pub(super) fn drain_as_block(&self, cache: &impl Cache, list: usize, order: Order, most: u32) -> Option<u32> {
        let oldest = cache.oldest(list);
        let (page, together) = first_block(&oldest[..oldest.len().min(most as usize >> order.get())], order)?;
        cache.drop_oldest(list, (together.pages() >> order.get()) as u32);
        self.free_together(page, together, order);
        Some(together.pages() as u32)
    }

    /// Frees blocks of `order` of a pageset that form the block `together`.
    #[cfg_attr(feature = "rules", inline(always))]
    pub(super) fn free_together(&self, page: u32, together: Order, order: Order) {
        for at in (page..page + together.pages() as u32).step_by(order.pages() as usize) {
            self.touch_page(at);
            self.zone.frames.set_tag(at, Tag::INSIDE);
        }
        self.free_block(page, together);
    }
}

/// The largest block, at most a pageblock or a pair of them, that is formed by the first block and its successors, in ascending or
/// descending order, as its first page and order. All are of `order`. `None` for a single block.
#[cfg_attr(feature = "rules", inline(always))]
pub(super) fn first_block(blocks: &[AtomicU32], order: Order) -> Option<(u32, Order)> {
    let at = |i: usize| blocks.get(i).map(|block| block.get() >> order.get());
    let (first, second) = (at(0)?, at(1)?);
    let rises = second == first ^ 1 && second > first;
    if second != first ^ 1 || order == Order::MAX {
        return None;
    }
    let mut doublings = 1;
    // Doubles the block while the block of twice the size begins or ends at the same place, and its parts follow.
    while order.get() + doublings < Order::PAGEBLOCK.get() {
        let (len, twice) = (1_u32 << doublings, 2_u32 << doublings);
        let is_end = if rises { first % twice == 0 } else { first % twice == twice - 1 };
        let next = |i: u32| if rises { first + i } else { first - i };
        if !is_end || twice as usize > blocks.len() || (len..twice).any(|i| at(i as usize) != Some(next(i))) {
            break;
        }
        doublings += 1;
    }
    let start = if rises { first } else { first - ((1 << doublings) - 1) };
    Order::new(order.get() + doublings).map(|together| (start << order.get(), together))
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
            assert_eq!(
                first_block(&words, Order::ZERO).map(|(page, order)| (page, order.get())),
                expected,
                "{pages:?}"
            );
            // The same with blocks of order 3, and pairs of pageblocks.
            let three = Order::COSTLY;
            let words: Vec<_> = pages.iter().map(|&page| AtomicU32::new(page << 3)).collect();
            let expected = expected.map(|(page, order)| (page << 3, order + 3));
            assert_eq!(first_block(&words, three).map(|(page, order)| (page, order.get())), expected, "{pages:?}");
            let words: Vec<_> = pages.iter().map(|&page| AtomicU32::new(page * PAGEBLOCK)).collect();
            let pair = || Some((pages[..2].iter().min()? * PAGEBLOCK, Order::new(Order::PAGEBLOCK.get() + 1)?));
            let expected = expected.and_then(|_| pair());
            assert_eq!(first_block(&words, Order::PAGEBLOCK), expected, "{pages:?}");
        }
    }
}
