//! Memory whose pages compaction can move. A place identifies such memory; each page knows its place, and each place
//! its page.
//!
//! The owner may free a page while compaction holds it or reclaim takes it. Whoever unlinks the page from the LRU owns
//! it; the others leave it alone. A page without a place has been freed by its owner. This requires one LRU list per
//! node with a first-come, first-served lock, and a place for each LRU page of such a workload.

use std::cell::RefCell;

use pageset::{AllocError, MigrateType, MoveError, Order, Pfn};

use super::System;

#[derive(Debug, Default)]
pub(super) struct Movable {
    /// The place plus one of each page of the map; empty until a workload uses movable memory.
    places: RefCell<Vec<u32>>,
    pages: RefCell<Vec<Option<Pfn>>>,
    free: RefCell<Vec<u32>>,
}

impl System<'_> {
    /// Enables memory that can be moved. From now on requests may compact and wait for it.
    pub(crate) fn track_places(&self) {
        *self.movable.places.borrow_mut() = vec![0; self.machine().map.span()];
        self.compact_for_requests();
    }

    /// Allocates a movable page of anonymous memory and returns its place.
    pub(crate) fn new_place(&self) -> Result<u32, AllocError> {
        let page = self.alloc(MigrateType::Movable)?;
        self.machine().touch_page(page);
        self.machine().write_page(page);
        let place = self.movable.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut pages = self.movable.pages.borrow_mut();
            pages.push(None);
            pages.len() as u32 - 1
        });
        self.movable.pages.borrow_mut()[place as usize] = Some(page);
        self.set_place(page, place + 1);
        self.lru_add_now(page);
        Ok(place)
    }

    /// Frees a place and its page, wherever the page is now.
    pub(crate) fn free_place(&self, place: u32) {
        let page = self.movable.pages.borrow_mut()[place as usize].take();
        self.movable.free.borrow_mut().push(place);
        if let Some(page) = page {
            self.set_place(page, 0);
            self.unmap_page(page);
            self.free_from_lru(page);
        }
    }

    /// Frees a page without a place, unless another CPU has unlinked it from the LRU and so owns it.
    fn free_from_lru(&self, page: Pfn) {
        if self.lru_delete(&[page]) > 0 {
            self.free_pages(&[page]);
        }
    }

    /// Returns a page from compaction to the LRU. Frees the page if its owner has freed its place meanwhile.
    pub(crate) fn put_back_place(&self, page: Pfn) {
        self.lru_add_now(page);
        if self.place_of(page).is_none() {
            self.free_from_lru(page);
        }
    }

    #[cfg(test)]
    pub(crate) fn page_of(&self, place: u32) -> Option<Pfn> {
        self.movable.pages.borrow().get(place as usize).copied().flatten()
    }

    fn set_place(&self, page: Pfn, place: u32) {
        if let Some(slot) = self.movable.places.borrow_mut().get_mut(self.machine().map.index(page)) {
            *slot = place;
        }
    }

    fn place_of(&self, page: Pfn) -> Option<u32> {
        self.movable.places.borrow().get(self.machine().map.index(page))?.checked_sub(1)
    }

    /// Unlinks a page from the LRU for compaction. Returns `None` for a page that cannot be moved.
    pub(crate) fn isolate_place(&self, page: Pfn) -> Option<Order> {
        self.place_of(page)?;
        (self.lru_delete(&[page]) > 0).then_some(Order::ZERO)
    }

    /// Copies a page and updates its place.
    pub(crate) fn move_place(&self, from: Pfn, to: Pfn) -> Result<(), MoveError> {
        let place = self.place_of(from).ok_or(MoveError::Busy)?;
        self.engine().work(super::costs::MIGRATE_PAGE);
        self.machine().touch_page(to);
        self.machine().write_page(from);
        self.machine().write_page(to);
        self.set_place(from, 0);
        self.set_place(to, place + 1);
        self.movable.pages.borrow_mut()[place as usize] = Some(to);
        self.put_back_place(to);
        Ok(())
    }

    /// Removes a reclaimed page from its place. The place still belongs to its owner.
    pub(crate) fn lose_place(&self, page: Pfn) {
        if let Some(place) = self.place_of(page) {
            self.set_place(page, 0);
            self.movable.pages.borrow_mut()[place as usize] = None;
        }
    }
}
