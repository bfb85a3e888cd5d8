//! The layout of a zone: what lies behind its pagesets, in how many regions, and how long a lock is held.

use super::TuningError;
use crate::frame::Order;

/// How a drain of a kernel moves pages to the free lists. Specification 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkFree {
    /// Round robin over the lists. Blocks are picked with the zone lock held (to 4.16). Needs the feature `research`.
    PickLocked,
    /// Round robin. A first pass picks the blocks, a second pass frees them under the lock (4.17 to 5.17). Needs the feature `research`.
    TwoPass,
    /// One pass under the lock, whole lists, the freed page's list first (5.18 on).
    SinglePass,
    /// As `SinglePass`, one batch per hold of the two locks, of pageset and zone (6.19 on).
    Chunked,
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
    fn order(self, pages: u64, cpus: u32) -> u32 {
        let regions = match self {
            Self::One => 1,
            Self::PerCpu => u64::from(cpus).min(pages / Self::SMALLEST),
            Self::Fixed(regions) => regions.into(),
        };
        if regions <= 1 { u32::BITS } else { (pages / regions).max(Order::MAX.pages()).ilog2() }
    }
}

/// How a drain moves pages to regions, and what may take them before the free lists. Not kernel rules, except for one region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// As [`BulkFree::SinglePass`]: a refill or a drain holds a region's lock for all that it moves.
    SinglePass,
    /// As [`BulkFree::Chunked`]: a drain moves one batch per hold.
    Chunked,
    /// At most 512 blocks per hold of the region's lock, in drains and refills; the pageset's lock is held throughout.
    Short {
        /// Whether a free that drains leaves batches of blocks below the order of a pageblock, as they are, in a depot of their region,
        /// for the next refills: at most 32 batches of 62 blocks, two of the largest drains, a 32nd of the region, and, beyond two
        /// batches, twice what refills took lately. Pages that no refill needed go back at the tick, and all where memory is short. In
        /// the kernels each block goes through the free lists. `frontier.md` 5.
        depot: bool,
        /// Whether a free that drains marks blocks smaller than a pageblock as free in a bitmap of their pageblock, without a lock, and
        /// refills take them from there. Needs [`type_at_drain`](super::Tuning::type_at_drain). A pageblock goes to the free lists when
        /// all of it is free. A part goes there where memory is short, at a drain of all CPUs, at a tick since the last of which no refill
        /// took any, for a compaction, when its pageblock is claimed or changes its type, and for [`crate::Allocator::alloc_at`]. In the
        /// kernels each block goes through the free lists. `frontier.md` 5.
        bitmaps: bool,
    },
}

/// Which single pages are clusters, where their merging is put off (RFC of 2018, parts 3 and 4). Specification 6.2, 6.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterRule {
    /// None.
    Off,
    /// Refills take single pages in whole clusters, cut off the free list without touching each page (part 3). Gain: refills hold the
    /// zone lock for less time. Loss: 4 bytes of metadata per page and some work at each free.
    Refills,
    /// And a drain of one full batch of movable pages is freed as one cluster (part 4). Recovers the cost of clusters at frees.
    RefillsAndDrains,
}

/// What pagesets do with blocks that kernels leave to the free lists (RFC of April 2026, and its review).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimRule {
    /// A drain first merges the blocks of its pageset, and then moves the largest ones. Gain: less work with the zone lock held. Loss: a
    /// pass over the pageset for each drain. `frontier.md` 1.4, 1.7.
    Merge,
    /// Refills take whole pageblocks, then the largest blocks that there are, and allocations split the blocks of a pageset. Gain: fewer
    /// blocks for each hold of the zone lock, split outside of it. Loss: CPUs hold more pages. `frontier.md` 1.3.
    Claim(OwnerRule),
    /// Both.
    ClaimAndMerge(OwnerRule),
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

