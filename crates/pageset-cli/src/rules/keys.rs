//! The keys: one for each rule of a [`Tuning`], what each may be set to, and the way back.
//!
//! `--set`, rule files, `--list-rules` and JSON all read this table. A field of [`Tuning`] without a line here is
//! found by a test.

use std::fmt;
use std::ops::RangeInclusive;

use pageset::tuning::sizes::{MAX_BATCH, MAX_HIGH, MIN_HIGH_FRACTION};
use pageset::tuning::{BatchRule, HighRule, Tuning};
use pageset_trace::replay::RuleSet;
use serde::Serialize;

use super::words::Worded;

/// What a key is set to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// On or off.
    Switch(bool),
    /// A number, in the key's unit.
    Number(u64),
    /// One of the key's words.
    Word(String),
}

impl Value {
    /// The value that a text on the command line, or a string in a file, stands for.
    pub(super) fn from_text(text: &str) -> Value {
        match text {
            "on" | "true" => Value::Switch(true),
            "off" | "false" => Value::Switch(false),
            _ => text.parse().map_or_else(|_| Value::Word(text.to_owned()), Value::Number),
        }
    }
}

/// As on the command line.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Number(number) => number.fmt(f),
            Value::Word(word) => word.fmt(f),
        }
    }
}

/// One key.
pub(crate) struct Key {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it changes, for `--list-rules`.
    pub(super) about: &'static str,
    rule: &'static (dyn Rule + Sync),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Key {
    /// The key of this name.
    pub(super) fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// What it may be set to, for messages.
    pub(super) fn allowed(&self) -> String {
        self.rule.allowed()
    }

    /// Changes the rule; nothing where the value is not allowed.
    pub(super) fn set(&self, rules: &mut RuleSet, value: &Value) -> Option<()> {
        self.rule.set(rules, value)
    }

    /// What the rule is now; nothing where other keys say that.
    pub(super) fn get(&self, rules: &RuleSet) -> Option<Value> {
        self.rule.get(rules)
    }
}

/// How a key is read, set and told.
trait Rule {
    fn allowed(&self) -> String;
    fn set(&self, rules: &mut RuleSet, value: &Value) -> Option<()>;
    fn get(&self, rules: &RuleSet) -> Option<Value>;
}

/// A rule that is on or off.
struct Switch(fn(&mut Tuning) -> &mut bool);

impl Rule for Switch {
    fn allowed(&self) -> String {
        "on (true) or off (false)".to_owned()
    }

    fn set(&self, rules: &mut RuleSet, value: &Value) -> Option<()> {
        let Value::Switch(on) = *value else { return None };
        *(self.0)(&mut rules.tuning) = on;
        Some(())
    }

    fn get(&self, rules: &RuleSet) -> Option<Value> {
        let mut tuning = rules.tuning;
        Some(Value::Switch(*(self.0)(&mut tuning)))
    }
}

/// A rule that is one of several.
struct Words<T>(fn(&mut Tuning) -> &mut T);

impl<T: Worded> Rule for Words<T> {
    fn allowed(&self) -> String {
        T::all_words()
    }

    fn set(&self, rules: &mut RuleSet, value: &Value) -> Option<()> {
        let Value::Word(word) = value else { return None };
        *(self.0)(&mut rules.tuning) = T::of_word(word)?;
        Some(())
    }

    fn get(&self, rules: &RuleSet) -> Option<Value> {
        let mut tuning = rules.tuning;
        (self.0)(&mut tuning).word().map(|word| Value::Word(word.to_owned()))
    }
}

/// A rule that is a number.
struct Number {
    range: RangeInclusive<u32>,
    unit: &'static str,
    set: fn(&mut RuleSet, u32),
    get: fn(&RuleSet) -> Option<u32>,
}

impl Number {
    fn within(&self, value: &Value) -> Option<u32> {
        let Value::Number(number) = value else { return None };
        u32::try_from(*number).ok().filter(|number| self.range.contains(number))
    }
}

impl Rule for Number {
    fn allowed(&self) -> String {
        format!("{} to {}{}", self.range.start(), self.range.end(), self.unit)
    }

    fn set(&self, rules: &mut RuleSet, value: &Value) -> Option<()> {
        (self.set)(rules, self.within(value)?);
        Some(())
    }

    fn get(&self, rules: &RuleSet) -> Option<Value> {
        (self.get)(rules).map(|number| Value::Number(number.into()))
    }
}

/// Pages by hand, or by a formula.
struct High(Number);

