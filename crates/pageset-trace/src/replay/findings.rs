//! Findings of the survey: counts, and the operations that no event or only a later event shows.

use pageset::{CpuId, MigrateType, Order, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page that is in use before the replay begins and that the replay frees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Earlier {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    pub(super) migratetype: MigrateType,
}

/// An allocation whose event comes later than the allocation itself, or that has no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The allocation happens before this event. Unit: index in the recording.
    pub(super) event: u64,
    pub(super) zone: usize,
    pub(super) cpu: CpuId,
    /// `None` if only the pageset's count shows the allocation.
    pub(super) pfn: Option<Pfn>,
    pub(super) order: Order,
    pub(super) migratetype: MigrateType,
    /// The event of the allocation, with its request's flags; `None` for a bulk allocation.
    pub(super) shown: Option<Shown>,
}

/// The event of an allocation, by its index in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) event: u64,
    pub(super) gfp: u32,
}

/// A requested drain of a whole pageset. Compaction, a contiguous range, or a CPU or memory that goes off-line requests
/// it. The kernel's drain events show the request and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrainRequest {
    /// The drain happens before this event. Unit: index in the recording.
    pub(super) event: u64,
    pub(super) zone: usize,
    /// The pageset's CPU.
    pub(super) cpu: CpuId,
    /// The pages of a part of the drain that is not the last one; `None` to drain the whole pageset.
    pub(super) pages: Option<u32>,
}

/// A setting between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettingMoment {
    /// The number of input events before it.
    pub(super) place: u64,
    /// The index of the later snapshot, which shows the setting.
    pub(super) snapshot: usize,
}

/// Counts of the recording's events, and of the events that make a replay less reliable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes {
    /// Events in all.
    pub events: u64,
    /// Events between the markers of the first and the last snapshot that are replayed, without the changes of zones' counters.
    pub replayed: u64,
    /// Changes of counters of other nodes' zones among these events.
    pub counter_changes: u64,
    /// Allocations and frees among them.
    pub operations: u64,
    /// Nanoseconds from the first replayed event to the last.
    pub duration_ns: u64,
    /// Other counts.
    pub found: Found,
}

/// Counts in a recording other than refills and drains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Allocations that failed in the kernel while recording.
    #[schemars(extend("bad" = "Any.", "todo" = "As the warning kernel-failures."))]
    pub failed: u64,
    /// Runs of the once-a-second work, which shrinks idle pagesets.
    pub ticks: u64,
    /// Blocks allocated from another migratetype's pageblock.
    pub fallbacks: u64,
    /// How often kswapd woke up, or direct reclaim began.
    #[schemars(extend("bad" = "Any, for a comparison of rules: the pages that reclaim freed are part of the traffic.",
        "todo" = "Record with more free memory."))]
    pub reclaims: u64,
    /// Blocks allocated in bulk. Bulk allocations have no event, so their times are inferred.
    #[schemars(extend("as" = "the warning bulk-allocations"))]
    pub bulk_allocs: u64,
    /// Blocks of cached orders that were allocated one at a time from the buddy, not from the pageset.
    pub direct_allocs: u64,
    /// Blocks of cached orders that interrupts freed directly to the buddy because the pageset was busy.
    pub direct_frees: u64,
    /// Drains of a pageset by another CPU.
    pub remote_drains: u64,
    /// Drains of pagesets of other nodes by the timer work.
    #[serde(default)]
    pub expiries: u64,
    /// Drains that other processes or interrupts interrupted, and that went on afterwards.
    #[serde(default)]
    pub interrupted_drains: u64,
    /// Allocations and frees that used the pageset of another CPU than the CPU of their event: the task moved in between.
    #[serde(default)]
    pub moved_tasks: u64,
    /// Blocks of several pages that were freed page by page, and that the kernel put back whole.
    #[serde(default)]
    pub rejoined_blocks: u64,
    /// Of these blocks, those for which a later event proves it. The others are of the same kind, or the kernel is one
    /// that does so.
    #[serde(default)]
    pub rejoined_proofs: u64,
    /// Allocations of which the input does not tell whether they came before the timer work that interrupted their task.
    #[serde(default)]
    #[schemars(extend("as" = "the warning undecided-moments"))]
    pub undecided_allocs: u64,
    /// Frees by interrupts of which the input does not tell whether the interrupted allocation had locked the pageset.
    #[serde(default)]
    #[schemars(extend("as" = "the warning undecided-moments"))]
    pub undecided_frees: u64,
    /// Pages outside all zones of the recording. The replay omits them.
    #[schemars(extend("as" = "the warning foreign-pages"))]
    pub foreign: u64,
    /// Events that contradict the known state of the kernel's lists.
    #[schemars(extend("as" = "the warning unseen-changes"))]
    pub surprises: u64,
    /// Markers of the ends of snapshots in the recording.
    pub markers: u64,
}
