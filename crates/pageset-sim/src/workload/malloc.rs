//! will-it-scale malloc1 and malloc2: allocate and free memory without using it.

use pageset::AllocError;

use super::{Job, page_fault1};
use crate::engine::LockId;
use crate::os::{Needs, Region, Space, System};
use crate::time::Time;

/// malloc2: one malloc and one free in user space. Unit: picoseconds, here 60 ns. Reason: about 150 instructions, no
/// system call.
const USER_PAIR: Time = Time::from_ps(60_000);
/// Pairs between two yields to other CPUs.
const PAIRS: u64 = 2000;
/// malloc1: update of the kernel's count of committed pages, under one lock of the whole machine when the change
/// exceeds a CPU's share of the counter. 128 MiB always exceed it. Unit: picoseconds, here 20 ns.
const COMMIT: Time = Time::from_ps(20_000);

/// malloc1 needs the lock of the committed-page counter, and with threads the semaphore of their address space.
pub(super) fn needs(_tasks: u32) -> Needs {
    Needs { objects: 2, ..Needs::NOTHING }
}

pub(super) fn processes<'s>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
    let committed = system.new_lock();
    Ok(Box::new(move |_| map_and_unmap(system, &Space::own(), committed)))
}

pub(super) fn threads<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let (committed, space) = (system.new_lock(), Space::shared(system, tasks));
    Ok(Box::new(move |_| map_and_unmap(system, &space, committed)))
}

/// malloc1: maps 128 MiB, writes the allocator's header in the first page, unmaps all.
fn map_and_unmap(system: &System<'_>, space: &Space, committed: LockId) -> Result<(), AllocError> {
    let engine = system.engine();
    let commit = || {
        engine.acquire(committed, 0);
        engine.work(COMMIT);
        engine.release(committed);
    };
    let mut region = Region::new(space);
    loop {
        commit();
        region.map(system);
        region.fault(system)?;
        region.unmap(system)?;
        commit();
        system.count();
    }
}

/// malloc2: objects of 1 KiB, all in user space.
pub(super) fn user_space(system: &System<'_>, _space: &Space, _number: u32) -> Result<(), AllocError> {
    // The heap faults once.
    let space = Space::own();
    let mut heap = Region::new(&space);
    (0..page_fault1::REGION_PAGES / 1024).try_for_each(|_| heap.fault(system))?;
    loop {
        system.engine().work(USER_PAIR.times(PAIRS));
        system.count_many(PAIRS);
        system.yield_now();
    }
}
