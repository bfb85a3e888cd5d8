//! The table of keys: one for each rule of a [`pageset::Tuning`].
//!
//! `--set`, rule files, `--list-rules` and JSON use this table. A test finds fields without a line here.

use pageset::policy::sizes::{MAX_BATCH, MAX_HIGH};
use pageset::policy::{BatchRule, HighRule};

use crate::keys::{Fraction, High, Key, Number, Regions, Rule, Switch, Words};
use crate::layout::Draft;

const fn pages(max: u32, set: fn(&mut Draft, u32), get: fn(&Draft) -> Option<u32>) -> Number {
    Number { range: 0..=max, unit: " pages", set, get }
}

const fn key(name: &'static str, about: &'static str, rule: &'static (dyn Rule + Sync)) -> Key {
    Key { name, about, rule }
}

/// All keys, in the order of [`pageset::Tuning`]'s fields, followed by the set's data of the machine.
#[rustfmt::skip] // One line a rule.
pub const KEYS: &[Key] = &[
    key("batch", "pages that one refill or drain moves, by hand", &BATCH),
    key("batch_cap_kib", "the same from the zone's size, with this cap before a division by 4", &BATCH_CAP),
    key("high", "pages that a CPU may keep, by hand or by a formula", &High(pages(MAX_HIGH, |r, n| set_high(r, Some(n), Some(n)), |_| None))),
    key("high_min", "its lower bound, where auto_high moves it", &pages(MAX_HIGH, |r, n| set_high(r, Some(n), None), |r| fixed_high(r).map(|(min, _)| min))),
    key("high_max", "its upper bound", &pages(MAX_HIGH, |r, n| set_high(r, None, Some(n)), |r| fixed_high(r).map(|(_, max)| max))),
    key("high_fraction", "the sysctl of that name: all CPUs keep a zone divided by this", &Fraction),
    key("lists", "which orders are kept, and in how many lists", &Words(|r| &mut r.tuning.lists)),
    key("regions", "pageset: into how many regions with a lock of their own a zone is divided", &Regions),
    key("bulk_free", "how a drain frees", &Words(|r| &mut r.layout.bulk_free)),
    key("fallback", "how a request is served from another migratetype's pageblocks", &Words(|r| &mut r.tuning.fallback)),
    key("fallback_tail", "blocks that change their type go to the tails of lists", &Switch(|r| &mut r.tuning.fallback_tail)),
    key("cma_skip", "single movable pages that may not be CMA's pass the lists by", &Switch(|r| &mut r.tuning.cma_skip)),
    key("no_fragment", "a lower zone serves before another type's pageblock is broken up", &Switch(|r| &mut r.tuning.no_fragment)),
    key("highatomic", "how many pageblocks are kept for urgent requests, and how they count", &Words(|r| &mut r.tuning.highatomic)),
    key("merge_by_type", "a merge from a pageblock upwards brings the other pageblock to its type", &Switch(|r| &mut r.tuning.merge_by_type)),
    key("type_at_drain", "a drained page's type is read again, not remembered from its free", &Switch(|r| &mut r.tuning.type_at_drain)),
    key("merge_skip", "freed single pages are not merged until larger blocks are short", &Switch(|r| &mut r.layout.merge_skip)),
    key("clusters", "refills cut runs of single pages off the free list", &Switch(|r| &mut r.layout.clusters)),
    key("cluster_free", "a batch of movable pages goes back as one run", &Switch(|r| &mut r.layout.cluster_free)),
    key("scale_drain", "frees in a row drain more each time", &Switch(|r| &mut r.tuning.scale_drain)),
    key("drain_high_order", "frees of orders 1 to 3 after others empty the lists", &Switch(|r| &mut r.tuning.drain_high_order)),
    key("reclaim_limit", "while the zone is reclaimed a CPU keeps four batches", &Switch(|r| &mut r.tuning.reclaim_limit)),
    key("prev_high_order", "patch 1: two frees of orders 1 to 3 in a row are needed for that", &Switch(|r| &mut r.tuning.prev_high_order)),
    key("cache_slice", "patch 3: with a large cache up to a batch stays all the same", &Switch(|r| &mut r.tuning.cache_slice)),
    key("cache_slice_batches", "a CPU's share of the cache is large above this many batches", &CACHE_BATCHES),
    key("scale_cap", "patch 4: drains grow up to batch << batch_scale_max", &Switch(|r| &mut r.tuning.scale_cap)),
    key("alloc_factor", "patch 5: allocations in a row refill more each time", &Switch(|r| &mut r.tuning.alloc_factor)),
    key("auto_high", "patch 7: each CPU's high moves between its bounds", &Switch(|r| &mut r.tuning.auto_high)),
    key("below_high", "patch 8: it shrinks while the zone is below its high watermark", &Switch(|r| &mut r.tuning.below_high)),
    key("count_min", "patch 9: high decays by what stayed unused, at most", &Switch(|r| &mut r.tuning.count_min)),
    key("free_count", "patch 10: pages freed in a row are counted, in place of a factor", &Switch(|r| &mut r.tuning.free_count)),
    key("shrink_by_count", "as posted: under pressure high shrinks by that count alone", &Switch(|r| &mut r.tuning.shrink_by_count)),
    key("high_threshold_616", "6.16: half of high_min must be freed in a row to empty the lists", &Switch(|r| &mut r.tuning.high_threshold_616)),
    key("below_high_by_pages", "pageset: only a shortage of pages counts as below high, not one of an order", &Switch(|r| &mut r.tuning.below_high_by_pages)),
    key("below_high_at_tick", "pageset: a tick clears the mark of below_high too, not only a free that drains", &Switch(|r| &mut r.tuning.below_high_at_tick)),
    key("expire_all", "pageset: idle pages of other nodes go back at each tick, not every third", &Switch(|r| &mut r.tuning.expire_all)),
    key("bulk_counts", "pageset: a bulk allocation ends frees in a row as any other", &Switch(|r| &mut r.tuning.bulk_counts)),
    key("long_runs", "pageset: a bulk free keeps a pageset's lock for 512 blocks, not 31", &Switch(|r| &mut r.tuning.long_runs)),
    key("double_blocks", "pageset: refills of blocks double while nothing is freed, as single pages' do", &Switch(|r| &mut r.tuning.double_blocks)),
    key("batch_blocks", "pageset: drains of large blocks move at least so many, and refills grow to so many", &BATCH_BLOCKS),
    key("high_share", "pageset: a refill takes at most high >> this, and at least a batch; 0 for no limit", &HIGH_SHARE),
    key("whole_blocks", "pageset: refills split a block at once, drains give back pages that make up a block as that block", &Switch(|r| &mut r.tuning.whole_blocks)),
    key("depot", "pageset: drains leave batches of blocks for the next refills", &Switch(|r| &mut r.layout.depot)),
    key("bitmaps", "pageset: drains mark blocks as free in their pageblock without a lock, and refills take them from there", &Switch(|r| &mut r.layout.bitmaps)),
    key("drain_for_requests", "pageset: before a request fails, other CPUs' pagesets are drained", &Switch(|r| &mut r.tuning.drain_for_requests)),
    key("claim_blocks", "RFC of 2026: refills claim whole pageblocks, and allocations split blocks in the pageset", &Switch(|r| &mut r.layout.claim_blocks)),
    key("owners", "RFC of 2026: whether frees go to the CPU that claimed the pageblock, and how", &Words(|r| &mut r.layout.owners)),
    key("merge_blocks", "RFC of 2026: drains merge the blocks of a pageset first, and move the largest", &Switch(|r| &mut r.layout.merge_blocks)),
    key("decay", "by what part high shrinks each second", &Words(|r| &mut r.tuning.decay)),
    key("batch_scale_max", "batches grow up to batch << this", &SCALE),
    key("block_scale_max", "pageset: batches of blocks above order 0 grow up to batch << this, if that is less", &BLOCK_SCALE),
    key("kept_fraction", "pageset: all pagesets and depots together keep a zone divided by this, at most; 0 for no limit", &KEPT_FRACTION),
    key(CACHE_SLICE, "no rule: a CPU's share of the last-level cache, where the recording does not know it", &CACHE_PAGES),
];

