//! What CPUs move, and how long they wait.

use std::ops::Range;

use pageset_record::live::times::{durations, percentile};
use pageset_record::live::{Wait, WaitTimes, Waits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::holds::HoldRules;
use super::per_s;
use crate::look::Look;

/// What a CPU has moved since counting began, and per second since the previous look.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CpuTraffic {
    /// The CPU's number.
    pub cpu: u32,
    /// Pages that the CPU took from zones under the zone lock since counting began.
    #[schemars(extend("as" = "refill/s", "metric" = "pageset_refill_pages"))]
    pub refill_pages: u64,
    /// Pages that the CPU returned from pagesets to zones since counting began.
    #[schemars(extend("as" = "drain/s", "metric" = "pageset_drain_pages"))]
    pub drain_pages: u64,
    /// Blocks of orders 1 to 3 that the CPU returned to zones since counting began.
    #[schemars(extend("as" = "high-order drains/s", "metric" = "pageset_high_order_drain_blocks"))]
    pub high_order_drains: u64,
    /// Blocks that the CPU took from another migratetype's pageblocks since counting began.
    #[schemars(extend("as" = "fallbacks/s", "metric" = "pageset_fallback_blocks"))]
    pub fallbacks: u64,
    /// How often the CPU took a zone lock since counting began: to refill, to drain, and for blocks past the pagesets. Null if it was
    /// not counted. This is as the gaps between blocks tell: `zone_lock_holds_per_s` adds what follows from the kernel's rules, and may be
    /// higher than the difference of two looks. In the metric these are added, so that its rate is what the agent judges by.
    #[schemars(extend("as" = "zone-lock-moves", "metric" = "pageset_zone_lock_holds"))]
    #[serde(default)]
    pub zone_lock_holds: Option<u64>,
    /// Pages per second that the CPU took from all zones under the zone lock. The kernel counts them; reading the
    /// counts requires root.
    #[schemars(extend("heading" = "refill/s", "digits" = 0, "tables" = "traffic", "bad" = "As many as the CPU allocates.", "todo" = "As refill pages."))]
    pub refill_pages_per_s: Option<f64>,
    /// Pages per second that the CPU returned to all zones.
    #[schemars(extend("heading" = "drain/s", "digits" = 0, "tables" = "traffic", "bad" = "As many as the CPU frees.", "todo" = "As drain pages."))]
    pub drain_pages_per_s: Option<f64>,
    /// Blocks of orders 1 to 3 per second that the CPU returned to all zones.
    #[schemars(extend("heading" = "high-order drains/s", "digits" = 0, "tables" = "traffic",
        "bad" = "Thousands, on 5.18 to 6.15: each run of such frees empties the pageset.",
        "todo" = "Use a newer kernel. See `pageset explain high_threshold_616`."))]
    pub high_order_drains_per_s: Option<f64>,
    /// Blocks per second taken from another migratetype's pageblocks.
    #[schemars(extend("heading" = "fallbacks/s", "digits" = 0, "tables" = "traffic", "as" = "extfrag"))]
    pub fallbacks_per_s: Option<f64>,
    /// How often per second the CPU took a zone lock, with what follows from the kernel's rules: from 6.19 on a long drain takes it for
    /// each batch, and drains of orders 1 to 3 may follow one another too closely to be told apart.
    #[serde(default)]
    #[schemars(extend("as" = "zone-lock-moves"))]
    pub zone_lock_holds_per_s: Option<f64>,
    /// How often per second the CPU would take a zone lock with lists of any size: for what it takes from zones and does not return, or
    /// the reverse, with as many pages at once as the kernel's rules allow.
    #[serde(default)]
    #[schemars(extend("as" = "zone-lock-moves"))]
    pub least_zone_lock_holds_per_s: Option<f64>,
    /// How often per second the CPU would take a zone lock with the largest lists that `vm.percpu_pagelist_high_fraction` makes: in
    /// proportion to the pages that would then pass, if such lists hold what the CPU drains until it refills.
    #[serde(default)]
    #[schemars(extend("as" = "zone-lock-moves"))]
    pub zone_lock_holds_with_largest_per_s: Option<f64>,
    /// Waits for zone locks, by path: refill, drain, direct_alloc, direct_free.
    #[schemars(extend("as" = "wait %"))]
    pub zone_lock_waits: Option<CpuWaits>,
}

