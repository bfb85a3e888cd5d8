//! Hot-plug of CPUs and memory, from the recorder's probes.
//!
//! Specification: `linux-page-allocator.md` 8.1 and 8.3.

use pageset::{CpuId, NodeId};

use super::setting::Setting;
use crate::event::StateChange;

/// The on-line CPUs, and the zones with disabled pagesets.
#[derive(Clone, Debug)]
pub(super) struct Hotplug {
    /// The node of each zone.
    zones: Vec<NodeId>,
    /// The node of each CPU, and whether it is on-line.
    cpus: Vec<(NodeId, bool)>,
    /// For each zone, the number of CPUs that share its `high` by the kernel's last count. `None` before the first
    /// change.
    sharers: Option<Vec<u32>>,
    /// The CPU that went off-line last, and the process that drains its pagesets.
    offline_cpu: Option<(CpuId, u32)>,
    /// For each zone, the process that disabled its pagesets.
    off: Vec<Option<u32>>,
}

impl Hotplug {
    pub(super) fn new(setting: &Setting) -> Self {
        Hotplug {
            zones: setting.zones.iter().map(|zone| zone.node).collect(),
            cpus: setting.cpus.iter().copied().zip(setting.online.iter().copied()).collect(),
            sharers: None,
            offline_cpu: None,
            off: vec![None; setting.zones.len()],
        }
    }

    /// Applies a change that process `pid` made, in `zone` if the change is one of a zone. Returns false if the change
    /// is not about hot-plug.
    pub(super) fn change(&mut self, change: StateChange, pid: u32, zone: Option<usize>) -> bool {
        match change {
            StateChange::ReclaimEnded | StateChange::ZoneCounter { .. } => return false,
            StateChange::CpuOffline(cpu) => {
                self.offline_cpu = self.cpus.get(cpu.0 as usize).map(|_| (cpu, pid));
                self.set_cpu(cpu, false);
            }
            StateChange::CpuOnline(cpu) => {
                self.offline_cpu = None;
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

    /// The kernel recounts the CPUs of every zone. A CPU that comes on-line is not yet in its node's CPU mask, so the
    /// kernel adds one CPU to every zone. Zones of other nodes count one CPU too many.
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

    /// Whether a CPU is on-line.
    pub(super) fn is_online(&self, cpu: CpuId) -> bool {
        self.cpus.get(cpu.0 as usize).is_some_and(|(_, online)| *online)
    }

    /// The number of CPUs that share a zone's `high`; `None` if it has not changed since the start.
    pub(super) fn sharers(&self, zone: usize) -> Option<u32> {
        self.sharers.as_ref().map(|sharers| sharers[zone])
    }

    /// Notes that a process did something other than drain pagesets.
    pub(super) fn end_emptying(&mut self, pid: u32) {
        self.offline_cpu = self.offline_cpu.filter(|(_, by)| *by != pid);
    }

    /// The off-line CPU whose pagesets this process drains.
    pub(super) fn emptied_by(&self, pid: u32) -> Option<CpuId> {
        self.offline_cpu.and_then(|(cpu, by)| (by == pid).then_some(cpu))
    }

    /// Whether the zone's pagesets are disabled.
    pub(super) fn is_off(&self, zone: usize) -> bool {
        self.off[zone].is_some()
    }

    /// Whether a process frees pages of a zone directly to the buddy. The process that off-lines memory moves pages out
    /// of isolated pageblocks.
    pub(super) fn is_offlined_by(&self, zone: usize, pid: u32) -> bool {
        self.off[zone] == Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use pageset::Pfn;

    use super::*;

    #[test]
    fn a_new_cpu_counts_for_every_zone() {
        let nodes = [0, 0, 1, 1].map(NodeId);
        let mut hotplug = Hotplug {
            zones: vec![NodeId(0), NodeId(1), NodeId(2)],
            cpus: nodes.map(|node| (node, true)).to_vec(),
            sharers: None,
            offline_cpu: None,
            off: vec![None; 3],
        };
        assert_eq!(hotplug.sharers(0), None);
        let sharers = |hotplug: &Hotplug| [0, 1, 2].map(|zone| hotplug.sharers(zone).unwrap());
        assert!(hotplug.change(StateChange::CpuOffline(CpuId(3)), 7, None));
        assert_eq!((hotplug.emptied_by(7), hotplug.emptied_by(8)), (Some(CpuId(3)), None));
        assert!(!hotplug.is_online(CpuId(3)) && hotplug.is_online(CpuId(2)) && !hotplug.is_online(CpuId(9)));
        // A zone of a node without CPUs shares its `high` among all CPUs.
        assert_eq!(sharers(&hotplug), [2, 1, 3]);
        assert!(hotplug.change(StateChange::CpuOffline(CpuId(9)), 7, None), "hot-plug of an unknown CPU");
        assert_eq!(hotplug.emptied_by(7), None);
        assert!(hotplug.change(StateChange::CpuOnline(CpuId(3)), 7, None));
        assert_eq!(sharers(&hotplug), [3, 2, 1]);
        assert!(hotplug.is_online(CpuId(3)));
        assert!(hotplug.change(StateChange::PagesetsOff(Pfn(5)), 7, Some(1)));
        assert!(hotplug.is_off(1) && !hotplug.is_off(0));
        assert!(hotplug.is_offlined_by(1, 7) && !hotplug.is_offlined_by(1, 8) && !hotplug.is_offlined_by(0, 7));
        assert!(hotplug.change(StateChange::PagesetsOn(Pfn(5)), 7, Some(1)) && !hotplug.is_off(1));
        assert!(!hotplug.change(StateChange::ReclaimEnded, 7, None));
    }
}
