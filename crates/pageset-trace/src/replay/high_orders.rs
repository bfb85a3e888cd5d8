//! Free memory in large blocks. Pages in pagesets prevent the buddy from forming such blocks.

use pageset::{Allocator, Machine, Order};

use super::types::ORDINARY;
use crate::procfs::BuddyInfo;

/// Pages on free lists in blocks of at least a pageblock (orders 9 and 10), which can hold huge pages. Unit: pages.
///
/// A replay has the recorded kernel's memory layout for memory that was free or that the recording frees. All other
/// memory stays in use, so blocks that merge with it are missing here, under all rules alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighOrders {
    /// At the begin of the replay.
    pub begin: u64,
    /// The minimum over all samples: at each snapshot, and once per `SAMPLE_EVERY` events.
    pub least: u64,
    /// At the end of the replay.
    pub end: u64,
}

/// Events between two samples. A guess: far fewer operations than fill a huge page. Unit: events.
pub(super) const SAMPLE_EVERY: u64 = 1024;

impl HighOrders {
    pub(super) fn new(begin: u64) -> Self {
        HighOrders { begin, least: begin, end: begin }
    }

    pub(super) fn sample(&mut self, pages: u64) {
        self.least = self.least.min(pages);
        self.end = pages;
    }
}

/// The orders of blocks that hold a huge page.
fn orders() -> impl Iterator<Item = Order> {
    Order::all().filter(|order| *order >= Order::PAGEBLOCK)
}

/// The pages in large blocks of all zones of an allocator.
pub(super) fn of_world<M: Machine>(world: &Allocator<'_, M>) -> u64 {
    world
        .zones()
        .flat_map(|zone| {
            orders().flat_map(move |order| ORDINARY.map(|of| u64::from(zone.free_blocks(order, of)) * order.pages()))
        })
        .sum()
}

/// The pages in large blocks in the kernel's buddyinfo.
pub(super) fn of_kernel(info: &BuddyInfo) -> u64 {
    let of = |order: Order| info.zones.iter().filter_map(move |zone| zone.free_blocks.get(order.index()));
    orders()
        .flat_map(|order| of(order).map(move |blocks| blocks.saturating_mul(order.pages())))
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_kernel_counts_blocks_of_orders_9_and_10() {
        let text = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      0      1      2\n\
                    Node 0, zone   Normal    100     90     80     70     60     50     40     30     20     10      5\n";
        assert_eq!(of_kernel(&BuddyInfo::parse(text).unwrap()), 512 + 2 * 1024 + 10 * 512 + 5 * 1024);
    }

    #[test]
    fn samples_keep_the_minimum_and_the_last() {
        let mut pages = HighOrders::new(900);
        for seen in [950, 400, 700] {
            pages.sample(seen);
        }
        assert_eq!(pages, HighOrders { begin: 900, least: 400, end: 700 });
    }
}
