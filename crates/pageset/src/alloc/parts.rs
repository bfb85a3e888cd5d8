//! Any number of pages: allocations that are no power of two, frees of a part of a block, and the block around a page.

use crate::alloc::error::{AllocError, FreeError, WrongFree};
use crate::alloc::request::{AllocFrom, Block, Request, Wait};
use crate::alloc::{Allocator, Free, FreeTo};
use crate::frame::{MigrateType, Order, PageState, Pfn, Tag, largest_blocks};
use crate::machine::Machine;

impl<M: Machine> Allocator<'_, M> {
    /// The block around a page, at a recent moment: where it begins, its order and its state. `None` for a page that is in
    /// no zone or not online. Takes no lock.
    ///
    /// Under `bitmaps` of [`crate::policy::Holds::Short`], a free page in a bitmap reads as a block of order 0 in a pageset, and a page that
    /// another CPU moves between a pageset and a bitmap as `None`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let page = allocator.alloc(&MOVABLE)?;
    /// assert_eq!(allocator.block_of(page), Some((Block { pfn: page, order: Order::ZERO }, PageState::Allocated)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn block_of(&self, pfn: Pfn) -> Option<(Block, PageState)> {
        let (zone, page) = self.locate(pfn)?;
        let (head, order, state) = zone.shared.block_around(page)?;
        Some((Block { pfn: zone.frames().pfn(head), order }, state))
    }

    /// [`Self::alloc_with`] for a number of pages in one block.
    pub(crate) fn alloc_block(
        &self,
        request: &Request,
        pages: u64,
        align_pages: u64,
        from: AllocFrom,
    ) -> Result<Pfn, AllocError> {
        if !align_pages.is_power_of_two() {
            return Err(AllocError::Run { pages, align_pages });
        }
        let order = Order::holding(pages).and(Order::holding(pages.max(align_pages)));
        self.alloc_first(
            request,
            order.ok_or(AllocError::Pages(pages.max(if pages == 0 { 0 } else { align_pages })))?,
            pages,
            from,
        )
    }

    /// Allocates the first pages of a block, at most all of them, as blocks in use, the largest first. The rest of the block is freed at
    /// once; with [`Wait::Nothing`] it goes to the deferred frees.
    pub(crate) fn alloc_first(
        &self,
        request: &Request,
        order: Order,
        pages: u64,
        from: AllocFrom,
    ) -> Result<Pfn, AllocError> {
        let request = Request { order, ..*request };
        let pfn = if from == AllocFrom::Buddy { self.alloc_direct(&request) } else { self.alloc(&request) }?;
        if pages < order.pages()
            && let Some((zone, head)) = self.locate(pfn)
        {
            let frames = zone.frames();
            let (end, block_end) = (head + pages as u32, head + order.pages() as u32);
            let kind = frames.tag(head).kind().unwrap_or(MigrateType::Movable);
            // Nobody else has the block yet. The head comes last, so that a reader without a lock finds each page in a block.
            for (at, order) in largest_blocks(end, block_end).chain(head_last(head, end)) {
                frames.set_tag(at, Tag::new(PageState::Allocated, order, kind));
            }
            for (at, order) in largest_blocks(end, block_end) {
                // Neither can fail: the block is in use, and nobody else knows it.
                let _ = match request.wait {
                    Wait::Nothing => self.free_with(Free::block(frames.pfn(at), order).to(FreeTo::Deferred)),
                    _ => self.free(frames.pfn(at), order),
                };
            }
        }
        Ok(pfn)
    }

    /// Frees `pages` pages from `pfn` on, at least 1: a block in use, or any part of one.
    pub(crate) fn free_part(&self, pfn: Pfn, pages: u64) -> Result<(), FreeError> {
        let wrong = |reason| FreeError { pfn, order: Order::ZERO, reason };
        let (zone, page) = self.locate(pfn).ok_or(wrong(WrongFree::NotOurs))?;
        let frames = zone.frames();
        let around = zone.shared.block_around(page).ok_or(wrong(WrongFree::NotAllocated(PageState::Inside)))?;
        let (head, order, state) = around;
        let block_end = head + order.pages() as u32;
        if state != PageState::Allocated {
            let inside = WrongFree::Inside { head: frames.pfn(head), order, state };
            return Err(wrong(if head == page { WrongFree::NotAllocated(state) } else { inside }));
        }
        if pages > u64::from(block_end - page) {
            // Another call has freed the end of the block since the caller looked.
            return Err(wrong(WrongFree::WrongOrder(order)));
        }
        // From here on no other call can free the block.
        self.claim_free(frames.pfn(head), order).map_err(|error| FreeError { pfn, ..error })?;
        let kind = frames.tag(head).kind().unwrap_or(MigrateType::Movable);
        let end = page + pages as u32;
        let tag = |(at, order): (u32, Order), state| frames.set_tag(at, Tag::new(state, order, kind));
        // The head comes last, so that a reader without a lock finds each page in a block.
        largest_blocks(end, block_end).for_each(|block| tag(block, PageState::Allocated));
        head_last(page, end).for_each(|block| tag(block, PageState::Cached));
        head_last(head, page).for_each(|block| tag(block, PageState::Allocated));
        for (at, order) in largest_blocks(page, end) {
            self.commit_free(zone, at, order, true);
        }
        Ok(())
    }
}

/// [`largest_blocks`], with the first of them at the end.
fn head_last(first: u32, end: u32) -> impl Iterator<Item = (u32, Order)> {
    largest_blocks(first, end).skip(1).chain(largest_blocks(first, end).take(1))
}
