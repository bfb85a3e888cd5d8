//! Address spaces: regions that fault page by page and are unmapped as a whole.
//!
//! Specification: `linux-page-allocator.md` 5.

use pageset::{AllocError, MigrateType, Pfn};

use super::System;
use super::costs::{COPY_PAGE, FLUSH, FLUSH_CPU, LOOKUP, MAP};
use super::semaphore::Semaphore;

/// Entries of the bundle on the stack of an unmap call. Specification: 5, "Unmap".
const GATHER_FIRST: usize = 8;
/// Entries of a gather page: pointers that fill a page but for two words.
pub(super) const GATHER_PAGE: usize = TABLE_PAGES - 2;
/// Maximum of gather pages: 10,000 entries in all.
const GATHER_PAGES: usize = 10_000 / GATHER_PAGE;

/// Pages that one page-table page maps: its entries have eight bytes.
pub(super) const TABLE_PAGES: usize = Pfn::PAGE_BYTES as usize / 8;

/// An address space, owned by one process or shared by threads. Faults take its semaphore for reading; changes of its
/// map take it for writing.
#[derive(Debug)]
pub struct Space {
    semaphore: Option<Semaphore>,
    threads: u32,
}

impl Space {
    /// The address space of a process with one thread. Nobody waits for its semaphore, so it has none.
    pub const fn own() -> Self {
        Space { semaphore: None, threads: 1 }
    }

    /// The address space of a process with `threads` threads.
    pub fn shared(system: &System<'_>, threads: u32) -> Self {
        Space { semaphore: Some(Semaphore::new(system)), threads }
    }

    /// The address space of a process with `threads` threads whose faults and changes lock regions instead of the space.
    /// Each region has one user at a time, so no user waits.
    pub const fn with_region_locks(threads: u32) -> Self {
        Space { semaphore: None, threads }
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

    /// Flushes the TLBs of all CPUs of the address space.
    fn flush(&self, system: &System<'_>) {
        if self.threads > 1 {
            system.engine().work(FLUSH + FLUSH_CPU.times(u64::from(self.threads - 1)));
        }
    }
}

/// The pages of a region on its way to another thread of its address space.
#[derive(Debug)]
pub struct Extent {
    pages: Vec<Pfn>,
    tables: Vec<Pfn>,
}

/// A region of an address space.
#[derive(Debug)]
pub struct Region<'s> {
    space: &'s Space,
    /// The region's own pages.
    pages: Vec<Pfn>,
    /// File pages that the region maps.
    shared: Vec<Pfn>,
    tables: Vec<Pfn>,
}

impl<'s> Region<'s> {
    /// A region without pages. Creating it takes no time; see [`Self::map`].
    pub const fn new(space: &'s Space) -> Self {
        Region { space, pages: Vec::new(), shared: Vec::new(), tables: Vec::new() }
    }

    /// The region without its owner, for another thread. Only the region's own pages go along.
    pub fn detach(self) -> Extent {
        Extent { pages: self.pages, tables: self.tables }
    }

    /// The region that [`Self::detach`] took from another thread of `space`.
    pub fn attach(space: &'s Space, Extent { pages, tables }: Extent) -> Self {
        Region { space, pages, shared: Vec::new(), tables }
    }

    /// Adds the region to the address space.
    pub fn map(&mut self, system: &System<'_>) {
        self.space.write(system);
        system.engine().work(MAP);
        self.space.give(system);
    }

    /// Number of mapped pages.
    pub fn len(&self) -> usize {
        self.pages.len() + self.shared.len()
    }

    /// Whether no page is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The region's own pages, in the order of their faults.
    pub(super) fn pages_mut(&mut self) -> &mut [Pfn] {
        &mut self.pages
    }

    /// Writes to the next page for the first time, which causes a page fault.
    #[inline]
    pub fn fault(&mut self, system: &System<'_>) -> Result<(), AllocError> {
        self.fault_in(system, self.len().is_multiple_of(TABLE_PAGES), None)
    }

    /// Writes to the next page of a private file mapping: the region gets a copy of `of`.
    pub fn fault_copy(&mut self, system: &System<'_>, of: Pfn) -> Result<(), AllocError> {
        self.fault_in(system, self.len().is_multiple_of(TABLE_PAGES), Some(of))
    }

    /// Faults a page in. `new_table` states that its page-table page is missing, `copy_of` names the page to copy.
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

    /// Touches the next page, which maps `page` of a file.
    pub fn fault_shared(&mut self, system: &System<'_>, page: Pfn) -> Result<(), AllocError> {
        self.space.read(system);
        self.enter(system, self.len().is_multiple_of(TABLE_PAGES))?;
        system.engine().work(LOOKUP);
        system.machine().touch_page(page);
        self.shared.push(page);
        self.space.give(system);
        Ok(())
    }

    /// Work common to all faults.
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

    /// Unmaps and frees all pages. Pages are gathered in bundles; the gathered pages are freed when all bundles are
    /// full.
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

/// Clears the page-table entries of pages.
fn zap(system: &System<'_>, pages: &[Pfn]) {
    pages.iter().for_each(|&page| system.unmap_page(page));
}

impl System<'_> {
    /// Clears the page-table entry of a page.
    pub(crate) fn unmap_page(&self, page: Pfn) {
        self.engine().work(self.costs.unmap_page);
        self.machine().touch_page(page);
    }
}
