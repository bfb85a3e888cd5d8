//! Memory that the recorded machine used, gained or lost without an event: taken off free lists, or brought on-line.

use pageset::{Alloc, AllocFrom, Free, FreeTo, Order, PageRange, Pfn};

use super::world::{self, World};

/// The smallest difference of free memory to the recorded machine that a snapshot corrects. Operations without an event
/// yet explain smaller differences. Unit: pages.
const CORRECTION_PAGES_MIN: u64 = 512;
/// The smallest blocks that correct the difference: larger than any block that a pageset caches. Unit: order.
const CORRECTION_ORDER_MIN: u8 = 4;

/// Takes blocks off a zone's free lists, from the end of the zone downwards, like compaction's free scanner.
pub(super) struct FreeScanner {
    range: PageRange,
    next: Pfn,
    /// The zone's free pages at the last failed search. The zone is searched again only when it has more.
    failed_with: Option<u64>,
}

impl FreeScanner {
    pub(super) fn new(range: PageRange) -> Self {
        FreeScanner { range, next: range.end(), failed_with: None }
    }

    pub(super) fn take(&mut self, world: &World<'_>, zone: usize, order: Order) -> Option<Pfn> {
        if self.failed_with.is_some_and(|free| world::zone_at(world, zone).stats().nr_free_pages <= free) {
            return None;
        }
        self.failed_with = None;
        // The first search goes from the last block down to the zone's first page, the second one from the zone's end.
        for _ in 0..2 {
            while self.next.0 >= self.range.start.0 + order.pages() {
                self.next = Pfn(self.next.0 - order.pages()).align_down(order);
                if world.free_block_around(self.next).is_some() && world.alloc_at(self.next, order) {
                    return Some(self.next);
                }
            }
            self.next = self.range.end();
        }
        self.failed_with = Some(world::zone_at(world, zone).stats().nr_free_pages);
        None
    }
}

/// Corrects the free memory for memory that the recorded machine used or gained without an event.
pub(super) struct Corrections {
    /// Large blocks allocated to reduce free memory, by zone.
    taken: Vec<Vec<(Pfn, Order)>>,
    /// Pages that are not on-line yet, by zone.
    spare: Vec<PageRange>,
}

impl Corrections {
    pub(super) fn new(spare: Vec<PageRange>) -> Self {
        Corrections { taken: vec![Vec::new(); spare.len()], spare }
    }

    /// Brings a zone's unused pages near the `wanted` number of the recorded machine.
    pub(super) fn correct(&mut self, world: &World<'_>, zone: usize, unused: u64, wanted: u64) {
        let mut left = unused.abs_diff(wanted);
        if left < CORRECTION_PAGES_MIN {
            return;
        }
        if unused > wanted {
            for order in Order::all().rev().filter(|o| o.get() >= CORRECTION_ORDER_MIN && *o != Order::PAGEBLOCK) {
                while left >= order.pages() {
                    let Ok(page) = world.alloc_with(Alloc::new(&world::unmarked(zone, order)).from(AllocFrom::Buddy))
                    else {
                        break;
                    };
                    self.taken[zone].push((page, order));
                    left -= order.pages();
                }
            }
            return;
        }
        while let Some((page, order)) = self.taken[zone].pop_if(|(_, order)| order.pages() <= left) {
            let _ = world.free_with(Free::block(page, order).to(FreeTo::Buddy));
            left -= order.pages();
        }
        let spare = &mut self.spare[zone];
        let pages = (left - left % Order::MAX.pages()).min(spare.pages);
        if pages > 0 && world.online(PageRange::new(spare.start, pages)).is_ok() {
            *spare = PageRange::new(spare.start.offset(pages), spare.pages - pages);
        }
    }
}
