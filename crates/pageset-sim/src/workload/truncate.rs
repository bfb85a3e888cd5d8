//! Truncation of sparse files in the page cache, one per task.

use pageset::{AllocError, Pfn};

use super::Job;
use crate::os::{File, Needs, System};

/// Pages of a file: 1 GiB. The published runs do not state their size; the comparison is between two sets of rules.
const FILE_PAGES: u64 = (1 << 30) / Pfn::PAGE_BYTES;

/// One file per task.
pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks, ..Needs::NOTHING }
}

/// Fills a file per task, which takes no virtual time, and truncates it once.
pub(super) fn set_up<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let file = |task| system.as_cpu(task, || File::filled(system, FILE_PAGES));
    let files = (0..tasks).map(file).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(move |task| {
        let file = &files[task as usize];
        let pages = file.len() as u64;
        file.truncate(system);
        system.count_many(pages);
        Ok(())
    }))
}
