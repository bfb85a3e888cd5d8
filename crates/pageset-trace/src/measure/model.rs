//! The result of `pageset replay`: what its table, its JSON and its report show. Pages, nanoseconds, counts, percent.

use std::collections::BTreeMap;

use pageset_rules::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::warnings::Counted;
use crate::facts::Facts;
use crate::replay::{Borrowed, Found, Level, Near, Totals};

schema!("pageset.replay/1");

/// One recording's result.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// `pageset.replay/1`.
    pub schema: Schema,
    /// What the replays of the named rules were allowed to use.
    pub level: Level,
    /// Whose refills and drains are counted; null where all are.
    pub only: Option<Selected>,
    /// What was recorded.
    pub trace: Recording,
    /// What the kernel did.
    pub kernel: Kernel,
    /// The named rules at the level; after them the kernel's by the input alone.
    pub rules: Vec<Replayed>,
    /// Null unless it was asked for.
    pub check: Option<Check>,
    /// What weakens every result.
    pub warnings: Vec<String>,
}

/// Conditions on what is counted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Selected {
    /// The conditions, as `--only` takes them.
    pub conditions: Vec<String>,
    /// Allocations and frees that meet them.
    pub selected_operations: u64,
    /// Allocations and frees of threads that the recording does not name.
    pub unlisted_operations: u64,
}

/// The recording.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// The form it is kept in: `pageset`, `text` or `perf`.
    pub form: String,
    /// Events in all.
    pub events: u64,
    /// Events that are replayed.
    pub replayed_events: u64,
    /// Allocations and frees among them.
    pub operations: u64,
    /// From the first replayed event to the last.
    pub duration_ns: u64,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Memory nodes with zones.
    pub nodes: usize,
    /// The zones.
    pub zones: Vec<Zone>,
    /// The machine and the circumstances.
    pub facts: Facts,
    /// What was counted beside refills and drains.
    pub found: Found,
}

/// A zone as the replay begins; amounts in pages.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// Its node.
    pub node: u32,
    /// Its name.
    pub name: String,
    /// Pages of the zone.
    pub managed: u64,
    /// Pages on free lists.
    pub free: u64,
    /// Pages in pagesets.
    pub held: u64,
    /// The min watermark.
    pub watermark_min: u64,
    /// The low watermark.
    pub watermark_low: u64,
    /// The high watermark.
    pub watermark_high: u64,
    /// The batch.
    pub batch: u32,
    /// The lower bound of high.
    pub high_min: u32,
    /// The upper bound of high.
    pub high_max: u32,
}

/// What the kernel did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// Its rules' name.
    pub rules: String,
    /// Whether the recording tells, or they are guessed.
    pub known: bool,
    /// Its refills and drains.
    #[serde(flatten)]
    pub totals: Totals,
    /// The same by CPU and zone.
    pub pagesets: Vec<Pageset>,
}

/// By how much refills and drains differ from the kernel's, in percent; null where it has none to differ from.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Differences {
    /// Refills.
    pub refills_diff_pct: Option<f64>,
    /// Their pages.
    pub refill_pages_diff_pct: Option<f64>,
    /// Drains.
    pub drains_diff_pct: Option<f64>,
    /// Their pages.
    pub drain_pages_diff_pct: Option<f64>,
}

impl Differences {
    /// Of one's totals from the kernel's.
    #[must_use]
    pub fn new(ours: &Totals, kernel: &Totals) -> Self {
        Differences {
            refills_diff_pct: differs_pct(ours.refills, kernel.refills),
            refill_pages_diff_pct: differs_pct(ours.refill_pages, kernel.refill_pages),
            drains_diff_pct: differs_pct(ours.drains, kernel.drains),
            drain_pages_diff_pct: differs_pct(ours.drain_pages, kernel.drain_pages),
        }
    }
}

/// By how much an amount differs from the kernel's, in percent; nothing where the kernel has none and it has some.
#[must_use]
pub fn differs_pct(amount: u64, kernel: u64) -> Option<f64> {
    match (amount, kernel) {
        (0, 0) => Some(0.0),
        (_, 0) => None,
        _ => Some((amount as f64 / kernel as f64 - 1.0) * 100.0),
    }
}

/// The share of the kernel's refills and drains that the replay makes near the same place, in percent, and that of a
/// replay which makes as many at places drawn by chance; null where the kernel made none.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nearness {
    /// Refills.
    pub refills_near_pct: Option<f64>,
    /// Refills, by chance.
    pub refills_near_by_chance_pct: Option<f64>,
    /// Drains.
    pub drains_near_pct: Option<f64>,
    /// Drains, by chance.
    pub drains_near_by_chance_pct: Option<f64>,
}

