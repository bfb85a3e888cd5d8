//! The rules of kernels before 6.15, and the RFCs of 2018 and 2026: the feature `research` compiles them in.

use super::{LINUX_6_15, LINUX_6_19, Preset, preset};
use crate::policy::{
    Backing, BatchRule, BulkFree, ClaimRule, ClusterRule, DecayRule, FallbackRule, HighAtomicRule, HighRule, ListRule,
    OwnerRule, Tuning,
};

const fn merge_skip(clusters: ClusterRule) -> Backing {
    Backing::MergeSkip { bulk_free: BulkFree::TwoPass, clusters }
}

/// On top of 6.19, whose drains release the zone lock after each batch.
const fn claims(blocks: ClaimRule) -> Backing {
    Backing::Claims { chunked: true, blocks }
}

/// E1, to 4.16: fixed small batches, single pages, all under the lock.
pub const LINUX_4_16: Tuning = Tuning {
    batch: BatchRule::FromZone { cap_kib: 512 },
    high: HighRule::SixBatches,
    lists: ListRule::OrderZero,
    backing: Backing::Kernel(BulkFree::PickLocked),
    fallback: FallbackRule::Steal,
    fallback_tail: false,
    no_fragment: false,
    highatomic: HighAtomicRule::Reserved,
    merge_by_type: false,
    type_at_drain: false,
    scale_drain: false,
    drain_high_order: false,
    reclaim_limit: false,
    prev_high_order: false,
    cache_slice: false,
    scale_cap: false,
    alloc_factor: false,
    auto_high: false,
    below_high: false,
    free_count: false,
    ..LINUX_6_15
};

/// E2, 4.17 and 4.18: pages are picked before the lock is taken.
pub const LINUX_4_17: Tuning = Tuning { backing: Backing::Kernel(BulkFree::TwoPass), ..LINUX_4_16 };

/// The RFC of 2018, part 2, on top of 4.16 with the two-pass drain that it was written for. Specification 6.
pub const MERGE_SKIP: Tuning = Tuning { backing: merge_skip(ClusterRule::Off), ..LINUX_4_16 };

/// The RFC of 2018, parts 2 and 3.
pub const CLUSTERS: Tuning = Tuning { backing: merge_skip(ClusterRule::Refills), ..MERGE_SKIP };
/// The RFC of 2018, parts 2 to 4.
pub const CLUSTERS_FREE: Tuning = Tuning { backing: merge_skip(ClusterRule::RefillsAndDrains), ..MERGE_SKIP };

/// E3, 4.19 and 4.20: the batch is doubled to 63.
pub const LINUX_4_19: Tuning = Tuning { batch: BatchRule::FromZone { cap_kib: 1024 }, ..LINUX_4_17 };

/// 5.0 to 5.8, of E3: requests use another zone before they mix types.
pub const LINUX_5_0: Tuning = Tuning { no_fragment: true, ..LINUX_4_19 };

/// 5.9, of E3: movable pages that may not come from CMA pageblocks bypass the pageset.
pub const LINUX_5_9: Tuning = Tuning { cma_skip: true, ..LINUX_5_0 };

/// 5.10 to 5.13, the rest of E3: blocks that change their type go to the tail of their lists.
pub const LINUX_5_10: Tuning = Tuning { fallback_tail: true, ..LINUX_5_9 };

/// E4, 5.14 to 5.17: high from the low watermark, orders 1 to 3 and huge pages cached, drains that grow.
pub const LINUX_5_14: Tuning = Tuning {
    high: HighRule::FromLowWatermark,
    lists: ListRule::HugeByType,
    scale_drain: true,
    reclaim_limit: true,
    ..LINUX_5_10
};

/// E5, 5.18 and 5.19: one pass under the lock; consecutive frees of orders 1 to 3 drain everything.
pub const LINUX_5_18: Tuning =
    Tuning { backing: Backing::Kernel(BulkFree::SinglePass), drain_high_order: true, ..LINUX_5_14 };

/// 6.0 to 6.6, of E5: all huge pages share one list. Stable series: to 6.1.96 and 6.6.36.
pub const LINUX_6_0: Tuning = Tuning { lists: ListRule::HugeShared, ..LINUX_5_18 };

/// 6.1.97 to 6.1.103 and 6.6.37 on: movable huge pages have a list of their own. `kernels-2026.md` 2.3.
pub const LINUX_6_1_97: Tuning = Tuning { lists: ListRule::HugeByMobility, ..LINUX_6_0 };

