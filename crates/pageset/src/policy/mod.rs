//! Every rule as data: what a kernel's developers chose, as one value of [`Tuning`].
//!
//! Nothing here knows a list or a lock. [`state`] decides how many pages move, [`sizes`] how large batch and high
//! are, [`expiry`] when pages of other nodes go back, [`presets`] names the sets of rules that were in use or proposed.

pub mod lists;

pub mod expiry;
pub mod presets;
pub mod sizes;
pub mod state;

use core::fmt;

pub use presets::{PRESETS, Preset, Release};
pub use sizes::{Bounds, Watermarks};
pub use state::{Decay, PcpState, Pressure, State};

/// How large a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchRule {
    /// From the zone's managed pages, capped at this many KiB before the division by four: 512 (largest batch 31)
    /// or 1024 (63). Specification 2.2.
    FromZone {
        /// The cap in KiB.
        cap_kib: u32,
    },
    /// Set by hand, in pages, at least 1.
    Fixed(u32),
}

/// How many pages a CPU may keep when no administrator has set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HighRule {
    /// Six batches (before 5.14).
    SixBatches,
    /// The zone's low watermark shared by the node's CPUs, at least four batches (5.14 on). Specification 2.2.
    FromLowWatermark,
    /// Set by hand, in pages. With [`Tuning::auto_high`] the two are the bounds that the CPU's own high moves in.
    Fixed {
        /// The lower bound in pages, and the value where nothing tunes it.
        min: u32,
        /// The upper bound in pages, at least `min`.
        max: u32,
    },
}

/// Which blocks a pageset has lists for. Specification 2.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListRule {
    /// Single pages only: 3 lists (before 5.14).
    OrderZero,
    /// Orders 0 to 3: 12 lists (5.14 on without huge pages).
    ToCostly,
    /// Orders 0 to 3, and one list for huge pages: 13 lists (6.0 to 6.9).
    HugeShared,
    /// Orders 0 to 3, and huge pages in two lists, movable apart: 14 lists (6.10 on, and stable series from 6.1.97,
    /// 6.6.37 and 6.9.8).
    HugeByMobility,
    /// Orders 0 to 3, and huge pages in a list for each type: 15 lists (5.14 to 5.19).
    HugeByType,
}

/// How a drain moves pages to the buddy. Specification 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkFree {
    /// Round robin over the lists, picked while the zone lock is held (to 4.16).
    PickLocked,
    /// Round robin, picked first and freed in a second pass under the lock (4.17 to 5.17).
    TwoPass,
    /// One pass under the lock, whole lists, the freed page's own first (5.18 on).
    SinglePass,
    /// As `SinglePass`, a batch a lock hold (6.19 on).
    Chunked,
}

/// How a request is served from another migratetype's pageblocks. Specification 1.6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallbackRule {
    /// One search that steals what it finds, and brings it to the wanted type's lists even where the pageblock keeps
    /// its type (before 6.10).
    Steal,
    /// The same search; where the pageblock keeps its type, so do its free blocks: what is left of the stolen block
    /// stays on that type's lists (6.10 to 6.14). The specification has the search and that lists and pageblocks
    /// agree from 6.10 on; that the block found is the one that is split follows from the two.
    StealInPlace,
    /// First claim a whole pageblock, then steal single blocks, remembering what succeeded (6.15 on).
    ClaimThenSteal,
}

/// How many pageblocks are kept for urgent requests above order 0, and how they count. Specification 1.3, 1.6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HighAtomicRule {
    /// To a hundredth of the zone and one pageblock; all of them are off limits to others, free or not (before 6.12).
    Reserved,
    /// To a hundredth of the zone in whole pageblocks, none where that is less than one; only what is free of them
    /// counts as off limits. The two changes came at different times; no preset lies between.
    Free,
}

/// The posted or the merged rule by which an idle CPU's high shrinks each second. Specification 4.7, 4.9.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecayRule {
    /// By an eighth (merged).
    Eighth,
    /// By a fifth (first posting).
    Fifth,
}

