//! CPUs and memory that go off-line and come on-line, by the recorder's probes.
//!
//! Specification: `linux-page-allocator.md` 8.1 and 8.3.

use pageset::{CpuId, NodeId};

use super::setting::Setting;
use crate::event::StateChange;

/// Which CPUs are on-line, and which zones have their pagesets switched off.
#[derive(Clone, Debug)]
pub(super) struct Hotplug {
    /// The node of each zone.
    zones: Vec<NodeId>,
    /// The node of each CPU, and whether it is on-line.
    cpus: Vec<(NodeId, bool)>,
    /// For each zone the CPUs that the kernel last shared its high among; none before the first change.
    sharers: Option<Vec<u32>>,
    /// The CPU that went off-line last, and the process that empties its pagesets.
    emptied: Option<(CpuId, u32)>,
    /// For each zone, the process that has switched its pagesets off.
    off: Vec<Option<u32>>,
}

impl Hotplug {
    pub(super) fn new(setting: &Setting) -> Self {
        Hotplug {
            zones: setting.zones.iter().map(|zone| zone.node).collect(),
            cpus: setting.cpus.iter().copied().zip(setting.online.iter().copied()).collect(),
            sharers: None,
            emptied: None,
            off: vec![None; setting.zones.len()],
        }
    }

    /// A change happens by a process, in this zone if it is one of a zone. False if it does not concern hot-plug.
    pub(super) fn change(&mut self, change: StateChange, pid: u32, zone: Option<usize>) -> bool {
        match change {
            StateChange::ReclaimEnded => return false,
            StateChange::CpuOffline(cpu) => {
                self.emptied = self.cpus.get(cpu.0 as usize).map(|_| (cpu, pid));
                self.set_cpu(cpu, false);
            }
            StateChange::CpuOnline(cpu) => {
                self.emptied = None;
                self.set_cpu(cpu, true);
            }
            StateChange::PagesetsOff(_) => self.set_off(zone, Some(pid)),
            StateChange::PagesetsOn(_) => self.set_off(zone, None),
        }
        true
    }

    fn set_off(&mut self, zone: Option<usize>, off: Option<u32>) {
        if let Some(zone) = zone {
            self.off[zone] = off;
        }
    }

    /// The kernel counts anew for every zone. A CPU that comes is not yet on the map of its node and is added for all
    /// zones alike, so that those of other nodes get one too many.
    fn set_cpu(&mut self, cpu: CpuId, online: bool) {
        let Some(entry) = self.cpus.get_mut(cpu.0 as usize) else { return };
        entry.1 = false;
        let of = |node: Option<NodeId>| {
            self.cpus.iter().filter(|(n, online)| *online && node.is_none_or(|node| *n == node)).count() as u32
        };
        let sharers = self.zones.iter().map(|node| match of(Some(*node)) + u32::from(online) {
            0 => of(None).max(1),
            sharers => sharers,
        });
        self.sharers = Some(sharers.collect());
        self.cpus[cpu.0 as usize].1 = online;
    }

    /// The CPUs that share a zone's high, where that has changed since the start.
    pub(super) fn sharers(&self, zone: usize) -> Option<u32> {
        self.sharers.as_ref().map(|sharers| sharers[zone])
    }

    /// A process has done something else than to empty pagesets.
    pub(super) fn ends_emptying(&mut self, pid: u32) {
        self.emptied = self.emptied.filter(|(_, by)| *by != pid);
    }

    /// The CPU whose pagesets a process empties since that CPU is off-line.
    pub(super) fn emptied_by(&self, pid: u32) -> Option<CpuId> {
        self.emptied.and_then(|(cpu, by)| (by == pid).then_some(cpu))
    }

    /// Whether the zone's pagesets are off.
    pub(super) fn is_off(&self, zone: usize) -> bool {
        self.off[zone].is_some()
    }

    /// Whether a process frees pages of a zone past the pagesets: what it moves out of memory that goes off-line lies in
    /// isolated pageblocks.
    pub(super) fn empties(&self, zone: usize, pid: u32) -> bool {
        self.off[zone] == Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use pageset::Pfn;

    use super::*;

    #[test]
    fn a_cpu_that_comes_counts_for_every_zone() {
        let nodes = [0, 0, 1, 1].map(NodeId);
        let mut hotplug = Hotplug {
            zones: vec![NodeId(0), NodeId(1), NodeId(2)],
            cpus: nodes.map(|node| (node, true)).to_vec(),
            sharers: None,
            emptied: None,
            off: vec![None; 3],
        };
        assert_eq!(hotplug.sharers(0), None);
        let sharers = |hotplug: &Hotplug| [0, 1, 2].map(|zone| hotplug.sharers(zone).unwrap());
        assert!(hotplug.change(StateChange::CpuOffline(CpuId(3)), 7, None));
        assert_eq!((hotplug.emptied_by(7), hotplug.emptied_by(8)), (Some(CpuId(3)), None));
        // A node without CPUs shares among all.
        assert_eq!(sharers(&hotplug), [2, 1, 3]);
        assert!(hotplug.change(StateChange::CpuOffline(CpuId(9)), 7, None), "a CPU that is not there");
        assert_eq!(hotplug.emptied_by(7), None);
        assert!(hotplug.change(StateChange::CpuOnline(CpuId(3)), 7, None));
        assert_eq!(sharers(&hotplug), [3, 2, 1]);
        assert!(hotplug.change(StateChange::PagesetsOff(Pfn(5)), 7, Some(1)));
        assert!(hotplug.is_off(1) && !hotplug.is_off(0));
        assert!(hotplug.empties(1, 7) && !hotplug.empties(1, 8) && !hotplug.empties(0, 7));
        assert!(hotplug.change(StateChange::PagesetsOn(Pfn(5)), 7, Some(1)) && !hotplug.is_off(1));
        assert!(!hotplug.change(StateChange::ReclaimEnded, 7, None));
    }
}
