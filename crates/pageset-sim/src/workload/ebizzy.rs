//! ebizzy: threads that search in copies of chunks, as a web application server does.

use pageset::AllocError;

use crate::os::{Region, Space, System};
use crate::time::Time;

/// Search for one record: copy its chunk and bisect it. Unit: picoseconds, here 60 us. Source: with this work a
/// 2-socket machine of 88 CPUs reaches about 10^6 records a second, the published magnitude.
const SEARCH: Time = Time::from_ps(60_000_000);
/// Records after which the top of the heap returns to the kernel and grows again.
const RECORDS: u64 = 32;
/// Pages by which the heap grows: 512 KiB, twice a chunk.
const TOP_PAGES: u64 = 128;

/// The loop of one thread.
pub(super) fn task(system: &System<'_>, space: &Space, _number: u32) -> Result<(), AllocError> {
    let mut top = Region::new(space);
    loop {
        for _ in 0..RECORDS {
            for _ in 0..TOP_PAGES / RECORDS {
                top.fault(system)?;
            }
            system.engine().work(SEARCH);
            system.count();
        }
        top.unmap(system)?;
    }
}
