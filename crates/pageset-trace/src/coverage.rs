//! The events of a recording by CPU and kind, and what a recipe of another tool left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Event, Kind};

/// The kinds of events, by their column headings.
pub const KINDS: [&str; 13] = [
    "alloc",
    "failed",
    "free",
    "batched",
    "zone_locked",
    "drain",
    "extfrag",
    "decay",
    "reclaim",
    "marker",
    "bulk",
    "state_change",
    "fork",
];

/// The index of a kind in [`KINDS`].
fn place(kind: &Kind) -> usize {
    match kind {
        Kind::Alloc { pfn: Some(_), .. } => 0,
        Kind::Alloc { pfn: None, .. } => 1,
        Kind::Free { .. } => 2,
        Kind::FreeBatched { .. } => 3,
        Kind::ZoneLocked { .. } => 4,
        Kind::Drain { .. } => 5,
        Kind::ExtFrag { .. } => 6,
        Kind::VmstatWork => 7,
        Kind::KswapdWake | Kind::KswapdSleep | Kind::DirectReclaim => 8,
        Kind::SnapshotBegin(_) | Kind::SnapshotEnd(_) => 9,
        Kind::BulkAlloc { .. } => 10,
        Kind::StateChange(_) => 11,
        Kind::Fork { .. } => 12,
    }
}

/// Counts of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// By CPU.
    pub(crate) counts: BTreeMap<u32, [u64; KINDS.len()]>,
    /// The processes of the events: at most 2 are kept.
    processes: BTreeSet<u32>,
}

impl Coverage {
    pub(crate) fn event(&mut self, event: &Event) {
        self.counts.entry(event.cpu.0).or_default()[place(&event.kind)] += 1;
        if self.processes.len() < 2 {
            self.processes.insert(event.pid);
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.counts.values().flatten().sum()
    }

    /// The events of a kind of [`KINDS`].
    pub(crate) fn of(&self, kind: &str) -> u64 {
        let place = KINDS.iter().position(|known| *known == kind);
        place.map_or(0, |place| self.counts.values().map(|counts| counts[place]).sum())
    }

    /// The process of all events, if they have one.
    pub(crate) fn only_process(&self) -> Option<u32> {
        self.processes.first().copied().filter(|_| self.processes.len() == 1)
    }
}
