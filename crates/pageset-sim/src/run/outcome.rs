//! The measurements of a run.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::{LockStats, Source};
use crate::os::Moved;
use crate::time::Time;

/// A number for each quantity that is judged.
#[derive(Clone, Copy, PartialEq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct Figures {
    /// Of an interval or a drift: the score, in percent of its mean.
    pub score_pct: f64,
    /// Of an interval or a drift: the wait for zone locks, in percentage points.
    pub zone_points: f64,
    /// Of an interval or a drift: the wait for LRU locks, in percentage points.
    pub lru_points: f64,
}

impl From<[f64; 3]> for Figures {
    fn from([score_pct, zone_points, lru_points]: [f64; 3]) -> Self {
        Figures { score_pct, zone_points, lru_points }
    }
}

/// How well a measurement stands for the steady state of its run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Steadiness {
    /// Virtual time before the measurement.
    pub warm_up: Time,
    /// Half-widths of the 95 % intervals of the means over time, from ten batches.
    pub interval: Figures,
    /// The second half of the measurement less the first half.
    pub drift: Figures,
    /// Whether a drift is larger than chance gives, and large enough to matter.
    pub drifts: bool,
    /// Whether nothing drifts and all intervals are within the precision.
    pub settled: bool,
}

/// The measurements of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How many nodes each simulated one stands for, see [`Run::whole`](super::Run::whole). Counts of work cover all nodes; locks
    /// and times cover the simulated nodes.
    pub stands_for: u32,
    /// Operations of all tasks: first kind, second kind.
    pub operations: [u64; 2],
    /// Virtual time of the measurement.
    pub time: Time,
    /// How steady the measurement is. `None` for a run that ends by itself.
    pub steadiness: Option<Steadiness>,
    /// Number of tasks.
    pub tasks: u32,
    /// Virtual time that all tasks together did not sleep.
    pub busy: Time,
    /// Mean duration of the timed requests for a huge page.
    pub huge_request_time: Option<Time>,
    /// Pages that moved between pagesets and zones in the measurement.
    pub moved: Moved,
    /// All zone locks, one per node.
    pub zone_locks: Vec<LockStats>,
    /// All LRU locks: one per node, or one per node and memory control group.
    pub lru_locks: Vec<LockStats>,
    /// Durations of allocations in nanoseconds.
    pub alloc_times: Histogram<u64>,
    /// Touched lines by source in the measurement.
    pub lines: [u64; Source::COUNT],
}

/// An amount for each second of `time`; 0 if no time has passed, as in a recording without events.
fn per(amount: f64, time: Time) -> f64 {
    if time == Time::ZERO { 0.0 } else { amount / time.seconds() }
}

impl Outcome {
    pub(super) fn times(mut self, nodes: u32) -> Self {
        let n = u64::from(nodes);
        self.stands_for = nodes;
        self.tasks *= nodes;
        self.operations = self.operations.map(|operations| n * operations);
        self.lines = self.lines.map(|lines| n * lines);
        self.moved = self.moved.times(n);
        self
    }

    /// Operations a second of all tasks; 0 if no time has passed.
    pub fn score(&self) -> f64 {
        per(self.operations[0] as f64, self.time)
    }

    /// Operations of the second kind a second, of all tasks; 0 if no time has passed.
    pub fn second_score(&self) -> f64 {
        per(self.operations[1] as f64, self.time)
    }

    /// Lines from memory or another socket, in per cent of the lines that were not in the core's own caches.
    pub fn cache_miss_pct(&self) -> f64 {
        let sum = |sources: &[Source]| sources.iter().map(|source| self.lines[*source as usize]).sum::<u64>() as f64;
        let missed = sum(&[Source::Memory, Source::NearMemory, Source::RemoteMemory, Source::RemoteTransfer]);
        100.0 * missed / (missed + sum(&[Source::Llc, Source::Transfer, Source::NearTransfer])).max(1.0)
    }

    /// Wait for `locks` in per cent of the time that the tasks did not sleep.
    fn share_pct(&self, locks: &[LockStats]) -> f64 {
        let waited: Time = locks.iter().map(LockStats::wait).sum();
        per(100.0 * waited.seconds(), self.busy)
    }

    /// Wait for zone locks on some paths, by their indices in [`crate::engine::LockStats::paths`]; in per cent of the
    /// time that the tasks did not sleep.
    pub fn zone_path_pct(&self, paths: &[usize]) -> f64 {
        let of_lock = |lock: &LockStats| paths.iter().map(|path| lock.paths[*path].wait).sum::<Time>();
        let waited: Time = self.zone_locks.iter().map(of_lock).sum();
        per(100.0 * waited.seconds(), self.busy)
    }

    /// Wait for zone locks, in per cent of the time that the tasks did not sleep.
    pub fn zone_pct(&self) -> f64 {
        self.share_pct(&self.zone_locks)
    }

    /// Wait for LRU locks, in per cent of the time that the tasks did not sleep.
    pub fn lru_pct(&self) -> f64 {
        self.share_pct(&self.lru_locks)
    }
}
