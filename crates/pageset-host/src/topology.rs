//! The machine: its possible CPUs, its nodes with memory, their distances, and the cache of a CPU.
//!
//! The source is `/sys`. If that is unreadable, the machine has one node and the CPUs that the process may use.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use pageset::NodeId;

/// Nodes from this number on are ignored. Source: the largest `NODES_SHIFT` of Linux, 10.
const MAX_NODES: u32 = 1024;
/// CPUs from this number on share a page cache with other CPUs. Source: the limit of the allocator.
const MAX_CPUS: u32 = 1 << 16;

/// The CPUs and memory of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// The node of each possible CPU, indexed by CPU number. At least one entry.
    pub cpu_nodes: Vec<NodeId>,
    /// The nodes with memory that this process may use (`cpuset.mems`), in ascending order. At least one entry.
    pub nodes: Vec<NodeId>,
    /// The distances between nodes 0 to the largest number, row by row, as in `/sys`. Empty for one node.
    pub distances: Vec<u8>,
    /// The last-level cache in bytes, divided by the CPUs that share it; 0 if unknown.
    pub cache_slice_bytes: u64,
}

/// The largest CPU number that the machine can ever have, plus 1. All CPU numbers of the system are below it, even if
/// fewer CPUs are online or allowed.
#[must_use]
pub fn possible_cpus() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let listed = read_trimmed(Path::new("/sys/devices/system/cpu/possible"))
            .and_then(|text| parse_list(&text)?.last().copied());
        let counted = || thread::available_parallelism().map_or(1, |n| n.get() as u32);
        listed.map_or_else(counted, |last| last.saturating_add(1)).min(MAX_CPUS)
    })
}

/// The CPUs that are online now, in ascending order, or `None` if `/sys` is unreadable.
pub(crate) fn online_cpus() -> Option<Vec<u32>> {
    read_trimmed(Path::new("/sys/devices/system/cpu/online")).and_then(|text| parse_list(&text))
}

impl Topology {
    /// Reads the topology of this machine.
    #[must_use]
    pub fn of_this_machine() -> Topology {
        Topology::read(Path::new("/sys/devices/system"), possible_cpus(), allowed_nodes().as_deref())
    }

    /// This machine as if it had `count` nodes, and all its CPUs on node 0. Another node is twice as far as the own one.
    pub(crate) fn with_nodes(self, count: u8) -> Topology {
        let count = u32::from(count);
        let distance = |pair: u32| if pair / count == pair % count { 10 } else { 20 };
        Topology {
            cpu_nodes: vec![NodeId(0); self.cpu_nodes.len()],
            nodes: (0..count).map(NodeId).collect(),
            distances: (0..count * count).map(distance).collect(),
            ..self
        }
    }

    /// Reads the topology below `system`. `allowed` are the nodes whose memory this process may use, if known.
    fn read(system: &Path, cpus: u32, allowed: Option<&[u32]>) -> Topology {
        let node_dir = |node: u32| system.join(format!("node/node{node}"));
        let listed = |name: &str| read_trimmed(&system.join("node").join(name)).and_then(|text| parse_list(&text));
        let mut nodes = listed("has_memory").or_else(|| listed("online")).unwrap_or_default();
        nodes.retain(|&node| node < MAX_NODES && allowed.is_none_or(|allowed| allowed.contains(&node)));
        if nodes.is_empty() {
            nodes.push(0);
        }
        let mut cpu_nodes = vec![NodeId(nodes[0]); cpus.max(1) as usize];
        let online = listed("online").unwrap_or_default();
        for &node in online.iter().filter(|&&node| node < MAX_NODES) {
            for cpu in
                read_trimmed(&node_dir(node).join("cpulist")).and_then(|text| parse_list(&text)).unwrap_or_default()
            {
                if let Some(entry) = cpu_nodes.get_mut(cpu as usize) {
                    *entry = NodeId(node);
                }
            }
        }
        let count = cpu_nodes.iter().map(|node| node.0).chain(nodes.iter().copied()).max().unwrap_or(0) as usize + 1;
        let mut distances = vec![];
        if count > 1 {
            // The kernel's defaults: LOCAL_DISTANCE and REMOTE_DISTANCE.
            distances = (0..count * count).map(|i| if i / count == i % count { 10 } else { 20 }).collect();
            for &from in &online {
                let Some(row) = read_trimmed(&node_dir(from).join("distance")) else { continue };
                for (&to, distance) in online.iter().zip(row.split_whitespace()) {
                    if let (Some(entry), Ok(distance)) =
                        (distances.get_mut(from as usize * count + to as usize), distance.parse())
                    {
                        *entry = distance;
                    }
                }
            }
        }
        let nodes = nodes.into_iter().map(NodeId).collect();
        Topology { cpu_nodes, nodes, distances, cache_slice_bytes: cache_slice(system).unwrap_or(0) }
    }
}