impl CpuTraffic {
    /// The pages per second of refills and of drains.
    pub const fn rates(&self) -> [Option<f64>; 2] {
        [self.refill_pages_per_s, self.drain_pages_per_s]
    }

    /// The pages per second of refills and drains together.
    pub fn moved(&self) -> Option<f64> {
        self.rates().into_iter().sum()
    }
}

/// How long a CPU has waited for zone locks since counting began, by path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CpuWaits {
    /// The percentage of its time that the CPU spun for a zone lock to refill a pageset. Programs at the kernel's
    /// events of contended locks measure it (5.19 and later, as root). Locks that are not paravirtual have no event for
    /// the first waiter behind a holder. Therefore the value is a lower bound on bare metal.
    #[schemars(extend("heading" = "refill wait %", "tables" = "waits", "as" = "wait %"))]
    pub refill: PathWait,
    /// The same percentage as refill wait %, for drains.
    #[schemars(extend("heading" = "drain wait %", "tables" = "waits", "as" = "refill wait %"))]
    pub drain: PathWait,
    /// The same percentage as refill wait %, for blocks allocated directly from a zone: orders that pagesets do not
    /// cache, and reserves.
    #[schemars(extend("heading" = "direct alloc wait %", "tables" = "waits", "bad" = "As refill wait %.",
        "todo" = "Allocate fewer large blocks: use huge pages of a fixed pool, or smaller buffers."))]
    pub direct_alloc: PathWait,
    /// The same percentage as refill wait %, for blocks freed directly to a zone.
    #[schemars(extend("heading" = "direct free wait %", "tables" = "waits", "as" = "direct alloc wait %"))]
    pub direct_free: PathWait,
}

impl CpuWaits {
    fn new(now: &Waits, then: Option<&Waits>, seconds: Option<f64>) -> CpuWaits {
        let path = |of: fn(&Waits) -> Wait| {
            let (now, then) = (of(now), then.map(of));
            PathWait {
                times: now.times,
                ns: now.ns,
                per_s: per_s(now.times, then.map(|then| then.times), seconds),
                pct: per_s(now.ns, then.map(|then| then.ns), seconds).map(|ns_per_s| ns_per_s / 1e7),
            }
        };
        CpuWaits {
            refill: path(|waits| waits.refill),
            drain: path(|waits| waits.drain),
            direct_alloc: path(|waits| waits.direct_alloc),
            direct_free: path(|waits| waits.direct_free),
        }
    }

    /// All paths, in the order of their columns.
    pub fn paths(&self) -> [PathWait; 4] {
        [self.refill, self.drain, self.direct_alloc, self.direct_free]
    }

    /// Percent of the time since the previous look.
    pub fn pct(&self) -> Option<f64> {
        self.paths().iter().map(|path| path.pct).sum()
    }
}

/// Waits for zone locks on one path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathWait {
    /// How often a CPU waited for a zone lock, by path, since counting began.
    #[schemars(extend("as" = "wait %", "metric" = "pageset_zone_lock_waits"))]
    pub times: u64,
    /// Time that a CPU waited for zone locks, by path, since counting began. JSON has nanoseconds.
    #[schemars(extend("as" = "wait %", "metric" = "pageset_zone_lock_wait_seconds"))]
    pub ns: u64,
    /// Waits for zone locks per second since the previous look.
    #[schemars(extend("heading" = "waits/s", "tables" = "paths", "as" = "wait %"))]
    pub per_s: Option<f64>,
    /// The share of one CPU's time spent waiting since the previous look. Unit: percent.
    #[schemars(extend("as" = "wait %"))]
    pub pct: Option<f64>,
}

