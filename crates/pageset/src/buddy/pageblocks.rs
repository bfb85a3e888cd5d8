//! Types of pageblocks, and the moves of their free blocks. Specification: `linux-page-allocator.md` 1.4, 1.6.

use super::free::next;
use crate::frame::{End, MigrateType, Order, PageState, pageblocks, start_of};
use crate::machine::Machine;
use crate::zone::ZoneGuard;

/// The orders of the halves of blocks that are larger than a pageblock, smallest first.
fn halves() -> impl DoubleEndedIterator<Item = Order> {
    Order::all().take(Order::MAX.index()).skip(Order::PAGEBLOCK.index())
}

/// The block of `order` around a page, and its buddy.
fn with_buddy(page: u32, order: Order) -> (u32, u32) {
    let half = start_of(page, order);
    (half, half ^ order.pages() as u32)
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Sets a pageblock's type and updates the counters of reserved types. Its free blocks stay on their lists.
    pub(crate) fn set_block_type(&self, page: u32, to: MigrateType) {
        let from = self.zone.frames.block_type(page);
        if from == to {
            return;
        }
        let pages = Order::PAGEBLOCK.pages();
        for (counted, word) in
            [(MigrateType::HighAtomic, &self.zone.reserved_highatomic), (MigrateType::Cma, &self.zone.cma_pages)]
        {
            if from == counted {
                word.sub(pages);
            }
            if to == counted {
                word.add(pages);
            }
        }
        let is_other = |migratetype| u64::from(migratetype != MigrateType::Movable);
        self.zone.other_blocks.add(is_other(to));
        self.zone.other_blocks.sub(is_other(from));
        self.zone.frames.set_block_type(page, to);
        self.end_ownership(page, Order::PAGEBLOCK);
    }

    /// Visits the blocks that begin in a pageblock, by their first pages. No refill in flight owns one of them.
    pub(crate) fn each_block(&self, start: u32, mut visit: impl FnMut(u32, PageState, Order)) {
        self.wait_for_refills();
        let end = start + Order::PAGEBLOCK.pages() as u32;
        let mut page = start;
        while page < end {
            let tag = self.zone.frames.tag(page);
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
    pub(crate) fn move_free_blocks(&self, start: u32, to: MigrateType, end: End) {
        self.each_block(start, |page, state, order| {
            if state == PageState::Free {
                self.remove(page, order);
                self.put(page, order, to, end);
            }
        });
    }

    /// The list end for blocks that change their type. Specification 1.6.
    pub(crate) fn end_of_moves(&self) -> End {
        if self.env.tuning.fallback_tail { End::Tail } else { End::Head }
    }

    /// Sets the type of one pageblock and moves its free blocks. Splits a larger free block around it, and merges the
    /// pageblock with its neighbours where their types are now equal. The types of the neighbours do not change.
    pub(crate) fn change_type(&self, start: u32, to: MigrateType) {
        self.settle(start, Order::PAGEBLOCK);
        for order in halves().rev() {
            let (half, neighbour) = with_buddy(start, order);
            let both = half & neighbour;
            if self.zone.is_free(both, next(order)) {
                self.remove(both, next(order));
                for half in [half, neighbour] {
                    self.put(half, order, self.zone.frames.block_type(half), End::Tail);
                }
            }
        }
        self.move_free_blocks(start, to, self.end_of_moves());
        self.set_block_type(start, to);
        for order in halves() {
            let (half, neighbour) = with_buddy(start, order);
            let is_whole = |half| self.zone.is_free(half, order) && self.zone.frames.block_type(half) == to;
            if !is_whole(half) || !is_whole(neighbour) {
                break;
            }
            self.remove(half, order);
            self.touch_page(neighbour);
            self.remove(neighbour, order);
            self.put(half & neighbour, next(order), to, End::Head);
        }
    }

    /// Sets the type of all pageblocks of a block. The block stays at its place on its list.
    pub(crate) fn retype(&self, page: u32, order: Order, migratetype: MigrateType) {
        for at in pageblocks(page, order) {
            self.set_block_type(at, migratetype);
        }
    }

    /// Whether at least half of a pageblock is free or of a compatible type; `None` if it reaches beyond the zone.
    pub(crate) fn is_mostly(&self, start: u32, wanted: MigrateType) -> Option<bool> {
        use MigrateType::Movable;
        let pageblock = Order::PAGEBLOCK.pages() as u32;
        if start < self.zone.frames.first || start + pageblock > self.zone.frames.end {
            return None;
        }
        let mut free = self.zone.part_pages(start);
        let mut movable = 0;
        self.each_block(start, |page, state, order| match state {
            PageState::Free => free += order.pages() as u32,
            PageState::Allocated if self.zone.frames.tag(page).kind() == Some(Movable) => {
                movable += order.pages() as u32
            }
            _ => {}
        });
        let alike = if wanted == Movable {
            movable
        } else if self.zone.frames.block_type(start) == Movable {
            pageblock.saturating_sub(free + movable)
        } else {
            0
        };
        Some(free + alike >= pageblock / 2)
    }

    /// Reserves the pageblocks of a block that an urgent request has just allocated as HIGHATOMIC, as far as `room`
    /// allows. The block itself is in use; the free blocks around it are for the next such request. Specification 1.6,
    /// "HIGHATOMIC reserve".
    pub(crate) fn reserve_highatomic(&self, page: u32, order: Order, has_room: impl Fn() -> bool) {
        let pageblock = Order::PAGEBLOCK.pages() as u32;
        let first = start_of(page, Order::PAGEBLOCK);
        for start in (first..page + order.pages() as u32).step_by(pageblock as usize) {
            let inside = start >= self.zone.frames.first && start + pageblock <= self.zone.frames.end;
            if inside && has_room() && self.zone.frames.block_type(start).is_ordinary() {
                self.change_type(start, MigrateType::HighAtomic);
            }
        }
    }

    /// Changes the first reserved pageblock with free pages to the type `to`. Returns whether there was one.
    pub(crate) fn unreserve_highatomic(&self, to: MigrateType) -> bool {
        let found = Order::all().find_map(|order| self.first(order, MigrateType::HighAtomic));
        found.inspect(|&page| self.change_type(start_of(page, Order::PAGEBLOCK), to)).is_some()
    }
}
