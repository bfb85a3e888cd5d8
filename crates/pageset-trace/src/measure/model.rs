//! The result of `pageset replay`, which its table, its JSON and its report show. Units: pages, nanoseconds, counts,
//! percent.

use std::collections::BTreeMap;

use pageset_rules::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::warnings::{Counted, Warning};
use crate::facts::Facts;
use crate::replay::{Borrowed, Found, Level, Near, Totals};

schema!("pageset.replay/1");

/// The result of one recording.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// `pageset.replay/1`.
    pub schema: Schema,
    /// The level of the replays of the named rules.
    pub level: Level,
    /// The conditions on the counted refills and drains; null if all count.
    pub only: Option<Selected>,
    /// A summary of the recording.
    pub trace: Recording,
    /// The kernel's moves.
    pub kernel: Kernel,
    /// The replays of the named rules at the level, then the kernel's rules at the input level.
    pub rules: Vec<Replayed>,
    /// The check; null unless requested.
    pub check: Option<Check>,
    /// Warnings about all rows.
    pub warnings: Vec<Warning>,
}

/// The conditions on the counted moves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Selected {
    /// The conditions, as `--only` takes them.
    pub conditions: Vec<String>,
    /// Allocations and frees that meet the conditions.
    pub selected_operations: u64,
    /// Allocations and frees of threads that the recording does not name.
    pub unlisted_operations: u64,
    /// All moves, counted or not: of the kernel, and of the replay under its own rules. They tell whether a replay may be
    /// trusted, whatever part of it is counted. `None` in a result that was read.
    #[serde(skip)]
    pub whole: Option<(Totals, Totals)>,
}

/// A summary of the recording.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// The recording's form: `pstrace`, `text` or `perf.data`.
    pub form: String,
    /// Events in all.
    pub events: u64,
    /// Events in the replayed window.
    pub replayed_events: u64,
    /// Allocations and frees in the replayed window.
    pub operations: u64,
    /// Nanoseconds from the first replayed event to the last.
    pub duration_ns: u64,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Memory nodes with zones.
    pub nodes: usize,
    /// The zones.
    pub zones: Vec<Zone>,
    /// Facts about the recorded machine and the recording.
    pub facts: Facts,
    /// Counts other than refills and drains.
    pub found: Found,
}

/// A zone as the replay begins; amounts in pages.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub name: String,
    /// Managed pages of the zone.
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
    /// The lower bound of `high`.
    pub high_min: u32,
    /// The upper bound of `high`.
    pub high_max: u32,
}

/// The recorded kernel's rules and moves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// The name of the kernel's rules.
    pub rules: String,
    /// Whether the recording names the kernel; if not, the rules are guessed.
    pub known: bool,
    /// Its refills and drains.
    #[serde(flatten)]
    pub totals: Totals,
    /// Refills and drains by CPU and zone.
    pub pagesets: Vec<Pageset>,
}

/// The differences of refills and drains from the kernel's, in percent; null if the kernel has none.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Differences {
    /// Refills.
    pub refills_diff_pct: Option<f64>,
    /// Pages of refills.
    pub refill_pages_diff_pct: Option<f64>,
    /// Drains.
    pub drains_diff_pct: Option<f64>,
    /// Pages of drains.
    pub drain_pages_diff_pct: Option<f64>,
}

