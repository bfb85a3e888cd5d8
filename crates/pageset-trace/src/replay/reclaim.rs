//! The times of active reclaim, during which pagesets keep fewer pages.
//!
//! The kernel sets the reclaim flag when a balancing round begins and clears it when the round ends. After that, kswapd
//! naps for a tenth of a second. It writes its sleep event only after an undisturbed nap. Specification:
//! `kernels-2026.md` 3.5.

use std::collections::{HashMap, VecDeque};

use pageset::NodeId;

use super::setting::Setting;
use crate::event::{Event, Kind, StateChange};

/// The time from the clearing of the flag to the sleep event: the nap, and up to one jiffy and one wake-up. Verified at
/// HZ = 250 (26 jiffies); a guess at other rates. Unit: ns.
const NAP_NS: u64 = 104_000_000;

/// A change of a node's reclaim flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The change happens before this event.
    pub(super) event: u64,
    /// The node that kswapd balances.
    pub(super) node: NodeId,
    pub(super) active: bool,
    /// The event that shows the change.
    shown_by: u64,
}

/// Follows kswapd through a recording.
#[derive(Debug)]
pub(super) struct Reclaim {
    /// Time and index of the events within the last [`NAP_NS`], kept only while kswapd balances a node.
    recent: VecDeque<(u64, u64)>,
    /// The last wake event of each node in a balancing round. After an interrupted nap, the next round has a wake event
    /// without an earlier sleep event.
    awake: HashMap<NodeId, u64>,
    changes: Vec<Change>,
    /// Whether the recorder's probe records the end of each round.
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
                self.changes.push(Change { event: index, node: node(), active: true, shown_by: index });
            }
            Kind::StateChange(StateChange::ReclaimEnded) => {
                self.awake.remove(&node());
                self.changes.push(Change { event: index, node: node(), active: false, shown_by: index });
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

    /// Handles kswapd's sleep event: its round ended one nap earlier. If the recording has the ends of rounds, this
    /// matters only for a round whose end the probe missed.
    fn slept(&mut self, index: u64, time_ns: u64, node: NodeId) {
        let wake = self.awake.remove(&node);
        if self.ends_are_recorded && wake.is_none() {
            return;
        }
        let began = time_ns.saturating_sub(NAP_NS);
        let first = self.recent.partition_point(|(time, _)| *time < began);
        let first = self.recent.get(first).map_or(index, |(_, first)| *first);
        // A round ends after it began, even if the nap was short.
        let first = wake.map_or(first, |wake| first.max(wake + 1));
        self.changes.push(Change { event: first, node, active: false, shown_by: index });
    }

    /// The changes by the events alone, sorted by event.
    pub(super) fn finish(mut self) -> Vec<Change> {
        self.changes.sort_by_key(|change| change.event);
        self.changes
    }
}

/// Refines the ends of rounds with the kernel's own drains. Under reclaim a pageset keeps four batches, so a drain
/// takes at most three batches. `small` contains the events of such drains, sorted.
pub(super) fn by_drains(changes: &[Change], small: &[u64]) -> Vec<Change> {
    let later = |change: &Change| {
        let nap = small.partition_point(|event| *event < change.event)
            ..small.partition_point(|event| *event < change.shown_by);
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

    fn change(event: u64, active: bool, shown_by: u64) -> Change {
        Change { event, node: NodeId(0), active, shown_by }
    }

    #[test]
    fn the_last_small_drain_of_the_nap_ends_the_round() {
        let changes = [change(10, true, 10), change(100, false, 200)];
        assert_eq!(by_drains(&changes, &[20, 90]), changes, "drains before the nap change nothing");
        assert_eq!(by_drains(&changes, &[90, 120, 150, 250])[1], change(151, false, 200));
    }
}
