//! page_fault1 with single pages on one half of the CPUs and with huge pages on the other, after all memory was broken up.

use pageset::{AllocError, Block, Order};

use super::{Job, Length, page_fault1};
use crate::os::{Region, Space, System};

/// Memory of a node that is broken up: 3 GiB, more than the regions of its CPUs need together. The rest is in use by
/// others. The published run breaks all memory up; most of it is never asked for again.
const BROKEN_PAGES: u64 = 3 << 18;
/// Pages of a region: 32 MiB, a quarter of the test's, so that no more memory needs to be broken up.
const REGION_PAGES: u64 = page_fault1::REGION_PAGES / 4;
/// Huge pages of a region.
const HUGE_PAGES: u64 = REGION_PAGES / 512;
/// Some regions of each task before and while it is measured.
pub(super) const LENGTH: Length = Length::ms(300, 600);

/// Takes all memory page by page and gives it back in random order: where freed pages are merged at once, they become
/// large blocks again.
pub(super) fn set_up<'s>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
    for node in 0..system.nodes() {
        system.as_cpu(system.first_cpu(node), || {
            system.use_up(BROKEN_PAGES);
            system.break_up(BROKEN_PAGES, 0);
        });
    }
    Ok(Box::new(
        move |task| {
            if task % 2 == 0 { page_fault1::regions(system, &Space::own(), REGION_PAGES) } else { huge(system) }
        },
    ))
}

/// page_fault1 with huge pages: counted in single pages as the second kind. A huge page that is not to be had is faulted in
/// page by page.
fn huge(system: &System<'_>) -> Result<(), AllocError> {
    let space = Space::own();
    loop {
        let (mut region, mut blocks) = (Region::new(&space), Vec::new());
        for _ in 0..HUGE_PAGES {
            match system.fault_huge() {
                Ok(pfn) => blocks.push(Block { pfn, order: Order::PAGEBLOCK }),
                Err(_) => {
                    for _ in 0..Order::PAGEBLOCK.pages() {
                        region.fault(system)?;
                    }
                }
            }
            system.count_others(Order::PAGEBLOCK.pages());
        }
        region.unmap(system)?;
        for block in blocks {
            system.unmap_huge(block);
        }
    }
}
