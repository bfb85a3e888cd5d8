//! will-it-scale page_fault2 and page_fault3: the region maps a file, private or shared.

use pageset::{AllocError, Pfn};

use super::page_fault1::REGION_PAGES;
use crate::os::{File, Region, Space, System};

/// Pages of the file: 32 MiB, which the region maps four times over. The original test's file is as large as the
/// region. This file takes a quarter of the memory, and exceeds every core's own caches too.
const FILE_PAGES: u64 = (32 << 20) / Pfn::PAGE_BYTES;

/// page_fault2: each written page becomes a copy of the file's page.
pub(super) fn private(system: &System<'_>, space: &Space, _number: u32) -> Result<(), AllocError> {
    over_file(system, space, |region, file, index| match file.page(index) {
        Some(page) => region.fault_copy(system, page),
        None => Ok(()),
    })
}

/// page_fault3: maps the file's pages and allocates only page tables.
pub(super) fn shared(system: &System<'_>, space: &Space, _number: u32) -> Result<(), AllocError> {
    over_file(system, space, |region, file, index| match file.page(index) {
        Some(page) => region.fault_shared(system, page),
        None => Ok(()),
    })
}

fn over_file<'s>(
    system: &System<'_>,
    space: &'s Space,
    fault: impl Fn(&mut Region<'s>, &File, usize) -> Result<(), AllocError>,
) -> Result<(), AllocError> {
    let file = File::filled(system, FILE_PAGES)?;
    let mut region = Region::new(space);
    let mut pages = 1 + system.engine().random_below(REGION_PAGES);
    loop {
        region.map(system);
        for index in 0..pages {
            fault(&mut region, &file, (index % FILE_PAGES) as usize)?;
            system.count();
        }
        region.unmap(system)?;
        pages = REGION_PAGES;
    }
}
