//! The sets of rules that were in use or proposed, each as a difference from an earlier one.
//!
//! Specification: eras in section 0, the auto-tuning series in section 4.

use super::{
    BatchRule, BulkFree, DecayRule, FallbackRule, HighAtomicRule, HighRule, ListRule, OwnerRule, RegionRule, Tuning,
};

/// A named set of rules.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name on a command line.
    pub name: &'static str,
    /// Where the rules were in use.
    pub about: &'static str,
    /// The rules.
    pub tuning: Tuning,
}

/// E1, to 4.16: fixed small batches, single pages, all under the lock.
pub const LINUX_4_16: Tuning = Tuning {
    batch: BatchRule::FromZone { cap_kib: 512 },
    high: HighRule::SixBatches,
    lists: ListRule::OrderZero,
    regions: RegionRule::One,
    bulk_free: BulkFree::PickLocked,
    fallback: FallbackRule::Steal,
    fallback_tail: false,
    cma_skip: false,
    no_fragment: false,
    highatomic: HighAtomicRule::Reserved,
    merge_by_type: false,
    type_at_drain: false,
    merge_skip: false,
    clusters: false,
    cluster_free: false,
    scale_drain: false,
    drain_high_order: false,
    reclaim_limit: false,
    prev_high_order: false,
    cache_slice: false,
    // As merged. Specification 4.3.
    cache_slice_batches: 3,
    scale_cap: false,
    alloc_factor: false,
    auto_high: false,
    below_high: false,
    count_min: false,
    free_count: false,
    shrink_by_count: false,
    high_threshold_616: false,
    below_high_by_pages: false,
    below_high_at_tick: false,
    expire_all: false,
    bulk_counts: false,
    long_runs: false,
    double_blocks: false,
    batch_blocks: 0,
    high_share: 0,
    whole_blocks: false,
    depot: false,
    bitmaps: false,
    drain_for_requests: false,
    claim_blocks: false,
    owners: OwnerRule::Off,
    merge_blocks: false,
    decay: DecayRule::Eighth,
    // The kernel's default. Specification 9.
    batch_scale_max: 5,
    // No further limit.
    block_scale_max: 6,
    kept_fraction: 0,
};

/// E2, 4.17 and 4.18: pages are picked before the lock is taken.
pub const LINUX_4_17: Tuning = Tuning { bulk_free: BulkFree::TwoPass, ..LINUX_4_16 };

/// The RFC of 2018, part 2, on top of 4.16 with the two-pass drain that it was written for. Specification 6.
pub const MERGE_SKIP: Tuning = Tuning { bulk_free: BulkFree::TwoPass, merge_skip: true, ..LINUX_4_16 };

/// The RFC of 2018, parts 2 and 3.
pub const CLUSTERS: Tuning = Tuning { clusters: true, ..MERGE_SKIP };
/// The RFC of 2018, parts 2 to 4.
pub const CLUSTERS_FREE: Tuning = Tuning { cluster_free: true, ..CLUSTERS };

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
pub const LINUX_5_18: Tuning = Tuning { bulk_free: BulkFree::SinglePass, drain_high_order: true, ..LINUX_5_14 };

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

/// 6.15, and 6.12.29 on: claiming before stealing.
pub const LINUX_6_15: Tuning = Tuning { fallback: FallbackRule::ClaimThenSteal, ..LINUX_6_12 };

/// 6.16 and 6.17: a higher threshold for high-order draining.
pub const LINUX_6_16: Tuning = Tuning { high_threshold_616: true, ..LINUX_6_15 };

/// 6.18: the rules that were checked against recordings of a live machine.
pub const LINUX_6_18: Tuning = LINUX_6_16;

/// E7, 6.19 on: drains release the zone lock after each batch.
pub const LINUX_6_19: Tuning = Tuning { bulk_free: BulkFree::Chunked, ..LINUX_6_18 };

/// What the review of the RFC of 2026 asked to try first, on top of 6.19: a drain merges the blocks of its pageset before it takes the
/// zone lock. Pagesets keep all orders, so that there is a list for what merges. `frontier.md` 1.7.
pub const PCP_MERGE: Tuning = Tuning { lists: ListRule::AllOrders, merge_blocks: true, ..LINUX_6_19 };
/// The RFC of April 2026 without owners, on top of 6.19: pageblocks are claimed whole and split in the pageset.
pub const PCP_CLAIM: Tuning = Tuning { claim_blocks: true, ..PCP_MERGE };
/// The RFC of 3 April 2026: pageblocks have owners, and a free waits for the owner's pageset. `frontier.md` 1.9.
pub const PCP_BUDDY: Tuning = Tuning { owners: OwnerRule::Wait, ..PCP_CLAIM };
/// The RFC of 30 April 2026: a block whose owner is busy goes to the zone.
pub const PCP_BUDDY_TRY: Tuning = Tuning { owners: OwnerRule::Try, ..PCP_CLAIM };
/// The RFC of 20 May 2026: blocks are left on a list of their owner.
pub const PCP_BUDDY_LIST: Tuning = Tuning { owners: OwnerRule::List, ..PCP_CLAIM };

/// This project's own: 6.18 without four of its defects; with regions, depots and bitmaps, lists for all orders, short holds of the
/// regions' locks, long ones of a pageset's own for bulk frees, and whole blocks.
pub const PAGESET: Tuning = Tuning {
    regions: RegionRule::PerCpu,
    lists: ListRule::AllOrders,
    bulk_free: BulkFree::ShortHolds,
    double_blocks: true,
    batch_blocks: 16,
    high_share: 3,
    cache_slice_batches: 0,
    below_high_by_pages: true,
    below_high_at_tick: true,
    expire_all: true,
    bulk_counts: true,
    long_runs: true,
    whole_blocks: true,
    depot: true,
    bitmaps: true,
    drain_for_requests: true,
    batch_scale_max: 3,
    block_scale_max: 2,
    kept_fraction: 4,
    ..LINUX_6_18
};

