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
    /// The conditions of --only, which restrict the counted refills and drains; null if all are counted.
    pub only: Option<Selected>,
    /// A summary of the recording.
    pub trace: Recording,
    /// The kernel's moves.
    pub kernel: Kernel,
    /// The replays of the named rules at the level, then the kernel's rules at the input level.
    pub rules: Vec<Replayed>,
    /// The result of --check: whether the replay follows the kernel closely enough; null without --check.
    pub check: Option<Check>,
    /// The weaknesses of the result, as printed below the table.
    #[schemars(extend("bad" = "Any.", "todo" = "Run `pageset explain` with the name."))]
    pub warnings: Vec<Warning>,
}

/// The conditions on the counted moves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Selected {
    /// The CPUs, processes or cgroups whose refills and drains are counted.
    pub conditions: Vec<String>,
    /// Allocations and frees that meet the conditions.
    #[schemars(extend("bad" = "0: nothing is counted.", "todo" = "Name another process or CPU."))]
    pub selected_operations: u64,
    /// Allocations and frees that are not selected because the recording does not name their thread.
    #[schemars(extend("bad" = "Many: short-lived threads did the work.",
        "todo" = "Select by CPU or by process number."))]
    pub unlisted_operations: u64,
    /// All moves, counted or not. `None` in a result that was read.
    #[serde(skip)]
    pub whole: Option<Whole>,
}

/// All moves of a recording. They tell whether a replay may be trusted, whatever part of it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The kernel's.
    pub kernel: Totals,
    /// The kernel's refills and drains on the CPU that has most of them.
    pub busiest: u64,
    /// Those of the replay under the kernel's own rules.
    pub replay: Totals,
}

/// A summary of the recording.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// The recording's name.
    pub name: String,
    /// The recording's form: `pstrace`, `text` or `perf.data`.
    pub form: String,
    /// Events in all.
    pub events: u64,
    /// The replayed events: those between the first and the last snapshot of the pagesets.
    #[schemars(extend("bad" = "Far fewer than events: the snapshots do not enclose the load.",
        "todo" = "Use `pageset record`, which takes both snapshots."))]
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
    /// What the replay counted in the recording besides refills and drains.
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
    /// The zone's min watermark at the start of the replay. Unit: pages.
    pub watermark_min: u64,
    /// The zone's low watermark at the start of the replay. Unit: pages.
    pub watermark_low: u64,
    /// The zone's high watermark at the start of the replay. Unit: pages.
    pub watermark_high: u64,
    /// The pages that an unscaled refill or drain moves.
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
    /// Whether the release determines the kernel's rules. If not, the rules are a guess.
    #[schemars(extend("bad" = "false: the rules are a guess.", "todo" = "As the warning kernel-unknown."))]
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
    /// The difference between the replay's refills and the kernel's. Unit: percent; null if the kernel had none.
    #[schemars(extend("heading" = "refills", "tables" = "nearness", "rank" = 8,
        "bad" = "Above 5 % under the kernel's own rules, reconstructed.", "todo" = "As refills near."))]
    pub refills_diff_pct: Option<f64>,
    /// The difference between the pages of the replay's refills and the kernel's. Unit: percent; null if the kernel had
    /// none.
    #[schemars(extend("heading" = "refill pages", "tables" = "nearness", "rank" = 7,
        "bad" = "Above 2 % under the kernel's own rules, reconstructed.", "todo" = "As refills near."))]
    pub refill_pages_diff_pct: Option<f64>,
    /// The difference between the replay's drains and the kernel's. Unit: percent; null if the kernel had none.
    #[schemars(extend("heading" = "drains", "tables" = "nearness", "rank" = 10, "todo" = "As refills near."))]
    pub drains_diff_pct: Option<f64>,
    /// The difference between the pages of the replay's drains and the kernel's. Unit: percent; null if the kernel had
    /// none.
    #[schemars(extend("heading" = "drain pages", "tables" = "nearness", "rank" = 9,
        "bad" = "Above 6 % under the kernel's own rules, reconstructed.", "todo" = "As refills near."))]
    pub drain_pages_diff_pct: Option<f64>,
}

