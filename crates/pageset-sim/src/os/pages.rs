//! Allocation and freeing of blocks, with counters.

use pageset::{AllocError, Block, CpuId, MigrateType, Order, Pfn, Request};

use super::System;
use super::costs::COPY_PAGE;

/// Pages moved between pagesets and zones, summed over all zones. Unit: pages, except for `high_order_drains`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Allocated pages.
    pub allocated: u64,
    /// Pages taken from zones, by refills and by allocations that bypass the pagesets.
    pub from_zone: u64,
    /// Pages drained from pagesets to zones.
    pub drained: u64,
    /// Drained pages that moved as whole clusters.
    pub drained_as_clusters: u64,
    /// Frees of orders 1 to 3 that drained a pageset with room. Specification: `linux-page-allocator.md` 4.0.
    pub high_order_drains: u64,
}

impl Moved {
    /// All counters multiplied by `n`.
    pub const fn times(self, n: u64) -> Moved {
        Moved {
            allocated: n * self.allocated,
            from_zone: n * self.from_zone,
            drained: n * self.drained,
            drained_as_clusters: n * self.drained_as_clusters,
            high_order_drains: n * self.high_order_drains,
        }
    }

    /// The difference to earlier counters.
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
    /// Allocates a page and records the duration.
    #[inline]
    pub(crate) fn alloc(&self, migratetype: MigrateType) -> Result<Pfn, AllocError> {
        self.alloc_block(Order::ZERO, migratetype)
    }

    /// Allocates a block and records the duration.
    #[inline]
    pub fn alloc_block(&self, order: Order, migratetype: MigrateType) -> Result<Pfn, AllocError> {
        self.request(&Request::new(order, migratetype))
    }

    /// Serves any request and records its duration.
    #[inline]
    pub(super) fn request(&self, request: &Request) -> Result<Pfn, AllocError> {
        let begin = self.engine().now();
        let pfn = if self.reclaims.get() || self.compacts.get() {
            self.alloc_patiently(request)?
        } else {
            // Faults take the general path, as the kernel's do; it reports each touch.
            self.allocator.fast_path().alloc_rest(request)?
        };
        if self.measuring.get() {
            self.alloc_times.add(self.engine().now() - begin);
        }
        Ok(pfn)
    }

    /// Frees a block.
    pub fn free_block(&self, block: Block) {
        let costly = block.order > Order::ZERO && block.order <= Order::COSTLY;
        let before = if costly { self.pageset_of(block.pfn) } else { None };
        // The block was allocated with this order and is freed once.
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

    /// Allocates single unmovable pages in one call, as the receive ring of a network card does. The durations are not recorded.
    pub(crate) fn alloc_pages(&self, count: usize) -> Result<Vec<Pfn>, AllocError> {
        let request = Request::new(Order::ZERO, MigrateType::Unmovable);
        let mut pages = vec![Pfn(0); count];
        let got = self.allocator.alloc_bulk(&request, &mut pages)?;
        // Kernels take the rest one by one.
        for page in &mut pages[got..] {
            *page = self.request(&request)?;
        }
        self.timers();
        Ok(pages)
    }

    /// Frees a single page by itself.
    pub(crate) fn free_page(&self, pfn: Pfn) {
        self.free_block(Block { pfn, order: Order::ZERO });
    }

    /// Copies a page to a program's buffer.
    pub(crate) fn read_page(&self, pfn: Pfn) {
        self.engine().work(COPY_PAGE);
        self.machine().write_page(pfn);
    }

    /// Frees single pages as one list.
    pub(crate) fn free_pages(&self, pages: &[Pfn]) {
        // The pages were allocated with order 0 and are freed once.
        let freed = self.allocator.free_bulk_of(Order::ZERO, pages);
        debug_assert_eq!(freed, Ok(()));
        self.timers();
    }

    /// Drops the last reference to pages on the LRU: unlinks and frees them.
    pub(crate) fn release(&self, pages: &[Pfn]) {
        self.lru_delete(pages);
        self.free_pages(pages);
    }

    /// The state of this CPU's pageset in a page's zone.
    fn pageset_of(&self, pfn: Pfn) -> Option<Held> {
        let pageset = self.allocator.zone_of(pfn)?.pageset(CpuId(self.engine().cpu()))?;
        let (stats, state) = (pageset.stats(), pageset.state());
        // The free clamps `high` first. Specification 4.7.
        let high = u64::from(state.high.clamp(state.high_min, state.high_max));
        Some(Held { count: stats.count, drains: stats.drains, high })
    }

    /// Counters of moved pages since the start.
    pub(super) fn moved_so_far(&self) -> Moved {
        let mut moved = Moved { high_order_drains: self.high_order_drains.get(), ..Moved::default() };
        for zone in self.allocator.zones().map(|zone| zone.stats()) {
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
