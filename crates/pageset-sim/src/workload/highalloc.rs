//! stress-highalloc: huge pages are asked for, one after the other, while compilers run beside and most memory is in use.

use std::cell::Cell;

use pageset::{AllocError, Block, Order};

use super::Job;
use crate::os::System;
use crate::time::Time;

/// Share of free memory that is filled with pages before the first request, in percent: caches of files that were read.
const FILLED_PCT: u64 = 90;
/// One in so many of these pages is given back, at random: memory is free, but not in one piece.
const GIVEN_BACK: u64 = 4;
/// Requests: three quarters of what 4 GiB could give.
const REQUESTS: u64 = 1536;
/// The compiler beside: pages that it has at a time, and how long it computes between two of them. Unit: nanoseconds.
const COMPILER_PAGES: usize = 6000;
const COMPUTE: Time = Time::from_ps(40_000_000);

/// With 100 ms between requests.
pub(super) fn slow<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    set_up(system, tasks, Time::from_ps(100_000_000_000))
}

/// With 1 ms between requests.
pub(super) fn fast<'s>(system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
    set_up(system, tasks, Time::from_ps(1_000_000_000))
}

fn set_up<'s>(system: &'s System<'_>, tasks: u32, delay: Time) -> Result<Job<'s>, AllocError> {
    system.track_places();
    let places = (0..system.free_pages_of_node(0) * FILLED_PCT / 100).map(|_| system.new_place());
    let places = places.collect::<Result<Vec<_>, _>>()?;
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
        // With one CPU there is no compiler.
        debug_assert!(tasks > 1);
        while !over.get() {
            compile(system, &over)?;
        }
        Ok(())
    }))
}

/// Successes are counted, and failures as the second kind. What was got is kept to the end.
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
