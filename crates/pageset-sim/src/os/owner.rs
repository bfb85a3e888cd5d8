//! The owner of all pages: page moves and reclaim for the allocator's slow paths.

use pageset::{Alloc, AllocError, MoveError, Order, Owner, Pfn, Request};

use super::System;
use super::costs::RECLAIM_PAGE;

/// Pages per round of reclaim. Source: the kernel's SWAP_CLUSTER_MAX.
const ROUND: usize = 32;

impl System<'_> {
    /// Retries a request for a single page while reclaim frees pages, even if other CPUs take these pages first.
    /// Kernels do the same. The allocator itself asks its owner only 16 times.
    pub(super) fn alloc_patiently(&self, request: &Request) -> Result<Pfn, AllocError> {
        loop {
            let before = self.reclaimed.get();
            match self.allocator.alloc_with(Alloc::new(request).owner(self)) {
                Err(AllocError::OutOfMemory(_)) if request.order == Order::ZERO && self.reclaimed.get() > before => {
                    self.engine().relax();
                }
                other => return other,
            }
        }
    }
}

impl Owner for System<'_> {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        self.isolate_place(pfn)
    }

    fn move_block(&self, from: Pfn, to: Pfn, _order: Order) -> Result<(), MoveError> {
        self.move_place(from, to)
    }

    fn put_back(&self, pfn: Pfn, _order: Order) {
        self.put_back_place(pfn);
    }

    fn reclaim(&self, _request: &Request) -> u64 {
        if self.reclaims.get() { self.reclaim_round() } else { 0 }
    }
}

impl System<'_> {
    /// Frees up to [`ROUND`] of the oldest pages of this CPU's node. Returns their number.
    pub(crate) fn reclaim_round(&self) -> u64 {
        let topology = self.engine().config().topology;
        let node = topology.socket_of(topology.core_of(self.engine().cpu()));
        self.lru_flush();
        let pages = self.lru_oldest(node, ROUND);
        for &page in &pages {
            self.engine().work(RECLAIM_PAGE);
            self.machine().touch_page(page);
            self.lose_place(page);
        }
        self.free_pages(&pages);
        self.reclaimed.set(self.reclaimed.get() + pages.len() as u64);
        pages.len() as u64
    }
}
