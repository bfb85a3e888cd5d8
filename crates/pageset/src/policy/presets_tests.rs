//! Which releases have which rules. Each row is a statement of the specification.

extern crate std;

use std::format;

use super::super::sizes::ZoneSize;
use super::*;
use crate::frame::{MigrateType, Order};

/// Every release whose rules the specification distinguishes, and some between, before and after.
const RELEASES: &[(u32, u32)] = &[
    (3, 10),
    (4, 15),
    (4, 16),
    (4, 17),
    (4, 18),
    (4, 19),
    (4, 20),
    (5, 0),
    (5, 4),
    (5, 8),
    (5, 9),
    (5, 10),
    (5, 13),
    (5, 14),
    (5, 15),
    (5, 17),
    (5, 18),
    (5, 19),
    (6, 0),
    (6, 1),
    (6, 6),
    (6, 7),
    (6, 8),
    (6, 9),
    (6, 10),
    (6, 11),
    (6, 12),
    (6, 14),
    (6, 15),
    (6, 16),
    (6, 17),
    (6, 18),
    (6, 19),
    (7, 0),
    (7, 3),
];

const NEVER: (u32, u32) = (u32::MAX, 0);
const ALWAYS: (u32, u32) = (0, 0);

/// A zone of 4 GiB on a machine with two CPUs. Specification 10.1.
const LARGE: ZoneSize = ZoneSize { managed: 1 << 20, low: 3096, cpus: 2 };

fn lists(tuning: &Tuning) -> usize {
    tuning.lists.count()
}

fn huge(tuning: &Tuning, migratetype: MigrateType) -> Option<usize> {
    tuning.lists.list(Order::PAGEBLOCK, migratetype)
}

