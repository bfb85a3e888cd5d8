//! A compile farm: on each CPU one compiler after the other is started, reads, computes, writes its object file, exits.

use pageset::{AllocError, Block, MigrateType, Order};

use super::Length;
use crate::os::{File, Region, Space, System, costs};
use crate::time::Time;

/// Memory control groups: eight builds side by side, each in a group of its own, as on the machine of the published
/// series.
pub(super) const GROUPS: u32 = 8;
/// Pages of anonymous memory of one compiler, smallest and largest: 12 to 60 MiB; shells, assemblers and small sources
/// are near the lower end, the compiler proper of a large source near the upper.
const PAGES: (u64, u64) = (3_000, 15_000);
/// User work for each page that is faulted in. Unit: nanoseconds. Reason: a compiler of 40 MiB that runs for half a
/// second.
const COMPUTE: Time = Time::from_ps(40_000_000);
/// A largest compiler's time, and some more: pages that are given back come in crowds.
pub(super) const LENGTH: Length = Length::ms(1500, 1500);
/// Pages of sources and headers that are read for each page faulted in: they are in the page cache.
const READ_EVERY: u64 = 8;
/// Pages of the files that all read: 4 MiB of headers.
const HEADER_PAGES: u64 = 1024;
/// One page of an object file is written for so many pages faulted in.
const WRITE_EVERY: u64 = 64;
/// The page directory of a process, and the user's half beside it: two pages that have to be adjacent. Specification:
/// `linux-page-allocator.md` 4.1.
const DIRECTORY: Order = match Order::new(1) {
    Some(order) => order,
    None => Order::ZERO,
};
/// Its kernel stack: 16 KiB.
const STACK: Order = match Order::new(2) {
    Some(order) => order,
    None => Order::ZERO,
};

/// Compiles for ever. Each faulted page counts: how long a file takes depends on its size.
pub(super) fn task(system: &System<'_>) -> Result<(), AllocError> {
    let headers = File::filled(system, HEADER_PAGES)?;
    let object = File::new(system);
    loop {
        let pages = PAGES.0 + system.engine().random_below(PAGES.1 - PAGES.0);
        compile(system, pages, &headers, &object)?;
    }
}

fn compile(system: &System<'_>, pages: u64, headers: &File, object: &File) -> Result<(), AllocError> {
    let engine = system.engine();
    engine.work(costs::EXEC);
    let mut kernel = Vec::new();
    for order in [DIRECTORY, STACK] {
        let pfn = system.alloc_block(order, MigrateType::Unmovable)?;
        kernel.push(Block { pfn, order });
    }
    let space = Space::own();
    let mut memory = Region::new(&space);
    for page in 0..pages {
        memory.fault(system)?;
        engine.work(COMPUTE);
        if page % READ_EVERY == 0 {
            headers.copy(system, engine.random_below(HEADER_PAGES) as usize);
        }
        if page % WRITE_EVERY == 0 {
            object.append(system)?;
        }
        system.count();
    }
    engine.work(costs::EXIT);
    memory.unmap(system)?;
    // The next build of the same file replaces it.
    object.truncate(system);
    kernel.into_iter().for_each(|block| system.free_block(block));
    Ok(())
}
