//! Free parts of pageblocks that are on no list, and their way to the lists.

use crate::frame::{Order, PAGEBLOCK, largest_blocks, pageblocks, start_of};
use crate::machine::Machine;
use crate::zone::ZoneGuard;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Moves the free pages of a block's pageblocks that are on no list to the lists, where they merge.
    pub(crate) fn settle(&self, page: u32, order: Order) {
        if self.zone.bitmaps.are_kept() {
            pageblocks(page, order).for_each(|start| self.empty_bitmap(start));
        }
    }

    fn empty_bitmap(&self, page: u32) {
        let mut pages = 0;
        self.zone.bitmaps.take_all(page >> Order::PAGEBLOCK.get(), |from, end| {
            pages += end - from;
            for (page, order) in largest_blocks(from, end) {
                self.free_block(page, order);
            }
        });
        self.region.bitmaps.pages.sub(pages.into());
    }

    /// Frees the pageblock around a page if its bitmap has all pages, but for those of a block of the order `own` that begins there and
    /// that the caller owns. Such a block is counted as one in a bitmap. Returns whether it did; if not, the caller still owns its block.
    pub(crate) fn free_whole(&self, page: u32, own: Option<Order>) -> bool {
        // With the lock held: the holder of the lock finds each page in the bitmap or on a list.
        let is_taken = match own {
            Some(order) => self.zone.bitmaps.take_around(page, order),
            None => self.zone.bitmaps.take_whole(page / PAGEBLOCK),
        };
        if is_taken {
            self.free_block(start_of(page, Order::PAGEBLOCK), Order::PAGEBLOCK);
            self.region.bitmaps.pages.sub(PAGEBLOCK.into());
        }
        is_taken
    }
}