/// What lies behind the pagesets of a zone: the free lists, in how many regions, what hides pages from them, and how long refills and
/// drains hold a lock. If unsure, use that of [`Tuning::default`](super::Tuning::default).
///
/// The last two variants need the feature `research`. They exist without it, and [`Tuning::check`](super::Tuning::check) refuses them: a
/// variant that a feature adds would break the `match` of a crate that another crate turns the feature on for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// The free lists of one region, as in the kernels.
    Kernel(BulkFree),
    /// Regions with free lists of their own. [`RegionRule::One`] needs [`Holds::Short`]: one region with other holds is [`Self::Kernel`], and
    /// [`Tuning::check`](super::Tuning::check) refuses this second name of it.
    Regions {
        /// How many.
        count: RegionRule,
        /// How drains move pages to them.
        holds: Holds,
    },
    /// One region, whose single pages are freed without merging until a request above order 0 finds no block (RFC of 2018, part 2). Gain:
    /// frees hold the zone lock for less time. Loss: high orders come later and cost more. Specification 6.1.
    MergeSkip {
        /// How a drain moves pages.
        bulk_free: BulkFree,
        /// Which pages are clusters.
        clusters: ClusterRule,
    },
    /// One region, whose pagesets claim and merge blocks (RFC of April 2026). Needs lists of all orders
    /// ([`ListRule::AllOrders`](super::ListRule::AllOrders)) and [`type_at_drain`](super::Tuning::type_at_drain).
    Claims {
        /// Whether a drain moves one batch per hold, as [`BulkFree::Chunked`]; else all at once, as [`BulkFree::SinglePass`].
        chunked: bool,
        /// What they do.
        blocks: ClaimRule,
    },
}

impl Backing {
    /// Blocks that one hold of a refill takes under [`Holds::Short`]. 512: a few microseconds. A guess.
    pub const REFILL_BLOCKS: u32 = 512;

    /// The same rules in another number of regions; those that need the feature `research` have one region, and `count` is ignored.
    #[must_use]
    pub const fn with_regions(self, count: RegionRule) -> Backing {
        match (self, count) {
            (Self::Regions { holds: Holds::SinglePass, .. }, RegionRule::One) => Self::Kernel(BulkFree::SinglePass),
            (Self::Regions { holds: Holds::Chunked, .. }, RegionRule::One) => Self::Kernel(BulkFree::Chunked),
            (Self::Regions { holds, .. }, _) => Self::Regions { count, holds },
            (Self::Kernel(_), RegionRule::One) => self,
            (Self::Kernel(BulkFree::SinglePass), _) => Self::Regions { count, holds: Holds::SinglePass },
            (Self::Kernel(BulkFree::Chunked), _) => Self::Regions { count, holds: Holds::Chunked },
            (Self::Kernel(_) | Self::MergeSkip { .. } | Self::Claims { .. }, _) => self,
        }
    }

    /// The same regions with these stores before their free lists, and short holds; a research rule is dropped, and its one region stays.
    #[must_use]
    pub const fn with_stores(self, depot: bool, bitmaps: bool) -> Backing {
        Self::Regions { count: self.regions(), holds: Holds::Short { depot, bitmaps } }
    }

    /// How many regions a zone has.
    #[must_use]
    pub const fn regions(&self) -> RegionRule {
        match *self {
            Self::Regions { count, .. } => count,
            Self::Kernel(_) | Self::MergeSkip { .. } | Self::Claims { .. } => RegionRule::One,
        }
    }

    /// The pages of a region, as a power of two, for a zone of `pages` pages that `cpus` CPUs share.
    ///
    /// # Errors
    /// The count that was set, if the zone has fewer blocks of the largest order.
    pub(crate) fn region_order(&self, pages: u64, cpus: u32) -> Result<u32, u32> {
        match self.regions() {
            RegionRule::Fixed(given) if u64::from(given) > pages / Order::MAX.pages() => Err(given),
            rule => Ok(rule.order(pages, cpus)),
        }
    }

    /// How a drain moves pages, if it does so as a kernel; `None` for [`Holds::Short`].
    #[inline(always)]
    #[must_use]
    pub const fn bulk_free(&self) -> Option<BulkFree> {
        match *self {
            Self::Kernel(bulk_free) | Self::MergeSkip { bulk_free, .. } => Some(bulk_free),
            Self::Regions { holds: Holds::Chunked, .. } | Self::Claims { chunked: true, .. } => Some(BulkFree::Chunked),
            Self::Regions { holds: Holds::SinglePass, .. } | Self::Claims { .. } => Some(BulkFree::SinglePass),
            Self::Regions { holds: Holds::Short { .. }, .. } => None,
        }
    }

    /// Whether refills and drains hold a region's lock for a bounded number of blocks: [`Holds::Short`].
    #[inline(always)]
    #[must_use]
    pub const fn has_short_holds(&self) -> bool {
        matches!(self, Self::Regions { holds: Holds::Short { .. }, .. })
    }

