//! Every rule as data: one set of rules is one value of [`Tuning`].
//!
//! This folder has no lists and no locks. [`state`] decides how many pages move. [`sizes`] computes batch and high.
//! [`expiry`] decides when pages of other nodes are drained. [`presets`] names the sets of rules that were in use or
//! proposed.

mod active;
pub mod lists;

pub mod expiry;
pub mod presets;
pub mod sizes;
pub mod state;

use core::fmt;

use crate::frame::Order;

pub(crate) use active::{Active, SMALL};
pub use presets::{HAS_RESEARCH, PRESETS, Preset, Release};
pub use sizes::{Bounds, Watermarks};
pub use state::{Decay, PcpState, Pressure, State};

/// How the batch is computed.
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

/// How the bounds of high are computed, if no administrator has set them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HighRule {
    /// Six batches (before 5.14).
    SixBatches,
    /// The zone's low watermark shared by the node's CPUs, at least four batches (5.14 on). Specification 2.2.
    FromLowWatermark,
    /// Set by hand, in pages. With [`Tuning::auto_high`] the two values are the bounds of the CPU's own high.
    Fixed {
        /// The lower bound in pages; the value of high without auto-tuning.
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
    /// Orders 0 to 3, and two lists for huge pages, movable and others: 14 lists (6.10 on, and stable series from
    /// 6.1.97, 6.6.37 and 6.9.8).
    HugeByMobility,
    /// Orders 0 to 3, and a list for huge pages of each type: 15 lists (5.14 to 5.19).
    HugeByType,
    /// All orders: 33 lists. Not a kernel rule.
    AllOrders,
}

/// How a drain moves pages to the buddy. Specification 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkFree {
    /// Round robin over the lists. Blocks are picked with the zone lock held (to 4.16).
    PickLocked,
    /// Round robin. A first pass picks the blocks, a second pass frees them under the lock (4.17 to 5.17).
    TwoPass,
    /// One pass under the lock, whole lists, the freed page's list first (5.18 on).
    SinglePass,
    /// As `SinglePass`, one batch per hold of the two locks, of pageset and zone (6.19 on).
    Chunked,
    /// As `SinglePass`, at most 512 blocks per hold of the lock of the zone or region; the pageset's lock is held throughout.
    /// Refills also take at most [`Self::REFILL_BLOCKS`] blocks per hold. Not a kernel rule.
    ShortHolds,
}

/// Into how many regions a zone is divided. Each has a lock and free lists of its own, and blocks of different regions do not
/// merge. An allocation prefers its CPU's region and tries the others where that is empty or busy. Not a kernel rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegionRule {
    /// One, as in the kernels.
    One,
    /// At least one for each CPU of the zone's node, but none below 64 MiB.
    PerCpu,
    /// At least this many in each zone, and fewer than twice as many: a region has a power of two of pages.
    Fixed(u32),
}

impl RegionRule {
    /// The smallest region of [`Self::PerCpu`], in pages: 64 MiB of 4 KiB pages. A guess: 16 blocks of the largest order.
    const SMALLEST: u64 = 1 << 14;

    /// The pages of a region, as a power of two, for a zone of `pages` pages that `cpus` CPUs share.
    pub(crate) fn order(self, pages: u64, cpus: u32) -> u32 {
        let regions = match self {
            Self::One => 1,
            Self::PerCpu => u64::from(cpus).min(pages / Self::SMALLEST),
            Self::Fixed(regions) => regions.into(),
        };
        if regions <= 1 { u32::BITS } else { (pages / regions).max(Order::MAX.pages()).ilog2() }
    }
}

impl BulkFree {
    /// Blocks that one hold of a refill takes under [`Self::ShortHolds`]. 512: a few microseconds. A guess.
    pub const REFILL_BLOCKS: u32 = 512;

    /// Blocks that one hold of a refill takes.
    pub(crate) fn refill_blocks(self) -> u32 {
        if self == Self::ShortHolds { Self::REFILL_BLOCKS } else { u32::MAX }
    }
}

