//! Capture: a freed block goes directly to the compaction that made it, before another CPU can take it.
//!
//! Specification: `linux-page-allocator.md` 1.5 step 2, 7.6 "Capture".

use core::cell::Cell;

use crate::frame::MigrateType;
use crate::frame::Order;

/// The block that a direct compaction waits for. Only the compaction's own frees see it, under the zone lock.
#[derive(Debug)]
pub(crate) struct Capture {
    order: Order,
    wanted: MigrateType,
    page: Cell<Option<u32>>,
}

impl Capture {
    pub(crate) fn new(order: Order, wanted: MigrateType) -> Self {
        Capture { order, wanted, page: Cell::new(None) }
    }

    /// The first page of the captured block, which is on no list and tagged like a block in a pageset.
    pub(crate) fn page(&self) -> Option<u32> {
        self.page.get()
    }

    /// Captures a free block that is about to enter a list of `migratetype`, if it matches. Returns whether it did.
    pub(crate) fn takes(&self, page: u32, order: Order, migratetype: MigrateType) -> bool {
        // CMA and isolated pageblocks keep their pages. Small blocks for other migratetypes would fragment a movable
        // pageblock.
        let spoils =
            migratetype == MigrateType::Movable && self.wanted != MigrateType::Movable && self.order < Order::PAGEBLOCK;
        let fits = order == self.order && !matches!(migratetype, MigrateType::Cma | MigrateType::Isolate) && !spoils;
        let takes = fits && self.page.get().is_none();
        if takes {
            self.page.set(Some(page));
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MigrateType::{Cma, HighAtomic, Isolate, Movable, Unmovable};

    #[test]
    fn what_is_captured() {
        let order = |order| Order::new(order).expect("an order");
        // Columns: wanted order and type; freed order and type; captured.
        for (wanted, freed, captured) in [
            ((4, Movable), (4, Movable), true),
            ((4, Movable), (3, Movable), false),
            ((4, Movable), (5, Movable), false),
            ((4, Movable), (4, Unmovable), true),
            ((4, Movable), (4, HighAtomic), true),
            ((4, Movable), (4, Cma), false),
            ((4, Movable), (4, Isolate), false),
            ((4, Unmovable), (4, Movable), false),
            ((8, Unmovable), (8, Movable), false),
            ((9, Unmovable), (9, Movable), true),
            ((4, Unmovable), (4, Unmovable), true),
        ] {
            let capture = Capture::new(order(wanted.0), wanted.1);
            assert_eq!(capture.takes(64, order(freed.0), freed.1), captured, "{wanted:?}, {freed:?}");
            assert_eq!(capture.page(), captured.then_some(64));
            assert!(!captured || !capture.takes(128, order(freed.0), freed.1), "one block is enough");
        }
    }
}