/// The paths to a zone lock, as in JSON and metrics.
pub const PATHS: [&str; 4] = ["refill", "drain", "direct_alloc", "direct_free"];

/// How many waits of all CPUs on one path took how long, since counting began.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathTimes {
    /// What a CPU wanted a zone lock for: refill, drain, direct_alloc or direct_free.
    pub path: String,
    /// The classes of duration that have waits: two for each power of two of nanoseconds.
    pub classes: Vec<TimeClass>,
}

/// The waits of a class of duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeClass {
    /// The shortest duration of a class. Unit: nanoseconds.
    pub from_ns: u64,
    /// The duration below which a class ends. Unit: nanoseconds.
    pub below_ns: u64,
    /// The number of waits in a class of duration since counting began.
    pub waits: u64,
}

/// The waits by path and duration.
pub(super) fn wait_times(times: &WaitTimes) -> Vec<PathTimes> {
    let path = |(path, buckets): (&str, &[u64; 64])| {
        let classes = buckets.iter().enumerate().filter(|(_, waits)| **waits > 0).map(|(bucket, waits)| {
            let Range { start, end } = durations(bucket);
            TimeClass { from_ns: start, below_ns: end, waits: *waits }
        });
        PathTimes { path: path.to_owned(), classes: classes.collect() }
    };
    PATHS.into_iter().zip(&times.0).map(path).collect()
}

/// The percentiles of a path's waits between two looks; without `then`, of all waits since counting began. `None`
/// without waits. Unit: nanoseconds.
pub fn percentiles(now: &[PathTimes], then: Option<&[PathTimes]>, path: &str) -> Option<[f64; 3]> {
    let of = |all: &[PathTimes]| all.iter().find(|times| times.path == path).map(|times| times.classes.clone());
    let then = then.and_then(of).unwrap_or_default();
    let waits: Vec<(Range<u64>, u64)> = of(now)?
        .iter()
        .map(|class| {
            let before = then.iter().find(|then| then.from_ns == class.from_ns).map_or(0, |then| then.waits);
            // Counters that decreased restarted.
            (class.from_ns..class.below_ns, class.waits.checked_sub(before).unwrap_or(class.waits))
        })
        .collect();
    let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|percent| percentile(&waits, percent));
    Some([p50?, p90?, p99?])
}

pub(crate) fn traffic(
    look: &Look,
    before: Option<&Look>,
    seconds: Option<f64>,
    rules: &HoldRules,
) -> Option<Vec<CpuTraffic>> {
    let all = look.traffic.as_ref()?.iter().map(|now| {
        let then = before.and_then(|before| before.traffic.as_ref()?.iter().find(|then| then.cpu == now.cpu));
        let is_counted = look.counts_holds;
        CpuTraffic {
            cpu: now.cpu,
            refill_pages: now.refill_pages,
            drain_pages: now.drain_pages,
            high_order_drains: now.high_order_drains,
            fallbacks: now.fallbacks,
            zone_lock_holds: is_counted.then(|| now.holds.all()),
            zone_lock_holds_per_s: rules.holds(now, then, seconds).filter(|_| is_counted),
            least_zone_lock_holds_per_s: rules.least(now, then, seconds).filter(|_| is_counted),
            zone_lock_holds_with_largest_per_s: rules.with_largest(now, then, seconds).filter(|_| is_counted),
            refill_pages_per_s: per_s(now.refill_pages, then.map(|then| then.refill_pages), seconds),
            drain_pages_per_s: per_s(now.drain_pages, then.map(|then| then.drain_pages), seconds),
            high_order_drains_per_s: per_s(now.high_order_drains, then.map(|then| then.high_order_drains), seconds),
            fallbacks_per_s: per_s(now.fallbacks, then.map(|then| then.fallbacks), seconds),
            zone_lock_waits: now
                .waits
                .as_ref()
                .map(|waits| CpuWaits::new(waits, then.and_then(|then| then.waits.as_ref()), seconds)),
        }
    });
    Some(all.collect())
}