/// 6.1.104 on: patch 4 of the series alone. `kernels-2026.md` 3.1 and 3.2, proved on recordings of 6.1.192.
pub const LINUX_6_1_104: Tuning = Tuning { scale_cap: true, ..LINUX_6_1_97 };

/// The series of 2023 on top of E5, patch by patch, each as it was merged. Specification 4.1 to 4.10.
pub const SERIES_1: Tuning = Tuning { prev_high_order: true, cma_skip: false, ..LINUX_6_0 };
/// Patches 1 to 3.
pub const SERIES_3: Tuning = Tuning { cache_slice: true, ..SERIES_1 };
/// Patches 1 to 4.
pub const SERIES_4: Tuning = Tuning { scale_cap: true, ..SERIES_3 };
/// Patches 1 to 5.
pub const SERIES_5: Tuning = Tuning { alloc_factor: true, ..SERIES_4 };
/// Patches 1 to 7.
pub const SERIES_7: Tuning = Tuning { auto_high: true, ..SERIES_5 };
/// Patches 1 to 8.
pub const SERIES_8: Tuning = Tuning { below_high: true, ..SERIES_7 };
/// Patches 1 to 8, and patch 9 of the first posting with the decay by a fifth that it bounds. Patch 9 was never merged.
/// Specification 10.4, row "+9".
pub const SERIES_9: Tuning = Tuning { count_min: true, decay: DecayRule::Fifth, ..SERIES_8 };

/// Patches 1 to 3 of the first posting: a large share of the cache holds four batches. The posting counts the caches of
/// all levels, the merged form only the last level; the machine description provides that number.
pub const POSTED_3: Tuning = Tuning { cache_slice: true, cache_slice_batches: 4, ..SERIES_1 };
/// Patches 1 to 5 of the first posting.
pub const POSTED_5: Tuning = Tuning { scale_cap: true, alloc_factor: true, ..POSTED_3 };
/// Patches 1 to 7 of the first posting: high decays by a fifth.
pub const POSTED_7: Tuning = Tuning { auto_high: true, decay: DecayRule::Fifth, ..POSTED_5 };
/// Patches 1 to 9 of the first posting.
pub const POSTED_9: Tuning = Tuning { below_high: true, count_min: true, ..POSTED_7 };
/// All ten patches of the first posting: the published tables measure this form.
pub const POSTED_10: Tuning = Tuning { free_count: true, shrink_by_count: true, ..POSTED_9 };

/// E6, 6.7 to 6.9: the series as merged.
pub const LINUX_6_7: Tuning = Tuning { free_count: true, ..SERIES_8 };

/// 6.9.8 on: movable huge pages have a list of their own.
pub const LINUX_6_9_8: Tuning = Tuning { lists: ListRule::HugeByMobility, ..LINUX_6_7 };

/// 6.10: lists and pageblocks agree on a page's type, also after a merge.
pub const LINUX_6_10: Tuning =
    Tuning { type_at_drain: true, fallback: FallbackRule::StealInPlace, merge_by_type: true, ..LINUX_6_9_8 };

/// 6.11: as 6.10.
pub const LINUX_6_11: Tuning = LINUX_6_10;

/// 6.12 to 6.14: reserved HIGHATOMIC pageblocks count by their free pages. `kernels-2026.md` 2.1.
pub const LINUX_6_12: Tuning = Tuning { highatomic: HighAtomicRule::Free, ..LINUX_6_11 };

/// What the review of the RFC of 2026 asked to try first, on top of 6.19: a drain merges the blocks of its pageset before it takes the
/// zone lock. Pagesets keep all orders, so that there is a list for what merges. `frontier.md` 1.7.
pub const PCP_MERGE: Tuning = Tuning { lists: ListRule::AllOrders, backing: claims(ClaimRule::Merge), ..LINUX_6_19 };
/// The RFC of April 2026 without owners, on top of 6.19: pageblocks are claimed whole and split in the pageset.
pub const PCP_CLAIM: Tuning = Tuning { backing: claims(ClaimRule::ClaimAndMerge(OwnerRule::Off)), ..PCP_MERGE };
/// The RFC of 3 April 2026: pageblocks have owners, and a free waits for the owner's pageset. `frontier.md` 1.9.
pub const PCP_BUDDY: Tuning = Tuning { backing: claims(ClaimRule::ClaimAndMerge(OwnerRule::Wait)), ..PCP_MERGE };
/// The RFC of 30 April 2026: a block whose owner is busy goes to the zone.
pub const PCP_BUDDY_TRY: Tuning = Tuning { backing: claims(ClaimRule::ClaimAndMerge(OwnerRule::Try)), ..PCP_MERGE };
/// The RFC of 20 May 2026: blocks are left on a list of their owner.
pub const PCP_BUDDY_LIST: Tuning = Tuning { backing: claims(ClaimRule::ClaimAndMerge(OwnerRule::List)), ..PCP_MERGE };

