//! vm-scalability lru-file-mmap-read: tasks read sparse files larger than memory through mappings, in order or at
//! random.

use pageset::{AllocError, Pfn};

use super::Job;
use crate::os::{File, Needs, Region, Space, System};
use crate::time::Time;

/// Free pages per node at the start: 1 GiB, used up within the warm-up. All other memory is in use, so reclaim works
/// from then on, as on the real machine when files have filled memory. The pagesets of 192 CPUs hold at most 146,304
/// pages with a batch of 127. Fewer free pages than that would leave nothing to reclaim.
const FREE_PAGES: u64 = (1 << 30) / Pfn::PAGE_BYTES;
/// Pages that one fault maps: the 64 KiB around the address (fault-around).
const AROUND: usize = ((64 << 10) / Pfn::PAGE_BYTES) as usize;
/// Reading the bytes of one page. Unit: picoseconds, here 250 ns.
const READ: Time = Time::from_ps(250_000);
/// Pages after which a task unmaps what it has read, so that its region stays small.
const WINDOW: usize = 4096;
/// Pages of each task's file in the random form: 64 MiB, all in memory.
const RANDOM_PAGES: u64 = (64 << 20) / Pfn::PAGE_BYTES;

pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks, ..Needs::NOTHING }
}

/// Reads files larger than memory in order.
pub(super) fn in_order<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    system.reclaim_for_requests();
    for node in 0..system.nodes() {
        system.as_cpu(system.first_cpu(node), || system.use_up(FREE_PAGES));
    }
    let files: Vec<File> = (0..tasks).map(|_| File::new(system)).collect();
    Ok(Box::new(move |task| {
        let (file, space) = (&files[task as usize], Space::own());
        let mut region = Region::new(&space);
        loop {
            let mut first = None;
            for _ in 0..AROUND {
                let page = file.stream(system)?;
                first.get_or_insert(page);
            }
            if let Some(page) = first {
                region.fault_shared(system, page)?;
            }
            system.engine().work(READ.times(AROUND as u64));
            system.count_many(AROUND as u64);
            if region.len() * AROUND >= WINDOW {
                region.unmap(system)?;
            }
        }
    }))
}

/// Reads files in memory at random.
pub(super) fn at_random<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let file = |task| system.as_cpu(task, || File::filled(system, RANDOM_PAGES));
    let files = (0..tasks).map(file).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(move |task| {
        let (file, space) = (&files[task as usize], Space::own());
        let mut region = Region::new(&space);
        loop {
            for _ in 0..RANDOM_PAGES / AROUND as u64 {
                if let Some(page) = file.page(system.engine().random_below(RANDOM_PAGES) as usize) {
                    region.fault_shared(system, page)?;
                    system.engine().work(READ);
                    system.count();
                }
            }
            region.unmap(system)?;
        }
    }))
}
