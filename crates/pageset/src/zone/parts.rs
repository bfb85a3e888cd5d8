//! What a zone asks of the bitmaps of its pageblocks: free parts that are on no list.

use super::Zone;
use super::region::Region;
use crate::frame::{MigrateType, Order, PAGEBLOCK, largest_blocks};
use crate::machine::Machine;
use crate::sync::LockedWord;

/// Pageblocks with free parts that one mark test looks at: a test without a lock, several times a request, which may run in an interrupt. At
/// a cache miss or two each they take some microseconds. Unit: pageblocks. A guess.
const TESTED: usize = 64;

impl<M: Machine> Zone<'_, M> {
    /// Pages in the bitmap of the pageblock that begins at a page, at a recent moment.
    pub(crate) fn part_pages(&self, start: u32) -> u32 {
        if self.bitmaps.are_kept() { self.bitmaps.pages_of(start / PAGEBLOCK) } else { 0 }
    }

    /// Whether a page is free in a bitmap, at a recent moment.
    pub(crate) fn is_part(&self, page: u32) -> bool {
        self.bitmaps.has(page)
    }

    /// Whether the pageblock around a page may have free parts that are on no list, at a recent moment.
    pub(crate) fn has_parts(&self, page: u32) -> bool {
        self.bitmaps.is_noted(page / PAGEBLOCK)
    }

    /// Takes the free pages of a pageblock out of its bitmap, and gives their largest blocks to `free`. The lock of its region is held.
    pub(crate) fn take_parts(&self, region: &Region<M::Lock>, start: u32, free: impl Fn(u32, Order)) {
        if !self.bitmaps.are_kept() {
            return;
        }
        let mut pages = 0;
        self.bitmaps.take_all(start / PAGEBLOCK, |from, end| {
            pages += end - from;
            largest_blocks(from, end).for_each(|(page, order)| free(page, order));
        });
        region.bitmaps.pages.sub(pages.into());
    }

    /// Whether a bitmap has a block of an order, at a recent moment. Looks where it found one last, then at the first [`TESTED`] pageblocks
    /// that may have free parts: false if only later ones have it.
    pub(crate) fn has_bitmap_block(&self, order: Order, suits: impl Fn(MigrateType) -> bool) -> bool {
        let last = self.found_in.get();
        let end = self.frames.len() / PAGEBLOCK;
        let found = self
            .bitmap_with(order, (last, end.min(last + 1)), 1, &suits)
            .or_else(|| self.bitmap_with(order, (0, end), TESTED, &suits));
        // Several CPUs write this line.
        if let Some(found) = found.filter(|&found| found != last) {
            self.found_in.set(found);
        }
        found.is_some()
    }

    /// The first of some pageblocks whose bitmap has a block of an order, at a recent moment, among the first `most` of them that may have
    /// free parts. `suits` says which types do.
    pub(crate) fn bitmap_with(
        &self,
        order: Order,
        (from, end): (u32, u32),
        most: usize,
        suits: impl Fn(MigrateType) -> bool,
    ) -> Option<u32> {
        if !self.bitmaps.are_kept() || order >= Order::PAGEBLOCK {
            return None;
        }
        self.bitmaps.noted(from, end).take(most).find(|&pageblock| {
            suits(self.frames.block_type(pageblock * PAGEBLOCK)) && self.bitmaps.has_block(pageblock, order)
        })
    }
}