impl Differences {
    /// The differences of `ours` from the kernel's totals.
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

/// The difference of an amount from the kernel's, in percent; `None` if only the kernel's amount is 0.
#[must_use]
pub fn differs_pct(amount: u64, kernel: u64) -> Option<f64> {
    match (amount, kernel) {
        (0, 0) => Some(0.0),
        (_, 0) => None,
        _ => Some((amount as f64 / kernel as f64 - 1.0) * 100.0),
    }
}

/// The share of the kernel's refills and drains that the replay makes near the same place, in percent. The share by
/// chance is that of as many moves at random places. Null if the kernel has no moves.
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

/// The result of a replay under one set of rules.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// The rules' name.
    pub name: String,
    /// The level of the replay.
    pub level: Level,
    /// Whether the rules are the recorded kernel's.
    pub is_kernel: bool,
    /// Its refills and drains.
    #[serde(flatten)]
    pub totals: Totals,
    /// Their differences from the kernel's.
    #[serde(flatten)]
    pub differences: Differences,
    /// The shares of the kernel's moves that the replay makes near the same place.
    #[serde(flatten)]
    pub near: Nearness,
    /// The share of the moved pages that the kernel and the replay both move near the same place, in percent.
    pub explained_pct: f64,
    /// Whether all four quantities are within the limits of `--check`.
    pub agrees: bool,
    /// The information that the replay took from the kernel's own moves and from later snapshots.
    pub taken_from_kernel: Borrowed,
    /// Acquisitions of zone locks.
    pub zone_lock_acquisitions: u64,
    /// Acquisitions of zone locks per 1000 allocations and frees.
    pub zone_lock_acquisitions_per_1000_operations: f64,
    /// Cache lines touched while a zone lock was held: the sum over all holds. A line counts once per hold.
    pub zone_lock_lines: u64,
    /// The most cache lines touched in one hold.
    pub longest_hold_lines: u64,
    /// The most pages in pagesets at any time.
    pub held_pages_max: u64,
    /// The most pages in depots at any time. No pageset holds them.
    pub depot_pages: u64,
    /// Allocations and frees.
    pub operations: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Allocations made below the min watermark.
    pub below_min: u64,
    /// Freed blocks without a recorded allocation.
    pub unseen_allocs: u64,
    /// Blocks allocated twice without a free in between.
    pub lost_frees: u64,
    /// Frees that the allocator refused, and operations on unknown CPUs.
    pub refused_frees: u64,
    /// The rules by the keys of `--set`, as switches and numbers.
    #[serde(with = "by_key")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub tuning: Vec<(String, Value)>,
    /// `vm.percpu_pagelist_high_fraction` in force, 0 for none.
    pub high_fraction: u32,
    /// The smallest share of the last-level cache of any CPU, in pages; null if unknown.
    pub cache_slice_pages: Option<u64>,
    /// Refills and drains by CPU and zone.
    pub pagesets: Vec<Pageset>,
    /// Warnings about this row, including those about all rows.
    pub warnings: Vec<Warning>,
    /// The counted warnings about this row alone. Only in memory.
    #[serde(skip)]
    pub counted: Vec<Counted>,
}

#[cfg(test)]
impl Replayed {
    /// A row without measurements.
    pub(crate) fn empty(name: &str) -> Replayed {
        Replayed {
            name: name.to_owned(),
            level: Level::Reconstructed,
            is_kernel: false,
            totals: Totals::default(),
            differences: Differences::new(&Totals::default(), &Totals::default()),
            near: Nearness::default(),
            explained_pct: 0.0,
            agrees: true,
            taken_from_kernel: Borrowed::default(),
            zone_lock_acquisitions: 0,
            zone_lock_acquisitions_per_1000_operations: 0.0,
            zone_lock_lines: 0,
            longest_hold_lines: 0,
            held_pages_max: 0,
            depot_pages: 0,
            operations: 0,
            failed: 0,
            below_min: 0,
            unseen_allocs: 0,
            lost_frees: 0,
            refused_frees: 0,
            tuning: Vec::new(),
            high_fraction: 0,
            cache_slice_pages: None,
            pagesets: Vec::new(),
            warnings: Vec::new(),
            counted: Vec::new(),
        }
    }
}

/// Serialization of a map that keeps the order of its members.
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

/// Refills and drains of a CPU and zone on which the kernel or the replay made any.
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
    /// The shares of the kernel's moves that the replay makes near the same place.
    #[serde(flatten)]
    pub near: Nearness,
}

/// The check of each named set of rules against the kernel.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Whether all limits hold.
    pub passed: bool,
    /// The limits of each named set of rules, in order.
    pub limits: Vec<Limit>,
}

/// One limit and its measurement.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// The rules' name.
    pub rules: String,
    /// The level of the replay.
    pub level: Level,
    /// The measured quantity.
    pub what: String,
    /// The measured difference or share, in percent; null if there is none.
    pub measured_pct: Option<f64>,
    /// The largest allowed difference, or the smallest allowed share, in percent.
    pub allowed_pct: Option<f64>,
    /// The largest allowed difference in pages, refills or drains; null for a share.
    pub allowed: Option<u64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict on a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the limit.
    Pass,
    /// Outside it.
    Fail,
    /// Nothing to judge, or not requested.
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
