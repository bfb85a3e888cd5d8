//! will-it-scale malloc1 and malloc2: memory taken and given back without use.

use pageset::AllocError;

use super::{Job, page_fault1};
use crate::engine::LockId;
use crate::os::{Needs, Region, Space, System};
use crate::time::Time;

/// malloc2: one call of each in user space. Unit: nanoseconds. Reason: some 150 instructions, no system call.
const USER_PAIR: Time = Time::from_ps(60_000);
/// Pairs between two looks at the clock.
const PAIRS: u64 = 2000;
/// malloc1: pages that the kernel counts as promised, under one lock of the whole machine when they are more than a
/// CPU's share of the counter: 128 MiB always are. Unit: nanoseconds.
const COMMIT: Time = Time::from_ps(20_000);

/// malloc1 needs the lock of the count of promised pages, and threads that of their address space.
pub(super) fn needs(_tasks: u32) -> Needs {
    Needs { objects: 2, ..Needs::NOTHING }
}

pub(super) fn processes<'s>(system: &'s System<'_>, _tasks: u32) -> Result<Job<'s>, AllocError> {
    let promised = system.new_lock();
    Ok(Box::new(move |_| map_and_unmap(system, &Space::own(), promised)))
}

pub(super) fn threads<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    let (promised, space) = (system.new_lock(), Space::shared(system, tasks));
    Ok(Box::new(move |_| map_and_unmap(system, &space, promised)))
}

/// malloc1: 128 MiB are mapped, the allocator writes its header in the first page, all is unmapped.
fn map_and_unmap(system: &System<'_>, space: &Space, promised: LockId) -> Result<(), AllocError> {
    let engine = system.engine();
    let commit = || {
        engine.acquire(promised, 0);
        engine.work(COMMIT);
        engine.release(promised);
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

/// malloc2: pieces of 1 KiB, all in user space.
pub(super) fn user_space(system: &System<'_>, _space: &Space, _number: u32) -> Result<(), AllocError> {
    // The heap, once.
    let space = Space::own();
    let mut heap = Region::new(&space);
    (0..page_fault1::REGION_PAGES / 1024).try_for_each(|_| heap.fault(system))?;
    loop {
        system.engine().work(USER_PAIR.times(PAIRS));
        system.count_many(PAIRS);
        system.yield_now();
    }
}
