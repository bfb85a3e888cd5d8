//! Memory whose pages compaction can move: a page knows its place, and the place its page.
//!
//! A page's owner may free it, compaction may hold it and reclaim may take it at the same time. Who takes it off the LRU has
//! it: the others leave it to them. A page without a place has been given up by its owner. This rests on there being one LRU
//! list a node, whose lock is first come, first served, and on all that such a workload has on it having places.

use std::cell::RefCell;

use pageset::{AllocError, MigrateType, MoveError, Order, Pfn};

use super::System;

/// Places of pages that may be moved.
#[derive(Debug, Default)]
pub(super) struct Movable {
    /// For each page of the map its place plus one; empty until a workload asks for such memory.
    places: RefCell<Vec<u32>>,
    /// For each place its page.
    pages: RefCell<Vec<Option<Pfn>>>,
    free: RefCell<Vec<u32>>,
}

impl System<'_> {
    /// From now on there may be memory that can be moved, and requests may move it and wait for it.
    pub(crate) fn track_places(&self) {
        *self.movable.places.borrow_mut() = vec![0; self.machine().map.span()];
        self.compact_for_requests();
    }

    /// A page of anonymous memory that may be moved; its place.
    ///
    /// # Errors
    /// There is no memory.
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

    /// Gives the page at a place back, wherever it is now.
    pub(crate) fn free_place(&self, place: u32) {
        let page = self.movable.pages.borrow_mut()[place as usize].take();
        self.movable.free.borrow_mut().push(place);
        if let Some(page) = page {
            self.set_place(page, 0);
            self.unmap_page(page);
            self.free_from_lru(page);
        }
    }

    /// Frees a page that has no place any more, unless somebody else has taken it off the LRU and will.
    fn free_from_lru(&self, page: Pfn) {
        if self.lru_delete(&[page]) > 0 {
            self.free_pages(&[page]);
        }
    }

    /// Puts a page that compaction held on the LRU; frees it if its owner has given it up meanwhile.
    pub(crate) fn put_back_place(&self, page: Pfn) {
        self.lru_add_now(page);
        if self.place_of(page).is_none() {
            self.free_from_lru(page);
        }
    }

    /// The page at a place.
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

    /// Takes a page off the LRU to be moved, if it is one that can be.
    pub(crate) fn isolate_place(&self, page: Pfn) -> Option<Order> {
        self.place_of(page)?;
        (self.lru_delete(&[page]) > 0).then_some(Order::ZERO)
    }

    /// Copies a page and lets its place know.
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

    /// Forgets the page at some place, which reclaim takes. The place stays its owner's, who has not given it back.
    pub(crate) fn lose_place(&self, page: Pfn) {
        if let Some(place) = self.place_of(page) {
            self.set_place(page, 0);
            self.movable.pages.borrow_mut()[place as usize] = None;
        }
    }
}
