//! What CPUs move, and how long they wait.

use std::ops::Range;

use pageset_record::live::times::{durations, percentile};
use pageset_record::live::{Wait, WaitTimes, Waits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::top_cmd::look::Look;

/// What a CPU has moved since counting began, and per second since the previous look.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(in crate::top_cmd) struct CpuTraffic {
    pub(in crate::top_cmd) cpu: u32,
    pub(in crate::top_cmd) refill_pages: u64,
    pub(in crate::top_cmd) drain_pages: u64,
    pub(in crate::top_cmd) high_order_drains: u64,
    pub(in crate::top_cmd) fallbacks: u64,
    pub(in crate::top_cmd) refill_pages_per_s: Option<f64>,
    pub(in crate::top_cmd) drain_pages_per_s: Option<f64>,
    pub(in crate::top_cmd) high_order_drains_per_s: Option<f64>,
    pub(in crate::top_cmd) fallbacks_per_s: Option<f64>,
    /// Null if waits are not measured.
    pub(in crate::top_cmd) zone_lock_waits: Option<CpuWaits>,
}

/// How long a CPU has waited for zone locks since counting began, by path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(in crate::top_cmd) struct CpuWaits {
    pub(in crate::top_cmd) refill: PathWait,
    pub(in crate::top_cmd) drain: PathWait,
    pub(in crate::top_cmd) direct_alloc: PathWait,
    pub(in crate::top_cmd) direct_free: PathWait,
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
    pub(in crate::top_cmd) fn paths(&self) -> [PathWait; 4] {
        [self.refill, self.drain, self.direct_alloc, self.direct_free]
    }

    /// Percent of the time since the previous look.
    pub(in crate::top_cmd) fn pct(&self) -> Option<f64> {
        self.paths().iter().map(|path| path.pct).sum()
    }
}

/// Waits for zone locks on one path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(in crate::top_cmd) struct PathWait {
    pub(in crate::top_cmd) times: u64,
    pub(in crate::top_cmd) ns: u64,
    pub(in crate::top_cmd) per_s: Option<f64>,
    /// Percent of the time since the previous look.
    pub(in crate::top_cmd) pct: Option<f64>,
}

/// The paths to a zone lock, as in JSON and metrics.
pub(in crate::top_cmd) const PATHS: [&str; 4] = ["refill", "drain", "direct_alloc", "direct_free"];

/// How many waits of all CPUs on one path took how long, since counting began.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(in crate::top_cmd) struct PathTimes {
    /// One of [`PATHS`].
    pub(in crate::top_cmd) path: String,
    /// The classes of duration that have waits, the shortest first.
    pub(in crate::top_cmd) classes: Vec<TimeClass>,
}

/// The waits of a class of duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(in crate::top_cmd) struct TimeClass {
    pub(in crate::top_cmd) from_ns: u64,
    pub(in crate::top_cmd) below_ns: u64,
    pub(in crate::top_cmd) waits: u64,
}

/// The waits by path and duration.
pub(in crate::top_cmd) fn wait_times(times: &WaitTimes) -> Vec<PathTimes> {
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
pub(in crate::top_cmd) fn percentiles(now: &[PathTimes], then: Option<&[PathTimes]>, path: &str) -> Option<[f64; 3]> {
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

pub(super) fn per_s(now: u64, then: Option<u64>, seconds: Option<f64>) -> Option<f64> {
    // The counters of a CPU that was offline restart at 0. A counter that decreased has no rate.
    Some(now.checked_sub(then?)? as f64 / seconds?)
}

pub(super) fn traffic(look: &Look, before: Option<&Look>, seconds: Option<f64>) -> Option<Vec<CpuTraffic>> {
    let all = look.traffic.as_ref()?.iter().map(|now| {
        let then = before.and_then(|before| before.traffic.as_ref()?.iter().find(|then| then.cpu == now.cpu));
        CpuTraffic {
            cpu: now.cpu,
            refill_pages: now.refill_pages,
            drain_pages: now.drain_pages,
            high_order_drains: now.high_order_drains,
            fallbacks: now.fallbacks,
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
