//! The filter that leaves only changes of counters of other nodes' zones in a recording.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pageset_trace::procfs::Zoneinfo;

use crate::machine;

/// The filter for the running machine; `None` if it has one node only, whose pagesets no tick drains as another node's.
pub(crate) fn filter() -> Option<String> {
    let zoneinfo = std::fs::read_to_string("/proc/zoneinfo").ok()?;
    let zones = Zoneinfo::parse(&zoneinfo).ok()?.zones;
    filter_of(&machine::cpu_nodes(), zones.iter().map(|zone| (zone.node, zone.start_pfn)))
}

/// `cpus` are the nodes of CPUs, and `zones` the nodes and first pages of zones.
fn filter_of(cpus: &[u32], zones: impl Iterator<Item = (u32, u64)>) -> Option<String> {
    let mut nodes = BTreeMap::<u32, (Vec<RangeInclusive<usize>>, Vec<u64>)>::new();
    for (cpu, node) in cpus.iter().enumerate() {
        let ranges = &mut nodes.entry(*node).or_default().0;
        match ranges.last_mut().filter(|range| *range.end() + 1 == cpu) {
            Some(range) => *range = *range.start()..=cpu,
            None => ranges.push(cpu..=cpu),
        }
    }
    let mut others = 0;
    for (node, start) in zones {
        let (_, starts) = nodes.entry(node).or_default();
        others += usize::from(starts.is_empty());
        starts.push(start);
    }
    let of_node = |(ranges, starts): (Vec<RangeInclusive<usize>>, Vec<u64>)| {
        let cpus: Vec<String> =
            ranges.iter().map(|range| format!("(CPU >= {} && CPU <= {})", range.start(), range.end())).collect();
        let starts: String = starts.iter().map(|start| format!(" && start != {start}")).collect();
        (!cpus.is_empty()).then(|| format!("(({}){starts})", cpus.join(" || ")))
    };
    let remote: Vec<String> = nodes.into_values().filter_map(of_node).collect();
    (others > 1).then(|| format!("counter != 0 && ({})", remote.join(" || ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zones_of_other_nodes_are_left() {
        let of = |cpus: &[u32], zones: &[(u32, u64)]| filter_of(cpus, zones.iter().copied());
        assert_eq!(of(&[0, 0], &[(0, 1), (0, 4096)]), None, "one node");
        assert_eq!(of(&[], &[(0, 1)]), None, "no nodes");
        let expected = "counter != 0 && ((((CPU >= 0 && CPU <= 1)) && start != 1 && start != 4096) || \
                        (((CPU >= 2 && CPU <= 2)) && start != 163840))";
        assert_eq!(of(&[0, 0, 1], &[(0, 1), (0, 4096), (1, 163_840)]).as_deref(), Some(expected));
        // CPUs in turn, and a node without memory or without CPUs.
        let expected = "counter != 0 && ((((CPU >= 0 && CPU <= 0) || (CPU >= 2 && CPU <= 2)) && start != 1) || (((CPU >= 1 && CPU <= 1))))";
        assert_eq!(of(&[0, 1, 0], &[(0, 1), (2, 9)]).as_deref(), Some(expected));
    }
}
