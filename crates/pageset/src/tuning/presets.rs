//! The sets of rules that were in use or proposed, each as its difference from the one before.
//!
//! Specification: eras in section 0, the auto-tuning series in section 4.

use super::{BatchRule, BulkFree, DecayRule, FallbackRule, HighRule, ListRule, Tuning};

/// A named set of rules.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name on a command line.
    pub name: &'static str,
    /// Where it was in use.
    pub about: &'static str,
    /// The rules.
    pub tuning: Tuning,
}

/// E1, to 4.16: fixed small batches, single pages, all under the lock.
pub const LINUX_4_16: Tuning = Tuning {
    batch: BatchRule::FromZone { cap_kib: 512 },
    high: HighRule::SixBatches,
    lists: ListRule::OrderZero,
    bulk_free: BulkFree::PickLocked,
    fallback: FallbackRule::Steal,
    merge_by_type: false,
    type_at_drain: false,
    merge_skip: false,
    scale_drain: false,
    drain_high_order: false,
    reclaim_limit: false,
    prev_high_order: false,
    cache_slice: false,
    scale_cap: false,
    alloc_factor: false,
    auto_high: false,
    below_high: false,
    count_min: false,
    free_count: false,
    high_threshold_616: false,
    decay: DecayRule::Eighth,
    // The kernel's default. Specification 9.
    batch_scale_max: 5,
};

/// E2, 4.17 and 4.18: pages are picked before the lock is taken.
pub const LINUX_4_17: Tuning = Tuning { bulk_free: BulkFree::TwoPass, ..LINUX_4_16 };

/// The RFC of 2018 on top of 4.16 and the two passes that it was written for: its part 2. Specification 6.
pub const MERGE_SKIP: Tuning = Tuning { bulk_free: BulkFree::TwoPass, merge_skip: true, ..LINUX_4_16 };

/// E3, 4.19 to 5.13: the batch is doubled to 63.
pub const LINUX_4_19: Tuning = Tuning { batch: BatchRule::FromZone { cap_kib: 1024 }, ..LINUX_4_17 };

/// E4, 5.14 to 5.17: high from the low watermark, orders 1 to 3 and huge pages cached, drains that grow.
pub const LINUX_5_14: Tuning = Tuning {
    high: HighRule::FromLowWatermark,
    lists: ListRule::HugeShared,
    scale_drain: true,
    reclaim_limit: true,
    ..LINUX_4_19
};

/// E5, 5.18 to 6.6: one pass under the lock, everything drained at a free of orders 1 to 3 after others.
pub const LINUX_5_18: Tuning =
    Tuning { bulk_free: BulkFree::SinglePass, drain_high_order: true, merge_by_type: true, ..LINUX_5_14 };

/// The series of 2023 on top of E5, patch by patch. Specification 4.1 to 4.10.
pub const SERIES_1: Tuning = Tuning { prev_high_order: true, ..LINUX_5_18 };
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
/// Patches 1 to 9 of the first posting; the ninth was never merged.
pub const SERIES_9: Tuning = Tuning { count_min: true, ..SERIES_8 };

/// E6, 6.7 to 6.15: the series as merged.
pub const LINUX_6_7: Tuning = Tuning { free_count: true, ..SERIES_8 };

/// 6.16 and 6.17: claiming before stealing, a higher threshold for high-order draining.
pub const LINUX_6_16: Tuning = Tuning {
    high_threshold_616: true,
    fallback: FallbackRule::ClaimThenSteal,
    type_at_drain: true,
    lists: ListRule::HugeByMobility,
    ..LINUX_6_7
};

/// 6.18: the rules that were checked against recordings of a live machine.
pub const LINUX_6_18: Tuning = LINUX_6_16;

/// E7, 6.19 on: drains let go of the zone lock after each batch.
pub const LINUX_6_19: Tuning = Tuning { bulk_free: BulkFree::Chunked, ..LINUX_6_18 };

/// All presets, oldest first.
pub const PRESETS: &[Preset] = &[
    Preset { name: "linux-4.16", about: "to 4.16: batch 31, high 186, order 0", tuning: LINUX_4_16 },
    Preset { name: "linux-4.17", about: "4.17-4.18: bulk free in two passes", tuning: LINUX_4_17 },
    Preset { name: "merge-skip", about: "4.17 with part 2 of the RFC of 2018: merging put off", tuning: MERGE_SKIP },
    Preset { name: "linux-4.19", about: "4.19-5.13: batch 63, high 378", tuning: LINUX_4_19 },
    Preset {
        name: "linux-5.14",
        about: "5.14-5.17: high from the low watermark, orders 0-3 and 9",
        tuning: LINUX_5_14,
    },
    Preset { name: "linux-5.18", about: "5.18-6.6: single-pass bulk free", tuning: LINUX_5_18 },
    Preset { name: "series-1", about: "5.18 with patch 1: two high-order frees before a drain", tuning: SERIES_1 },
    Preset { name: "series-3", about: "and patch 3: cache slice", tuning: SERIES_3 },
    Preset { name: "series-4", about: "and patch 4: batch scale capped", tuning: SERIES_4 },
    Preset { name: "series-5", about: "and patch 5: refills that grow", tuning: SERIES_5 },
    Preset { name: "series-7", about: "and patch 7: high tunes itself", tuning: SERIES_7 },
    Preset { name: "series-8", about: "and patch 8: shrinks below the high watermark", tuning: SERIES_8 },
    Preset { name: "series-9", about: "and patch 9, never merged: decay by what stayed unused", tuning: SERIES_9 },
    Preset {
        name: "linux-6.7",
        about: "6.7-6.9, and with other lists to 6.15: the series as merged",
        tuning: LINUX_6_7,
    },
    Preset { name: "linux-6.16", about: "6.16-6.17: higher threshold for high-order drains", tuning: LINUX_6_16 },
    Preset { name: "linux-6.18", about: "6.18: as 6.16", tuning: LINUX_6_18 },
    Preset { name: "linux-6.19", about: "6.19 on: drains in chunks of a batch", tuning: LINUX_6_19 },
];

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|p| p.name == name)
    }
}
