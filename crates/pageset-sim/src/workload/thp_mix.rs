//! page_fault1 on fragmented memory: with single pages on one half of the CPUs and with huge pages on the other half.

use pageset::{AllocError, Block, Order};

use super::{Job, Length, page_fault1};
use crate::os::{Region, Space, System};

/// Pages of fragmented memory per node, at least: 3 GiB, more than the regions of 56 CPUs need together. The rest is in use by
/// others. The published run fragments all memory, but never allocates most of it again.
const FRAGMENTED_PAGES: u64 = 3 << 18;
/// Pages of a region: 32 MiB, a quarter of the original test's, which limits the memory to fragment.
const REGION_PAGES: u64 = page_fault1::REGION_PAGES / 4;
const HUGE_PAGES: u64 = REGION_PAGES / 512;
/// Time for some regions per task, before and during the measurement.
pub(super) const LENGTH: Length = Length::ms(300, 600);

/// The pages for the regions of so many CPUs, and half as many more, since not all merge.
fn fragmented_pages(cpus: u32) -> u64 {
    FRAGMENTED_PAGES.max(u64::from(cpus) * REGION_PAGES * 3 / 2)
}

/// Leaves [`fragmented_pages`] free pages per node and fragments them: allocates them one by one and frees them in
/// random order. If freed pages merge at once, they form large blocks again.
pub(super) fn set_up<'s>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
    let pages = fragmented_pages(system.engine().config().topology.cpus() / system.nodes());
    for node in 0..system.nodes() {
        system.as_cpu(system.first_cpu(node), || {
            system.use_up(pages);
            system.fragment(pages, 0);
        });
    }
    Ok(Box::new(
        move |task| {
            if task % 2 == 0 { page_fault1::regions(system, &Space::own(), REGION_PAGES) } else { huge(system) }
        },
    ))
}

/// page_fault1 with huge pages. The second kind of operations counts their single pages. If no huge page is available,
/// its pages fault singly.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_regions_of_all_cpus_of_a_node_fit() {
        assert_eq!([1, 8, 56].map(fragmented_pages), [FRAGMENTED_PAGES; 3], "as on the machines of the published runs");
        assert_eq!(fragmented_pages(256), 256 * 8192 * 3 / 2);
    }
}