impl Differences {
    /// The differences of `ours` from the kernel's totals.
    pub fn new(ours: &Totals, kernel: &Totals) -> Self {
        Differences {
            refills_diff_pct: differs_pct(ours.refills, kernel.refills),
            refill_pages_diff_pct: differs_pct(ours.refill_pages, kernel.refill_pages),
            drains_diff_pct: differs_pct(ours.drains, kernel.drains),
            drain_pages_diff_pct: differs_pct(ours.drain_pages, kernel.drain_pages),
        }
    }

    /// All differences, in the order of their columns.
    pub const fn all(&self) -> [Option<f64>; 4] {
        [self.refills_diff_pct, self.refill_pages_diff_pct, self.drains_diff_pct, self.drain_pages_diff_pct]
    }
}

/// The difference of an amount from the kernel's, in percent; `None` if only the kernel's amount is 0.
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
    /// The share of the kernel's refills that the replay makes near the same place. Places are near within a tenth of
    /// the mean distance between refills, at most 512 events. In brackets: the share by chance.
    #[schemars(extend("heading" = "refills near", "tables" = "nearness", "rank" = 5,
        "bad" = "Below 95 % for a steady load: the replay does not follow the kernel closely.",
        "todo" = "Read the warnings below the table before you trust small differences."))]
    pub refills_near_pct: Option<f64>,
    /// The value of refills near for a replay with as many refills at random places. Unit: percent.
    #[schemars(extend("bad" = "Close to refills_near_pct: refills near says nothing about this replay."))]
    pub refills_near_by_chance_pct: Option<f64>,
    /// The same share as refills near, for drains.
    #[schemars(extend("heading" = "drains near", "as" = "refills near", "tables" = "nearness", "rank" = 6))]
    pub drains_near_pct: Option<f64>,
    /// The value of drains near for a replay with as many drains at random places. Unit: percent.
    #[schemars(extend("bad" = "Close to drains_near_pct: drains near says nothing about this replay."))]
    pub drains_near_by_chance_pct: Option<f64>,
}

impl Nearness {
    /// The shares of refills and of drains, each with the share by chance.
    pub const fn all(&self) -> [(Option<f64>, Option<f64>); 2] {
        [
            (self.refills_near_pct, self.refills_near_by_chance_pct),
            (self.drains_near_pct, self.drains_near_by_chance_pct),
        ]
    }