/// Whether CPUs own the pageblocks that they claim, and how a block gets to the owner's pageset that another CPU frees. Not a kernel
/// rule; `frontier.md` 1.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnerRule {
    /// Pageblocks have no owners: a block enters the pageset of the CPU that frees it.
    Off,
    /// The CPU that frees waits for the owner's pageset (3 April 2026). Not for frees in interrupts: two CPUs may wait for each other,
    /// as was found in that version.
    Wait,
    /// It takes the lock of the owner's pageset if that is free. Else the block goes to the zone (30 April 2026).
    Try,
    /// It leaves the block on a list of the owner that needs no lock. The owner takes it when it allocates from an empty list,
    /// drains or ticks (20 May 2026).
    List,
}

/// How a request is served from another migratetype's pageblocks. Specification 1.6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallbackRule {
    /// One search that steals the block it finds. The block moves to the wanted type's lists even if the pageblock
    /// keeps its type (before 6.10).
    Steal,
    /// The same search. If the pageblock keeps its type, the rest of the stolen block stays on that type's lists (6.10
    /// to 6.14). The specification gives the search, and that lists and pageblocks agree from 6.10 on; that the found
    /// block is the one that is split follows from the two.
    StealInPlace,
    /// Claims a whole pageblock if possible, else steals single blocks. Remembers the stage that succeeded (6.15 on).
    ClaimThenSteal,
}

/// How many pageblocks are reserved for urgent requests above order 0, and how they count. Specification 1.3, 1.6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HighAtomicRule {
    /// Up to 1 % of the zone plus one pageblock. All their pages, free or not, are off limits to other requests (before
    /// 6.12).
    Reserved,
    /// Up to 1 % of the zone in whole pageblocks, none if that is less than one. Only their free pages are off limits.
    /// The kernel made the two changes at different times; no preset lies between.
    Free,
}

/// How much an idle CPU's high decays per second. Specification 4.7, 4.9.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecayRule {
    /// By an eighth (merged).
    Eighth,
    /// By a fifth (first posting).
    Fifth,
}

