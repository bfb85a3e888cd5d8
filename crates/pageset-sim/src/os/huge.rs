//! Huge pages of anonymous memory.

use pageset::{AllocError, Block, MigrateType, Order, Pfn, Request, Wait};

use super::System;
use crate::time::Time;

impl System<'_> {
    /// Writes to a huge page for the first time; none is made for it by compaction, which is how kernels are set (`defrag`
    /// of transparent huge pages). It goes on the LRU by itself: large pages wait in no batch. Specification:
    /// `linux-page-allocator.md` 5.
    ///
    /// # Errors
    /// None is to be had.
    pub(crate) fn fault_huge(&self) -> Result<Pfn, AllocError> {
        let pfn = self.take_huge(Wait::Lock)?;
        self.lru_add_now(pfn);
        Ok(pfn)
    }

    fn take_huge(&self, wait: Wait) -> Result<Pfn, AllocError> {
        self.engine().work(self.costs.fault);
        let pfn = self.request(&Request { wait, ..Request::new(Order::PAGEBLOCK, MigrateType::Movable) })?;
        for page in 0..Order::PAGEBLOCK.pages() {
            self.machine().write_page(pfn.offset(page));
        }
        Ok(pfn)
    }

    /// The same for a request that compacts and reclaims, of a block that is kept: it is on no LRU, where reclaim would find
    /// it. How long it took is noted apart.
    ///
    /// # Errors
    /// None is to be had.
    pub(crate) fn fault_huge_slowly(&self) -> Result<Pfn, AllocError> {
        let begin = self.engine().now();
        let taken = self.take_huge(Wait::Memory);
        let (count, time) = self.huge_requests.get();
        self.huge_requests.set((count + 1, time + (self.engine().now() - begin)));
        taken
    }

    /// How long a request for a huge page took on average, if there was one.
    pub(crate) fn huge_request_time(&self) -> Option<Time> {
        let (count, time) = self.huge_requests.get();
        time.ps().checked_div(count).map(Time::from_ps)
    }

    /// Gives a huge page back.
    pub(crate) fn unmap_huge(&self, block: Block) {
        self.unmap_page(block.pfn);
        self.lru_delete(&[block.pfn]);
        self.free_block(block);
    }
}