/// One field a rule. The presets in [`PRESETS`] are values of it; [`Tuning::check`] says which go together.
///
/// If unsure, take [`Tuning::default`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// How large a batch is.
    pub batch: BatchRule,
    /// How many pages a CPU may keep.
    pub high: HighRule,
    /// Which orders are cached.
    pub lists: ListRule,
    /// How a drain frees.
    pub bulk_free: BulkFree,
    /// How a request falls back to other migratetypes.
    pub fallback: FallbackRule,
    /// Whether free blocks that change their type go to the tail of their new lists (5.10 on), or to the head.
    /// Specification 1.6.
    pub fallback_tail: bool,
    /// Whether movable blocks that may not come from CMA pageblocks are taken past the pageset (5.9 to 6.6, kernels with
    /// CMA). Specification 2.3 and `kernels-2026.md` 3.6.
    pub cma_skip: bool,
    /// Whether a request that prefers the NORMAL zone takes a lower zone rather than another type's pageblock, as long as
    /// it can (5.0 on). Specification 1.6, "No-fragment flag".
    pub no_fragment: bool,
    /// What is kept for urgent requests.
    pub highatomic: HighAtomicRule,
    /// Whether a block that merges with one of another ordinary type, from a pageblock upwards, brings that
    /// pageblock to its own type (6.10 on). `kernels-2026.md` 3.6.
    pub merge_by_type: bool,
    /// Whether a drained page's type is read again at the drain (6.10 on), instead of remembered from the free.
    pub type_at_drain: bool,
    /// Whether single pages are freed without merging, until a request above order 0 finds nothing (RFC of 2018,
    /// part 2). Frees hold the zone lock for less; high orders come later and dearer. If unsure, off.
    /// Specification 6.1.
    pub merge_skip: bool,
    /// Whether refills take single pages in whole clusters, cut off the free list without touching each page (RFC of
    /// 2018, part 3). Refills hold the zone lock for less; 4 bytes a page of metadata and some work at each free. If
    /// unsure, off. Specification 6.2.
    pub clusters: bool,
    /// Whether a drain of one full batch of movable pages goes back as one cluster (RFC of 2018, part 4). Takes back
    /// what clusters cost at frees; if there are clusters, on. Specification 6.3.
    pub cluster_free: bool,
    /// Whether consecutive frees drain more each time (5.14 on; `free_factor`).
    pub scale_drain: bool,
    /// Whether frees of orders 1 to 3 in a row drain the pageset (5.18 on).
    pub drain_high_order: bool,
    /// Whether a zone under reclaim keeps only four batches a CPU (5.14 on).
    pub reclaim_limit: bool,
    /// Patch 1: two frees of orders 1 to 3 in a row are needed for that.
    pub prev_high_order: bool,
    /// Patch 3: with a large cache, up to a batch of pages stays all the same.
    pub cache_slice: bool,
    /// More batches than this make a CPU's share of the cache large: 3, or 4 as first posted. Specification 4.3.
    pub cache_slice_batches: u8,
    /// Patch 4: drains and refills grow to at most `batch << batch_scale_max`.
    pub scale_cap: bool,
    /// Patch 5: consecutive allocations refill more each time.
    pub alloc_factor: bool,
    /// Patch 7: each CPU's high moves between its bounds by itself.
    pub auto_high: bool,
    /// Patch 8: it shrinks while the zone is below its high watermark.
    pub below_high: bool,
    /// Patch 9, posted but never merged: high decays by what stayed unused since the last tick, at most by the part
    /// that `decay` says.
    pub count_min: bool,
    /// Patch 10: a count of pages freed in a row takes the place of `free_factor`.
    pub free_count: bool,
    /// Patch 10 as first posted: under pressure each free shrinks high by that count alone, not by a batch at least.
    pub shrink_by_count: bool,
    /// 6.16: high-order draining needs half of `high_min` freed in a row as well.
    pub high_threshold_616: bool,
    /// Whether "below high" is said only of a zone that is short of *pages*. In the kernels a request above order 0 that
    /// finds no block of its order says it of a zone far above its high watermark. This project's; 4.8, "Quirk".
    pub below_high_by_pages: bool,
    /// Whether a tick takes it back too. In the kernels only a drain by a free does, so that a zone which nobody frees
    /// into keeps it, and its pagesets stay small. This project's; 4.8, "Clear".
    pub below_high_at_tick: bool,
    /// Whether idle pages of other nodes go back batch after batch. In the kernels one batch an idle period does, and the
    /// rest stays. This project's; 8.2.
    pub expire_all: bool,
    /// Whether a bulk allocation ends frees in a row as any other does. In the kernels it does not, and a CPU that frees
    /// pages one by one and takes them in bulk drains as if it only freed. This project's; 2.3, step 2.
    pub bulk_counts: bool,
    /// Whether a bulk free that drains nothing puts up to 512 blocks into a pageset under one hold of its lock: a
    /// microsecond. In the kernels 31 or 32 do, which is what their callers gather. This project's; 9.
    pub long_runs: bool,
    /// Whether refills of blocks grow as those of single pages do, while nothing is freed: in pages, with the same exponent and
    /// to the same most. In the kernels only single pages' do, so that each seven blocks of order 3 take the zone's lock. Where
    /// that lock is not short it costs more than it gains: off by default. This project's; 4.5.
    pub double_blocks: bool,
    /// Whether a refill splits a block at once into the pages of a list, and a drain gives back pages that make up a block as
    /// that block. The same pages move, and fewer lines are touched with the zone lock held. The kernels go page by page.
    /// This project's; 2.4, 3.3.
    pub whole_blocks: bool,
    /// The decay of patch 7.
    pub decay: DecayRule,
    /// Batches grow to at most `batch << batch_scale_max` pages; 0 to 6, the kernel's default is 5. Specification 9.
    pub batch_scale_max: u8,
}

/// A set of rules that cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TuningError {
    /// A rule builds on another that is off.
    Needs {
        /// The rule that is on.
        rule: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// A rule is one of those that kernels dropped, and the crate was built without its feature `history`.
    NeedsHistory {
        /// The rule that is on.
        rule: &'static str,
    },
    /// A value is outside its range.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needs { rule, needs } => write!(f, "the rule {rule} needs {needs} to be on as well"),
            Self::NeedsHistory { rule } => {
                write!(f, "the rule {rule} is not compiled in; build pageset with the feature \"history\"")
            }
            Self::OutOfRange { field, value, allowed } => {
                write!(f, "{field} is {value}; allowed: {allowed}")
            }
        }
    }
}