/// The key that describes the machine. `--set` may supply it if a recording lacks it.
pub(crate) const CACHE_SLICE: &str = "cache_slice_pages";

const BATCH: Number = Number {
    range: 1..=MAX_BATCH,
    unit: " pages",
    set: |r, n| r.tuning.batch = BatchRule::Fixed(n),
    get: |r| if let BatchRule::Fixed(pages) = r.tuning.batch { Some(pages) } else { None },
};

const BATCH_CAP: Number = Number {
    // The range of `Tuning::check`.
    range: 1..=1 << 20,
    unit: " KiB; the kernels have 512 and 1024",
    set: |r, n| r.tuning.batch = BatchRule::FromZone { cap_kib: n },
    get: |r| if let BatchRule::FromZone { cap_kib } = r.tuning.batch { Some(cap_kib) } else { None },
};

/// A number of eight bits of the rules.
macro_rules! byte {
    ($range:expr, $unit:literal, $field:ident) => {
        Number {
            range: $range,
            unit: $unit,
            set: |r, n| r.tuning.$field = n as u8,
            get: |r| Some(r.tuning.$field.into()),
        }
    };
}

// The ranges are those of `Tuning::check`, which also refuses a `kept_fraction` of 1.
const BATCH_BLOCKS: Number = byte!(0..=64, " blocks", batch_blocks);
const KEPT_FRACTION: Number = byte!(0..=u8::MAX as u32, "; not 1", kept_fraction);
const HIGH_SHARE: Number = byte!(0..=8, "", high_share);
const CACHE_BATCHES: Number = byte!(0..=u8::MAX as u32, " batches", cache_slice_batches);
const SCALE: Number = byte!(0..=6, "", batch_scale_max);
const BLOCK_SCALE: Number = byte!(0..=6, "", block_scale_max);