/// The presets before 6.12.29.
pub(super) const EARLIER: &[Preset] = &[
    preset("linux-4.16", "to 4.16: batch 31, high 186, order 0", LINUX_4_16),
    preset("linux-4.17", "4.17-4.18: bulk free in two passes", LINUX_4_17),
    preset("merge-skip", "4.17 with part 2 of the RFC of 2018: merging put off", MERGE_SKIP),
    preset("clusters", "and part 3: clusters taken whole", CLUSTERS),
    preset("clusters-free", "and part 4: batches given as clusters", CLUSTERS_FREE),
    preset("linux-4.19", "4.19-4.20: batch 63, high 378", LINUX_4_19),
    preset("linux-5.0", "5.0-5.8: a lower zone serves before types mix", LINUX_5_0),
    preset("linux-5.9", "5.9: with CMA, some movable pages pass the lists by", LINUX_5_9),
    preset("linux-5.10", "5.10-5.13: stolen blocks go to the tails of lists", LINUX_5_10),
    preset("linux-5.14", "5.14-5.17: high from the low watermark, orders 0-3 and 9", LINUX_5_14),
    preset("linux-5.18", "5.18-5.19: single-pass bulk free", LINUX_5_18),
    preset("linux-6.0", "6.0-6.1.96, 6.2-6.6.36: huge pages share one list", LINUX_6_0),
    preset("linux-6.1.97", "6.1.97-6.1.103: movable huge pages apart", LINUX_6_1_97),
    preset("linux-6.1.104", "6.1.104 on: batch scale capped", LINUX_6_1_104),
    preset("linux-6.6.37", "6.6.37 on: as 6.1.97", LINUX_6_1_97),
    preset("series-1", "6.0 with patch 1: two high-order frees before a drain", SERIES_1),
    preset("series-3", "and patch 3: cache slice", SERIES_3),
    preset("series-4", "and patch 4: batch scale capped", SERIES_4),
    preset("series-5", "and patch 5: refills that grow", SERIES_5),
    preset("series-7", "and patch 7: high tunes itself", SERIES_7),
    preset("series-8", "and patch 8: shrinks below the high watermark", SERIES_8),
    preset("series-9", "and patch 9, never merged: decay by what stayed unused", SERIES_9),
    preset("posted-3", "patches 1 to 3 as first posted", POSTED_3),
    preset("posted-5", "patches 1 to 5 as first posted", POSTED_5),
    preset("posted-7", "patches 1 to 7 as first posted", POSTED_7),
    preset("posted-9", "patches 1 to 9 as first posted", POSTED_9),
    preset("posted-10", "all ten patches as first posted", POSTED_10),
    preset("linux-6.7", "6.7-6.9.7: the series as merged", LINUX_6_7),
    preset("linux-6.9.8", "6.9.8 on: movable huge pages apart", LINUX_6_9_8),
    preset("linux-6.6-tuned", "6.6 with the series of 6.7, as two distributions have it", LINUX_6_9_8),
    preset("linux-6.10", "6.10: lists and pageblocks agree on types", LINUX_6_10),
    preset("linux-6.11", "6.11: as 6.10", LINUX_6_11),
    preset("linux-6.12.0", "6.12-6.12.28, 6.13-6.14: free highatomic blocks count", LINUX_6_12),
];

/// The presets of the RFC of 2026.
pub(super) const CLAIMS: &[Preset] = &[
    preset("pcp-merge", "6.19, and drains merge in the pageset (review of the RFC of 2026)", PCP_MERGE),
    preset("pcp-claim", "and refills claim whole pageblocks (RFC of 2026)", PCP_CLAIM),
    preset("pcp-buddy", "and pageblocks have owners: frees wait (3 April)", PCP_BUDDY),
    preset("pcp-buddy-try", "the same: frees try, else the zone (30 April)", PCP_BUDDY_TRY),
    preset("pcp-buddy-list", "the same: frees leave a list (20 May)", PCP_BUDDY_LIST),
];
