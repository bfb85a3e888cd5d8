//! Free blocks known by where they are: for an owner that lends free memory elsewhere, as a pool does that gives it back
//! to its system, or a balloon.
//!
//! Such an owner looks where memory is free ([`Allocator::free_block_around`]), takes some of it
//! ([`Allocator::alloc_at`]), and puts it where it is wanted last ([`Allocator::free_cold`]). That costs one hold of the
//! zone lock a block, and takes nothing else out of use meanwhile. Specification: `linux-page-allocator.md` 1.5, "Taking a
//! free block without allocating it", but for the marks: these blocks come back.

use crate::alloc::Allocator;
use crate::alloc::error::FreeError;
use crate::buddy::list::End;
use crate::frame::MigrateType;
use crate::frame::PageRange;
use crate::frame::{Order, PageState, Pfn, Tag};
use crate::machine::{LockPath, Machine};
use crate::zone::ZoneGuard;

impl<M: Machine> Allocator<'_, M> {
    /// The free block that a page lies in, if it lies in one. Looks without a lock, so others may be taking the block or
    /// splitting it: [`Self::alloc_at`] tells.
    #[must_use]
    pub fn free_block_around(&self, pfn: Pfn) -> Option<PageRange> {
        let (zone, page) = self.locate(pfn)?;
        match zone.zone.buddy.block_around(page)? {
            (head, order, PageState::Free) => Some(PageRange::new(zone.frames().pfn(head), order.pages())),
            _ => None,
        }
    }

    /// As [`Self::free_block_around`], when nobody is taking, splitting or merging blocks of the zone: a block that is
    /// being merged is on no list for a moment. Holds the zone lock.
    #[must_use]
    pub fn settled_free_block_around(&self, pfn: Pfn) -> Option<PageRange> {
        let (zone, _) = self.locate(pfn)?;
        let _guard = zone.zone.lock(self.env(), LockPath::DirectAlloc);
        self.free_block_around(pfn)
    }

    /// Takes a block of `order` that begins at `pfn`, whoever it is meant for, if all of it lies in one free block of an
    /// ordinary type; false, with nothing changed, if not. What is left of that block stays free. Heeds no marks. Holds the
    /// zone lock.
    ///
    /// The block is in use as if it had been allocated for the type of its list; any of the ways to free gives it back.
    #[must_use = "the block is in use where this is true"]
    pub fn alloc_at(&self, pfn: Pfn, order: Order) -> bool {
        let Some((zone, page)) = self.locate(pfn).filter(|_| pfn.is_aligned(order)) else { return false };
        zone.zone.lock(self.env(), LockPath::DirectAlloc).take_at(page, order)
    }

    /// Gives a block straight to the buddy, as [`Self::free_direct`] does, and to the end of its list that is taken from
    /// last: for memory that costs more to use than what is free already. Holds the zone lock.
    ///
    /// # Errors
    /// As [`Self::free`].
    pub fn free_cold(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (zone, page) = self.prepare_free(pfn, order)?;
        let guard = zone.zone.lock(self.env(), LockPath::DirectFree);
        guard.free_cold(page, order, guard.frames.block_type(page));
        guard.count_direct_free(order.pages());
        Ok(())
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes the block of `order` at `page` out of the free block that it lies in.
    fn take_at(&self, page: u32, order: Order) -> bool {
        let Some((head, found, PageState::Free)) = self.block_around(page) else { return false };
        let list = self.list_of(head);
        if found < order || !list.is_ordinary() {
            return false;
        }
        if found == Order::ZERO {
            // A refill in flight may own a page that looks free.
            self.wait_for_refills();
            if !self.is_free(page, Order::ZERO) {
                return false;
            }
        }
        self.remove(head, found);
        self.put_rest(head, found, page, order, list);
        self.frames.set_tag(page, Tag::new(PageState::Allocated, order, list));
        self.count_direct_alloc(order.pages());
        true
    }

    /// Gives back what a block that was taken off its list has besides the block of `order` at `page`.
    fn put_rest(&self, head: u32, found: Order, page: u32, order: Order, list: MigrateType) {
        let mut start = head;
        for half in Order::all().take(found.index()).skip(order.index()).rev() {
            let middle = start + half.pages() as u32;
            let (kept, next) = if page < middle { (middle, start) } else { (start, middle) };
            self.put(kept, half, list, End::Tail);
            start = next;
        }
    }
}
