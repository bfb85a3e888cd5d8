//! will-it-scale read1 and write1: read or write a file of 1 MiB in calls of 4 KiB, in an endless loop.
//!
//! The file stays in the page cache: after the first round nothing is allocated, with any batch.

use pageset::AllocError;

use crate::os::{File, Space, System, costs};
use crate::time::Time;

/// Pages of the file: 1 MiB, as in the tests.
const FILE_PAGES: u64 = 256;
/// Work of a read without finding and copying the page. Unit: picoseconds, here 200 ns.
const READ: Time = Time::from_ps(200_000);
/// Work of a write: prepare the page, mark it dirty, balance dirty pages. Unit: picoseconds, here 350 ns.
const WRITE: Time = Time::from_ps(350_000);

pub(super) fn read(system: &System<'_>, _space: &Space, _number: u32) -> Result<(), AllocError> {
    rounds(system, READ)
}

pub(super) fn write(system: &System<'_>, _space: &Space, _number: u32) -> Result<(), AllocError> {
    rounds(system, WRITE)
}

fn rounds(system: &System<'_>, time: Time) -> Result<(), AllocError> {
    let file = File::filled(system, FILE_PAGES)?;
    loop {
        for place in 0..FILE_PAGES {
            system.engine().work(costs::SYSCALL + time);
            file.copy(system, place as usize);
            system.count();
        }
        system.yield_now();
    }
}
