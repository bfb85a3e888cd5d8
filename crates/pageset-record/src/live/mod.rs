//! Counts the pageset traffic of a live kernel without a recording.
//!
//! | module | contents |
//! | --- | --- |
//! | `bpf` | counts by BPF programs at the kernel's tracepoints, and times of waits for the zone lock |
//! | [`holds`] | holds of zone locks |
//! | `kallsyms` | addresses of kernel functions |
//! | [`processes`] | pages and waits by process |
//! | [`sites`] | pages and waits by call site |
//! | [`times`] | classes of duration, and percentiles |
//!
//! The counting neither writes to a ring buffer nor changes the machine. The kernel ends the counting when this process ends, in
//! any way.

mod bpf;
pub mod holds;
mod kallsyms;
pub mod processes;
pub mod sites;
#[cfg(test)]
mod tests;
pub mod times;

pub use self::bpf::Counters;
pub use self::holds::Holds;
pub use self::processes::{Process, Processes};
pub use self::sites::{Site, Sites};
pub use self::times::WaitTimes;
pub use crate::machine::{batch_scale_max, caches, cpu_nodes, online_cpus};

/// The traffic of one CPU since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The CPU.
    pub cpu: u32,
    /// Pages taken from the free lists for requests of cached orders: `mm_page_alloc_zone_locked` of orders 0 to 3 and
    /// of pageblocks. Pages from pageblocks of other migratetypes are not included.
    pub refill_pages: u64,
    /// Pages that this CPU drained from pagesets: `mm_page_pcpu_drain`.
    pub drain_pages: u64,
    /// Drained blocks of orders 1 to 3.
    pub high_order_drains: u64,
    /// Blocks taken from another migratetype's pageblocks: `mm_page_alloc_extfrag`.
    pub fallbacks: u64,
    /// Blocks of `refill_pages`, by their order's place in [`ORDERS`].
    pub refill_blocks: [u64; ORDERS.len()],
    /// Blocks of `drain_pages`, in the same way.
    pub drain_blocks: [u64; ORDERS.len()],
    /// Holds of zone locks.
    pub holds: Holds,
    /// Pages of refills and of drains that would pass under zone locks with the largest lists too.
    pub passed_largest: [u64; 2],
    /// Waits for zone locks, if measured.
    pub waits: Option<Waits>,
}

/// Waits for zone locks, by the purpose of the lock. Uncontended acquisitions are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits to refill a pageset.
    pub refill: Wait,
    /// Waits to drain a pageset.
    pub drain: Wait,
    /// Waits to allocate a block directly from the buddy.
    pub direct_alloc: Wait,
    /// Waits to free a block directly to the buddy.
    pub direct_free: Wait,
}

impl Waits {
    /// All waits with their names in outputs.
    pub fn paths(&self) -> [(&'static str, Wait); 4] {
        [
            ("refill", self.refill),
            ("drain", self.drain),
            ("direct_alloc", self.direct_alloc),
            ("direct_free", self.direct_free),
        ]
    }
}

/// Waits for one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The number of waits.
    pub times: u64,
    /// The total duration. Unit: nanoseconds.
    pub ns: u64,
}

/// The orders that pagesets cache, on x86-64 with huge pages. Specification: `linux-page-allocator.md` 9.
pub const ORDERS: [u32; 5] = [0, 1, 2, 3, 9];

/// The place of an order in [`ORDERS`].
fn place(order: u32) -> usize {
    ORDERS.iter().position(|cached| *cached == order).unwrap_or(0)
}

impl Traffic {
    /// Adds blocks that were taken from the free lists. The order is one of [`ORDERS`].
    pub fn refilled(&mut self, order: u32, blocks: u64) {
        self.refill_pages += blocks << order;
        self.refill_blocks[place(order)] += blocks;
    }

    /// Adds blocks that were drained. The order is one of [`ORDERS`].
    pub fn drained(&mut self, order: u32, blocks: u64) {
        self.drain_pages += blocks << order;
        self.drain_blocks[place(order)] += blocks;
        self.high_order_drains += if (1..=3).contains(&order) { blocks } else { 0 };
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The traffic and the waits of each CPU. It takes less memory and time.
    Cpus,
    /// Also who causes them: processes and call sites.
    Movers,
}