/// The bound of `high`: more than any cache has.
const CACHE_PAGES: Number =
    pages(MAX_HIGH, |r, n| r.cache_slice_pages = Some(n.into()), |r| u32::try_from(r.cache_slice_pages?).ok());

fn fixed_high(rules: &Draft) -> Option<(u32, u32)> {
    if let HighRule::Fixed { min, max } = rules.tuning.high { Some((min, max)) } else { None }
}

/// Sets one or both bounds. The other bound stays, or becomes equal.
fn set_high(rules: &mut Draft, min: Option<u32>, max: Option<u32>) {
    let (old_min, old_max) = fixed_high(rules).map_or((min.or(max), max.or(min)), |(a, b)| (Some(a), Some(b)));
    let (min, max) = (min.or(old_min), max.or(old_max));
    rules.tuning.high = HighRule::Fixed { min: min.unwrap_or(0), max: max.unwrap_or(0) };
}

/// Exclusive keys: each sets the same rule as the other.
pub(crate) const EXCLUSIVE: [(&str, &str); 5] = [
    ("batch", "batch_cap_kib"),
    ("high", "high_min"),
    ("high", "high_max"),
    ("high", "high_fraction"),
    ("high_min", "high_fraction"),
];

/// Keys that require each other.
pub(crate) const TOGETHER: [(&str, &str); 1] = [("high_min", "high_max")];

/// The names of all keys.
pub fn key_names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

impl Key {
    pub(crate) fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }
}

#[cfg(test)]
mod tests {
    use pageset::policy::{DecayRule, FallbackRule, HighAtomicRule, ListRule, OwnerRule, PRESETS, RegionRule, Tuning};

    use super::*;
    use crate::layout::{Drains, Layout};
    use crate::set::RuleSet;