impl Rule for High {
    fn allowed(&self) -> String {
        format!("{}, {}", self.0.allowed(), HighRule::all_words())
    }

    fn set(&self, rules: &mut RuleSet, value: &Value) -> Option<()> {
        match value {
            Value::Word(word) => {
                rules.tuning.high = HighRule::of_word(word)?;
                Some(())
            }
            _ => self.0.set(rules, value),
        }
    }

    fn get(&self, rules: &RuleSet) -> Option<Value> {
        rules.tuning.high.word().map(|word| Value::Word(word.to_owned()))
    }
}

/// A fraction, of which the smallest are refused.
struct Fraction;

impl Rule for Fraction {
    fn allowed(&self) -> String {
        format!("0 for none, or {MIN_HIGH_FRACTION} to {}", u32::MAX)
    }

    fn set(&self, rules: &mut RuleSet, value: &Value) -> Option<()> {
        let Value::Number(number) = *value else { return None };
        let fraction = u32::try_from(number).ok().filter(|&f| f == 0 || f >= MIN_HIGH_FRACTION)?;
        rules.high_fraction = Some(fraction);
        Some(())
    }

    fn get(&self, rules: &RuleSet) -> Option<Value> {
        rules.high_fraction.map(|fraction| Value::Number(fraction.into()))
    }
}

const fn pages(most: u32, set: fn(&mut RuleSet, u32), get: fn(&RuleSet) -> Option<u32>) -> Number {
    Number { range: 0..=most, unit: " pages", set, get }
}

const fn key(name: &'static str, about: &'static str, rule: &'static (dyn Rule + Sync)) -> Key {
    Key { name, about, rule }
}

/// All keys, in the order of [`Tuning`]'s fields, and after them what a set says of the machine.
#[rustfmt::skip] // One line a rule.
pub(super) const KEYS: &[Key] = &[
    key("batch", "pages that one refill or drain moves, by hand", &BATCH),
    key("batch_cap_kib", "the same from the zone's size, with this cap before a division by 4", &BATCH_CAP),
    key("high", "pages that a CPU may keep, by hand or by a formula", &High(pages(MAX_HIGH, |r, n| set_high(r, Some(n), Some(n)), |_| None))),
    key("high_min", "its lower bound, where auto_high moves it", &pages(MAX_HIGH, |r, n| set_high(r, Some(n), None), |r| fixed_high(r).map(|(min, _)| min))),
    key("high_max", "its upper bound", &pages(MAX_HIGH, |r, n| set_high(r, None, Some(n)), |r| fixed_high(r).map(|(_, max)| max))),
    key("high_fraction", "the sysctl of that name: all CPUs keep a zone divided by this", &Fraction),
    key("lists", "which orders are kept, and in how many lists", &Words(|t| &mut t.lists)),
    key("bulk_free", "how a drain frees", &Words(|t| &mut t.bulk_free)),
    key("fallback", "how a request is served from another migratetype's pageblocks", &Words(|t| &mut t.fallback)),
    key("fallback_tail", "blocks that change their type go to the tails of lists", &Switch(|t| &mut t.fallback_tail)),
    key("cma_skip", "single movable pages that may not be CMA's pass the lists by", &Switch(|t| &mut t.cma_skip)),
    key("no_fragment", "a lower zone serves before another type's pageblock is broken up", &Switch(|t| &mut t.no_fragment)),
    key("highatomic", "how many pageblocks are kept for urgent requests, and how they count", &Words(|t| &mut t.highatomic)),
    key("merge_by_type", "a merge from a pageblock upwards brings the other pageblock to its type", &Switch(|t| &mut t.merge_by_type)),
    key("type_at_drain", "a drained page's type is read again, not remembered from its free", &Switch(|t| &mut t.type_at_drain)),
    key("merge_skip", "freed single pages are not merged until larger blocks are short", &Switch(|t| &mut t.merge_skip)),
    key("clusters", "refills cut runs of single pages off the free list", &Switch(|t| &mut t.clusters)),
    key("cluster_free", "a batch of movable pages goes back as one run", &Switch(|t| &mut t.cluster_free)),
    key("scale_drain", "frees in a row drain more each time", &Switch(|t| &mut t.scale_drain)),
    key("drain_high_order", "frees of orders 1 to 3 after others empty the lists", &Switch(|t| &mut t.drain_high_order)),
    key("reclaim_limit", "while the zone is reclaimed a CPU keeps four batches", &Switch(|t| &mut t.reclaim_limit)),
    key("prev_high_order", "patch 1: two frees of orders 1 to 3 in a row are needed for that", &Switch(|t| &mut t.prev_high_order)),
    key("cache_slice", "patch 3: with a large cache up to a batch stays all the same", &Switch(|t| &mut t.cache_slice)),
    key("cache_slice_batches", "a CPU's share of the cache is large above this many batches", &CACHE_BATCHES),
    key("scale_cap", "patch 4: drains grow up to batch << batch_scale_max", &Switch(|t| &mut t.scale_cap)),
    key("alloc_factor", "patch 5: allocations in a row refill more each time", &Switch(|t| &mut t.alloc_factor)),
    key("auto_high", "patch 7: each CPU's high moves between its bounds", &Switch(|t| &mut t.auto_high)),
    key("below_high", "patch 8: it shrinks while the zone is below its high watermark", &Switch(|t| &mut t.below_high)),
    key("count_min", "patch 9: high decays by what stayed unused, at most", &Switch(|t| &mut t.count_min)),
    key("free_count", "patch 10: pages freed in a row are counted, in place of a factor", &Switch(|t| &mut t.free_count)),
    key("shrink_by_count", "as posted: under pressure high shrinks by that count alone", &Switch(|t| &mut t.shrink_by_count)),
    key("high_threshold_616", "6.16: half of high_min must be freed in a row to empty the lists", &Switch(|t| &mut t.high_threshold_616)),
    key("below_high_by_pages", "pageset: only a shortage of pages counts as below high, not one of an order", &Switch(|t| &mut t.below_high_by_pages)),
    key("below_high_at_tick", "pageset: a tick takes below high back too, not only a free that drains", &Switch(|t| &mut t.below_high_at_tick)),
    key("expire_all", "pageset: idle pages of other nodes all go back, not one batch", &Switch(|t| &mut t.expire_all)),
    key("bulk_counts", "pageset: a bulk allocation ends frees in a row as any other", &Switch(|t| &mut t.bulk_counts)),
    key("long_runs", "pageset: a bulk free keeps a pageset's lock for 512 blocks, not 31", &Switch(|t| &mut t.long_runs)),
    key("double_blocks", "pageset: refills of blocks double while nothing is freed, as single pages' do", &Switch(|t| &mut t.double_blocks)),
    key("whole_blocks", "pageset: refills split a block at once, drains give back pages that make up a block as that block", &Switch(|t| &mut t.whole_blocks)),
    key("decay", "by what part high shrinks each second", &Words(|t| &mut t.decay)),
    key("batch_scale_max", "batches grow up to batch << this", &SCALE),
    key(CACHE_SLICE, "no rule: a CPU's share of the last-level cache, where the recording does not know it", &CACHE_PAGES),
];

