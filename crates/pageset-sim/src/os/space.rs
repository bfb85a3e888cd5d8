//! Address spaces: regions faulted in page by page and unmapped as a whole.
//!
//! Specification: `linux-page-allocator.md` 5.

use pageset::{AllocError, MigrateType, Pfn};

use super::System;
use super::costs::{COPY_PAGE, FLUSH, FLUSH_CPU, LOOKUP, MAP};
use super::semaphore::Semaphore;

/// Entries of the bundle that an unmapping has on its stack. Specification: 5, "Unmap".
const GATHER_FIRST: usize = 8;
/// Entries of a gather page.
pub(super) const GATHER_PAGE: usize = 510;
/// Gather pages at most.
const GATHER_PAGES: usize = 19;

/// Pages that a page-table page maps.
pub(super) const TABLE_PAGES: usize = 512;

/// An address space: a process's own, or shared by threads, whose faults hold its semaphore together and whose changes of
/// the map hold it alone.
#[derive(Debug)]
pub struct Space {
    semaphore: Option<Semaphore>,
    threads: u32,
}

impl Space {
    /// That of a process with one thread. Nobody waits for its semaphore.
    #[must_use]
    pub const fn own() -> Self {
        Space { semaphore: None, threads: 1 }
    }

    /// One for so many threads.
    #[must_use]
    pub fn shared(system: &System<'_>, threads: u32) -> Self {
        Space { semaphore: Some(Semaphore::new(system)), threads }
    }

    fn read(&self, system: &System<'_>) {
        if let Some(semaphore) = &self.semaphore {
            semaphore.read(system);
        }
    }

    fn write(&self, system: &System<'_>) {
        if let Some(semaphore) = &self.semaphore {
            semaphore.write(system);
        }
    }

    fn give(&self, system: &System<'_>) {
        if let Some(semaphore) = &self.semaphore {
            semaphore.give(system);
        }
    }

    /// All CPUs of the address space forget mappings.
    fn flush(&self, system: &System<'_>) {
        if self.threads > 1 {
            system.engine().work(FLUSH + FLUSH_CPU.times(u64::from(self.threads - 1)));
        }
    }
}

/// A region of an address space.
#[derive(Debug)]
pub struct Region<'s> {
    space: &'s Space,
    /// Its own pages.
    pages: Vec<Pfn>,
    /// Pages of a file that it maps.
    shared: Vec<Pfn>,
    tables: Vec<Pfn>,
}

impl<'s> Region<'s> {
    /// A region without pages. That it is made costs nothing; see [`Self::map`].
    #[must_use]
    pub const fn new(space: &'s Space) -> Self {
        Region { space, pages: Vec::new(), shared: Vec::new(), tables: Vec::new() }
    }

    /// Makes the region known to the address space.
    pub fn map(&mut self, system: &System<'_>) {
        self.space.write(system);
        system.engine().work(MAP);
        self.space.give(system);
    }

    /// Pages that are mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages.len() + self.shared.len()
    }

    /// Whether none is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its own pages, in the order of their faults.
    pub(super) fn pages_mut(&mut self) -> &mut [Pfn] {
        &mut self.pages
    }

    /// Writes to the next page for the first time: a page fault.
    ///
    /// # Errors
    /// There is no memory.
    #[inline]
    pub fn fault(&mut self, system: &System<'_>) -> Result<(), AllocError> {
        self.fault_in(system, self.len().is_multiple_of(TABLE_PAGES), None)
    }

    /// Writes to the next page, which maps a page of a file for itself alone: it gets a copy.
    ///
    /// # Errors
    /// There is no memory.
    pub fn fault_copy(&mut self, system: &System<'_>, of: Pfn) -> Result<(), AllocError> {
        self.fault_in(system, self.len().is_multiple_of(TABLE_PAGES), Some(of))
    }

    /// Writes to a page; `new_table` tells whether its page-table page is missing, `copy_of` what it begins as.
    pub(super) fn fault_in(
        &mut self,
        system: &System<'_>,
        new_table: bool,
        copy_of: Option<Pfn>,
    ) -> Result<(), AllocError> {
        self.space.read(system);
        self.enter(system, new_table)?;
        let page = system.alloc(MigrateType::Movable)?;
        self.pages.push(page);
        system.machine().touch_page(page);
        if let Some(source) = copy_of {
            system.engine().work(LOOKUP + COPY_PAGE);
            system.machine().touch_page(source);
            system.machine().write_page(source);
        }
        system.machine().write_page(page);
        system.lru_add(page);
        self.space.give(system);
        Ok(())
    }

    /// Touches the next page, which is one of a file.
    ///
    /// # Errors
    /// There is no memory for a page-table page.
    pub fn fault_shared(&mut self, system: &System<'_>, page: Pfn) -> Result<(), AllocError> {
        self.space.read(system);
        self.enter(system, self.len().is_multiple_of(TABLE_PAGES))?;
        system.engine().work(LOOKUP);
        system.machine().touch_page(page);
        self.shared.push(page);
        self.space.give(system);
        Ok(())
    }

    /// What all faults have in common.
    #[inline]
    fn enter(&mut self, system: &System<'_>, new_table: bool) -> Result<(), AllocError> {
        system.engine().work(system.costs.fault);
        if new_table {
            let table = system.alloc(MigrateType::Unmovable)?;
            self.tables.push(table);
            system.machine().write_page(table);
        }
        Ok(())
    }

    /// Gives all pages back: they are gathered in bundles, and what is gathered is freed when there is no more room.
    ///
    /// # Errors
    /// There is no memory for the bundles.
    pub fn unmap(&mut self, system: &System<'_>) -> Result<(), AllocError> {
        const ROOM: usize = GATHER_FIRST + GATHER_PAGES * GATHER_PAGE;
        self.space.write(system);
        system.lru_flush();
        for gathered in self.pages.chunks(ROOM) {
            let (first, rest) = gathered.split_at(gathered.len().min(GATHER_FIRST));
            let mut bundles = Vec::new();
            zap(system, first);
            for bundle in rest.chunks(GATHER_PAGE) {
                bundles.push(system.alloc(MigrateType::Unmovable)?);
                zap(system, bundle);
            }
            self.space.flush(system);
            std::iter::once(first).chain(rest.chunks(GATHER_PAGE)).for_each(|pages| system.release(pages));
            system.free_pages(&bundles);
        }
        if !self.shared.is_empty() {
            zap(system, &self.shared);
            self.space.flush(system);
        }
        system.free_pages(&self.tables);
        self.tables.clear();
        self.shared.clear();
        self.pages.clear();
        self.space.give(system);
        system.yield_now();
        Ok(())
    }
}

/// Clears the page-table entries of some pages.
fn zap(system: &System<'_>, pages: &[Pfn]) {
    system.machine().fetching(pages).for_each(|page| system.unmap_page(page));
}

impl System<'_> {
    /// Clears the page-table entry of a page.
    pub(crate) fn unmap_page(&self, page: Pfn) {
        self.engine().work(self.costs.unmap_page);
        self.machine().touch_page(page);
    }
}
