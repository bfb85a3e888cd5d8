//! Frees other than the common one: where the blocks go, and a step of the caller between their claim and their free.

use core::fmt;

use crate::alloc::Allocator;
use crate::alloc::error::FreeError;
use crate::alloc::request::{Block, PageHandle};
use crate::frame::{Order, PageRange, Pfn};
use crate::machine::{LockPath, Machine};
use crate::pcp::CachedZone;
use crate::sync;

/// Where freed blocks go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum FreeTo {
    /// The caller's pageset, where the order is cached. It drains if a drain is due. As [`Allocator::free`].
    #[default]
    Pageset,
    /// The caller's pageset, which drains at a later free: for a caller that must not hold a zone lock for long. Where the pageset
    /// is busy or full or may keep nothing, the block goes to the buddy under the zone lock; so a caller that may have interrupted a
    /// holder of one of the locks must not use this. Specification 4.11, last paragraph.
    PagesetUndrained,
    /// The buddy: for pages that are not needed again soon. Holds the zone lock.
    Buddy,
    /// The buddy, at the end of the list that is allocated last: for memory that costs more to use than other free memory. Holds
    /// the zone lock.
    BuddyCold,
    /// The deferred frees: for callers that must wait for nothing, such as NMIs and signal handlers, in any context. Takes no lock.
    /// The block goes to the buddy in one of the next calls that take the zone's lock. Until then it counts as freed, but is no free
    /// page: [`ZoneStats::deferred`](crate::admin::stats::ZoneStats::deferred). A request that finds no memory first completes these
    /// frees, unless it waits for nothing. [`Allocator::drain_all`] also completes them.
    Deferred,
}

/// What a free is about.
#[derive(Clone, Copy, Debug)]
enum What<'b, H> {
    Block(Block),
    Blocks(Order, &'b [H]),
    Range(PageRange),
}

/// A free for [`Allocator::free_with`]: the blocks, where they go, and a step of the caller before they are free.
///
/// ```
/// use pageset::{Free, FreeTo, Order, Pfn};
///
/// let free = Free::block(Pfn(0x1000), Order::ZERO).to(FreeTo::Buddy).cleaned(|pages| println!("clear {pages:?}"));
/// # let _ = free;
/// ```
#[derive(Clone, Copy)]
pub struct Free<'b, H = Pfn, C = fn(PageRange)> {
    what: What<'b, H>,
    to: FreeTo,
    clean: C,
}

impl Free<'_> {
    /// The free of one block in use.
    #[inline(always)]
    #[must_use]
    pub const fn block(pfn: Pfn, order: Order) -> Self {
        Free { what: What::Block(Block { pfn, order }), to: FreeTo::Pageset, clean: |_| {} }
    }

    /// The free of all blocks in use of a range: one that [`Allocator::alloc_range`] allocated, or any neighbours that do not reach
    /// beyond the range. They go to the buddy, since so many pages are rarely needed again soon. Takes the zone lock once per block.
    ///
    /// [`Allocator::free_range`] also frees parts of blocks.
    #[must_use]
    pub const fn whole_blocks(range: PageRange) -> Self {
        Free { what: What::Range(range), to: FreeTo::Buddy, clean: |_| {} }
    }
}

impl<'b, H: PageHandle> Free<'b, H> {
    /// The free of many blocks of one order, named by the numbers or by the addresses of their first pages. Of two entries for one
    /// block, the second is an error, whatever [`FreeCheck`](crate::FreeCheck) says.
    #[must_use]
    pub const fn blocks(order: Order, blocks: &'b [H]) -> Self {
        Free { what: What::Blocks(order, blocks), to: FreeTo::Pageset, clean: |_| {} }
    }
}

impl<'b, H, C> Free<'b, H, C> {
    /// Where the blocks go.
    #[inline(always)]
    #[must_use]
    pub fn to(self, to: FreeTo) -> Self {
        Free { to, ..self }
    }

    /// A step for each block, or once for a range, while its pages have no owner: for owners that clear memory, or mark it. During
    /// the step, every other free of the pages fails, and no request gets them. No block is free before all steps have run. A step
    /// that panics loses the blocks.
    #[inline(always)]
    #[must_use]
    pub fn cleaned<D: FnMut(PageRange)>(self, clean: D) -> Free<'b, H, D> {
        Free { what: self.what, to: self.to, clean }
    }
}

impl<H: fmt::Debug, C> fmt::Debug for Free<'_, H, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Free").field("what", &self.what).field("to", &self.to).finish_non_exhaustive()
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Frees blocks to a given place, with a step of the caller: see [`Free`].
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// let page = allocator.alloc(&MOVABLE)?;
    /// // Not needed again soon; the owner clears it first.
    /// let clear = |pages: PageRange| assert_eq!(pages, PageRange::new(page, 1));
    /// allocator.free_with(Free::block(page, Order::ZERO).to(FreeTo::Buddy).cleaned(clear))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first wrong free. No step has run, and no block has been freed.
    // Inlined: where the blocks go is known at each call, and only that part of the code remains.
    #[inline(always)]
    pub fn free_with<H: PageHandle>(&self, free: Free<'_, H, impl FnMut(PageRange)>) -> Result<(), FreeError> {
        let Free { what, to, mut clean } = free;
        match what {
            What::Block(Block { pfn, order }) => {
                let (zone, page) = self.claim_free(pfn, order)?;
                clean(PageRange { start: pfn, pages: order.pages() });
                self.commit_to(zone, page, order, to);
            }
            What::Blocks(order, blocks) => {
                let block = |entry: &H| Block { pfn: entry.pfn(), order };
                self.prepare_rest(blocks, 0, block)?;
                blocks.iter().for_each(|entry| clean(PageRange { start: entry.pfn(), pages: order.pages() }));
                if to == FreeTo::Pageset {
                    self.commit_all(blocks, block);
                } else {
                    let claimed = blocks.iter().filter_map(|entry| self.locate(entry.pfn()));
                    claimed.for_each(|(zone, page)| self.commit_to(zone, page, order, to));
                }
            }
            What::Range(range) => {
                let (zone, span) = self.claim_range(range)?;
                clean(range);
                self.each_block(zone, span, |page, order| self.commit_to(zone, page, order, to));
            }
        }
        Ok(())
    }

    /// Frees a claimed block.
    #[inline(always)]
    fn commit_to(&self, zone: &CachedZone<'a, M>, page: u32, order: Order, to: FreeTo) {
        match to {
            FreeTo::Pageset => self.commit_free(zone, page, order, true),
            FreeTo::PagesetUndrained => self.commit_free(zone, page, order, false),
            FreeTo::Buddy => self.free_to_buddy(zone, page, order),
            FreeTo::BuddyCold => {
                let guard = zone.shared.lock(self.env(), LockPath::DirectFree, page);
                guard.free_cold(page, order);
                sync::add(&guard.region.direct_free_pages, order.pages());
            }
            FreeTo::Deferred => zone.shared.defer(page),
        }
    }
}
