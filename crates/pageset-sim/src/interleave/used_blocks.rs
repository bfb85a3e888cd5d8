//! The blocks in use, as their users record them: no page has two users, and the number of pages equals the allocator's
//! own.

use std::cell::{Cell, RefCell};

use pageset::{Block, Order, Pfn};

use crate::world::Allocator;

/// The blocks in use, shared by all CPUs: any CPU may free a block that another CPU allocated.
pub(super) struct UsedBlocks<'w> {
    pub(super) allocator: &'w Allocator<'w>,
    blocks: RefCell<Vec<Block>>,
    is_used: RefCell<Vec<bool>>,
    pages: Cell<u64>,
    violation: RefCell<Option<String>>,
}

impl<'w> UsedBlocks<'w> {
    pub(super) fn new(allocator: &'w Allocator<'w>) -> Self {
        UsedBlocks {
            allocator,
            blocks: RefCell::default(),
            is_used: RefCell::new(vec![false; allocator.machine().map.span()]),
            pages: Cell::new(0),
            violation: RefCell::default(),
        }
    }

    pub(super) fn record_alloc(&self, pfn: Pfn, order: Order) {
        let first = self.allocator.machine().map.index(pfn);
        for page in first..first + order.pages() as usize {
            match self.is_used.borrow_mut().get_mut(page) {
                Some(used) if !*used => *used = true,
                Some(_) => self.violate(format!("page {:#x} is handed out twice", pfn.0 + (page - first) as u64)),
                None => self.violate(format!("page {:#x} is in no zone", pfn.0 + (page - first) as u64)),
            }
        }
        self.pages.set(self.pages.get() + order.pages());
        self.blocks.borrow_mut().push(Block { pfn, order });
    }

    /// Removes a block, to be freed: from now on the allocator may hand it out again.
    pub(super) fn remove(&self, which: impl FnOnce(u64) -> u64) -> Option<Block> {
        let mut blocks = self.blocks.borrow_mut();
        let count = blocks.len() as u64;
        let block = (count > 0).then(|| blocks.swap_remove(which(count) as usize))?;
        let first = self.allocator.machine().map.index(block.pfn);
        let pages = block.order.pages();
        self.is_used.borrow_mut()[first..first + pages as usize].fill(false);
        self.pages.set(self.pages.get() - pages);
        Some(block)
    }

    pub(super) fn count(&self) -> usize {
        self.blocks.borrow().len()
    }

    /// Records a violation; only the first is kept.
    pub(super) fn violate(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(what);
    }

    pub(super) fn violated(&self) -> bool {
        self.violation.borrow().is_some()
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    /// Checks the allocator's state completely, and against these records. No CPU may be inside the allocator.
    pub(super) fn audit(&self) -> Result<(), String> {
        let mut in_use = 0;
        for zone in self.allocator.zones() {
            in_use += zone.audit().map_err(|wrong| wrong.to_string())?.in_use;
        }
        let held = self.pages.get();
        if in_use == held { Ok(()) } else { Err(format!("{held} pages are in use; the allocator counts {in_use}")) }
    }
}
