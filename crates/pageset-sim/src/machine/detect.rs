//! What Linux says of the host, from `/sys` and `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::describe::describe;

/// A file of `/sys` or `/proc` that is missing or has unexpected contents.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {what}", .file.display())]
pub struct DetectError {
    file: PathBuf,
    what: String,
}

/// The counts, memory and caches of a host.
struct Host {
    /// Memory nodes with CPUs.
    sockets: usize,
    cores_per_socket: usize,
    threads_per_core: usize,
    /// At least one a socket.
    memory_gib: u64,
    l1_kib: u64,
    l2_kib: u64,
    /// The last-level caches of the first CPU's socket: their number, and all of them together in KiB.
    last_levels: (usize, u64),
    cpus: usize,
}

struct HostCpu {
    socket: u64,
    /// The first CPU that shares its last-level cache.
    last_level: u32,
}

/// The text of a description. CPU counts, memory and caches come from Linux; all else comes from the most similar
/// shipped description. `root` is `/` or a folder with a copy of the needed files of `/sys` and `/proc`.
pub fn detect(root: &Path, name: &str) -> Result<String, DetectError> {
    let host = Host::read(root)?;
    let like = host.similar();
    let described = host.sockets * host.cores_per_socket * host.threads_per_core;
    // Hybrid processors have cores with one thread and with two, and sockets may differ.
    let differ = if described == host.cpus {
        String::new()
    } else {
        format!(", described as {described}, since its cores or sockets differ")
    };
    let (cpus, gib) = (host.cpus, host.memory_gib);
    let about = format!("this host: {cpus} CPUs{differ}, {gib} GiB; latencies and costs of {like}");
    Ok(describe(name, &about, like, &host.values()))
}

impl Host {
    fn read(root: &Path) -> Result<Host, DetectError> {
        let folder = root.join("sys/devices/system/cpu");
        let numbers = read_list(&folder.join("online"))?;
        // A socket of the model is a memory node. A package may have several nodes, and a virtual machine may have
        // packages without nodes of their own.
        let nodes = nodes(&root.join("sys/devices/system/node"))?;
        let mut cores = BTreeSet::new();
        let mut cpus = Vec::new();
        for &cpu in &numbers {
            cpus.push(host_cpu(&folder, cpu, &nodes, &mut cores)?);
        }
        let sockets: BTreeSet<_> = cpus.iter().map(|cpu| cpu.socket).collect();
        let (sockets, all_cores) = (sockets.len().max(1), cores.len().max(1));
        let meminfo = root.join("proc/meminfo");
        let text = read(&meminfo)?;
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u64 = total
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok())
            .ok_or_else(|| unexpected(&meminfo, "no MemTotal in kB"))?;
        let first = numbers.first().copied().unwrap_or(0);
        let [l1_kib, l2_kib, llc_kib] = caches(&folder.join(format!("cpu{first}/cache")))?;
        let last_levels = last_levels(&folder, &cpus).unwrap_or((1, llc_kib));
        Ok(Host {
            sockets,
            cores_per_socket: all_cores.div_ceil(sockets),
            threads_per_core: numbers.len().div_ceil(all_cores),
            // Rounded: a part of the memory belongs to the kernel's image and to the firmware.
            memory_gib: ((kib + (1 << 19)) >> 20).max(sockets as u64),
            l1_kib,
            l2_kib,
            last_levels,
            cpus: cpus.len(),
        })
    }

    /// The name of the most similar shipped machine. The core count separates desktops from servers, whose latencies
    /// differ.
    fn similar(&self) -> &'static str {
        if self.cores_per_socket > 6 { "lkp-skl-2sp2" } else { "lkp-skl-d01" }
    }

    /// The keys that Linux tells, with their lines.
    fn values(&self) -> [(&'static str, String); 7] {
        let (last_levels, llc_kib) = self.last_levels;
        let [one, llc] = ["", &format!(": {last_levels} caches, described as one that all cores of a socket share")];
        [
            ("sockets", self.sockets as u64, one),
            ("cores_per_socket", self.cores_per_socket as u64, one),
            ("threads_per_core", self.threads_per_core as u64, one),
            ("memory_gib", self.memory_gib, one),
            ("l1_kib", self.l1_kib, one),
            ("l2_kib", self.l2_kib, one),
            ("llc_kib", llc_kib, if last_levels > 1 { llc } else { one }),
        ]
        .map(|(key, value, note)| (key, format!("{key} = {value} # this host{note}")))
    }
}

