//! Ranges of page frames, and their largest aligned blocks.

use super::{Order, Pfn};

/// A range of page frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRange {
    /// The first frame.
    pub start: Pfn,
    /// The number of frames, at least 1.
    pub pages: u64,
}

impl PageRange {
    /// The range from `start` on.
    #[must_use]
    pub const fn new(start: Pfn, pages: u64) -> Self {
        PageRange { start, pages }
    }

    /// The first frame after the range.
    #[must_use]
    pub const fn end(&self) -> Pfn {
        Pfn(self.start.0.saturating_add(self.pages))
    }

    pub(crate) const fn overlaps(&self, other: &PageRange) -> bool {
        self.start.0 < other.end().0 && other.start.0 < self.end().0
    }
}

/// The largest aligned block that begins at `page` and ends at or before `end`.
pub(crate) fn largest_at(page: u32, end: u32) -> Order {
    let fits = (end - page).ilog2().min(page.trailing_zeros());
    Order::new(fits.min(u32::from(Order::MAX.get())) as u8).unwrap_or(Order::MAX)
}

/// The largest aligned blocks that cover the pages from `first` to `end`.
pub(crate) fn largest_blocks(first: u32, end: u32) -> impl Iterator<Item = (u32, Order)> {
    let mut page = first;
    core::iter::from_fn(move || {
        let block = (page < end).then(|| (page, largest_at(page, end)))?;
        page += block.1.pages() as u32;
        Some(block)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    #[test]
    fn ranges_are_made_of_their_largest_blocks() {
        for (first, end, expected) in [
            (0, 0, &[][..]),
            (0, 1024, &[(0, 10)]),
            (0, 4096, &[(0, 10), (1024, 10), (2048, 10), (3072, 10)]),
            (1, 8, &[(1, 0), (2, 1), (4, 2)]),
            (6, 17, &[(6, 1), (8, 3), (16, 0)]),
            (512, 1536, &[(512, 9), (1024, 9)]),
        ] {
            let blocks: Vec<_> = largest_blocks(first, end).map(|(page, order)| (page, order.get())).collect();
            assert_eq!(blocks, expected, "{first}..{end}");
        }
    }
}
