//! What a run has measured.

use hdrhistogram::Histogram;

use crate::engine::{Held, LockStats, Source};
use crate::os::Moved;
use crate::time::Time;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Nodes that were simulated, and how many each of them stands for: see [`Run::whole`](super::Run::whole). What tells
    /// how much was done is of all, the locks and the tasks' time are of those that were simulated.
    pub nodes: u32,
    /// See [`Self::nodes`].
    pub stands_for: u32,
    /// Operations of all tasks, and those of the workload's second kind.
    pub operations: [u64; 2],
    /// Virtual time of the measurement.
    pub time: Time,
    /// Tasks.
    pub tasks: u32,
    /// Virtual time that the tasks did not sleep, all together.
    pub busy: Time,
    /// How long a request for a huge page took on average, where they were timed.
    pub huge_request_time: Option<Time>,
    /// Pages that moved between pagesets and zones in the measurement.
    pub moved: Moved,
    /// All zones' locks, one a node.
    pub zone_locks: Vec<LockStats>,
    /// All LRU locks: one a node, or as many for each memory control group.
    pub lru_locks: Vec<LockStats>,
    /// Allocations by their length in nanoseconds.
    pub alloc_times: Histogram<u64>,
    /// Lines found at each source in the measurement.
    pub lines: [u64; Source::COUNT],
    /// Pages allocated and freed, from the start of the run.
    pub page_operations: u64,
    /// Times a lock of the engine was taken in the measurement.
    pub lock_events: u64,
    /// Switches between CPUs, from the start of the run.
    pub switches: u64,
    /// Holds of locks, as many as [`Run::held`](super::Run::held): zones' locks come first, then those of LRUs, then others.
    pub held: Vec<Held>,
}

impl Outcome {
    /// The outcome of as many nodes as these, all alike.
    pub(super) fn times(mut self, nodes: u32) -> Self {
        let n = u64::from(nodes);
        self.stands_for = nodes;
        self.tasks *= nodes;
        self.operations = self.operations.map(|operations| n * operations);
        self.lines = self.lines.map(|lines| n * lines);
        self.moved = self.moved.times(n);
        self
    }

    /// Operations a second, all tasks together.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.operations[0] as f64 / self.time.seconds()
    }

    /// Operations of the second kind a second, all tasks together.
    #[must_use]
    pub fn second_score(&self) -> f64 {
        self.operations[1] as f64 / self.time.seconds()
    }

    /// Lines that came from memory, in percent of those that were in no cache of their core.
    #[must_use]
    pub fn cache_miss_pct(&self) -> f64 {
        let sum = |sources: &[Source]| sources.iter().map(|source| self.lines[*source as usize]).sum::<u64>() as f64;
        let missed = sum(&[Source::Memory, Source::RemoteMemory, Source::RemoteTransfer]);
        100.0 * missed / (missed + sum(&[Source::Llc, Source::Transfer])).max(1.0)
    }

    /// Which share of the time that the tasks did not sleep went to waiting for some locks, in percent.
    fn share_pct(&self, locks: &[LockStats]) -> f64 {
        let waited: Time = locks.iter().map(LockStats::wait).sum();
        100.0 * waited.seconds() / self.busy.seconds()
    }

    /// Waiting for zone locks on some paths, by their numbers in [`crate::engine::LockStats::paths`]; in percent of the time
    /// that the tasks did not sleep.
    #[must_use]
    pub fn zone_path_pct(&self, paths: &[usize]) -> f64 {
        let of_lock = |lock: &LockStats| paths.iter().map(|path| lock.paths[*path].wait).sum::<Time>();
        let waited: Time = self.zone_locks.iter().map(of_lock).sum();
        100.0 * waited.seconds() / self.busy.seconds()
    }

    /// Waiting for zone locks, in percent of the time that the tasks did not sleep.
    #[must_use]
    pub fn zone_pct(&self) -> f64 {
        self.share_pct(&self.zone_locks)
    }

    /// Waiting for LRU locks, in percent of the time that the tasks did not sleep.
    #[must_use]
    pub fn lru_pct(&self) -> f64 {
        self.share_pct(&self.lru_locks)
    }
}