/// One field per rule. The presets in [`PRESETS`] are values of this type. [`Tuning::check`] tells which rules need
/// which others. [`Tuning::research_rule`] names a rule that needs the feature `research`.
///
/// If unsure, use [`Tuning::default`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// How the batch is computed.
    pub batch: BatchRule,
    /// How the bounds of high are computed.
    pub high: HighRule,
    /// Which blocks a pageset caches.
    pub lists: ListRule,
    /// Into how many regions a zone is divided.
    pub regions: RegionRule,
    /// How a drain frees pages.
    pub bulk_free: BulkFree,
    /// How a request falls back to other migratetypes.
    pub fallback: FallbackRule,
    /// Whether free blocks that change their type go to the tail of their new lists (5.10 on), or to the head.
    /// Specification 1.6.
    pub fallback_tail: bool,
    /// Whether movable blocks that may not come from CMA pageblocks bypass the pageset (5.9 to 6.6, kernels with CMA).
    /// Specification 2.3 and `kernels-2026.md` 3.6.
    pub cma_skip: bool,
    /// Whether a request that prefers the NORMAL zone uses a lower zone before another type's pageblock, if it can (5.0
    /// on). Specification 1.6, "No-fragment flag".
    pub no_fragment: bool,
    /// How pageblocks are reserved for urgent requests.
    pub highatomic: HighAtomicRule,
    /// Whether a merge of blocks of two ordinary types, at least pageblocks, gives the other pageblock the merging
    /// block's type (6.10 on). `kernels-2026.md` 3.6.
    pub merge_by_type: bool,
    /// Whether a drain reads a page's type again (6.10 on), instead of using the type remembered at the free.
    pub type_at_drain: bool,
    /// Whether single pages are freed without merging, until a request above order 0 finds no block (RFC of 2018, part
    /// 2). Gain: frees hold the zone lock for less time. Loss: high orders come later and cost more. If unsure, off.
    /// Specification 6.1.
    pub merge_skip: bool,
    /// Whether refills take single pages in whole clusters, cut off the free list without touching each page (RFC of
    /// 2018, part 3). Gain: refills hold the zone lock for less time. Loss: 4 bytes of metadata per page and some work
    /// at each free. If unsure, off. Specification 6.2.
    pub clusters: bool,
    /// Whether a drain of one full batch of movable pages is freed as one cluster (RFC of 2018, part 4). Recovers the
    /// cost of clusters at frees; with clusters, use on. Specification 6.3.
    pub cluster_free: bool,
    /// Whether consecutive frees drain more each time (5.14 on; `free_factor`).
    pub scale_drain: bool,
    /// Whether frees of orders 1 to 3 in a row drain the pageset (5.18 on).
    pub drain_high_order: bool,
    /// Whether pagesets of a zone under reclaim keep only four batches per CPU (5.14 on).
    pub reclaim_limit: bool,
    /// Patch 1: `drain_high_order` needs two frees of orders 1 to 3 in a row.
    pub prev_high_order: bool,
    /// Patch 3: with a large cache, `drain_high_order` does not drain a pageset that holds less than a batch.
    pub cache_slice: bool,
    /// A CPU's share of the cache is large if it holds more batches than this: 3, or 4 as first posted. Specification 4.3.
    ///
    /// No kernel has 0. It means four things: the share is always large; up to `batch << block_scale_max` pages stay, or the lower bound of
    /// high if that is more, not a batch; [`PcpState::free_count`] grows to 32 batches, as in the kernels, even if [`Self::batch_scale_max`]
    /// is smaller; and frees in a row raise high to at most as many blocks as the largest drain has pages, and a batch.
    pub cache_slice_batches: u8,
    /// Patch 4: drains and refills grow to at most `batch << batch_scale_max`.
    pub scale_cap: bool,
    /// Patch 5: consecutive allocations refill more each time.
    pub alloc_factor: bool,
    /// Patch 7: each CPU's high tunes itself between its bounds.
    pub auto_high: bool,
    /// Patch 8: high shrinks while the zone is below its high watermark.
    pub below_high: bool,
    /// Patch 9, posted but never merged: high decays by the pages that stayed unused since the last tick, at most by
    /// the fraction in `decay`.
    pub count_min: bool,
    /// Patch 10: a count of pages freed in a row replaces `free_factor`.
    pub free_count: bool,
    /// Patch 10 as first posted: under pressure each free shrinks high by that count alone, without the minimum of a
    /// batch.
    pub shrink_by_count: bool,
    /// 6.16: high-order draining needs `batch + high_min / 2` pages freed in a row, not `batch`.
    pub high_threshold_616: bool,
    /// Whether "below high" is set only for a zone that is short of *pages*. In the kernels a request above order 0
    /// that finds no block of its order sets it for a zone far above its high watermark. Not a kernel rule; 4.8,
    /// "Quirk".
    pub below_high_by_pages: bool,
    /// Whether a tick also clears "below high". In the kernels only a drain by a free does: a zone without frees keeps
    /// the flag, and its pagesets stay small. Not a kernel rule; 4.8, "Clear".
    pub below_high_at_tick: bool,
    /// Whether idle pages of other nodes are drained a batch at each tick. The kernels drain one at every third tick, since the
    /// drain is a use of the zone. Not a kernel rule; 8.2.
    pub expire_all: bool,
    /// Whether a bulk allocation ends consecutive frees, as every other allocation does. In the kernels it does not: a
    /// CPU that frees single pages and allocates in bulk drains as if it only freed. Not a kernel rule; 2.3, step 2.
    pub bulk_counts: bool,
    /// Whether a bulk free that drains nothing puts up to 512 blocks into a pageset under one hold of its lock, which
    /// takes about a microsecond. The kernels put 31 or 32, the size of their callers' batches. Not a kernel rule; 9.
    pub long_runs: bool,
    /// Whether refills above order 0 grow like those of single pages while nothing is freed: in pages, with the same maximum, and
    /// an exponent of their own. In the kernels only refills of single pages grow, so every seventh block of order
    /// 3 takes the zone lock. If the zone lock is not contended, the cost exceeds the gain. Not a kernel rule; 4.5.
    pub double_blocks: bool,
    /// Blocks of a batch, for orders of which so many are more pages than a batch: drains move at least so many, and refills grow to so
    /// many, both up to a quarter of high, or less by [`Self::high_share`]. At most 64. In the kernels, and here for 0, a drain may move one block, and a refill two. Not a
    /// kernel rule; 2.4, 4.7.
    pub batch_blocks: u8,
    /// A refill takes at most `high >> high_share` pages or a batch, whichever is more; a batch of [`Self::batch_blocks`] has at most as
    /// many. 0 to 8; 0 for no such limit, as in the kernels. What one call moves comes back with the next ones if it is much of what the
    /// pageset may keep. Not a kernel rule; 2.4, 4.5.
    pub high_share: u8,
    /// Whether a refill splits a block at once into the pages of a list, and a drain frees pages that form a block as
    /// that block. The same pages move, and fewer cache lines are touched with the zone lock held. The kernels move
    /// page by page. Not a kernel rule; 2.4, 3.3.
    pub whole_blocks: bool,
    /// Whether a free that drains leaves batches of blocks below the order of a pageblock, as they are, in a depot of their region, for
    /// the next refills: at most 32 batches of 62 blocks, two of the largest drains, a 32nd of the region, and, beyond two batches,
    /// twice what refills took lately. Pages that no refill needed go back at the tick, and all where memory
    /// is short. In the kernels each block goes through the free lists. Not a kernel rule; `frontier.md` 5.
    pub depot: bool,
    /// Whether a free that drains marks blocks smaller than a pageblock as free in a bitmap of their pageblock, without a lock, and
    /// refills take them from there. A pageblock goes to the free lists when all of it is free. A part goes there where memory is short,
    /// at a drain of all CPUs, at a tick since the last of which no refill took any, for a compaction, when its pageblock is claimed or
    /// changes its type, and for [`crate::Allocator::alloc_at`]. In the kernels each block goes through the free lists. Not a kernel rule;
    /// `frontier.md` 5.
    pub bitmaps: bool,
    /// Whether a request drains other CPUs' pagesets before it fails, one after the other until it is served: one that may wait for memory
    /// all of them, one that may wait for a zone's lock those whose locks are free. The kernels do that only after reclaim, and so does
    /// [`crate::Allocator::alloc_with`], which asks its owner first. The pool does not use it: it has a way of its own. Not a kernel rule; 1.7.
    pub drain_for_requests: bool,
    /// Whether refills take whole pageblocks, then the largest blocks that there are, and allocations split the blocks of a pageset
    /// (RFC of April 2026). Gain: fewer blocks for each hold of the zone lock, split outside of it. Loss: CPUs hold more pages. If
    /// unsure, off. `frontier.md` 1.3.
    pub claim_blocks: bool,
    /// Whether claimed pageblocks have owners, and how frees reach them (RFC of April 2026). If unsure, off. `frontier.md` 1.4.
    pub owners: OwnerRule,
    /// Whether a drain first merges the blocks of its pageset, and then moves the largest ones (RFC of April 2026, and its
    /// review). Gain: less work with the zone lock held. Loss: a pass over the pageset for each drain. If unsure, off.
    /// `frontier.md` 1.4, 1.7.
    pub merge_blocks: bool,
    /// The decay of patch 7.
    pub decay: DecayRule,
    /// The largest growth of a batch: `batch << batch_scale_max` pages. 0 to 6; the kernel's default is 5.
    /// Specification 9.
    pub batch_scale_max: u8,
    /// The same for refills of blocks above order 0 under [`Self::double_blocks`], and for what drains of blocks of orders 1 to 3 leave
    /// with [`Self::cache_slice_batches`] = 0; at most [`Self::batch_scale_max`] counts. A CPU needs fewer blocks at once than single
    /// pages, and what it holds of them no other CPU can use. Not a kernel rule.
    pub block_scale_max: u8,
    /// The share of a zone that the pagesets of all online CPUs and the depots together may keep from CPUs that need it: one page of so
    /// many. 2 to 255; 0 for no limit, as in the kernels, where many CPUs may keep all of a small zone. Bounds set by hand
    /// ([`crate::ZoneView::set_bounds`]) are not limited. Not a kernel rule; 2.2.
    pub kept_fraction: u8,
}