    /// Blocks that one hold of a refill takes.
    #[inline(always)]
    pub(crate) const fn refill_blocks(&self) -> u32 {
        if self.has_short_holds() { Self::REFILL_BLOCKS } else { u32::MAX }
    }

    /// How many of the due pages are done after a hold that was to drain `chunk` of them and drained some.
    pub(crate) const fn done(&self, drained: u32, chunk: u32, due: u32) -> u32 {
        match drained {
            // Nothing is left that could be drained.
            0 if self.has_short_holds() => due,
            _ if self.has_short_holds() || self.merges_in_pageset() && drained > chunk => drained,
            _ => chunk,
        }
    }

    /// Whether drains leave batches of blocks in depots.
    #[inline(always)]
    #[must_use]
    pub const fn depot(&self) -> bool {
        matches!(self, Self::Regions { holds: Holds::Short { depot: true, .. }, .. })
    }

    /// Whether drains mark blocks as free in bitmaps of their pageblocks.
    #[inline(always)]
    #[must_use]
    pub const fn bitmaps(&self) -> bool {
        matches!(self, Self::Regions { holds: Holds::Short { bitmaps: true, .. }, .. })
    }

    /// Whether the merging of freed single pages is put off.
    #[inline(always)]
    #[must_use]
    pub const fn skips_merges(&self) -> bool {
        cfg!(feature = "research") && matches!(self, Self::MergeSkip { .. })
    }

    /// Which single pages are clusters.
    #[inline(always)]
    #[must_use]
    pub const fn clusters(&self) -> ClusterRule {
        match *self {
            Self::MergeSkip { clusters, .. } if cfg!(feature = "research") => clusters,
            _ => ClusterRule::Off,
        }
    }

    /// Whether refills take single pages in clusters.
    #[inline(always)]
    #[must_use]
    pub const fn has_clusters(&self) -> bool {
        !matches!(self.clusters(), ClusterRule::Off)
    }

    /// Whether refills claim whole pageblocks.
    #[inline(always)]
    #[must_use]
    pub const fn claims(&self) -> bool {
        let claims = matches!(self, Self::Claims { blocks: ClaimRule::Claim(_) | ClaimRule::ClaimAndMerge(_), .. });
        cfg!(feature = "research") && claims
    }

    /// How frees reach the owners of pageblocks.
    #[inline(always)]
    #[must_use]
    pub const fn owners(&self) -> OwnerRule {
        match *self {
            Self::Claims { blocks: ClaimRule::Claim(owners) | ClaimRule::ClaimAndMerge(owners), .. }
                if cfg!(feature = "research") =>
            {
                owners
            }
            _ => OwnerRule::Off,
        }
    }

    /// Whether pageblocks have owners.
    #[inline(always)]
    #[must_use]
    pub const fn has_owners(&self) -> bool {
        !matches!(self.owners(), OwnerRule::Off)
    }

    /// Whether drains merge the blocks of a pageset.
    #[inline(always)]
    #[must_use]
    pub const fn merges_in_pageset(&self) -> bool {
        let merges = matches!(self, Self::Claims { blocks: ClaimRule::Merge | ClaimRule::ClaimAndMerge(_), .. });
        cfg!(feature = "research") && merges
    }

    /// The rule that needs the feature `research`, if one does.
    pub(super) const fn research_rule(&self) -> Option<&'static str> {
        match self {
            Self::Kernel(BulkFree::PickLocked) => Some("bulk_free = pick-locked"),
            Self::Kernel(BulkFree::TwoPass) => Some("bulk_free = two-pass"),
            Self::MergeSkip { .. } => Some("merge_skip"),
            Self::Claims { blocks: ClaimRule::Merge, .. } => Some("merge_blocks"),
            Self::Claims { .. } => Some("claim_blocks"),
            Self::Kernel(_) | Self::Regions { .. } => None,
        }
    }

    /// Whether the count of regions is in its range, and no other variant is the same.
    pub(super) const fn check(&self) -> Result<(), TuningError> {
        match *self {
            Self::Regions { count: RegionRule::Fixed(0), .. } => {
                super::out_of_range("regions", 0, "1 to the number of blocks of the largest order in a zone")
            }
            Self::Regions { count: RegionRule::One, holds: Holds::SinglePass | Holds::Chunked } => {
                Err(TuningError::Needs {
                    rule: "Backing::Regions { count: One }",
                    needs: "Holds::Short (Backing::Kernel is one region with other holds)",
                })
            }
            _ => Ok(()),
        }
    }
}
