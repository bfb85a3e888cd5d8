//! Prints what a call costs: instructions, where QEMU's clock counts them (`run.sh --counted`), else nothing of use.

use core::alloc::Layout;

use ostd::arch::read_tsc;
use ostd::early_println;
use ostd::mm::frame::GlobalFrameAllocator;
use ostd::mm::{PAGE_SIZE, Paddr};
use ostd::prelude::ktest;

use super::FRAMES;

/// Calls between two looks at the clock. Fewer than a batch of the pagesets, 63, so that most rounds have no refill or drain.
const CALLS: usize = 32;
/// Rounds; the cheapest counts, which has no refill, drain or interrupt.
const ROUNDS: usize = 64;

/// Ticks of an allocation and of a free, of a loop's share too.
fn pair(alloc: impl Fn() -> Option<Paddr>, free: impl Fn(Paddr)) -> (u64, u64) {
    let mut best = (u64::MAX, u64::MAX);
    let mut taken = [0; CALLS];
    for _ in 0..ROUNDS {
        let start = read_tsc();
        taken.iter_mut().for_each(|slot| *slot = alloc().expect("memory"));
        let middle = read_tsc();
        taken.iter().for_each(|&addr| free(addr));
        let end = read_tsc();
        best = (best.0.min(middle - start), best.1.min(end - middle));
    }
    (best.0 / CALLS as u64, best.1 / CALLS as u64)
}

#[ktest]
fn print_costs() {
    for (pages, align) in [(1, 1), (8, 8), (3, 1), (512, 512)] {
        let layout = Layout::from_size_align(pages * PAGE_SIZE, align * PAGE_SIZE).expect("a layout");
        let (alloc, free) = pair(|| FRAMES.alloc(layout), |addr| FRAMES.dealloc(addr, layout.size()));
        early_println!("cost: {} pages aligned to {}: alloc {}, free {}", pages, align, alloc, free);
    }
    #[cfg(not(feature = "baseline"))]
    FRAMES.with(|allocator| {
        use pageset::{MigrateType, Order, Pfn, Request};
        let request = Request::new(Order::ZERO, MigrateType::Unmovable);
        let free = |addr| allocator.free(Pfn::at_address(addr), Order::ZERO).expect("in use");
        let (alloc, free) = pair(|| allocator.alloc(&request).ok().map(Pfn::address), free);
        early_println!("cost: 1 pages, without the trait: alloc {}, free {}", alloc, free);
    });
}