/// An invalid set of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TuningError {
    /// A rule needs another rule that is off.
    Needs {
        /// The rule that is on.
        rule: &'static str,
        /// The rule that it needs.
        needs: &'static str,
    },
    /// A rule that kernels dropped or never merged is on, but the crate was built without the feature `research`.
    NeedsResearch {
        /// The rule that is on.
        rule: &'static str,
    },
    /// A value is outside its range.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The allowed values.
        allowed: &'static str,
    },
}

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needs { rule, needs } => write!(f, "the rule {rule} needs {needs} to be on as well"),
            Self::NeedsResearch { rule } => {
                write!(f, "the rule {rule} is not compiled in; build pageset with the feature \"research\"")
            }
            Self::OutOfRange { field, value, allowed } => {
                write!(f, "{field} is {value}; allowed: {allowed}")
            }
        }
    }
}

impl core::error::Error for TuningError {}

impl Tuning {
    /// Checks that each rule has the rules it needs, and that values are in range. Specification 4.12, column "Needs".
    ///
    /// # Errors
    /// The first rule that lacks a rule it needs, or the first value out of range.
    pub const fn check(&self) -> Result<(), TuningError> {
        macro_rules! needs {
            ($($rule:literal, $on:expr => $needs:ident;)*) => {$(
                if $on && !self.$needs {
                    return Err(TuningError::Needs { rule: $rule, needs: stringify!($needs) });
                }
            )*};
        }
        if let Some(rule) = self.research_rule()
            && !cfg!(feature = "research")
        {
            return Err(TuningError::NeedsResearch { rule });
        }
        needs! {
            "clusters", self.clusters => merge_skip;
            "cluster_free", self.cluster_free => clusters;
            "drain_high_order", self.drain_high_order => scale_drain;
            "prev_high_order", self.prev_high_order => drain_high_order;
            "cache_slice", self.cache_slice => prev_high_order;
            "scale_cap", self.scale_cap => scale_drain;
            "alloc_factor", self.alloc_factor => scale_cap;
            "auto_high", self.auto_high => alloc_factor;
            "below_high", self.below_high => auto_high;
            "count_min", self.count_min => auto_high;
            "free_count", self.free_count => scale_cap;
            "shrink_by_count", self.shrink_by_count => free_count;
            "high_threshold_616", self.high_threshold_616 => free_count;
            "double_blocks", self.double_blocks => alloc_factor;
            "batch_blocks", self.batch_blocks > 0 => double_blocks;
            "high_share", self.high_share > 0 => alloc_factor;
        }
        if let Some(rule) = self.history_rule()
            && !matches!(self.regions, RegionRule::One)
        {
            return Err(TuningError::Needs { rule, needs: "regions = one" });
        }
        if self.depot && !matches!(self.bulk_free, BulkFree::ShortHolds) {
            return Err(TuningError::Needs { rule: "depot", needs: "bulk_free = short-holds" });
        }
        if self.bitmaps && !matches!(self.bulk_free, BulkFree::ShortHolds) {
            return Err(TuningError::Needs { rule: "bitmaps", needs: "bulk_free = short-holds" });
        }
        if self.bitmaps && !self.type_at_drain {
            return Err(TuningError::Needs { rule: "bitmaps", needs: "type_at_drain" });
        }
        if let Err(error) = self.check_claims() {
            return Err(error);
        }
        if let RegionRule::Fixed(0) = self.regions {
            return out_of_range("regions", 0, "1 to the number of blocks of the largest order in a zone");
        }
        if self.batch_scale_max > 6 {
            return out_of_range("batch_scale_max", self.batch_scale_max as u64, "0 to 6");
        }
        if self.block_scale_max > 6 {
            return out_of_range("block_scale_max", self.block_scale_max as u64, "0 to 6");
        }
        if self.kept_fraction == 1 {
            return out_of_range("kept_fraction", 1, "0 for no limit, or 2 to 255");
        }
        if self.kept_fraction > 0 && (self.claim_blocks || self.clusters) {
            // Their refills bring more than was asked for.
            return Err(TuningError::Needs { rule: "kept_fraction", needs: "claim_blocks = off and clusters = off" });
        }
        if self.batch_blocks > 64 {
            return out_of_range("batch_blocks", self.batch_blocks as u64, "0 to 64");
        }
        if self.high_share > 8 {
            return out_of_range("high_share", self.high_share as u64, "0 to 8");
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
                out_of_range("high_max", max as u64, "at most 268435456 pages")
            }
            _ => Ok(()),
        }
    }
}

