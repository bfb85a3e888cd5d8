//! What is handed out, by the books of its holders: no page twice, and no more or less than the allocator says.

use std::cell::{Cell, RefCell};

use pageset::{Block, Order, Pfn};

use crate::world::Allocator;

/// The blocks that are handed out, kept by no CPU in particular: whoever frees one may be another than allocated it.
pub(super) struct Books<'w> {
    pub(super) allocator: &'w Allocator<'w>,
    held: RefCell<Vec<Block>>,
    /// Whether each page, by its place on the map, is handed out.
    out: RefCell<Vec<bool>>,
    pages: Cell<u64>,
    violation: RefCell<Option<String>>,
}

impl<'w> Books<'w> {
    pub(super) fn new(allocator: &'w Allocator<'w>) -> Self {
        Books {
            allocator,
            held: RefCell::default(),
            out: RefCell::new(vec![false; allocator.machine().map.span()]),
            pages: Cell::new(0),
            violation: RefCell::default(),
        }
    }

    /// A block was handed out.
    pub(super) fn got(&self, pfn: Pfn, order: Order) {
        let first = self.allocator.machine().map.index(pfn);
        for page in first..first + order.pages() as usize {
            match self.out.borrow_mut().get_mut(page) {
                Some(out) if !*out => *out = true,
                Some(_) => self.violate(format!("page {:#x} is handed out twice", pfn.0 + (page - first) as u64)),
                None => self.violate(format!("page {:#x} is in no zone", pfn.0 + (page - first) as u64)),
            }
        }
        self.pages.set(self.pages.get() + order.pages());
        self.held.borrow_mut().push(Block { pfn, order });
    }

    /// Takes one of the blocks that are handed out, to be freed: from now on another may get it.
    pub(super) fn give(&self, which: impl FnOnce(u64) -> u64) -> Option<Block> {
        let mut held = self.held.borrow_mut();
        let count = held.len() as u64;
        let block = (count > 0).then(|| held.swap_remove(which(count) as usize))?;
        let first = self.allocator.machine().map.index(block.pfn);
        let pages = block.order.pages();
        self.out.borrow_mut()[first..first + pages as usize].fill(false);
        self.pages.set(self.pages.get() - pages);
        Some(block)
    }

    /// How many blocks are handed out.
    pub(super) fn held(&self) -> usize {
        self.held.borrow().len()
    }

    /// Notes what does not hold; the first counts.
    pub(super) fn violate(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(what);
    }

    pub(super) fn violated(&self) -> bool {
        self.violation.borrow().is_some()
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    /// Checks the allocator's books from end to end, and against these. Nobody is inside of the allocator.
    pub(super) fn audit(&self) -> Result<(), String> {
        let mut in_use = 0;
        for zone in 0..self.allocator.zone_count() {
            in_use += self.allocator.audit(zone).map_err(|wrong| wrong.to_string())?.in_use;
        }
        let held = self.pages.get();
        if in_use == held {
            Ok(())
        } else {
            Err(format!("{held} pages are handed out; by the allocator's books {in_use}"))
        }
    }
}
