//! ebizzy: threads that search copies of chunks, as a web application server does.

use pageset::AllocError;

use crate::os::{Region, Space, System};
use crate::time::Time;

/// Searching one record: copying its chunk and a binary search in it. Unit: nanoseconds. Source: with so much work a
/// 2-socket machine of 88 CPUs comes to about 10^6 records a second, the magnitude that is published for it.
const SEARCH: Time = Time::from_ps(60_000_000);
/// Records after which the heap's top is given back to the kernel and grows again.
const RECORDS: u64 = 32;
/// Pages that it grows by: 512 KiB, twice a chunk.
const TOP_PAGES: u64 = 128;

/// One thread.
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