impl Tuning {
    /// Checks what the rules of `frontier.md` 1.9 need.
    const fn check_claims(&self) -> Result<(), TuningError> {
        let owns = !matches!(self.owners, OwnerRule::Off);
        if owns && !self.claim_blocks {
            return Err(TuningError::Needs { rule: "owners", needs: "claim_blocks" });
        }
        let rule = match (self.claim_blocks, self.merge_blocks) {
            (true, _) => "claim_blocks",
            (_, true) => "merge_blocks",
            _ => return Ok(()),
        };
        let needs = if !matches!(self.lists, ListRule::AllOrders) {
            "lists = all-orders"
        } else if !matches!(self.regions, RegionRule::One) {
            "regions = one"
        } else if !matches!(self.bulk_free, BulkFree::SinglePass | BulkFree::Chunked) {
            "bulk_free = single-pass or chunked"
        } else if !self.type_at_drain {
            "type_at_drain"
        } else {
            return Ok(());
        };
        Err(TuningError::Needs { rule, needs })
    }

    /// Whether pageblocks have owners.
    #[inline(always)]
    pub(crate) const fn has_owners(&self) -> bool {
        cfg!(feature = "research") && !matches!(self.owners, OwnerRule::Off)
    }

    /// Whether drains merge the blocks of a pageset.
    #[inline(always)]
    pub(crate) const fn merges_in_pageset(&self) -> bool {
        cfg!(feature = "research") && self.merge_blocks
    }

