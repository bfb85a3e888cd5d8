//! What the machine is: its possible CPUs, its nodes with memory and how far apart they are, a CPU's share of cache.
//!
//! From `/sys`; where that cannot be read, one node and the CPUs that the process may use.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use pageset::NodeId;

/// Nodes from this number on are left out. Source: the most that any Linux is built for (`NODES_SHIFT` 10).
const MAX_NODES: u32 = 1024;
/// CPUs from this number on share a cache with others. Source: what the allocator takes.
const MAX_CPUS: u32 = 1 << 16;

/// The machine as a pool sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// The node of each possible CPU, by its number; at least one CPU.
    pub cpus: Vec<NodeId>,
    /// Nodes that have memory which this process may have (`cpuset.mems`), by rising number; at least one.
    pub nodes: Vec<NodeId>,
    /// Distances between all nodes from 0 to the largest number, row by row; empty where there is one.
    pub distances: Vec<u8>,
    /// Each CPU's share of the last-level cache in bytes; 0 where unknown.
    pub cache_slice_bytes: u64,
}

/// How many CPUs the machine can ever have: the largest number of one, and one. Numbers of CPUs that come back from
/// the system are below it, also where fewer are online or allowed.
#[must_use]
pub fn possible_cpus() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let listed = read(Path::new("/sys/devices/system/cpu/possible")).and_then(|text| list(&text)?.last().copied());
        let counted = || thread::available_parallelism().map_or(1, |n| n.get() as u32);
        listed.map_or_else(counted, |last| last.saturating_add(1)).min(MAX_CPUS)
    })
}

/// The CPUs that are online now, rising; nothing where the system does not say.
pub(crate) fn online_cpus() -> Option<Vec<u32>> {
    read(Path::new("/sys/devices/system/cpu/online")).and_then(|text| list(&text))
}

impl Topology {
    /// What this machine is.
    #[must_use]
    pub fn of_this_machine() -> Topology {
        Topology::read(Path::new("/sys/devices/system"), possible_cpus(), allowed_nodes().as_deref())
    }

    /// `allowed`: the nodes whose memory this process may have, where that is known.
    fn read(system: &Path, cpus: u32, allowed: Option<&[u32]>) -> Topology {
        let node_dir = |node: u32| system.join(format!("node/node{node}"));
        let listed = |name: &str| read(&system.join("node").join(name)).and_then(|text| list(&text));
        let mut nodes = listed("has_memory").or_else(|| listed("online")).unwrap_or_default();
        nodes.retain(|&node| node < MAX_NODES && allowed.is_none_or(|allowed| allowed.contains(&node)));
        if nodes.is_empty() {
            nodes.push(0);
        }
        let mut of_cpu = vec![NodeId(nodes[0]); cpus.max(1) as usize];
        let online = listed("online").unwrap_or_default();
        for &node in online.iter().filter(|&&node| node < MAX_NODES) {
            for cpu in read(&node_dir(node).join("cpulist")).and_then(|text| list(&text)).unwrap_or_default() {
                if let Some(place) = of_cpu.get_mut(cpu as usize) {
                    *place = NodeId(node);
                }
            }
        }
        let count = of_cpu.iter().map(|node| node.0).chain(nodes.iter().copied()).max().unwrap_or(0) as usize + 1;
        let mut distances = vec![];
        if count > 1 {
            // The kernel's own numbers: 10 to itself, 20 to another where nothing is said.
            distances = (0..count * count).map(|i| if i / count == i % count { 10 } else { 20 }).collect();
            for &from in &online {
                let Some(row) = read(&node_dir(from).join("distance")) else { continue };
                for (&to, far) in online.iter().zip(row.split_whitespace()) {
                    if let (Some(place), Ok(far)) =
                        (distances.get_mut(from as usize * count + to as usize), far.parse())
                    {
                        *place = far;
                    }
                }
            }
        }
        let nodes = nodes.into_iter().map(NodeId).collect();
        Topology { cpus: of_cpu, nodes, distances, cache_slice_bytes: cache_slice(system).unwrap_or(0) }
    }
}

/// The largest cache of the first CPU, divided by the CPUs that share it.
fn cache_slice(system: &Path) -> Option<u64> {
    let caches = fs::read_dir(system.join("cpu/cpu0/cache")).ok()?;
    let last = caches.flatten().filter_map(|entry| {
        let file = |name: &str| read(&entry.path().join(name));
        let level: u32 = file("level")?.parse().ok()?;
        let kib: u64 = file("size")?.strip_suffix('K')?.parse().ok()?;
        let sharers = list(&file("shared_cpu_list")?)?.len() as u64;
        (file("type")? != "Instruction").then_some((level, kib * 1024 / sharers.max(1)))
    });
    last.max().map(|(_, bytes)| bytes)
}

/// Nodes that the process's cpuset lets it have memory of. Source: `proc(5)`, `Mems_allowed_list`.
fn allowed_nodes() -> Option<Vec<u32>> {
    let status = read(Path::new("/proc/self/status"))?;
    list(status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?.trim())
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The numbers of a list such as `0-3,8`, rising as the kernel writes them.
fn list(text: &str) -> Option<Vec<u32>> {
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
    fn lists_of_numbers() {
        for (text, numbers) in [("0", Some(vec![0])), ("0-3,8,10-11", Some(vec![0, 1, 2, 3, 8, 10, 11]))] {
            assert_eq!(list(text), numbers, "{text}");
        }
        assert_eq!(list(""), Some(vec![]));
        for wrong in ["x", "3-1", "1-", "0-4294967295"] {
            assert_eq!(list(wrong), None, "{wrong}");
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
        assert_eq!(topology.cpus, nodes(&[0, 0, 1, 0]), "CPU 9 is not possible, CPU 3 is on no list");
        assert_eq!(topology.nodes, nodes(&[0, 2]));
        assert_eq!(topology.distances, [10, 15, 21, 15, 10, 22, 21, 22, 10]);
        assert_eq!(topology.cache_slice_bytes, 16 << 20);
    }

    #[test]
    fn a_machine_that_says_nothing() {
        let topology = machine(&[], 3);
        assert_eq!(topology.cpus, [NodeId(0); 3]);
        assert_eq!((topology.nodes, topology.distances, topology.cache_slice_bytes), (vec![NodeId(0)], vec![], 0));
    }

    #[test]
    fn this_machine() {
        let topology = Topology::of_this_machine();
        assert_eq!(topology.cpus.len() as u32, possible_cpus());
        assert!(!topology.nodes.is_empty());
    }
}