/// The last-level cache of CPU 0 in bytes, divided by the CPUs that share it.
fn cache_slice(system: &Path) -> Option<u64> {
    let caches = fs::read_dir(system.join("cpu/cpu0/cache")).ok()?;
    let last = caches.flatten().filter_map(|entry| {
        let file = |name: &str| read_trimmed(&entry.path().join(name));
        let level: u32 = file("level")?.parse().ok()?;
        let kib: u64 = file("size")?.strip_suffix('K')?.parse().ok()?;
        let sharers = parse_list(&file("shared_cpu_list")?)?.len() as u64;
        (file("type")? != "Instruction").then_some((level, kib * 1024 / sharers.max(1)))
    });
    last.max().map(|(_, bytes)| bytes)
}

/// The nodes whose memory the process's cpuset allows. Source: `proc(5)`, `Mems_allowed_list`.
fn allowed_nodes() -> Option<Vec<u32>> {
    let status = read_trimmed(Path::new("/proc/self/status"))?;
    parse_list(status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?.trim())
}

fn read_trimmed(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Parses a list such as `0-3,8`. The kernel writes it in ascending order.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut all = vec![];
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= 1 << 20 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed() {
        for (text, numbers) in [("0", Some(vec![0])), ("0-3,8,10-11", Some(vec![0, 1, 2, 3, 8, 10, 11]))] {
            assert_eq!(parse_list(text), numbers, "{text}");
        }
        assert_eq!(parse_list(""), Some(vec![]));
        for wrong in ["x", "3-1", "1-", "0-4294967295"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    fn machine(files: &[(&str, &str)], cpus: u32) -> Topology {
        let root = std::env::temp_dir().join(format!("pageset-topology-{}-{cpus}-{}", std::process::id(), files.len()));
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let topology = Topology::read(&root, cpus, None);
        let _ = fs::remove_dir_all(root);
        topology
    }

    #[test]
    fn two_sockets_and_a_node_without_memory() {
        let topology = machine(
            &[
                ("node/online", "0-2\n"),
                ("node/has_memory", "0,2\n"),
                ("node/node0/cpulist", "0-1\n"),
                ("node/node0/distance", "10 15 21\n"),
                ("node/node1/cpulist", "2,9\n"),
                ("node/node1/distance", "15 10 22\n"),
                ("node/node2/cpulist", "\n"),
                ("node/node2/distance", "21 22 10\n"),
                ("cpu/cpu0/cache/index0/level", "1\n"),
                ("cpu/cpu0/cache/index0/size", "32K\n"),
                ("cpu/cpu0/cache/index0/type", "Data\n"),
                ("cpu/cpu0/cache/index0/shared_cpu_list", "0\n"),
                ("cpu/cpu0/cache/index3/level", "3\n"),
                ("cpu/cpu0/cache/index3/size", "32768K\n"),
                ("cpu/cpu0/cache/index3/type", "Unified\n"),
                ("cpu/cpu0/cache/index3/shared_cpu_list", "0-1\n"),
            ],
            4,
        );
        let nodes = |numbers: &[u32]| numbers.iter().copied().map(NodeId).collect::<Vec<_>>();
        assert_eq!(topology.cpu_nodes, nodes(&[0, 0, 1, 0]), "CPU 9 is not possible, and CPU 3 is in no list");
        assert_eq!(topology.nodes, nodes(&[0, 2]));
        assert_eq!(topology.distances, [10, 15, 21, 15, 10, 22, 21, 22, 10]);
        assert_eq!(topology.cache_slice_bytes, 16 << 20);
    }

    #[test]
    fn an_unreadable_machine_has_one_node() {
        let topology = machine(&[], 3);
        assert_eq!(topology.cpu_nodes, [NodeId(0); 3]);
        assert_eq!((topology.nodes, topology.distances, topology.cache_slice_bytes), (vec![NodeId(0)], vec![], 0));
    }

    #[test]
    fn this_machine_has_cpus_and_nodes() {
        let topology = Topology::of_this_machine();
        assert_eq!(topology.cpu_nodes.len() as u32, possible_cpus());
        assert!(!topology.nodes.is_empty());
    }
}
