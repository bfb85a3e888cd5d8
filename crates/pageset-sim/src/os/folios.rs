//! Regions of large folios: a fault maps a block of pages at once, and the block is freed as a whole.

use pageset::{AllocError, Block, MigrateType, Order, Request, Wait};

use super::costs::MAP_PAGE;
use super::{Region, Space, System};

/// Pages that a CPU clears before it lets CPUs with earlier clocks run.
const CLEARED_AT_ONCE: u64 = 16;

/// A region of an address space whose faults map folios.
#[derive(Debug)]
pub struct Folios<'s> {
    /// Pages that were mapped singly because there was no folio.
    single: Region<'s>,
    blocks: Vec<Block>,
}

impl<'s> Folios<'s> {
    /// A region without pages.
    pub const fn new(space: &'s Space) -> Self {
        Folios { single: Region::new(space), blocks: Vec::new() }
    }

    /// Writes to the next page for the first time. The fault maps a folio of `order`; if there is none, of the next smaller order
    /// that has one; at last a page. Returns the number of mapped pages.
    pub fn fault(&mut self, system: &System<'_>, order: Order) -> Result<u64, AllocError> {
        for order in (2..=order.get()).rev().filter_map(Order::new) {
            if let Ok(block) = system.fault_folio(order) {
                self.blocks.push(block);
                return Ok(order.pages());
            }
        }
        self.single.fault(system).map(|()| 1)
    }

    /// Unmaps and frees everything.
    pub fn unmap(mut self, system: &System<'_>) -> Result<(), AllocError> {
        self.single.unmap(system)?;
        for blocks in self.blocks.chunks(system.era.lru_release()) {
            let heads: Vec<_> = blocks.iter().map(|block| block.pfn).collect();
            for block in blocks {
                system.unmap_page(block.pfn);
                system.engine().work(MAP_PAGE.times(block.order.pages() - 1));
            }
            system.lru_delete(&heads);
            blocks.iter().for_each(|&block| system.free_block(block));
        }
        Ok(())
    }
}

impl System<'_> {
    /// A page fault that maps a folio. The request does not compact, as kernels are configured. A folio joins the LRU at once,
    /// because large folios do not wait in batches. Specification: `linux-page-allocator.md` 5.
    fn fault_folio(&self, order: Order) -> Result<Block, AllocError> {
        self.engine().work(self.costs.fault + MAP_PAGE.times(order.pages() - 1));
        let pfn = self.request(&Request { wait: Wait::Lock, ..Request::new(order, MigrateType::Movable) })?;
        self.machine().touch_page(pfn);
        for page in 0..order.pages() {
            self.machine().write_page(pfn.offset(page));
            // A CPU that clears megabytes would run far ahead of the others, and all would miss how busy the memory is.
            if page % CLEARED_AT_ONCE == CLEARED_AT_ONCE - 1 {
                self.engine().yield_now();
            }
        }
        self.lru_add_now(pfn);
        Ok(Block { pfn, order })
    }
}