#[test]
fn each_release_has_the_rules_of_its_time() {
    type Row = (&'static str, fn(&Tuning) -> bool, (u32, u32), (u32, u32));
    // Each row holds for the releases from the first one on and before the second.
    let rows: &[Row] = &[
        ("1.5: a merge retypes the other pageblock", |t| t.merge_by_type, (6, 10), NEVER),
        ("1.6: a list may hold blocks of other pageblocks", |t| t.fallback == FallbackRule::Steal, ALWAYS, (6, 10)),
        ("1.6: claim, then steal", |t| t.fallback == FallbackRule::ClaimThenSteal, (6, 15), NEVER),
        ("1.6: no-fragment", |t| t.no_fragment, (5, 0), NEVER),
        ("1.3: HIGHATOMIC by what is free", |t| t.highatomic == HighAtomicRule::Free, (6, 12), NEVER),
        ("1.6: moved to the tail", |t| t.fallback_tail, (5, 10), NEVER),
        ("2.1, 9: three lists", |t| lists(t) == 3, ALWAYS, (5, 14)),
        ("3.6 of 2026: 15 lists", |t| lists(t) == 15, (5, 14), (6, 0)),
        ("3.6 of 2026: 13 lists", |t| lists(t) == 13, (6, 0), (6, 10)),
        ("3.6 of 2026: 14 lists", |t| lists(t) == 14, (6, 10), NEVER),
        ("2.1: one list of huge pages", |t| huge(t, MigrateType::Movable) == Some(12), (6, 0), (6, 10)),
        ("2.1: reclaimable huge pages apart", |t| huge(t, MigrateType::Reclaimable) == Some(14), (5, 14), (6, 0)),
        ("2.1: other huge pages", |t| huge(t, MigrateType::Unmovable) == Some(12), (5, 14), NEVER),
        ("2.2, 9: batch 31", |t| t.bounds(LARGE, 0).batch == 31, ALWAYS, (4, 19)),
        ("2.2, 9: batch 63", |t| t.bounds(LARGE, 0).batch == 63, (4, 19), NEVER),
        ("2.2: high 186", |t| t.bounds(LARGE, 0).high_min == 186, ALWAYS, (4, 19)),
        ("2.2: high 378", |t| t.bounds(LARGE, 0).high_min == 378, (4, 19), (5, 14)),
        ("2.2: high from the low watermark", |t| t.bounds(LARGE, 0).high_min == 1548, (5, 14), NEVER),
        ("2.2: an upper bound", |t| t.bounds(LARGE, 0).high_max == 65_536, (6, 7), NEVER),
        ("2.2: the old fraction sets the batch", |t| t.bounds(LARGE, 8).batch == 96, ALWAYS, (5, 14)),
        ("2.3: movable pages without CMA pass the lists by", |t| t.cma_skip, (5, 9), (6, 7)),
        ("2.6, 3.3: the type is read at the drain", |t| t.type_at_drain, (6, 10), NEVER),
        ("3.1: picked under the lock", |t| t.backing == Backing::Kernel(BulkFree::PickLocked), ALWAYS, (4, 17)),
        ("3.2: two passes", |t| t.backing == Backing::Kernel(BulkFree::TwoPass), (4, 17), (5, 18)),
        ("3.3: a single pass", |t| t.backing == Backing::Kernel(BulkFree::SinglePass), (5, 18), (6, 19)),
        ("3.3: a batch at a time", |t| t.backing == Backing::Kernel(BulkFree::Chunked), (6, 19), NEVER),
        ("4.0: drains that grow", |t| t.scale_drain, (5, 14), NEVER),
        ("4.0: high-order frees drain", |t| t.drain_high_order, (5, 18), NEVER),
        ("4.0, 9: four batches under reclaim", |t| t.reclaim_limit, (5, 14), NEVER),
        ("4.1", |t| t.prev_high_order, (6, 7), NEVER),
        ("4.3", |t| t.cache_slice && t.large_cache(190, 63), (6, 7), NEVER),
        ("4.3: more than three batches", |t| t.large_cache(189, 63), NEVER, NEVER),
        ("4.4", |t| t.scale_cap && t.batch_scale_max == 5, (6, 7), NEVER),
        ("4.5", |t| t.alloc_factor, (6, 7), NEVER),
        ("4.7", |t| t.auto_high && t.decay == DecayRule::Eighth, (6, 7), NEVER),
        ("4.8", |t| t.below_high, (6, 7), NEVER),
        ("4.9: no kernel release has it", |t| t.count_min, NEVER, NEVER),
        ("4.10", |t| t.free_count, (6, 7), NEVER),
        ("4.10: by a batch at least", |t| t.shrink_by_count, NEVER, NEVER),
        ("4.10, 9: the threshold of 6.16", |t| t.high_threshold_616, (6, 16), NEVER),
    ];
    for (statement, holds, since, until) in rows {
        for &(major, minor) in RELEASES {
            // The first release of the series, without later updates.
            let preset = Preset::of_release(Release::update(major, minor, 0));
            let expected = *since <= (major, minor) && (major, minor) < *until;
            assert_eq!(holds(&preset.tuning), expected, "{statement}: {major}.{minor} as {}", preset.name);
        }
    }
}

#[test]
fn a_release_is_found_by_its_number() {
    for (release, name) in [
        ("4.4", "linux-4.16"),
        ("4.20", "linux-4.19"),
        ("5.8", "linux-5.0"),
        ("5.9", "linux-5.9"),
        ("5.15.224", "linux-5.14"),
        ("6.0.19", "linux-6.0"),
        ("6.1.0", "linux-6.0"),
        ("6.1.96", "linux-6.0"),
        ("6.1.97", "linux-6.1.97"),
        ("6.1.103", "linux-6.1.97"),
        ("6.1.192", "linux-6.1.104"),
        ("6.1", "linux-6.1.104"),
        ("6.2.200", "linux-6.0"),
        ("6.6.36", "linux-6.0"),
        ("6.6.87", "linux-6.6.37"),
        ("6.8.12", "linux-6.7"),
        ("6.9.7", "linux-6.7"),
        ("6.9.9", "linux-6.9.8"),
        ("6.12.28", "linux-6.12.0"),
        ("6.12.117", "linux-6.12.29"),
        ("6.12", "linux-6.12.29"),
        ("6.14.11", "linux-6.12.0"),
        ("6.17.13", "linux-6.16"),
        ("6.18", "linux-6.18"),
        ("7.1", "linux-6.19"),
        ("7.3.4", "linux-6.19"),
    ] {
        assert_eq!(Preset::of_release(Release::parse(release).unwrap()).name, name, "{release}");
        let found = Preset::find(&format!("linux-{release}")).map(|preset| preset.tuning);
        assert_eq!(found, Preset::find(name).map(|preset| preset.tuning), "{release}");
    }
    // Whose version does not tell its rules has a name that no version has.
    let tuned = Preset::find(TUNED_6_6).unwrap();
    assert_eq!((tuned.first_release(), &tuned.tuning), (None, &Preset::find("linux-6.9.8").unwrap().tuning));
    // A recording names such a kernel: the nearest rules are better than none.
    assert_eq!(Preset::of_release(Release::newest(9, 9)).name, "linux-6.19");
    for name in ["linux-12.0", "linux-9.9", "linux-7.4", "linux-6.20", "linux-5.20", "linux-3.10", "linux-2.6"] {
        assert!(Preset::find(name).is_none(), "{name}");
    }
    for name in ["linux-", "linux-6", "linux-1.0", "linux-6.x", "linux-6.1-rc1", "linux-6.1.", "6.1", "pagesets"] {
        assert!(Preset::find(name).is_none(), "{name}");
    }
    for preset in PRESETS.iter().filter(|preset| preset.first_release().is_some()) {
        let release = preset.first_release().unwrap();
        assert_eq!(Preset::of_release(release).tuning, preset.tuning, "{}", preset.name);
        assert_eq!(Preset::find(preset.name).unwrap().name, preset.name);
    }
}

#[test]
fn a_release_is_read_off_a_text() {
    for (text, release) in [
        ("6.1.0-56-amd64", Some(Release::update(6, 1, 0))),
        ("6.18.15+deb13-amd64", Some(Release::update(6, 18, 15))),
        ("7.3-rc1", Some(Release::newest(7, 3))),
        ("6.1", Some(Release::newest(6, 1))),
        ("6", None),
        ("6.1.", None),
        ("6.x", None),
        ("", None),
        ("99999999999.1", None),
    ] {
        assert_eq!(Release::parse(text), release, "{text}");
    }
}

#[test]
fn the_first_posting_differs_from_what_was_merged() {
    // 4.3, 4.7, 4.9, 4.10: the cache threshold, the decay, the bound by unused pages, the smallest step.
    for (posted, merged) in
        [(POSTED_3, SERIES_3), (POSTED_5, SERIES_5), (POSTED_7, SERIES_7), (POSTED_9, SERIES_9), (POSTED_10, LINUX_6_7)]
    {
        assert_eq!((posted.large_cache(252, 63), posted.large_cache(253, 63)), (false, true));
        assert_eq!((merged.large_cache(189, 63), merged.large_cache(190, 63)), (false, true));
        assert_eq!(posted.decay, if posted.auto_high { DecayRule::Fifth } else { DecayRule::Eighth });
        assert_eq!(posted.count_min, posted.below_high);
        assert_eq!(posted.shrink_by_count, posted.free_count);
        // Nothing else differs.
        let same = Tuning { cache_slice_batches: 3, shrink_by_count: false, ..posted };
        assert_eq!(Tuning { decay: merged.decay, count_min: merged.count_min, ..same }, merged);
    }
}
