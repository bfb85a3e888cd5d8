//! Purgers: threads that unmap what other threads of their process have faulted in, as background threads of user-space
//! allocators and databases do. The purger's CPU frees pages that other CPUs allocated.
//!
//! Each memory control group has one process per node. Its workers fault extents in and pass old extents through a
//! channel to its purgers.

use std::collections::VecDeque;

use pageset::{AllocError, Pfn};

use super::Job;
use crate::os::{Channel, Extent, Needs, Region, Space, System};

/// Pages of an extent: 2 MiB, the unit in which allocators with huge pages in mind give memory back.
pub(super) const EXTENT_PAGES: u64 = (2 << 20) / Pfn::PAGE_BYTES;
/// Extents that a worker keeps: 32 MiB, so that the pages have left its caches when a purger gets them. A guess.
const KEPT: usize = 16;
/// Extents that wait for the purgers of a process. A guess.
const ROOM: usize = 16;
/// One in this many threads of a process purges. A purger needs about a fifth of a worker's time for a page.
const PURGES_ONE_IN: usize = 4;

/// Threads of a process, at least, where there are enough tasks.
const THREADS: u32 = 8;
/// Memory control groups at most. As many as in `kbuild`.
const GROUPS: u32 = 8;

/// One channel per process. Fewer groups on small machines, so that each process has some threads.
pub(super) fn needs(tasks: u32) -> Needs {
    Needs { objects: tasks, groups: (tasks / THREADS).clamp(1, GROUPS) }
}

/// The threads of one group on one node.
struct Process {
    space: Space,
    extents: Channel<Extent>,
}

/// What a task does, and for which process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Role {
    pub(super) process: usize,
    pub(super) works: bool,
    pub(super) purges: bool,
}

pub(super) fn roles(tasks: u32, groups: u32, node_of: impl Fn(u32) -> u32) -> Vec<Role> {
    let place = |task: u32| node_of(task) * groups + task % groups;
    // Only places that have a task have a process: a node may have fewer tasks than there are groups.
    let mut places: Vec<u32> = (0..tasks).map(place).collect();
    places.sort_unstable();
    places.dedup();
    let process_of = |task: u32| places.binary_search(&place(task)).unwrap_or(0);
    let mut threads = vec![0_usize; places.len()];
    (0..tasks).for_each(|task| threads[process_of(task)] += 1);
    let mut seen = vec![0_usize; places.len()];
    let role = |task| {
        let process = process_of(task);
        seen[process] += 1;
        // The last thread of a small process purges; a single thread does both.
        let small = threads[process] < PURGES_ONE_IN && seen[process] == threads[process];
        let purges = small || seen[process].is_multiple_of(PURGES_ONE_IN);
        Role { process, works: !purges || threads[process] == 1, purges }
    };
    (0..tasks).map(role).collect()
}

pub(super) fn set_up<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let topology = system.engine().config().topology;
    let roles = roles(tasks, needs(tasks).groups, |task| topology.socket_of(topology.core_of(task)).0);
    let processes = roles.iter().map(|role| role.process + 1).max().unwrap_or(0);
    let threads = |process| roles.iter().filter(|role| role.process == process).count() as u32;
    let processes: Vec<Process> = (0..processes)
        .map(|process| Process {
            space: Space::with_region_locks(threads(process)),
            extents: Channel::new(system, ROOM),
        })
        .collect();
    Ok(Box::new(move |task| {
        let role = roles[task as usize];
        let Process { space, extents } = &processes[role.process];
        let mut kept = VecDeque::new();
        // The random length of each worker's first extent keeps the workers from running in step.
        let mut pages = 1 + system.engine().random_below(EXTENT_PAGES);
        loop {
            if role.works {
                kept.push_back(fill(system, space, pages)?);
                pages = EXTENT_PAGES;
                if kept.len() <= KEPT {
                    continue;
                }
                kept.pop_front().into_iter().for_each(|extent| extents.send(system, extent));
            }
            if role.purges {
                purge(system, space, extents.receive(system))?;
            }
        }
    }))
}

/// Maps an extent and faults its pages in.
pub(super) fn fill(system: &System<'_>, space: &Space, pages: u64) -> Result<Extent, AllocError> {
    let mut region = Region::new(space);
    region.map(system);
    for _ in 0..pages {
        region.fault(system)?;
        system.count();
    }
    Ok(region.detach())
}

/// Unmaps an extent and frees its pages.
pub(super) fn purge(system: &System<'_>, space: &Space, extent: Extent) -> Result<(), AllocError> {
    let mut region = Region::attach(space, extent);
    let pages = region.len() as u64;
    region.unmap(system)?;
    system.count_others(pages);
    Ok(())
}