    /// The means over pagesets, weighted by the kernel's refills and drains on each.
    pub fn mean(pagesets: &[(&Pageset, Totals)]) -> Nearness {
        let mean = |share: fn(&Nearness) -> Option<f64>, moves: fn(&Totals) -> u64| {
            let weighted = |(set, kernel): &(&Pageset, Totals)| Some(share(&set.near)? * moves(kernel) as f64);
            let sum: f64 = pagesets.iter().filter_map(weighted).sum();
            let all: u64 = pagesets.iter().map(|(_, kernel)| moves(kernel)).sum();
            (all > 0).then(|| sum / all as f64)
        };
        Nearness {
            refills_near_pct: mean(|near| near.refills_near_pct, |totals| totals.refills),
            refills_near_by_chance_pct: mean(|near| near.refills_near_by_chance_pct, |totals| totals.refills),
            drains_near_pct: mean(|near| near.drains_near_pct, |totals| totals.drains),
            drains_near_by_chance_pct: mean(|near| near.drains_near_by_chance_pct, |totals| totals.drains),
        }
    }

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
    #[schemars(extend("heading" = "rules", "tables" = "amounts nearness"))]
    pub name: String,
    /// Which parts of the recording the replay used. `input only`: the events that cause a pageset to act, and the
    /// state at the start. `reconstructed`: also the state that the kernel's refills and drains reveal.
    #[schemars(extend("tables" = "amounts nearness", "rank" = 4, "todo" = "Compare only rows of the same level."))]
    pub level: Level,
    /// Whether these are the rules of the recorded kernel.
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
    /// The share of all pages moved, by the kernel and by the replay together, that both move on the same pageset near
    /// the same place.
    #[schemars(extend("heading" = "explained", "unit" = "percent", "tables" = "nearness", "rank" = 1,
        "bad" = "Below 90 % under the kernel's own rules.",
        "todo" = "Read the warnings. `pageset replay FILE --identify` shows which rules explain more."))]
    pub explained_pct: f64,
    /// Whether refill pages, refills, drain pages and drains are all within the limits of --check.
    #[schemars(extend("bad" = "false under the kernel's own rules.", "todo" = "As explained."))]
    pub agrees: bool,
    /// The information that the replay took from the kernel's own moves and from later snapshots.
    pub taken_from_kernel: Borrowed,
    /// Holds of zone locks: refills, drains, and blocks that bypass the pagesets.
    #[schemars(extend("as" = "locks/1000 ops"))]
    pub zone_lock_acquisitions: u64,
    /// Holds of zone locks per 1000 allocations and frees: refills, drains, and blocks that bypass the pagesets.
    #[schemars(extend("heading" = "locks/1000 ops", "unit" = "per 1000 operations", "digits" = 1, "better" = "lower",
        "tables" = "amounts", "rank" = 1, "figure" = "zone-lock holds",
        "bad" = "Above some tens, on machines with many CPUs. On two CPUs even hundreds cost little.",
        "todo" = "Compare rule sets. Change a setting only if it halves this number or better."))]
    pub zone_lock_acquisitions_per_1000_operations: f64,
    /// Cache lines touched while a zone lock was held: the sum over all holds. A line counts once per hold.
    #[schemars(extend("heading" = "lines", "as" = "max lines/hold", "better" = "lower", "per" = "1000 ops"))]
    pub zone_lock_lines: u64,
    /// The most cache lines that one hold of a zone lock touched: how much work other CPUs wait for. A page is one
    /// line, the head of a free list another; a batch that passes through a depot is four lines, however many pages it
    /// has.
    #[schemars(extend("heading" = "max lines/hold", "unit" = "cache lines", "better" = "lower", "tables" = "amounts",
        "rank" = 8, "figure" = "longest hold",
        "bad" = "Thousands, where a bound on the delay matters. A drain of 2,016 pages touches 2,400 to 6,000 lines \
        under the rules of 6.18.", "todo" = "Compare rule sets. Those of 6.19 let go of the lock after each batch."))]
    pub longest_hold_lines: u64,
    /// The largest number of pages that all pagesets held together. Other CPUs get these pages only after a drain.
    /// Unit: pages.
    #[schemars(extend("heading" = "most held", "unit" = "pages", "better" = "neither", "tables" = "amounts",
        "rank" = 5, "figure" = "most held",
        "bad" = "A large part of the zone, on a machine that is short of memory.",
        "todo" = "Set vm.percpu_pagelist_high_fraction, which limits it. The cost is more refills and drains."))]
    pub held_pages_max: u64,
    /// The most pages that depots held together. Any CPU gets them with its next refill, so `held_pages_max` does not
    /// count them. Unit: pages.
    pub depot_pages: u64,
    /// Replayed allocations and frees.
    #[schemars(extend("better" = "neither"))]
    pub operations: u64,
    /// Allocations that failed in the replay.
    #[schemars(extend("better" = "lower", "tables" = "amounts", "rank" = 9, "bad" = "Any.",
        "todo" = "See the warnings kernel-failures and replay-failures."))]
    pub failed: u64,
    /// Allocations made below the min watermark.
    #[schemars(extend("better" = "lower"))]
    pub below_min: u64,
    /// Freed blocks without a recorded allocation. They were allocated before the recording, or without an event.
    pub unseen_allocs: u64,
    /// Blocks allocated twice without a free in between: the free is not recorded.
    #[schemars(extend("as" = "the warning taken-twice"))]
    pub lost_frees: u64,
    /// Frees that the allocator refused, and operations on unknown CPUs.
    #[schemars(extend("bad" = "Any.", "todo" = "As the warning not-made."))]
    pub refused_frees: u64,
    /// The rules of the row, by the keys of --set.
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
    /// Whether the replay kept all limits of the check.
    #[schemars(extend("bad" = "false.", "todo" = "Look for limits with the verdict `fail`."))]
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
    /// The measured value: a difference from the kernel, or a share of its refills or drains. Unit: percent.
    #[schemars(extend("bad" = "A difference above allowed_pct, up or down; a share below allowed_pct.",
        "todo" = "As refills near."))]
    pub measured_pct: Option<f64>,
    /// The largest allowed difference, or the smallest allowed share, in percent.
    pub allowed_pct: Option<f64>,
    /// The largest difference from the kernel that passes: pages, refills or drains; null for a share.
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
