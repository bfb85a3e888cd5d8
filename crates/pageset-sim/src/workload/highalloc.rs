//! stress-highalloc: requests for huge pages, one after the other, while compilers run and most memory is in use.

use std::cell::Cell;

use pageset::{AllocError, Block, Order};

use super::Job;
use crate::os::System;
use crate::time::Time;

/// Percentage of free memory that is filled before the first request, as page cache of files.
const FILLED_PCT: u64 = 90;
/// One in this many of these pages is freed, at random: the free memory is not contiguous.
const GIVEN_BACK: u64 = 4;
/// Number of requests: three quarters of the huge pages of 4 GiB.
const REQUESTS: u64 = 1536;
/// The compiler's pages per cycle, and its work after each page. Unit: picoseconds, here 40 us.
const COMPILER_PAGES: usize = 6000;
const COMPUTE: Time = Time::from_ps(40_000_000);

/// Requests with 100 ms between them.
pub(super) fn slow<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    set_up(system, tasks, Time::from_ps(100_000_000_000))
}

/// Requests with 1 ms between them.
pub(super) fn fast<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    set_up(system, tasks, Time::from_ps(1_000_000_000))
}

fn set_up<'s>(system: &'s System<'_>, tasks: u32, delay: Time) -> Result<Job<'s>, AllocError> {
    system.track_places();
    let mut places = Vec::new();
    for node in 0..system.nodes() {
        let pages = system.free_pages_of_node(node) * FILLED_PCT / 100;
        system.as_cpu(system.first_cpu(node), || {
            (0..pages).try_for_each(|_| system.new_place().map(|place| places.push(place)))
        })?;
    }
    for place in places {
        if system.engine().random_below(GIVEN_BACK) == 0 {
            system.free_place(place);
        }
    }
    system.reclaim_for_requests();
    let over = Cell::new(false);
    Ok(Box::new(move |task| {
        if task == 0 {
            requests(system, delay);
            over.set(true);
            return Ok(());
        }
        // With one task there is no compiler.
        debug_assert!(tasks > 1);
        while !over.get() {
            compile(system, &over)?;
        }
        Ok(())
    }))
}

/// Counts successes, and failures as the second kind. Keeps all huge pages to the end.
fn requests(system: &System<'_>, delay: Time) {
    let mut huge = Vec::new();
    for _ in 0..REQUESTS {
        match system.fault_huge_slowly() {
            Ok(pfn) => {
                huge.push(Block { pfn, order: Order::PAGEBLOCK });
                system.count();
            }
            Err(_) => system.count_others(1),
        }
        system.rest(delay);
    }
}

fn compile(system: &System<'_>, over: &Cell<bool>) -> Result<(), AllocError> {
    let mut memory = Vec::new();
    for _ in 0..COMPILER_PAGES {
        memory.push(system.new_place()?);
        system.engine().work(COMPUTE);
        system.yield_now();
        if over.get() {
            break;
        }
    }
    memory.into_iter().for_each(|place| system.free_place(place));
    Ok(())
}
