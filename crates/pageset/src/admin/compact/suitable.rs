//! Whether compaction can help, as numbers: the fragmentation index and the fragmentation score.
//!
//! Specification: `linux-page-allocator.md` 7.2, 7.6.

use crate::frame::{MigrateType, Order};
use crate::machine::Machine;
use crate::store::{self, Store};
use crate::zone::Zone;
use crate::zone::watermark::MarkTest;

/// Up to this fragmentation index the cause of a failure is too little memory, not fragmentation. Source: specification
/// 9, `extfrag_threshold`.
const EXTFRAG_THRESHOLD: i64 = 500;

/// Free blocks by order.
pub type FreeBlocks = [u64; Order::COUNT];

fn pages(blocks: &FreeBlocks, from: Order) -> u64 {
    Order::all().zip(blocks).skip(from.index()).map(|(order, blocks)| blocks * order.pages()).sum()
}

/// Why an allocation of `order` fails: towards 0 for lack of memory, towards 1000 for fragmentation; -1000 if it would
/// succeed. Specification 7.2, step 3.
#[must_use]
pub fn fragmentation_index(blocks: &FreeBlocks, order: Order) -> i64 {
    let all: u64 = blocks.iter().sum();
    if all == 0 {
        return 0;
    }
    if blocks[order.index()..].iter().any(|&blocks| blocks > 0) {
        return -1000;
    }
    1000 - ((1000 + pages(blocks, Order::ZERO) * 1000 / order.pages()) / all) as i64
}

/// The share of the free memory in blocks smaller than a huge page, in percent. Specification 7.6, step 2.
#[must_use]
pub fn fragmentation_score(blocks: &FreeBlocks) -> u8 {
    let free = pages(blocks, Order::ZERO);
    let small = free - pages(blocks, Order::PAGEBLOCK);
    (small * 100).checked_div(free).unwrap_or(0) as u8
}

/// What compaction can do for a request in a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Suitability {
    /// A free block exists already.
    Ready,
    /// Compaction may help.
    Suitable,
    /// Compaction lacks free memory to work with, or fragmentation is not the cause of the failure.
    Unsuitable,
}

impl<M: Machine> Zone<'_, M> {
    /// Free blocks of all types by order, on lists and in bitmaps, at a recent moment. Reads all bitmaps.
    pub(super) fn free_by_order(&self) -> FreeBlocks {
        let mut blocks = self.listed_by_order();
        store::HIDDEN.each_block(self, &mut |order, _| blocks[order.index()] += 1);
        blocks
    }

    /// As [`Self::free_by_order`], on lists only.
    pub(super) fn listed_by_order(&self) -> FreeBlocks {
        let mut blocks = FreeBlocks::default();
        for (order, blocks) in Order::all().zip(&mut blocks) {
            *blocks = MigrateType::ALL.iter().map(|&migratetype| u64::from(self.blocks(order, migratetype))).sum();
        }
        blocks
    }

    /// Specification 7.2.
    pub(super) fn suitability(&self, test: &MarkTest) -> Suitability {
        let marks = self.watermarks();
        if self.passes(marks.min, test) {
            return Suitability::Ready;
        }
        let costly = test.order > Order::COSTLY;
        // The test includes room for both copies of the moved pages.
        let mark = if costly { marks.low } else { marks.min };
        let mark = mark.saturating_add(2 * test.order.pages());
        let single = MarkTest { highest: test.highest, cma: true, ..MarkTest::SINGLE };
        if !self.passes(mark, &single) {
            return Suitability::Unsuitable;
        }
        let index = fragmentation_index(&self.free_by_order(), test.order);
        let lacks_memory = costly && (0..=EXTFRAG_THRESHOLD).contains(&index);
        if lacks_memory { Suitability::Unsuitable } else { Suitability::Suitable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(some: &[(u8, u64)]) -> FreeBlocks {
        let mut blocks = FreeBlocks::default();
        for &(order, number) in some {
            blocks[usize::from(order)] = number;
        }
        blocks
    }

    /// By hand from the formula 1000 - (1000 + free_pages * 1000 / 2^order) / free_blocks_total.
    #[test]
    fn index_by_hand() {
        for (free, order, expected) in [
            (blocks(&[]), 9, 0),
            (blocks(&[(9, 1)]), 9, -1000),
            (blocks(&[(10, 1), (0, 7)]), 9, -1000),
            // 512 single pages make one block of order 9: (1000 + 1000) / 512 = 3.
            (blocks(&[(0, 512)]), 9, 997),
            // One block of half the size: (1000 + 500) / 1 = 1500.
            (blocks(&[(8, 1)]), 9, -500),
            // 3 pages in 2 blocks for order 4: 187 -> 1187 / 2 = 593.
            (blocks(&[(0, 1), (1, 1)]), 4, 407),
            // 16 pages in 4 blocks: (1000 + 1000) / 4.
            (blocks(&[(2, 4)]), 4, 500),
            // 20 pages in 5 blocks: (1000 + 1250) / 5.
            (blocks(&[(2, 5)]), 4, 550),
        ] {
            assert_eq!(fragmentation_index(&free, Order::new(order).expect("an order")), expected, "{free:?}, {order}");
        }
    }

    #[test]
    fn score_by_hand() {
        for (free, expected) in [
            (blocks(&[]), 0),
            (blocks(&[(9, 3)]), 0),
            (blocks(&[(10, 3)]), 0),
            (blocks(&[(0, 1)]), 100),
            (blocks(&[(8, 2), (9, 1)]), 50),
            // 1 of 1025 pages: less than a percent.
            (blocks(&[(0, 1), (10, 1)]), 0),
            (blocks(&[(0, 512), (9, 2)]), 33),
        ] {
            assert_eq!(fragmentation_score(&free), expected, "{free:?}");
        }
    }
}
