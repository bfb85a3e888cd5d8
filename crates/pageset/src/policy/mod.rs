//! Every rule as data: one set of rules is one value of [`Tuning`].
//!
//! This folder has no lists and no locks. [`Backing`] says what lies behind the pagesets. [`state`] decides how many pages move.
//! [`sizes`] computes batch and high. [`expiry`] decides when pages of other nodes are drained. [`presets`] names the sets of rules that
//! were in use or proposed.

mod backing;
pub mod lists;

pub mod expiry;
pub mod presets;
pub mod sizes;
pub mod state;

use core::fmt;
use core::ops::Deref;

pub use backing::{Backing, BulkFree, ClaimRule, ClusterRule, Holds, OwnerRule, RegionRule};
pub use presets::{HAS_RESEARCH, PRESETS, Preset, Release, TUNED_6_6};
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
    /// What lies behind the pagesets: regions, depots, bitmaps, and how long a lock is held.
    pub backing: Backing,
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
    /// No kernel has 0. It means four things: the share is always large; without a drain, not one batch stays but `(batch << block_scale_max) + batch` pages,
    /// or the lower bound of high if that is larger; [`PcpState::free_count`] grows to 32 batches, as in the kernels, even if [`Self::batch_scale_max`]
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
    /// Whether a request drains other CPUs' pagesets before it fails, one after the other until it is served: one that may wait for memory
    /// all of them, one that may wait for a zone's lock those whose locks are free. The kernels do that only after reclaim, and so does
    /// [`crate::Allocator::alloc_with`], which asks its owner first. The pool does not use it: it has a way of its own. Not a kernel rule; 1.7.
    pub drain_for_requests: bool,
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
    /// ([`crate::ZoneView::set_bounds`]) are not limited. A refill that finds little room first drains other lists. Not a kernel rule; 2.2.
    pub kept_fraction: u8,
}

/// An invalid set of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TuningError {
    /// A rule needs another rule that has another value.
    Needs {
        /// The rule that is on.
        rule: &'static str,
        /// What it needs: `RULE = VALUE`.
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
            Self::Needs { rule, needs } => write!(f, "the rule {rule} needs {needs}"),
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
                    return Err(TuningError::Needs { rule: $rule, needs: concat!(stringify!($needs), " = on") });
                }
            )*};
        }
        if let Some(rule) = self.research_rule()
            && !cfg!(feature = "research")
        {
            return Err(TuningError::NeedsResearch { rule });
        }
        needs! {
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
            && !matches!(self.backing.regions(), RegionRule::One)
        {
            return Err(TuningError::Needs { rule, needs: "regions = one" });
        }
        if self.backing.bitmaps() && !self.type_at_drain {
            return Err(TuningError::Needs { rule: "bitmaps", needs: "type_at_drain = on" });
        }
        if let Err(error) = self.check_claims() {
            return Err(error);
        }
        if let Err(error) = self.backing.check() {
            return Err(error);
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
        if self.kept_fraction > 0 && (self.backing.claims() || self.backing.has_clusters()) {
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
        let rule = match self.backing {
            Backing::Claims { blocks: ClaimRule::Merge, .. } => "merge_blocks",
            Backing::Claims { .. } => "claim_blocks",
            _ => return Ok(()),
        };
        let needs = if !matches!(self.lists, ListRule::AllOrders) {
            "lists = all-orders"
        } else if !self.type_at_drain {
            "type_at_drain = on"
        } else {
            return Ok(());
        };
        Err(TuningError::Needs { rule, needs })
    }

    /// The name of the first active rule that kernels dropped or never merged; such a rule needs the feature `research`.
    #[must_use]
    pub const fn research_rule(&self) -> Option<&'static str> {
        match self.backing.research_rule() {
            Some(rule) => Some(rule),
            None => self.history_rule(),
        }
    }

    /// The name of a fallback that kernels dropped, if it is active.
    const fn history_rule(&self) -> Option<&'static str> {
        match self.fallback {
            FallbackRule::Steal => Some("fallback = steal"),
            FallbackRule::StealInPlace => Some("fallback = steal-in-place"),
            FallbackRule::ClaimThenSteal => None,
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
    /// ([`Backing::Regions`]), a depot in each region, and bitmaps of free parts of pageblocks ([`Holds::Short`]). Pagesets have lists for
    /// all orders, and keep at most a quarter of a zone.
    fn default() -> Self {
        presets::PAGESET
    }
}

/// A build for a kernel that is to be small: second ways that are only faster are left out.
pub(crate) const SMALL: bool = cfg!(not(feature = "rules"));

/// Whether calls that free many blocks treat those of one kind together.
pub(crate) const BULK: bool = cfg!(feature = "bulk");

// The stores of a small build do not ask whether the zone has them.
const _: () = assert!(!SMALL || presets::PAGESET.backing.depot() && presets::PAGESET.backing.bitmaps());

/// The rules of one allocator: any, or in a small build the default rules. Those are constants, so the code of all other rules disappears.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    #[cfg(feature = "rules")]
    tuning: Tuning,
}

impl Active {
    /// In a small build `Config::check` has refused other rules than the default ones.
    #[cfg_attr(not(feature = "rules"), expect(unused_variables, reason = "these are the default rules"))]
    pub(crate) const fn new(tuning: Tuning) -> Self {
        Active {
            #[cfg(feature = "rules")]
            tuning,
        }
    }
}

impl Deref for Active {
    type Target = Tuning;

    #[inline(always)]
    fn deref(&self) -> &Tuning {
        #[cfg(feature = "rules")]
        return &self.tuning;
        #[cfg(not(feature = "rules"))]
        const {
            &presets::PAGESET
        }
    }
}
