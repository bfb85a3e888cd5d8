//! Huge pages of anonymous memory.

use pageset::{AllocError, Block, MigrateType, Order, Pfn, Request, Wait};

use super::System;
use crate::time::Time;

impl System<'_> {
    /// Writes to a huge page for the first time. The request does not compact, as kernels are configured (`defrag` of
    /// transparent huge pages). The huge page joins the LRU at once, because large pages do not wait in batches.
    /// Specification: `linux-page-allocator.md` 5.
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

    /// As [`Self::fault_huge`], but the request compacts and reclaims, and the block is kept: it stays off the LRU, so
    /// reclaim does not find it. The duration is recorded.
    pub(crate) fn fault_huge_slowly(&self) -> Result<Pfn, AllocError> {
        let begin = self.engine().now();
        let taken = self.take_huge(Wait::Memory);
        let (count, time) = self.huge_requests.get();
        self.huge_requests.set((count + 1, time + (self.engine().now() - begin)));
        taken
    }

    /// Mean duration of the requests of [`Self::fault_huge_slowly`], if there were any.
    pub(crate) fn huge_request_time(&self) -> Option<Time> {
        let (count, time) = self.huge_requests.get();
        time.ps().checked_div(count).map(Time::from_ps)
    }

    pub(crate) fn unmap_huge(&self, block: Block) {
        self.unmap_page(block.pfn);
        self.lru_delete(&[block.pfn]);
        self.free_block(block);
    }
}
