//! Blocks taken from the allocator and given back, and what is counted of them.

use pageset::{AllocError, Block, CpuId, MigrateType, Order, Pfn, Request};

use super::System;

/// What has moved between pagesets and zones, all zones together. Pages, but for the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Handed out.
    pub allocated: u64,
    /// Taken from the zones: by refills, and past the pagesets.
    pub from_zone: u64,
    /// Drained from pagesets to zones.
    pub drained: u64,
    /// Of those, as whole clusters.
    pub drained_as_clusters: u64,
    /// Times that a free of orders 1 to 3 drained a pageset that had room. Specification: `linux-page-allocator.md` 4.0.
    pub high_order_drains: u64,
}

impl Moved {
    /// So many times as much.
    #[must_use]
    pub const fn times(self, n: u64) -> Moved {
        Moved {
            allocated: n * self.allocated,
            from_zone: n * self.from_zone,
            drained: n * self.drained,
            drained_as_clusters: n * self.drained_as_clusters,
            high_order_drains: n * self.high_order_drains,
        }
    }

    /// What has been added since.
    #[must_use]
    pub const fn since(self, before: Moved) -> Moved {
        Moved {
            allocated: self.allocated - before.allocated,
            from_zone: self.from_zone - before.from_zone,
            drained: self.drained - before.drained,
            drained_as_clusters: self.drained_as_clusters - before.drained_as_clusters,
            high_order_drains: self.high_order_drains - before.high_order_drains,
        }
    }
}

impl System<'_> {
    /// Takes a page, and notes how long that took.
    #[inline]
    pub(crate) fn alloc(&self, migratetype: MigrateType) -> Result<Pfn, AllocError> {
        self.alloc_block(Order::ZERO, migratetype)
    }

    /// Takes a block, and notes how long that took.
    ///
    /// # Errors
    /// There is no memory for it.
    #[inline]
    pub fn alloc_block(&self, order: Order, migratetype: MigrateType) -> Result<Pfn, AllocError> {
        self.request(&Request::new(order, migratetype))
    }

    /// The same for any request.
    #[inline]
    pub(super) fn request(&self, request: &Request) -> Result<Pfn, AllocError> {
        let begin = self.engine().now();
        let pfn = if self.reclaims.get() || self.compacts.get() {
            self.alloc_patiently(request)?
        } else {
            // The machine follows each touch: nothing is served by the path that leaves some out.
            self.allocator.alloc_generally(request)?
        };
        if self.measuring.get() {
            self.alloc_times.add(self.engine().now() - begin);
        }
        Ok(pfn)
    }

    /// Gives a block back.
    pub fn free_block(&self, block: Block) {
        let costly = block.order > Order::ZERO && block.order <= Order::COSTLY;
        let before = if costly { self.pageset_of(block.pfn) } else { None };
        // It was allocated as such, once.
        let freed = self.allocator.free(block.pfn, block.order);
        debug_assert_eq!(freed, Ok(()));
        if let (Some(before), Some(after)) = (before, self.pageset_of(block.pfn))
            && after.drains > before.drains
            && before.count + block.order.pages() < before.high
        {
            self.high_order_drains.set(self.high_order_drains.get() + 1);
        }
        self.timers();
    }

    /// Frees single pages as one list.
    pub(crate) fn free_pages(&self, pages: &[Pfn]) {
        // They were allocated as such, each once.
        let freed = self.allocator.free_pages(pages, |pfn| *pfn);
        debug_assert_eq!(freed, Ok(()));
        self.timers();
    }

    /// Drops the last reference to pages that are on the LRU.
    pub(crate) fn release(&self, pages: &[Pfn]) {
        self.lru_delete(pages);
        self.free_pages(pages);
    }

    /// What this CPU's pageset of a page's zone holds.
    fn pageset_of(&self, pfn: Pfn) -> Option<Held> {
        let zone = self.allocator.zone_of(pfn)?;
        let cpu = CpuId(self.engine().cpu());
        let stats = self.allocator.pageset_stats(zone, cpu);
        let state = self.allocator.pageset_state(zone, cpu);
        // What the free will make of it first. Specification 4.7.
        let high = u64::from(state.high.clamp(state.high_min, state.high_max));
        Some(Held { count: stats.count, drains: stats.drains, high })
    }

    /// What has moved since the start.
    pub(super) fn moved_so_far(&self) -> Moved {
        let mut moved = Moved { high_order_drains: self.high_order_drains.get(), ..Moved::default() };
        for zone in (0..self.allocator.zone_count()).map(|zone| self.allocator.zone_stats(zone)) {
            moved.allocated += zone.pgalloc();
            moved.from_zone += zone.pagesets.refill_pages + zone.direct_alloc_pages;
            moved.drained += zone.pagesets.drain_pages;
            moved.drained_as_clusters += zone.cluster_free_pages;
        }
        moved
    }
}

/// A pageset's count, drains and high.
struct Held {
    count: u64,
    drains: u64,
    high: u64,
}
