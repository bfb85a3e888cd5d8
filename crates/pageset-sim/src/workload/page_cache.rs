//! Reclaim of the page cache: tasks read files larger than memory, and a task on each node reclaims in the background, as the
//! kernel's kswapd does. A reader that finds no memory reclaims by itself.

use pageset::{AllocError, Pfn};

use super::Job;
use crate::os::{File, Needs, System};
use crate::time::Time;

/// Page cache and free pages per node: 1 GiB. All other memory is in use.
const CACHE_PAGES: u64 = (1 << 30) / Pfn::PAGE_BYTES;
/// How long the background task sleeps between two looks at the watermarks. Kernels wake it from an allocation that finds the
/// zone below its low watermark; 50 us stand for the wake-up and the switch to a task that has slept for long. A guess.
const NAP: Time = Time::from_ps(50_000_000);
/// A reader's work for a page besides copying it: the program looks at its bytes. Unit: picoseconds, here 250 ns for 4 KiB.
const READ: Time = Time::from_ps(250_000 * (Pfn::PAGE_BYTES / 4096));

/// One file per task.
pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks, ..Needs::NOTHING }
}

/// Whether a task reclaims in the background: the first of each node that has others.
pub(super) fn reclaims(system: &System<'_>, task: u32, tasks: u32) -> bool {
    let topology = system.engine().config().topology;
    let node_of = |task: u32| topology.socket_of(topology.core_of(task));
    let is_first = system.first_cpu(node_of(task).0) == task;
    is_first && (0..tasks).any(|other| other != task && node_of(other) == node_of(task))
}

/// Fills the page cache of each node until its high watermark is reached. Readers count pages read; the background tasks count pages reclaimed as the second kind.
pub(super) fn set_up<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    system.reclaim_for_requests();
    let files: Vec<File> = (0..tasks).map(|_| File::new(system)).collect();
    for node in 0..system.nodes() {
        system.as_cpu(system.first_cpu(node), || -> Result<(), AllocError> {
            system.use_up(CACHE_PAGES);
            while !system.is_below(|marks| marks.high) {
                files[0].stream(system)?;
            }
            system.lru_flush();
            Ok(())
        })?;
    }
    Ok(Box::new(move |task| {
        if reclaims(system, task, tasks) {
            return reclaim_in_background(system);
        }
        loop {
            let page = files[task as usize].stream(system)?;
            system.read_page(page);
            system.engine().work(READ);
            system.count();
        }
    }))
}

/// Reclaims from the low to the high watermark of this CPU's node, again and again.
fn reclaim_in_background(system: &System<'_>) -> Result<(), AllocError> {
    loop {
        if system.is_below(|marks| marks.low) {
            while system.is_below(|marks| marks.high) {
                match system.reclaim_round() {
                    0 => break,
                    pages => system.count_others(pages),
                }
            }
        }
        system.rest(NAP);
    }
}