/// The memory node of each CPU. Empty for a kernel that has no nodes.
fn nodes(folder: &Path) -> Result<BTreeMap<u32, u64>, DetectError> {
    let mut nodes = BTreeMap::new();
    let file = folder.join("has_cpu");
    if !file.exists() {
        return Ok(nodes);
    }
    for node in read_list(&file)? {
        let cpus = read_list(&folder.join(format!("node{node}/cpulist")))?;
        nodes.extend(cpus.into_iter().map(|cpu| (cpu, u64::from(node))));
    }
    Ok(nodes)
}

/// Adds the CPU's core, as its package and its number in the package, to `cores`.
fn host_cpu(
    folder: &Path,
    cpu: u32,
    nodes: &BTreeMap<u32, u64>,
    cores: &mut BTreeSet<(u64, u64)>,
) -> Result<HostCpu, DetectError> {
    let own = folder.join(format!("cpu{cpu}"));
    let package = number(&own.join("topology/physical_package_id"))?;
    cores.insert((package, number(&own.join("topology/core_id"))?));
    // Without the file, all CPUs of a package share a last level.
    let shared = last_index(&own.join("cache")).and_then(|index| read(&index.join("shared_cpu_list")).ok());
    let first = shared.and_then(|text| list(&text)?.into_iter().min());
    let socket = nodes.get(&cpu).copied().unwrap_or(package);
    Ok(HostCpu { socket, last_level: first.unwrap_or(package as u32) })
}

fn last_index(folder: &Path) -> Option<PathBuf> {
    (0..).map(|index| folder.join(format!("index{index}"))).take_while(|cache| cache.exists()).last()
}

/// The number of the last-level caches of the first CPU's socket, and their sum in KiB. A core without the socket's last level, as hybrid
/// processors have, does not count. `None` if no cache can be read.
fn last_levels(folder: &Path, cpus: &[HostCpu]) -> Option<(usize, u64)> {
    let socket = cpus.first()?.socket;
    let first_cpus: BTreeSet<u32> = cpus.iter().filter(|cpu| cpu.socket == socket).map(|cpu| cpu.last_level).collect();
    let cache = |cpu: u32| {
        let index = last_index(&folder.join(format!("cpu{cpu}/cache")))?;
        let kib = read(&index.join("size")).ok()?.strip_suffix('K')?.parse::<u64>().ok()?;
        Some((number(&index.join("level")).ok()?, kib))
    };
    let caches: Vec<(u64, u64)> = first_cpus.into_iter().filter_map(cache).collect();
    let last = caches.iter().map(|(level, _)| *level).max()?;
    let sizes = || caches.iter().filter(|(level, _)| *level == last).map(|(_, kib)| *kib);
    Some((sizes().count(), sizes().sum()))
}

/// Sizes of the first-level data cache, the second level and the last level, in KiB.
fn caches(folder: &Path) -> Result<[u64; 3], DetectError> {
    let mut sizes = [0; 3];
    for index in 0.. {
        let cache = folder.join(format!("index{index}"));
        if !cache.exists() {
            break;
        }
        if read(&cache.join("type"))? == "Instruction" {
            continue;
        }
        let level = number(&cache.join("level"))?;
        let size = read(&cache.join("size"))?;
        let kib = size.strip_suffix('K').and_then(|kib| kib.parse().ok());
        let kib = kib.ok_or_else(|| unexpected(&cache.join("size"), &size))?;
        if (1..=2).contains(&level) {
            sizes[level as usize - 1] = kib;
        }
        sizes[2] = kib;
    }
    if sizes.contains(&0) { Err(unexpected(folder, "no data caches of two levels")) } else { Ok(sizes) }
}

fn read(file: &Path) -> Result<String, DetectError> {
    let text = fs::read_to_string(file);
    text.map(|text| text.trim().to_owned())
        .map_err(|error| DetectError { file: file.to_owned(), what: error.to_string() })
}

fn number(file: &Path) -> Result<u64, DetectError> {
    let text = read(file)?;
    text.parse().map_err(|_| unexpected(file, &text))
}

fn unexpected(file: &Path, text: &str) -> DetectError {
    DetectError { file: file.to_owned(), what: format!("unexpected: {text}") }
}

fn read_list(file: &Path) -> Result<Vec<u32>, DetectError> {
    let text = read(file)?;
    list(&text).ok_or_else(|| unexpected(file, &text))
}

/// Parses a CPU list such as `0-3,8`.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        all.extend(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?);
    }
    Some(all)
}
