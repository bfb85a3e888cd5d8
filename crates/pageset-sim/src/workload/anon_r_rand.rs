//! vm-scalability anon-r-rand: anonymous memory, touched in random order.

use pageset::{AllocError, Pfn};

use crate::os::{Scattered, Space, System};
use crate::time::Time;

/// Pages of a task's region: 64 MiB. The original test divides the machine's memory among the tasks and touches it
/// once.
const REGION_PAGES: u64 = (64 << 20) / Pfn::PAGE_BYTES;
/// Touches of a region before it is unmapped, per page of the region. Nearly all pages are present then.
const ROUNDS: u64 = 4;
/// User work of one access, in picoseconds: 100 ns for a random number and a miss in all caches.
const ACCESS: Time = Time::from_ps(100_000);

/// Touches random pages in an endless loop.
pub(super) fn task(system: &System<'_>, space: &Space, _number: u32) -> Result<(), AllocError> {
    let mut region = Scattered::new(space, REGION_PAGES as usize);
    let mut touches = 1 + system.engine().random_below(ROUNDS * REGION_PAGES);
    loop {
        for _ in 0..touches {
            system.engine().work(ACCESS);
            region.touch(system, system.engine().random_below(REGION_PAGES) as usize)?;
            system.count();
        }
        region.unmap(system)?;
        touches = ROUNDS * REGION_PAGES;
    }
}
