//! The state of memory that a workload finds when virtual time begins.

#[cfg(test)]
use pageset::CpuId;
use pageset::{AllocError, MigrateType, NodeId, Order, Pfn, Request};

use super::System;
use super::space::GATHER_PAGE;
use crate::time::Time;

impl System<'_> {
    pub(crate) fn nodes(&self) -> u32 {
        self.machine().map.nodes()
    }

    pub(crate) fn first_cpu(&self, node: u32) -> u32 {
        node * self.engine().config().topology.cores_per_socket
    }

    /// Calls `act` in the name of a CPU, before virtual time begins.
    pub(crate) fn as_cpu<T>(&self, cpu: u32, act: impl FnOnce() -> T) -> T {
        self.engine().act_as(cpu, act)
    }

    /// Allocates a page of anonymous memory and adds it to the LRU.
    pub(crate) fn new_page(&self) -> Result<Pfn, AllocError> {
        let page = self.alloc(MigrateType::Movable)?;
        self.lru_add(page);
        Ok(page)
    }

    /// Allocates the memory of the acting CPU's node for good, except for `but_for` pages above the low watermark.
    pub(crate) fn use_up(&self, but_for: u64) {
        let cpu = self.engine().cpu();
        let topology = self.engine().config().topology;
        let node = NodeId(topology.socket_of(topology.core_of(cpu)).0);
        let request =
            Request { node: Some(node), this_node_only: true, ..Request::new(Order::MAX, MigrateType::Movable) };
        let room = || -> u64 {
            let zones = self.allocator.zones().map(|zone| zone.stats()).filter(|zone| zone.node == node);
            zones.map(|zone| zone.nr_free_pages.saturating_sub(zone.watermarks.low)).sum()
        };
        let blocks = room().saturating_sub(but_for) / Order::MAX.pages();
        // A failed allocation leaves slightly more memory to the workload.
        for _ in 0..blocks {
            let _ = self.allocator.alloc(&request);
        }
    }

    /// Fragments `pages` free pages, of the acting CPU's node as long as it has some. Allocates them one by one and
    /// frees them in random order, except for `kept_pct` per cent, 0 to 100, which stay allocated for good. If freed
    /// pages merge at once, they form large blocks again only with `kept_pct` 0.
    pub(crate) fn fragment(&self, pages: u64, kept_pct: usize) {
        let mut taken: Vec<Pfn> = Vec::new();
        while taken.len() < pages as usize
            && let Ok(page) = self.alloc(MigrateType::Movable)
        {
            taken.push(page);
        }
        for last in (1..taken.len()).rev() {
            taken.swap(last, self.engine().random_below(last as u64 + 1) as usize);
        }
        let given_back = &taken[taken.len() * kept_pct / 100..];
        given_back.chunks(GATHER_PAGE).for_each(|list| self.free_pages(list));
    }

    pub(crate) fn free_pages_of_node(&self, node: u32) -> u64 {
        let zones = self.allocator.zones().map(|zone| zone.stats());
        zones.filter(|zone| zone.node == NodeId(node)).map(|zone| zone.nr_free_pages).sum()
    }

    #[cfg(test)]
    pub(crate) fn free_blocks(&self, order: Order) -> u32 {
        self.allocator.zones().map(|zone| zone.free_blocks(order, MigrateType::Movable)).sum()
    }

    /// Pages that a CPU allocated from its pagesets, and pages that it freed to them.
    #[cfg(test)]
    pub(crate) fn pageset_pages(&self, cpu: u32) -> (u64, u64) {
        let pagesets =
            self.allocator.zones().filter_map(|zone| zone.pageset(CpuId(cpu))).map(|pageset| pageset.stats());
        pagesets.fold((0, 0), |(allocated, freed), stats| (allocated + stats.pgalloc, freed + stats.pgfree))
    }

    /// The running task sleeps for `time`.
    pub(crate) fn rest(&self, time: Time) {
        self.engine().rest(time);
        self.timers();
    }

    /// From now on requests above order 0 compact when they find no memory.
    pub(crate) fn compact_for_requests(&self) {
        self.compacts.set(true);
    }

    /// From now on requests that find no memory reclaim the oldest pages on the LRU.
    pub(crate) fn reclaim_for_requests(&self) {
        self.reclaims.set(true);
    }
}
