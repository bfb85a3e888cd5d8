//! The size of the largest lists that a setting makes.

use pageset_trace::procfs::ZoneSection;

/// The pages of the largest pagesets of a zone: an eighth of it, divided by its CPUs. Specification: `linux-page-allocator.md` 9.
pub(crate) fn largest(managed: u64, cpus: usize) -> u64 {
    managed / 8 / cpus.max(1) as u64
}

/// By how many pages the largest lists that a setting makes hold more than the present ones: of each node's largest zone, the fewest.
pub fn extra_pages(zones: &[ZoneSection], cpu_nodes: &[u32]) -> u64 {
    let node_of = |cpu: u32| cpu_nodes.get(cpu as usize).copied();
    let extra = |zone: &ZoneSection| {
        let local = zone.pagesets.iter().filter(|set| node_of(set.cpu).is_none_or(|node| node == zone.node));
        let (cpus, high) = local.fold((0, 0), |(cpus, high), set| (cpus + 1, set.high.max(high)));
        (cpus > 0).then(|| largest(zone.managed, cpus).saturating_sub(high))
    };
    let is_largest = |zone: &&ZoneSection| zones.iter().all(|of| of.node != zone.node || of.managed <= zone.managed);
    zones.iter().filter(is_largest).filter_map(extra).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_lists_are_an_eighth_of_the_largest_zone() {
        let pages = |nodes: &[u32], high: u64| {
            let zone = |node: u32, name: &str, managed: u64| {
                let sets = [0, 1].map(|cpu| format!("    cpu: {cpu}\n count: 0\n high: {}\n batch: 63\n", high + cpu));
                format!(
                    "Node {node}, zone {name}\n  pages free 1\n min 1\n low 2\n high 3\n spanned {managed}\n present {managed}\n \
                     managed {managed}\n cma 0\n protection: (0, 0)\n  pagesets\n{}  node_unreclaimable: 0\n  start_pfn: 1\n",
                    sets.concat()
                )
            };
            let text: String =
                nodes.iter().map(|node| zone(*node, "DMA", 16_000) + &zone(*node, "Normal", 160_000)).collect();
            extra_pages(&pageset_trace::procfs::Zoneinfo::parse(&text).unwrap().zones, &[0, 1])
        };
        assert_eq!((pages(&[0], 999), pages(&[0, 1], 999)), (20_000 - 999, 20_000 - 1000));
        assert_eq!(pages(&[0], 30_000), 0);
    }
}
