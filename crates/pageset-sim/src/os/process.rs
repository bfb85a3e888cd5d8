//! A process: one region of anonymous memory, faulted in page by page and unmapped as a whole.
//!
//! Specification: `linux-page-allocator.md` 5.

use pageset::{AllocError, Block, MigrateType, Order, Pfn};

use super::System;
use super::era::{GATHER_FIRST, GATHER_PAGE, GATHER_PAGES};

/// Pages that a page-table page maps.
const TABLE_PAGES: usize = 512;

/// An address space with one region.
#[derive(Debug, Default)]
pub struct Process {
    pages: Vec<Pfn>,
    tables: Vec<Pfn>,
}

impl Process {
    /// A process without memory.
    #[must_use]
    pub fn new() -> Self {
        Process::default()
    }

    /// Writes to the next page of the region for the first time: a page fault.
    ///
    /// # Errors
    /// There is no memory.
    #[inline]
    pub fn fault(&mut self, system: &System<'_>) -> Result<(), AllocError> {
        system.engine().work(system.costs.fault);
        if self.pages.len().is_multiple_of(TABLE_PAGES) {
            let table = system.alloc(MigrateType::Unmovable)?;
            self.tables.push(table);
            system.machine().write_page(table);
        }
        let page = system.alloc(MigrateType::Movable)?;
        self.pages.push(page);
        system.machine().touch_page(page);
        system.machine().write_page(page);
        system.lru_add(page);
        Ok(())
    }

    /// Gives the region back: pages are gathered in bundles, and what is gathered is freed when there is no more room.
    ///
    /// # Errors
    /// There is no memory for the bundles.
    pub fn unmap(&mut self, system: &System<'_>) -> Result<(), AllocError> {
        const ROOM: usize = GATHER_FIRST + GATHER_PAGES * GATHER_PAGE;
        system.lru_flush();
        for gathered in self.pages.chunks(ROOM) {
            let (first, rest) = gathered.split_at(gathered.len().min(GATHER_FIRST));
            let mut bundles = Vec::new();
            zap(system, first);
            for bundle in rest.chunks(GATHER_PAGE) {
                bundles.push(system.alloc(MigrateType::Unmovable)?);
                zap(system, bundle);
            }
            std::iter::once(first).chain(rest.chunks(GATHER_PAGE)).for_each(|pages| system.release(pages));
            system.free(&bundles);
        }
        system.free(&self.tables);
        self.tables.clear();
        self.pages.clear();
        Ok(())
    }
}

/// Clears the page-table entries of some pages.
fn zap(system: &System<'_>, pages: &[Pfn]) {
    for &page in pages {
        system.engine().work(system.costs.unmap_page);
        system.machine().touch_page(page);
    }
}

impl System<'_> {
    /// Drops the last reference to pages that are on the LRU.
    fn release(&self, pages: &[Pfn]) {
        self.lru_delete(pages);
        self.free(pages);
    }

    /// Frees single pages as one list.
    fn free(&self, pages: &[Pfn]) {
        let blocks: Vec<Block> = pages.iter().map(|&pfn| Block { pfn, order: Order::ZERO }).collect();
        // They were allocated as such, each once.
        let freed = self.allocator.free_bulk(&blocks);
        debug_assert_eq!(freed, Ok(()));
        self.timers();
    }
}