impl Nearness {
    pub(super) fn new(refills: Option<Near>, drains: Option<Near>) -> Self {
        Nearness {
            refills_near_pct: refills.map(|near| near.pct),
            refills_near_by_chance_pct: refills.map(|near| near.chance_pct),
            drains_near_pct: drains.map(|near| near.pct),
            drains_near_by_chance_pct: drains.map(|near| near.chance_pct),
        }
    }
}

/// A replay under one set of rules.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// The rules' name.
    pub name: String,
    /// What it was allowed to use.
    pub level: Level,
    /// Whether the rules are the recorded kernel's.
    pub is_kernel: bool,
    /// Its refills and drains.
    #[serde(flatten)]
    pub totals: Totals,
    /// How they differ from the kernel's.
    #[serde(flatten)]
    pub differences: Differences,
    /// How near they are to the kernel's.
    #[serde(flatten)]
    pub near: Nearness,
    /// The share of what the kernel and the replay move that both move near the same place, in percent.
    pub explained_pct: f64,
    /// Whether all four quantities are within the limits of `--check`.
    pub agrees: bool,
    /// What it took from the kernel's own moves and from later snapshots.
    pub taken_from_kernel: Borrowed,
    /// Holds of zone locks.
    pub zone_lock_acquisitions: u64,
    /// Holds of zone locks for 1000 allocations and frees.
    pub zone_lock_acquisitions_per_1000_operations: f64,
    /// The most pages in pagesets at any time.
    pub held_pages_max: u64,
    /// Allocations and frees.
    pub operations: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Allocations made below the min watermark.
    pub below_min: u64,
    /// Blocks freed that were never seen to be taken.
    pub unseen_allocs: u64,
    /// Blocks taken twice without a free between.
    pub lost_frees: u64,
    /// Frees, or whole operations, that could not be made.
    pub refused_frees: u64,
    /// The rules by the keys of `--set`, switches and numbers as such.
    #[serde(with = "by_key")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub tuning: Vec<(String, Value)>,
    /// The administrator's fraction in force, 0 for none.
    pub high_fraction: u32,
    /// Each CPU's share of the last-level cache in pages; null where it is not known.
    pub cache_slice_pages: Option<u64>,
    /// Refills and drains by CPU and zone.
    pub pagesets: Vec<Pageset>,
    /// What weakens this result, those that weaken every one included.
    pub warnings: Vec<String>,
    /// Those of them that weaken this result alone, with their counts. Only in memory.
    #[serde(skip)]
    pub counted: Vec<Counted>,
}

/// A map whose members keep their order.
mod by_key {
    use std::collections::BTreeMap;

    use pageset_rules::Value;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(rules: &[(String, Value)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(rules.iter().map(|(key, value)| (key, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Value)>, D::Error> {
        Ok(BTreeMap::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Refills and drains of a CPU and zone, where the kernel or the replay made any.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pageset {
    /// The CPU.
    pub cpu: u32,
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// Its refills and drains.
    #[serde(flatten)]
    pub totals: Totals,
    /// How near they are to the kernel's.
    #[serde(flatten)]
    pub near: Nearness,
}

/// Whether each named set of rules does what the kernel did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Whether no limit failed.
    pub passed: bool,
    /// The limits of each named set of rules in turn.
    pub limits: Vec<Limit>,
}

/// One limit and what was measured.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// The rules' name.
    pub rules: String,
    /// What the replay was allowed to use.
    pub level: Level,
    /// What is measured.
    pub what: String,
    /// The measured difference, or share, in percent; null where there is no such number.
    pub measured_pct: Option<f64>,
    /// The largest difference, or the smallest share, in percent.
    pub allowed_pct: Option<f64>,
    /// The largest difference in pages, refills or drains; null for a share, of which more is better.
    pub allowed: Option<u64>,
    /// How it ended.
    pub verdict: Verdict,
}

/// How a limit ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the limit.
    Pass,
    /// Outside it.
    Fail,
    /// Too little to judge, or not asked for.
    #[serde(rename = "not judged")]
    NotJudged,
}

#[cfg(test)]
mod tests {
    use super::differs_pct;

    #[test]
    fn differences() {
        assert_eq!(differs_pct(0, 0), Some(0.0));
        assert_eq!(differs_pct(1, 0), None);
        assert_eq!(differs_pct(0, 4), Some(-100.0));
        assert_eq!(differs_pct(5, 4), Some(25.0));
    }
}