/// [`PAGESET`], with the free parts of pageblocks on lists.
pub const PAGESET_LISTS: Tuning = Tuning { bitmaps: false, ..PAGESET };

const fn preset(name: &'static str, about: &'static str, tuning: Tuning) -> Preset {
    Preset { name, about, tuning }
}

/// All presets, oldest first. `linux-A.B` and `linux-A.B.0` name the first release with these rules. `linux-A.B.C`
/// names the first update of the stable series A.B with these rules; it does not apply to other series.
pub const PRESETS: &[Preset] = &[
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
    preset("linux-6.10", "6.10: lists and pageblocks agree on types", LINUX_6_10),
    preset("linux-6.11", "6.11: as 6.10", LINUX_6_11),
    preset("linux-6.12.0", "6.12-6.12.28, 6.13-6.14: free highatomic blocks count", LINUX_6_12),
    preset("linux-6.12.29", "6.12.29 on: as 6.15", LINUX_6_15),
    preset("linux-6.15", "6.15: pageblocks are claimed before blocks are stolen", LINUX_6_15),
    preset("linux-6.16", "6.16-6.17: higher threshold for high-order drains", LINUX_6_16),
    preset("linux-6.18", "6.18: as 6.16", LINUX_6_18),
    preset("linux-6.19", "6.19 on: drains in chunks of a batch", LINUX_6_19),
    preset("pcp-merge", "6.19, and drains merge in the pageset (review of the RFC of 2026)", PCP_MERGE),
    preset("pcp-claim", "and refills claim whole pageblocks (RFC of 2026)", PCP_CLAIM),
    preset("pcp-buddy", "and pageblocks have owners: frees wait (3 April)", PCP_BUDDY),
    preset("pcp-buddy-try", "the same: frees try, else the zone (30 April)", PCP_BUDDY_TRY),
    preset("pcp-buddy-list", "the same: frees leave a list (20 May)", PCP_BUDDY_LIST),
    preset("pageset", "this project's default: 6.18 without four of its defects", PAGESET),
    preset("pageset-lists", "the same, with the free parts of pageblocks on lists, not in bitmaps", PAGESET_LISTS),
];

/// The series of kernels whose rules are known, and the newest minor number of each. A series before 4.0 is not: nobody
/// compared its rules with those of 4.16.
pub const KNOWN_SERIES: [(u32, u32); 4] = [(4, 20), (5, 19), (6, 19), (7, 3)];

/// A kernel release, such as 6.1.192.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The update of the stable series; `None` for the newest.
    pub update: Option<u32>,
}

impl Release {
    /// The newest update of a series.
    #[must_use]
    pub const fn newest(major: u32, minor: u32) -> Self {
        Release { major, minor, update: None }
    }

    /// One update of a series.
    #[must_use]
    pub const fn update(major: u32, minor: u32, update: u32) -> Self {
        Release { major, minor, update: Some(update) }
    }

    /// Parses `A.B` or `A.B.C` at the start of a text. The next character must not be a digit or a point.
    #[must_use]
    pub fn parse(text: &str) -> Option<Release> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut numbers = text.get(..end)?.split('.').map(|number| number.parse::<u32>().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        let update = match numbers.next() {
            None => None,
            Some(update) => Some(update?),
        };
        Some(Release { major, minor, update })
    }
}

impl Preset {
    /// The preset of this name. For any other name `linux-A.B` or `linux-A.B.C`, the preset of that release; without an update `C`
    /// the newest: `linux-6.12` is `linux-6.12.29`, not `linux-6.12.0`. `None` for a release that does not exist or
    /// whose rules nobody has compared: before 4.0, and after the last of [`KNOWN_SERIES`].
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Preset> {
        let exact = || PRESETS.iter().find(|p| p.name == name);
        let release = name.strip_prefix("linux-").and_then(|number| Some((Release::parse(number)?, number)));
        let of_release = release.filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        let is_known = |release: &Release| {
            KNOWN_SERIES.iter().any(|&(major, newest)| release.major == major && release.minor <= newest)
        };
        let of_release = of_release.filter(|(release, _)| is_known(release));
        exact().or_else(|| of_release.map(|(release, _)| Self::of_release(release)))
    }

    /// The rules of a kernel release: those of its stable series if they are known to differ by this update, else those
    /// of the mainline. For kernels before 4.16 and future ones, the nearest known preset.
    #[must_use]
    pub fn of_release(release: Release) -> &'static Preset {
        let is_of = |preset: &&Preset| {
            preset.first_release().is_some_and(|since| match since.update {
                None | Some(0) => (since.major, since.minor) <= (release.major, release.minor),
                Some(update) => {
                    (since.major, since.minor) == (release.major, release.minor)
                        && release.update.is_none_or(|recorded| recorded >= update)
                }
            })
        };
        PRESETS.iter().rev().find(is_of).unwrap_or(&PRESETS[0])
    }

    /// The release in the preset's name.
    fn first_release(&self) -> Option<Release> {
        Release::parse(self.name.strip_prefix("linux-")?)
    }
}

#[cfg(test)]
#[path = "presets_tests.rs"]
mod tests;
