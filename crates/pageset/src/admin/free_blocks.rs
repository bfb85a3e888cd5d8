//! Free blocks taken by page number, for an owner that lends free memory elsewhere: a pool that returns it to the
//! operating system, or a balloon.
//!
//! Such an owner finds free memory ([`Allocator::free_block_around`]), takes some of it ([`Allocator::alloc_at`]), and
//! later frees it to the list position that is allocated last ([`Allocator::free_cold`]). That costs one hold of the
//! zone lock per block and affects no other block. Specification: `linux-page-allocator.md` 1.5, "Taking a free block
//! without allocating it", except for the marks: these blocks come back.

use crate::alloc::Allocator;
use crate::alloc::error::FreeError;
use crate::buddy::list::End;
use crate::frame::MigrateType;
use crate::frame::PageRange;
use crate::frame::{Order, PageState, Pfn, Tag};
use crate::machine::{LockPath, Machine};
use crate::zone::ZoneGuard;

impl<M: Machine> Allocator<'_, M> {
    /// The free block around a page, if the page lies in one. Takes no lock, so another CPU may be taking or splitting
    /// the block: only [`Self::alloc_at`] is decisive.
    #[must_use]
    pub fn free_block_around(&self, pfn: Pfn) -> Option<PageRange> {
        let (zone, page) = self.locate(pfn)?;
        match zone.shared.buddy.block_around(page)? {
            (head, order, PageState::Free) => Some(PageRange::new(zone.frames().pfn(head), order.pages())),
            _ => None,
        }
    }

    /// As [`Self::free_block_around`], under the zone lock, when no CPU takes, splits or merges a block of the zone.
    /// Without the lock, a block that is being merged is on no list for a moment.
    #[must_use]
    pub fn settled_free_block_around(&self, pfn: Pfn) -> Option<PageRange> {
        let (zone, _) = self.locate(pfn)?;
        let _guard = zone.shared.lock(self.env(), LockPath::DirectAlloc);
        self.free_block_around(pfn)
    }

    /// Takes the block of `order` that begins at `pfn`, if all of it lies in one free block of an ordinary type.
    /// Otherwise returns false and changes nothing. The rest of the free block stays free. Ignores the marks. Holds the
    /// zone lock.
    ///
    /// The block is then in use as if it had been allocated for the migratetype of its list. All ways to free accept
    /// it.
    #[must_use = "the block is in use where this is true"]
    pub fn alloc_at(&self, pfn: Pfn, order: Order) -> bool {
        let Some((zone, page)) = self.locate(pfn).filter(|_| pfn.is_aligned(order)) else { return false };
        zone.shared.lock(self.env(), LockPath::DirectAlloc).take_at(page, order)
    }

    /// Frees a block to the buddy, as [`Self::free_direct`] does, at the end of its list that is allocated last: for
    /// memory that costs more to use than other free memory. Holds the zone lock.
    ///
    /// # Errors
    /// As [`Self::free`].
    pub fn free_cold(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (zone, page) = self.prepare_free(pfn, order)?;
        let guard = zone.shared.lock(self.env(), LockPath::DirectFree);
        guard.free_cold(page, order, guard.frames.block_type(page));
        guard.count_direct_free(order.pages());
        Ok(())
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes the block of `order` at `page` out of the free block around it.
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

    /// Returns all of a taken block but the block of `order` at `page`.
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
