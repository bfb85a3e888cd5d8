//! When reclaim was active, which makes pagesets keep less.
//!
//! The kernel sets the flag as a balancing round begins and clears it as the round ends. Only then kswapd naps for a
//! tenth of a second, and only after an undisturbed nap it writes that it sleeps. Specification: `kernels-2026.md` 3.5.

use std::collections::{HashMap, VecDeque};

use pageset::NodeId;

use super::setting::Setting;
use crate::event::{Event, Kind, StateChange};

/// From the flag's clearing to the event: the nap, and up to a jiffy and a wake-up more. Proved at HZ = 250 (26 jiffies);
/// a guess at other rates. Unit: ns.
const NAP_NS: u64 = 104_000_000;

/// A change of the flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// It happens before this event.
    pub(super) event: u64,
    /// The node that is balanced.
    pub(super) node: NodeId,
    pub(super) active: bool,
    /// The event that told it.
    told: u64,
}

/// Follows kswapd through a recording.
#[derive(Debug)]
pub(super) struct Reclaim {
    /// Time and number of the events of the last nap, while some node is balanced.
    recent: VecDeque<(u64, u64)>,
    /// The last wake of each node that is balanced. A round that follows a nap which was cut short has a wake of its own
    /// and no sleep before it.
    awake: HashMap<NodeId, u64>,
    changes: Vec<Change>,
    /// Whether the recorder's probe tells when a round ends.
    ends_are_recorded: bool,
}

impl Reclaim {
    pub(super) fn new(setting: &Setting) -> Self {
        Reclaim {
            recent: VecDeque::new(),
            awake: HashMap::new(),
            changes: Vec::new(),
            ends_are_recorded: setting.reclaim_ends_recorded,
        }
    }

    pub(super) fn event(&mut self, setting: &Setting, index: u64, event: &Event) {
        // kswapd runs on the node that it balances.
        let node = || setting.cpus.get(event.cpu.0 as usize).copied().unwrap_or(NodeId(0));
        match event.kind {
            Kind::KswapdWake => {
                self.awake.insert(node(), index);
                self.changes.push(Change { event: index, node: node(), active: true, told: index });
            }
            Kind::StateChange(StateChange::ReclaimEnded) => {
                self.awake.remove(&node());
                self.changes.push(Change { event: index, node: node(), active: false, told: index });
            }
            Kind::KswapdSleep => self.slept(index, event.time_ns, node()),
            _ => {}
        }
        if self.awake.is_empty() {
            self.recent.clear();
            return;
        }
        self.recent.push_back((event.time_ns, index));
        while self.recent.front().is_some_and(|(time, _)| event.time_ns.saturating_sub(*time) > NAP_NS) {
            self.recent.pop_front();
        }
    }

    /// kswapd writes that it sleeps: its round has ended a nap before. Where the ends of rounds are recorded, that is needed
    /// only for one that the probe missed.
    fn slept(&mut self, index: u64, time_ns: u64, node: NodeId) {
        let wake = self.awake.remove(&node);
        if self.ends_are_recorded && wake.is_none() {
            return;
        }
        let began = time_ns.saturating_sub(NAP_NS);
        let first = self.recent.partition_point(|(time, _)| *time < began);
        let first = self.recent.get(first).map_or(index, |(_, first)| *first);
        // A round ends after its begin, however short the nap was.
        let first = wake.map_or(first, |wake| first.max(wake + 1));
        self.changes.push(Change { event: first, node, active: false, told: index });
    }

    /// The changes by events alone.
    pub(super) fn finish(mut self) -> Vec<Change> {
        self.changes.sort_by_key(|change| change.event);
        self.changes
    }
}

/// The changes where the kernel's own drains show how long a round lasted: under reclaim a pageset keeps four batches, so that
/// a drain takes three at most. `small` are the events of such drains, sorted.
pub(super) fn by_drains(changes: &[Change], small: &[u64]) -> Vec<Change> {
    let later = |change: &Change| {
        let nap =
            small.partition_point(|event| *event < change.event)..small.partition_point(|event| *event < change.told);
        let last = small[nap].last().map_or(change.event, |event| event + 1);
        Change { event: if change.active { change.event } else { last }, ..*change }
    };
    let mut changes: Vec<Change> = changes.iter().map(later).collect();
    changes.sort_by_key(|change| change.event);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(event: u64, active: bool, told: u64) -> Change {
        Change { event, node: NodeId(0), active, told }
    }

    #[test]
    fn the_last_small_drain_of_the_nap_ends_the_round() {
        let changes = [change(10, true, 10), change(100, false, 200)];
        assert_eq!(by_drains(&changes, &[20, 90]), changes, "before the nap");
        assert_eq!(by_drains(&changes, &[90, 120, 150, 250])[1], change(151, false, 200));
    }
}
