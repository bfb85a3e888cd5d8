//! Instructions of an allocation and a free, where the time-stamp counter counts instructions.

use core::arch::x86_64::_rdtsc;
use core::hint::black_box;

use pageset::{MigrateType, Order, Pfn, Request};

use crate::frames::frames;
use crate::serial::say;
use crate::settings;

/// The number of pairs in a row.
const PAIRS: usize = 1024;

/// Prints the instructions of an allocation and a free, with the loop around them. The caller is the only CPU, and has interrupts
/// off.
#[inline(never)] // A caller that never returns would keep the array on its stack.
pub fn pairs() {
    if !settings::get().counted {
        say!("instructions: not measured; `--counted` counts them");
        return;
    }
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let mut pages = [Pfn(0); PAIRS];
    let alloc = || frames().alloc(&request).expect("memory for a page");
    let free = |page| frames().free(page, Order::ZERO).expect("a page in use");
    let empty = ticks(|| (0..PAIRS).for_each(|pair| _ = black_box(pair)));
    let one = ticks(|| (0..PAIRS).for_each(|_| free(black_box(alloc()))));
    let many = ticks(|| {
        pages.iter_mut().for_each(|page| *page = alloc());
        pages.iter().for_each(|page| free(*page));
    });
    say!(
        "instructions: {} for a page allocated and freed, {} with {PAIRS} pages in use between, {} for an empty loop",
        one / PAIRS as u64,
        many / PAIRS as u64,
        empty / PAIRS as u64
    );
}

fn ticks(work: impl FnOnce()) -> u64 {
    // SAFETY: every x86-64 CPU has the counter.
    let start = unsafe { _rdtsc() };
    work();
    // SAFETY: as above.
    unsafe { _rdtsc() - start }
}