/// The key that describes the machine, which `--set` may do where a recording does not.
pub(super) const CACHE_SLICE: &str = "cache_slice_pages";

const BATCH: Number = Number {
    range: 1..=MAX_BATCH,
    unit: " pages",
    set: |r, n| r.tuning.batch = BatchRule::Fixed(n),
    get: |r| if let BatchRule::Fixed(pages) = r.tuning.batch { Some(pages) } else { None },
};

const BATCH_CAP: Number = Number {
    // The range that `Tuning::check` allows.
    range: 1..=1 << 20,
    unit: " KiB; the kernels have 512 and 1024",
    set: |r, n| r.tuning.batch = BatchRule::FromZone { cap_kib: n },
    get: |r| if let BatchRule::FromZone { cap_kib } = r.tuning.batch { Some(cap_kib) } else { None },
};

const CACHE_BATCHES: Number = Number {
    range: 1..=u8::MAX as u32,
    unit: " batches",
    set: |r, n| r.tuning.cache_slice_batches = n as u8,
    get: |r| Some(r.tuning.cache_slice_batches.into()),
};

/// The bound is that of high: more than any cache has.
const CACHE_PAGES: Number =
    pages(MAX_HIGH, |r, n| r.cache_slice_pages = Some(n.into()), |r| u32::try_from(r.cache_slice_pages?).ok());

const SCALE: Number = Number {
    range: 0..=6,
    unit: "",
    set: |r, n| r.tuning.batch_scale_max = n as u8,
    get: |r| Some(r.tuning.batch_scale_max.into()),
};

fn fixed_high(rules: &RuleSet) -> Option<(u32, u32)> {
    if let HighRule::Fixed { min, max } = rules.tuning.high { Some((min, max)) } else { None }
}

