//! Parallel free of a huge region: one process has filled the region, and each thread frees its part. This measures
//! only the free path.

use pageset::{AllocError, Pfn};

use super::Job;
use crate::os::System;

/// Pages of each thread's part: 256 MiB. The published run has 512 GiB on 192 CPUs, 2.7 GiB each. The results are
/// shares of time, which do not depend on the length.
const PART_PAGES: u64 = (256 << 20) / Pfn::PAGE_BYTES;
/// Pages freed as one list: the capacity of a gather page.
const LIST_PAGES: usize = 510;

/// Fills the region in the order of its addresses, node after node, as a single writer does.
pub(super) fn set_up<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let parts = (0..tasks).map(|task| fill(system, task, tasks)).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(move |task| {
        for list in parts[task as usize].chunks(LIST_PAGES) {
            for &page in list {
                system.unmap_page(page);
            }
            system.release(list);
            system.count_many(list.len() as u64);
        }
        Ok(())
    }))
}

/// Fills a thread's part, on the node that the region has reached there.
fn fill(system: &System<'_>, task: u32, tasks: u32) -> Result<Vec<Pfn>, AllocError> {
    let node = (u64::from(task) * u64::from(system.nodes()) / u64::from(tasks)) as u32;
    let writer = system.first_cpu(node);
    system.as_cpu(writer, || {
        let pages = (0..PART_PAGES).map(|_| system.new_page()).collect::<Result<Vec<_>, _>>()?;
        system.lru_flush();
        Ok(pages)
    })
}