    /// The name of the first active rule that kernels dropped or never merged; such a rule needs the feature `research`.
    #[must_use]
    pub const fn research_rule(&self) -> Option<&'static str> {
        match (self.history_rule(), self.claim_blocks, self.merge_blocks, self.owners) {
            (Some(rule), ..) => Some(rule),
            (_, true, ..) => Some("claim_blocks"),
            (_, _, true, _) => Some("merge_blocks"),
            (.., OwnerRule::Off) => None,
            _ => Some("owners"),
        }
    }

    /// The name of the first active rule that kernels dropped.
    const fn history_rule(&self) -> Option<&'static str> {
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

    /// Number of blocks of a batched free that enter a pageset under one hold of its lock, if one of them may drain.
    /// Not a field of its own, since it moves no page: 32 until 6.9, 31 in the releases that read types again at the
    /// drain. Source: specification 9.
    #[must_use]
    pub const fn free_run(&self) -> usize {
        if self.type_at_drain { 31 } else { 32 }
    }

    /// Number of blocks of a batched free that enter a pageset under one hold of its lock, if none of them drains:
    /// [`Self::long_runs`].
    #[must_use]
    pub const fn long_free_run(&self) -> usize {
        // One or two ns per block. A guess of an acceptable wait for the lock.
        if self.long_runs { 512 } else { self.free_run() }
    }
}

const fn out_of_range(field: &'static str, value: u64, allowed: &'static str) -> Result<(), TuningError> {
    Err(TuningError::OutOfRange { field, value, allowed })
}

impl Default for Tuning {
    /// [`presets::PAGESET`]: the best set of rules that we know. How many pages move starts from Linux 6.18, without those of its defects
    /// that cost nothing to avoid. Where pages lie does not: a zone has a region with a lock of its own for each CPU
    /// ([`Tuning::regions`]), a depot in each region ([`Tuning::depot`]), and bitmaps of free parts of pageblocks
    /// ([`Tuning::bitmaps`]). Pagesets have lists for all orders, and keep at most a quarter of a zone.
    fn default() -> Self {
        presets::PAGESET
    }
}
