//! The filter that keeps only changes of other nodes' zone counters.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pageset_trace::procfs::Zoneinfo;

use crate::machine;

/// The filter for the running machine; `None` if it has one node only, whose pagesets no tick drains as another node's.
pub(crate) fn filter() -> Option<String> {
    let zoneinfo = std::fs::read_to_string("/proc/zoneinfo").ok()?;
    let zones = Zoneinfo::parse(&zoneinfo).ok()?.zones;
    let zones = zones.iter().filter(|zone| zone.managed > 0).map(|zone| (zone.node, zone.start_pfn));
    filter_of(&machine::cpu_nodes(), zones)
}

/// `cpus` are the nodes of CPUs, and `zones` the nodes and first pages of zones. Without blanks: the kernel takes fewer than 4,096 bytes.
fn filter_of(cpus: &[u32], zones: impl Iterator<Item = (u32, u64)>) -> Option<String> {
    let mut nodes = BTreeMap::<u32, (Vec<RangeInclusive<usize>>, Vec<u64>)>::new();
    for (cpu, node) in cpus.iter().enumerate() {
        let ranges = &mut nodes.entry(*node).or_default().0;
        match ranges.last_mut().filter(|range| *range.end() + 1 == cpu) {
            Some(range) => *range = *range.start()..=cpu,
            None => ranges.push(cpu..=cpu),
        }
    }
    zones.for_each(|(node, start)| nodes.entry(node).or_default().1.push(start));
    let is_remote = nodes.len() > 1;
    let of_range = |range: &RangeInclusive<usize>| match (range.start(), range.end()) {
        (first, last) if first == last => format!("CPU=={first}"),
        (first, last) => format!("(CPU>={first}&&CPU<={last})"),
    };
    let of_node = |(ranges, starts): (Vec<RangeInclusive<usize>>, Vec<u64>)| {
        let cpus: Vec<String> = ranges.iter().map(of_range).collect();
        let starts: String = starts.iter().map(|start| format!("&&start!={start}")).collect();
        (!cpus.is_empty()).then(|| format!("(({}){starts})", cpus.join("||")))
    };
    let remote: Vec<String> = nodes.into_values().filter_map(of_node).collect();
    is_remote.then(|| format!("counter!=0&&({})", remote.join("||")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zones_of_other_nodes_are_left() {
        let of = |cpus: &[u32], zones: &[(u32, u64)]| filter_of(cpus, zones.iter().copied());
        assert_eq!(of(&[0, 0], &[(0, 1), (0, 4096)]), None, "one node");
        assert_eq!(of(&[], &[(0, 1)]), None, "no nodes");
        let expected = "counter!=0&&((((CPU>=0&&CPU<=1))&&start!=1&&start!=4096)||((CPU==2)&&start!=163840))";
        assert_eq!(of(&[0, 0, 1], &[(0, 1), (0, 4096), (1, 163_840)]).as_deref(), Some(expected));
        // CPUs in turn, and nodes without memory or without CPUs.
        let expected = "counter!=0&&(((CPU==0||CPU==2)&&start!=1)||((CPU==1)))";
        assert_eq!(of(&[0, 1, 0], &[(0, 1), (2, 9)]).as_deref(), Some(expected));
        assert_eq!(of(&[0, 1], &[(0, 1)]).as_deref(), Some("counter!=0&&(((CPU==0)&&start!=1)||((CPU==1)))"));
        let alternating: Vec<u32> = (0..256).map(|cpu| cpu % 2).collect();
        assert!(of(&alternating, &[(0, 1), (0, 4096), (1, 1 << 30)]).is_some_and(|filter| filter.len() < 4096));
    }
}