/// Sets one or both bounds by hand; the other stays, or becomes the same.
fn set_high(rules: &mut RuleSet, min: Option<u32>, max: Option<u32>) {
    let (old_min, old_max) = fixed_high(rules).map_or((min.or(max), max.or(min)), |(a, b)| (Some(a), Some(b)));
    let (min, max) = (min.or(old_min), max.or(old_max));
    rules.tuning.high = HighRule::Fixed { min: min.unwrap_or(0), max: max.unwrap_or(0) };
}

/// Keys that cannot stand together: each sets what the other sets.
pub(super) const EXCLUSIVE: [(&str, &str); 5] = [
    ("batch", "batch_cap_kib"),
    ("high", "high_min"),
    ("high", "high_max"),
    ("high", "high_fraction"),
    ("high_min", "high_fraction"),
];

/// Keys that only make sense together.
pub(super) const TOGETHER: [(&str, &str); 1] = [("high_min", "high_max")];

/// The names of all keys.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// The rules by their keys, in the order of [`Tuning`]'s fields.
pub(crate) fn described(tuning: &Tuning) -> Vec<(&'static str, Value)> {
    told(&RuleSet::new("", *tuning))
}

/// The same, and what the set says of the machine.
pub(super) fn told(rules: &RuleSet) -> Vec<(&'static str, Value)> {
    KEYS.iter().filter_map(|key| Some((key.name, key.get(rules)?))).collect()
}

#[cfg(test)]
mod tests {
    use pageset::tuning::{BulkFree, DecayRule, FallbackRule, HighAtomicRule, ListRule, PRESETS};

    use super::*;

    /// Two sets of rules that differ in each field. Written out, so that a new field has to be added to both; without
    /// a key for it the next test fails.
    fn unlike() -> [Tuning; 2] {
        let on = true;
        let one = Tuning {
            batch: BatchRule::Fixed(7),
            high: HighRule::Fixed { min: 1, max: 2 },
            lists: ListRule::ToCostly,
            bulk_free: BulkFree::Chunked,
            fallback: FallbackRule::ClaimThenSteal,
            fallback_tail: on,
            cma_skip: on,
            no_fragment: on,
            highatomic: HighAtomicRule::Reserved,
            merge_skip: on,
            clusters: on,
            cluster_free: on,
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
            whole_blocks: on,
            decay: DecayRule::Fifth,
            batch_scale_max: 1,
        };
        let off = false;
        let other = Tuning {
            batch: BatchRule::FromZone { cap_kib: 9 },
            high: HighRule::SixBatches,
            lists: ListRule::HugeShared,
            bulk_free: BulkFree::TwoPass,
            fallback: FallbackRule::Steal,
            fallback_tail: off,
            cma_skip: off,
            no_fragment: off,
            highatomic: HighAtomicRule::Free,
            merge_skip: off,
            clusters: off,
            cluster_free: off,
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
            whole_blocks: off,
            decay: DecayRule::Eighth,
            batch_scale_max: 2,
        };
        [one, other]
    }

    /// What it becomes when all that the keys say of `to` is set.
    fn led(from: Tuning, to: &Tuning) -> Tuning {
        let mut rules = RuleSet::new("", from);
        for (name, value) in described(to) {
            Key::find(name).unwrap().set(&mut rules, &value).unwrap_or_else(|| panic!("{name}={value}"));
        }
        rules.tuning
    }

    #[test]
    fn every_field_has_its_key() {
        let [one, other] = unlike();
        assert_eq!((led(one, &other), led(other, &one)), (other, one));
        for preset in PRESETS {
            assert_eq!(led(one, &preset.tuning), preset.tuning, "{}", preset.name);
        }
    }

    #[test]
    fn texts_are_values_and_back() {
        for (text, value, back) in [
            ("on", Value::Switch(true), "on"),
            ("true", Value::Switch(true), "on"),
            ("off", Value::Switch(false), "off"),
            ("false", Value::Switch(false), "off"),
            ("31", Value::Number(31), "31"),
            ("two-pass", Value::Word("two-pass".to_owned()), "two-pass"),
            ("-1", Value::Word("-1".to_owned()), "-1"),
        ] {
            assert_eq!((Value::from_text(text), value.to_string()), (value, back.to_owned()));
        }
    }

    #[test]
    fn keys_are_unlike_each_other() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..i].iter().all(|other| other.name != key.name), "{}", key.name);
            assert!(["base", "name", "about"].iter().all(|&word| word != key.name), "{}: a file's own word", key.name);
        }
        for name in EXCLUSIVE.iter().chain(&TOGETHER).flat_map(|(a, b)| [a, b]) {
            assert!(Key::find(name).is_some(), "{name}");
        }
    }
}