impl core::error::Error for TuningError {}

impl Tuning {
    /// Checks that the rules go together. Specification 4.12, column "Needs".
    ///
    /// # Errors
    /// The first rule that lacks what it builds on, or the first value out of range.
    pub const fn check(&self) -> Result<(), TuningError> {
        const fn needs(on: bool, rule: &'static str, met: bool, needs: &'static str) -> Result<(), TuningError> {
            if on && !met { Err(TuningError::Needs { rule, needs }) } else { Ok(()) }
        }
        let rules = [
            needs(self.clusters, "clusters", self.merge_skip, "merge_skip"),
            needs(self.cluster_free, "cluster_free", self.clusters, "clusters"),
            needs(self.drain_high_order, "drain_high_order", self.scale_drain, "scale_drain"),
            needs(self.prev_high_order, "prev_high_order", self.drain_high_order, "drain_high_order"),
            needs(self.cache_slice, "cache_slice", self.prev_high_order, "prev_high_order"),
            needs(self.scale_cap, "scale_cap", self.scale_drain, "scale_drain"),
            needs(self.alloc_factor, "alloc_factor", self.scale_cap, "scale_cap"),
            needs(self.auto_high, "auto_high", self.alloc_factor, "alloc_factor"),
            needs(self.below_high, "below_high", self.auto_high, "auto_high"),
            needs(self.count_min, "count_min", self.auto_high, "auto_high"),
            needs(self.free_count, "free_count", self.scale_cap, "scale_cap"),
            needs(self.shrink_by_count, "shrink_by_count", self.free_count, "free_count"),
            needs(self.high_threshold_616, "high_threshold_616", self.free_count, "free_count"),
            needs(self.double_blocks, "double_blocks", self.alloc_factor, "alloc_factor"),
        ];
        if let Some(rule) = self.history_rule()
            && !cfg!(feature = "history")
        {
            return Err(TuningError::NeedsHistory { rule });
        }
        let mut i = 0;
        while i < rules.len() {
            if rules[i].is_err() {
                return rules[i];
            }
            i += 1;
        }
        if self.batch_scale_max > 6 {
            return out_of_range("batch_scale_max", self.batch_scale_max as u64, "0 to 6");
        }
        match self.batch {
            BatchRule::Fixed(pages) if pages == 0 || pages > sizes::MAX_BATCH => {
                return out_of_range("batch", pages as u64, "1 to 65536 pages");
            }
            BatchRule::FromZone { cap_kib } if cap_kib == 0 || cap_kib > 1 << 20 => {
                return out_of_range("batch cap", cap_kib as u64, "1 to 1048576 KiB");
            }
            _ => {}
        }
        match self.high {
            HighRule::Fixed { min, max } if min > max => out_of_range("high_min", min as u64, "at most high_max"),
            HighRule::Fixed { max, .. } if max > sizes::MAX_HIGH => {
                out_of_range("high_max", max as u64, "at most 268435456 pages (1 TiB)")
            }
            _ => Ok(()),
        }
    }
}

impl Tuning {
    /// A rule that kernels dropped or never merged, if one is on: it needs the feature `history`.
    #[must_use]
    pub const fn history_rule(&self) -> Option<&'static str> {
        if self.merge_skip {
            return Some("merge_skip");
        }
        if self.clusters {
            return Some("clusters");
        }
        match (self.bulk_free, self.fallback) {
            (BulkFree::PickLocked, _) => Some("bulk_free = pick-locked"),
            (BulkFree::TwoPass, _) => Some("bulk_free = two-pass"),
            (_, FallbackRule::Steal) => Some("fallback = steal"),
            (_, FallbackRule::StealInPlace) => Some("fallback = steal-in-place"),
            _ => None,
        }
    }

    /// Blocks of a batched free that go into a pageset under one hold of its lock where one of them may drain. No rule of its
    /// own, since it moves no page: 32 until 6.9, then 31, which came in the release that came to read types again at the
    /// drain. Source: specification 9.
    #[must_use]
    pub const fn free_run(&self) -> usize {
        if self.type_at_drain { 31 } else { 32 }
    }

    /// Blocks of a batched free that go into a pageset under one hold of its lock where none of them drains it:
    /// [`Self::long_runs`].
    #[must_use]
    pub const fn long_free_run(&self) -> usize {
        // A ns or two each. A guess at what nobody minds who waits.
        if self.long_runs { 512 } else { self.free_run() }
    }
}

const fn out_of_range(field: &'static str, value: u64, allowed: &'static str) -> Result<(), TuningError> {
    Err(TuningError::OutOfRange { field, value, allowed })
}

impl Default for Tuning {
    /// [`presets::PAGESET`]: the rules of Linux 6.18 without those of their defects that cost nothing to avoid.
    fn default() -> Self {
        presets::PAGESET
    }
}
