//! Files in the page cache: read, written, mapped, truncated.

use std::cell::RefCell;

use pageset::{AllocError, MigrateType, Pfn};

use super::System;
use super::costs::{CACHE_PAGE, COPY_PAGE, LOOKUP, TRUNCATE_PAGE};
use crate::engine::LockId;

/// A file whose pages are all in memory from their first use on, until they are cut off. Used by the CPU that fills it: its
/// pages may wait in that CPU's LRU batch.
#[derive(Debug)]
pub struct File {
    /// The lock of its index of pages.
    lock: LockId,
    pages: RefCell<Vec<Pfn>>,
}

impl File {
    /// An empty file.
    #[must_use]
    pub fn new(system: &System<'_>) -> Self {
        File { lock: system.new_lock(), pages: RefCell::default() }
    }

    /// Pages that are in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages.borrow().len()
    }

    /// Whether no page is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.borrow().is_empty()
    }

    /// The page at a place, which is in memory.
    #[must_use]
    pub fn page(&self, place: usize) -> Option<Pfn> {
        self.pages.borrow().get(place).copied()
    }

    /// Brings the next page in: a hole of a sparse file, cleared.
    ///
    /// # Errors
    /// There is no memory.
    pub fn append(&self, system: &System<'_>) -> Result<Pfn, AllocError> {
        let page = system.alloc(MigrateType::Movable)?;
        system.machine().touch_page(page);
        self.index(system, 1);
        system.machine().write_page(page);
        system.lru_add(page);
        self.pages.borrow_mut().push(page);
        Ok(page)
    }

    /// A file of so many pages, all in memory.
    ///
    /// # Errors
    /// There is no memory.
    pub fn filled(system: &System<'_>, pages: u64) -> Result<Self, AllocError> {
        let file = File::new(system);
        for _ in 0..pages {
            file.append(system)?;
        }
        Ok(file)
    }

    /// Brings the next page in and forgets it: it will not be read again, and reclaim takes it when it is the oldest.
    ///
    /// # Errors
    /// There is no memory.
    pub fn stream(&self, system: &System<'_>) -> Result<Pfn, AllocError> {
        let page = self.append(system)?;
        self.pages.borrow_mut().pop();
        Ok(page)
    }

    /// Copies a page out to a reader's buffer, or in from a writer's; where it is not in memory, nothing is.
    pub fn copy(&self, system: &System<'_>, place: usize) {
        system.engine().work(LOOKUP + COPY_PAGE);
        if let Some(page) = self.page(place) {
            system.machine().touch_page(page);
            system.machine().write_page(page);
        }
    }

    /// Cuts all pages off, a batch at a time. Specification: `linux-page-allocator.md` 5, batch sizes.
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

    /// Changes the index of pages.
    fn index(&self, system: &System<'_>, pages: u64) {
        system.engine().acquire(self.lock, 0);
        system.engine().work(CACHE_PAGE.times(pages));
        system.engine().release(self.lock);
    }
}
