//! page_fault1 with large folios: a fault maps a folio of some order instead of a page, as with transparent huge pages of several
//! sizes.

use pageset::{AllocError, Order};

use super::page_fault1::REGION_PAGES;
use super::{Job, Size};
use crate::os::{Folios, Space, System};

/// The order of folios by default: 64 KiB with pages of 4 KiB.
pub(super) const SIZE: Size = Size::order(4);

/// Each task maps a region, writes a byte in each page and unmaps it, in an endless loop. Counts pages.
pub(super) fn set_up<'s>(system: &'s System<'_>, _tasks: u32, order: u32) -> Result<Job<'s>, AllocError> {
    // The size allows no larger order than a pageblock's.
    let order = Order::new(order as u8).unwrap_or(Order::PAGEBLOCK);
    Ok(Box::new(move |_| {
        let space = Space::own();
        let folios = REGION_PAGES >> order.get();
        let mut wanted = 1 + system.engine().random_below(folios);
        loop {
            let mut region = Folios::new(&space);
            for _ in 0..wanted {
                let pages = region.fault(system, order)?;
                system.count_many(pages);
            }
            region.unmap(system)?;
            wanted = folios;
        }
    }))
}
