//! Counts the pageset traffic of a live kernel without a recording.
//!
//! | module | contents |
//! | --- | --- |
//! | `bpf` | counts by BPF programs at the kernel's tracepoints, and times of waits for the zone lock |
//! | `perf` | counts by `perf_event_open`, where BPF programs are not allowed |
//! | `kallsyms` | addresses of kernel functions |
//! | [`processes`] | pages and waits by process |
//! | [`sites`] | pages and waits by call site |
//! | [`times`] | classes of duration, and percentiles |
//!
//! Neither way writes to a ring buffer or changes the machine. The kernel ends the counting when this process ends, in
//! any way.

mod bpf;
mod kallsyms;
mod perf;
pub mod processes;
pub mod sites;
#[cfg(test)]
mod tests;
pub mod times;

pub use self::processes::{Process, Processes};
pub use self::sites::{Site, Sites};
pub use self::times::WaitTimes;
use crate::error::RecordError;
pub use crate::machine::cpu_nodes;

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

impl Traffic {
    /// Adds blocks that were taken from the free lists. The order is one of [`ORDERS`].
    pub fn refilled(&mut self, order: u32, blocks: u64) {
        self.refill_pages += blocks << order;
    }

    /// Adds blocks that were drained. The order is one of [`ORDERS`].
    pub fn drained(&mut self, order: u32, blocks: u64) {
        self.drain_pages += blocks << order;
        self.high_order_drains += if (1..=3).contains(&order) { blocks } else { 0 };
    }
}

/// The way in which the kernel counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By BPF programs.
    Bpf,
    /// By `perf_event_open`.
    Perf,
}

impl Way {
    /// The name in options and outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Bpf => "bpf",
            Way::Perf => "perf",
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The traffic and the waits of each CPU. It takes less memory and time.
    Cpus,
    /// Also who causes them, where BPF programs count: processes and call sites.
    Movers,
}

enum Kind {
    Bpf(Box<bpf::Counters>),
    Perf(perf::Counters),
}

/// The kernel's counters of every CPU. Dropping it ends the counting.
pub struct Counters {
    kind: Kind,
    /// The counts that are missing, with their reasons.
    missing: Vec<String>,
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").field("way", &self.way()).field("missing", &self.missing).finish()
    }
}

impl Counters {
    /// Begins to count on all CPUs in the given way. Without a way, it tries BPF programs first and then
    /// `perf_event_open`; [`Self::missing`] then has the reason.
    pub fn start(way: Option<Way>, detail: Detail) -> Result<Counters, RecordError> {
        let by_perf = |refused: Option<RecordError>| {
            let counters = perf::Counters::start()?;
            let why = refused.map_or_else(|| "counting is by perf".to_owned(), |error| error.to_string());
            let mut missing = vec![format!("waits for zone locks are not measured: {why}")];
            missing.extend(counters.missing().iter().cloned());
            Ok(Counters { kind: Kind::Perf(counters), missing })
        };
        if way == Some(Way::Perf) {
            return by_perf(None);
        }
        match bpf::Counters::start(detail) {
            Ok((counters, missing)) => Ok(Counters { kind: Kind::Bpf(Box::new(counters)), missing }),
            Err(error) if way == Some(Way::Bpf) => Err(error),
            Err(error) => by_perf(Some(error)),
        }
    }

    /// The way of counting.
    pub fn way(&self) -> Way {
        match self.kind {
            Kind::Bpf(_) => Way::Bpf,
            Kind::Perf(_) => Way::Perf,
        }
    }

    /// The counts that are missing, with their reasons.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The traffic of each on-line CPU since its counting began, sorted by CPU number. A CPU that came on-line since
    /// the last call counts from now on.
    pub fn read(&mut self) -> Result<Vec<Traffic>, RecordError> {
        match &mut self.kind {
            Kind::Bpf(counters) => counters.read(),
            Kind::Perf(counters) => counters.read(),
        }
    }

    /// Whether waits of 0 may not be true: with several CPUs, the kernel has shown no wait for any spin lock until the last [`Self::read`].
    /// It has events only of CPUs that queue for a lock, which on two CPUs without paravirtual locks none does. Measured: none under
    /// QEMU's emulation of 2 CPUs, on Linux 6.1, next to 5,000 holds a second of each CPU.
    pub fn may_hide_waits(&self) -> bool {
        match &self.kind {
            Kind::Bpf(counters) => counters.may_hide_waits(),
            Kind::Perf(_) => false,
        }
    }

    /// The processes that moved pages or waited for a zone lock between the last two calls of [`Self::read`]; before the
    /// second call, since counting began. `None` if processes are not counted: counting by perf does not.
    pub fn processes(&self) -> Option<&Processes> {
        match &self.kind {
            Kind::Bpf(counters) => counters.processes(),
            Kind::Perf(_) => None,
        }
    }

    /// The call sites that moved pages or waited for a zone lock between the last two calls of [`Self::read`]; before the
    /// second call, since counting began. `None` if call sites are not counted: counting by perf does not.
    pub fn sites(&self) -> Option<&Sites> {
        match &self.kind {
            Kind::Bpf(counters) => counters.sites(),
            Kind::Perf(_) => None,
        }
    }

    /// The durations of all waits for zone locks until the last [`Self::read`]; `None` if waits are not measured.
    pub fn wait_times(&self) -> Option<&WaitTimes> {
        match &self.kind {
            Kind::Bpf(counters) => counters.wait_times(),
            Kind::Perf(_) => None,
        }
    }
}