    /// Two sets of rules that differ in each field. All fields are written out, so a new field must be added to both;
    /// the next test then fails without a key for it.
    fn different_in_each_field() -> [Draft; 2] {
        let on = true;
        // Of a draft, only the layout counts.
        let backing = Tuning::default().backing;
        let one = Tuning {
            batch: BatchRule::Fixed(7),
            high: HighRule::Fixed { min: 1, max: 2 },
            lists: ListRule::ToCostly,
            backing,
            fallback: FallbackRule::ClaimThenSteal,
            fallback_tail: on,
            cma_skip: on,
            no_fragment: on,
            highatomic: HighAtomicRule::Reserved,
            merge_by_type: on,
            type_at_drain: on,
            scale_drain: on,
            drain_high_order: on,
            reclaim_limit: on,
            prev_high_order: on,
            cache_slice: on,
            cache_slice_batches: 1,
            scale_cap: on,
            alloc_factor: on,
            auto_high: on,
            below_high: on,
            count_min: on,
            free_count: on,
            shrink_by_count: on,
            high_threshold_616: on,
            below_high_by_pages: on,
            below_high_at_tick: on,
            expire_all: on,
            bulk_counts: on,
            long_runs: on,
            double_blocks: on,
            batch_blocks: 3,
            high_share: 5,
            whole_blocks: on,
            drain_for_requests: on,
            decay: DecayRule::Fifth,
            batch_scale_max: 1,
            block_scale_max: 4,
            kept_fraction: 9,
        };
        let off = false;
        let other = Tuning {
            batch: BatchRule::FromZone { cap_kib: 9 },
            high: HighRule::SixBatches,
            lists: ListRule::HugeShared,
            backing,
            fallback: FallbackRule::Steal,
            fallback_tail: off,
            cma_skip: off,
            no_fragment: off,
            highatomic: HighAtomicRule::Free,
            merge_by_type: off,
            type_at_drain: off,
            scale_drain: off,
            drain_high_order: off,
            reclaim_limit: off,
            prev_high_order: off,
            cache_slice: off,
            cache_slice_batches: 2,
            scale_cap: off,
            alloc_factor: off,
            auto_high: off,
            below_high: off,
            count_min: off,
            free_count: off,
            shrink_by_count: off,
            high_threshold_616: off,
            below_high_by_pages: off,
            below_high_at_tick: off,
            expire_all: off,
            bulk_counts: off,
            long_runs: off,
            double_blocks: off,
            batch_blocks: 0,
            high_share: 0,
            whole_blocks: off,
            drain_for_requests: off,
            decay: DecayRule::Eighth,
            batch_scale_max: 2,
            block_scale_max: 3,
            kept_fraction: 0,
        };
        let one_layout = Layout {
            regions: RegionRule::Fixed(3),
            bulk_free: Drains::Chunked,
            merge_skip: on,
            clusters: on,
            cluster_free: on,
            depot: on,
            bitmaps: on,
            claim_blocks: on,
            owners: OwnerRule::List,
            merge_blocks: on,
        };
        let other_layout = Layout {
            regions: RegionRule::PerCpu,
            bulk_free: Drains::TwoPass,
            merge_skip: off,
            clusters: off,
            cluster_free: off,
            depot: off,
            bitmaps: off,
            claim_blocks: off,
            owners: OwnerRule::Off,
            merge_blocks: off,
        };
        [(one, one_layout), (other, other_layout)]
            .map(|(tuning, layout)| Draft { layout, ..Draft::new(&RuleSet::new("", tuning)) })
    }

    /// The rules of `from` after all keys are set to their values in `to`.
    fn set_all_keys(mut from: Draft, to: &Draft) -> Draft {
        for key in KEYS {
            let Some(value) = key.get(to) else { continue };
            key.set(&mut from, &value).unwrap_or_else(|| panic!("{}={value}", key.name));
        }
        from
    }

    #[test]
    fn every_field_has_its_key() {
        let [one, other] = different_in_each_field();
        assert_eq!((set_all_keys(one, &other), set_all_keys(other, &one)), (other, one));
        for preset in PRESETS {
            let preset_rules = Draft::new(&RuleSet::new("", preset.tuning));
            assert_eq!(set_all_keys(one, &preset_rules).tuning(), Ok(preset.tuning), "{}", preset.name);
        }
    }

    #[test]
    fn names_of_keys_are_unique() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..i].iter().all(|other| other.name != key.name), "{}", key.name);
            assert!(["base", "name", "about"].iter().all(|&word| word != key.name), "{}: reserved in files", key.name);
        }
        for name in EXCLUSIVE.iter().chain(&TOGETHER).flat_map(|(a, b)| [a, b]) {
            assert!(Key::find(name).is_some(), "{name}");
        }
    }
}
