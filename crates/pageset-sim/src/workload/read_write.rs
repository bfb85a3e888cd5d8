//! will-it-scale read1 and write1: a file of 1 MiB, 4 KiB at a time, again and again from its beginning.
//!
//! The file stays in the page cache: nothing is allocated after the first round, whatever the batch is.

use pageset::AllocError;

use crate::os::{File, Space, System, costs};
use crate::time::Time;

/// Pages of the file: 1 MiB, as in the tests.
const FILE_PAGES: u64 = 256;
/// What a read does beside finding and copying the page. Unit: nanoseconds.
const READ: Time = Time::from_ps(200_000);
/// What a write does: it prepares the page, marks it dirty, balances dirty pages. Unit: nanoseconds.
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
