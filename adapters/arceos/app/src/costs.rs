//! Instructions of one call, where the time-stamp counter counts them: `run.sh --counted`.

use core::arch::x86_64::_rdtsc;
use core::hint::black_box;

use alloc::boxed::Box;
use alloc::vec::Vec;

use axalloc::{UsageKind, global_allocator};
use axstd::println;

use crate::{PAGE, fault_in};

/// The calls of a round, and the rounds, of which the cheapest counts.
const CALLS: usize = 32;
const ROUNDS: usize = 64;

/// Prints the costs of each call.
pub fn measure() {
    if option_env!("COUNTED").is_none() {
        return;
    }
    for (pages, align) in [(1, 1), (8, 8), (3, 1), (512, 512)] {
        let alloc = || global_allocator().alloc_pages(pages, align * PAGE, UsageKind::Dma).expect("memory");
        let free = |start| global_allocator().dealloc_pages(start, pages, UsageKind::Dma);
        print(format_args!("{pages} pages at a multiple of {align}"), alloc, free);
    }
    print(format_args!("64 bytes"), || Box::new([0_u64; 8]), drop);
    print(format_args!("64 KiB"), || Vec::<u8>::with_capacity(65536), drop);
    let faults = (0..ROUNDS).map(|_| ticks(|| _ = fault_in(0, 64, 0))).min().expect("a round");
    println!("cost: {} for a page faulted in and unmapped", faults / 64);
}

fn print<T>(what: core::fmt::Arguments<'_>, alloc: impl Fn() -> T, free: impl Fn(T)) {
    let mut held = Vec::with_capacity(CALLS);
    let (mut to_alloc, mut to_free) = (u64::MAX, u64::MAX);
    for _ in 0..ROUNDS {
        to_alloc = to_alloc.min(ticks(|| (0..CALLS).for_each(|_| held.push(black_box(alloc())))));
        to_free = to_free.min(ticks(|| held.drain(..).for_each(&free)));
    }
    println!("cost: {} and {} for {what}, allocated and freed", to_alloc / CALLS as u64, to_free / CALLS as u64);
}

fn ticks(work: impl FnOnce()) -> u64 {
    // SAFETY: every x86-64 CPU has the counter.
    let start = unsafe { _rdtsc() };
    work();
    // SAFETY: as above.
    unsafe { _rdtsc() - start }
}
