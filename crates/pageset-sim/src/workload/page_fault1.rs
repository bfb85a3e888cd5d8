//! will-it-scale page_fault1. Specification: `linux-page-allocator.md` 5.

use pageset::{AllocError, Pfn};

use crate::os::{Region, Space, System};

/// Pages of the region: 128 MiB.
pub(super) const REGION_PAGES: u64 = (128 << 20) / Pfn::PAGE_BYTES;

/// Maps a region, writes a byte in each page and unmaps it, in an endless loop.
pub(super) fn task(system: &System<'_>, space: &Space, _number: u32) -> Result<(), AllocError> {
    regions(system, space, REGION_PAGES)
}

/// As [`task`], with `region_pages` pages per region.
pub(super) fn regions(system: &System<'_>, space: &Space, region_pages: u64) -> Result<(), AllocError> {
    let mut region = Region::new(space);
    // The random length of each task's first region keeps the tasks from running in step.
    let mut pages = 1 + system.engine().random_below(region_pages);
    loop {
        for _ in 0..pages {
            region.fault(system)?;
            system.count();
        }
        region.unmap(system)?;
        pages = region_pages;
    }
}
