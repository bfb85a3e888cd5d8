//! Frees with a step of the caller between the claim of a block and its free: for owners that clear memory, or mark it.
//!
//! During the step, the block is neither in use nor free: every other free of it fails, and no request gets it. A step that
//! panics loses its block.

use crate::alloc::Allocator;
use crate::alloc::error::FreeError;
use crate::alloc::request::{Block, PageHandle};
use crate::frame::{Order, PageRange, Pfn};
use crate::machine::Machine;

impl<M: Machine> Allocator<'_, M> {
    /// As [`Self::free`], with a step before the block is free.
    ///
    /// # Errors
    /// As [`Self::free`]. The step has not run.
    pub fn free_cleaned(&self, pfn: Pfn, order: Order, clean: impl FnOnce()) -> Result<(), FreeError> {
        let (zone, page) = self.claim_free(pfn, order)?;
        clean();
        self.commit_free(zone, page, order, true);
        Ok(())
    }

    /// As [`Self::free_deferred`], with a step before the block is on the list of deferred frees.
    ///
    /// # Errors
    /// As [`Self::free`]. The step has not run.
    pub fn free_deferred_cleaned(&self, pfn: Pfn, order: Order, clean: impl FnOnce()) -> Result<(), FreeError> {
        let (zone, page) = self.claim_free(pfn, order)?;
        clean();
        zone.shared.defer(page);
        Ok(())
    }

    /// As [`Self::free_bulk_of`], with a step for each block before any block is free.
    ///
    /// # Errors
    /// As [`Self::free_bulk_of`]. The step has run for no block. Of two entries for one block, the second is an error,
    /// whatever [`FreeCheck`](crate::FreeCheck) says.
    pub fn free_bulk_cleaned<B: PageHandle>(
        &self,
        order: Order,
        blocks: &[B],
        clean: impl FnMut(Pfn),
    ) -> Result<(), FreeError> {
        let block = |entry: &B| Block { pfn: entry.pfn(), order };
        self.prepare_rest(blocks, 0, block)?;
        blocks.iter().map(PageHandle::pfn).for_each(clean);
        self.commit_all(blocks, block);
        Ok(())
    }

    /// As [`Self::free_range`], with a step for the range before any of its blocks is free.
    ///
    /// # Errors
    /// As [`Self::free_range`]. The step has not run.
    pub fn free_range_cleaned(&self, range: PageRange, clean: impl FnOnce()) -> Result<(), FreeError> {
        let (zone, span) = self.claim_range(range)?;
        clean();
        self.free_claimed(zone, span);
        Ok(())
    }
}
