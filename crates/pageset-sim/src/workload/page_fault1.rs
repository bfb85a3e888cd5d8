//! will-it-scale page_fault1, process mode. Specification: `linux-page-allocator.md` 5.

use pageset::AllocError;

use crate::os::{Process, System};

/// Pages of the region: 128 MiB.
const REGION_PAGES: u64 = 32_768;

/// Maps a region, writes a byte in each of its pages, unmaps it, for ever.
pub(super) fn task(system: &System<'_>) -> Result<(), AllocError> {
    let mut process = Process::new();
    // The first region is shorter, each task's by another length: they are not in step from the start.
    let mut pages = 1 + system.machine().engine().random_below(REGION_PAGES);
    loop {
        for _ in 0..pages {
            process.fault(system)?;
            system.count();
        }
        process.unmap(system)?;
        pages = REGION_PAGES;
    }
}
