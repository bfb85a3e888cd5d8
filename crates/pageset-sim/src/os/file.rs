//! Files in the page cache: read, written, mapped, truncated.

use std::cell::RefCell;

use pageset::{AllocError, MigrateType, Pfn};

use super::System;
use super::costs::{CACHE_PAGE, COPY_PAGE, LOOKUP, TRUNCATE_PAGE};
use crate::engine::LockId;

/// A file whose pages stay in memory from their first use until truncation. Only the CPU that fills the file uses it,
/// because its pages may wait in that CPU's LRU batch.
#[derive(Debug)]
pub struct File {
    /// The lock of the file's page index.
    lock: LockId,
    pages: RefCell<Vec<Pfn>>,
}

impl File {
    /// An empty file.
    pub fn new(system: &System<'_>) -> Self {
        File { lock: system.new_lock(), pages: RefCell::default() }
    }

    /// Number of pages in memory.
    pub fn len(&self) -> usize {
        self.pages.borrow().len()
    }

    /// Whether no page is in memory.
    pub fn is_empty(&self) -> bool {
        self.pages.borrow().is_empty()
    }

    /// The page at an index; `None` if the page is not in memory.
    pub fn page(&self, place: usize) -> Option<Pfn> {
        self.pages.borrow().get(place).copied()
    }

    /// Allocates and clears the next page, a hole of a sparse file.
    pub fn append(&self, system: &System<'_>) -> Result<Pfn, AllocError> {
        let page = system.alloc(MigrateType::Movable)?;
        system.machine().touch_page(page);
        self.index(system, 1);
        system.machine().write_page(page);
        system.lru_add(page);
        self.pages.borrow_mut().push(page);
        Ok(page)
    }

    /// A file with `pages` pages in memory.
    pub fn filled(system: &System<'_>, pages: u64) -> Result<Self, AllocError> {
        let file = File::new(system);
        for _ in 0..pages {
            file.append(system)?;
        }
        Ok(file)
    }

    /// Appends a page and forgets it: nothing reads the page again, and reclaim frees the page when it is the oldest.
    pub fn stream(&self, system: &System<'_>) -> Result<Pfn, AllocError> {
        let page = self.append(system)?;
        self.pages.borrow_mut().pop();
        Ok(page)
    }

    /// Copies a page to a reader's buffer or from a writer's. Copies nothing if the page is not in memory.
    pub fn copy(&self, system: &System<'_>, place: usize) {
        system.engine().work(LOOKUP + COPY_PAGE);
        if let Some(page) = self.page(place) {
            system.machine().touch_page(page);
            system.machine().write_page(page);
        }
    }

    /// Truncates all pages, a batch at a time. Specification: `linux-page-allocator.md` 5, batch sizes.
    pub fn truncate(&self, system: &System<'_>) {
        system.lru_flush();
        let pages = self.pages.take();
        for batch in pages.chunks(system.era.lru_batch()) {
            for &page in batch {
                system.engine().work(TRUNCATE_PAGE);
                system.machine().touch_page(page);
            }
            self.index(system, batch.len() as u64);
            system.release(batch);
        }
    }

    fn index(&self, system: &System<'_>, pages: u64) {
        system.engine().acquire(self.lock, 0);
        system.engine().work(CACHE_PAGE.times(pages));
        system.engine().release(self.lock);
    }
}
