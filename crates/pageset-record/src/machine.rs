//! The facts about this machine that a recording contains.

use std::fs;
use std::io::Read as _;

use pageset_trace::facts::{CpuCache, Facts};
use pageset_trace::limits::MAX_CPUS;
use pageset_trace::number::ranges;

/// The facts that are known before the recording, other than those of texts. Facts that cannot be read are left out.
pub(super) fn facts(command: Vec<String>, clock: &str) -> Facts {
    let cpus = online_cpus();
    Facts {
        kernel_release: text("/proc/sys/kernel/osrelease"),
        kernel_version: text("/proc/sys/kernel/version"),
        cpus: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        page_size: u32::try_from(rustix::param::page_size()).unwrap_or(Facts::DEFAULT_PAGE_SIZE),
        thp_enabled: text("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|modes| bracketed(&modes)),
        nodes: nodes(),
        cpu_nodes: cpu_nodes(),
        caches: caches(&cpus),
        batch_scale_max: batch_scale_max(),
        high_fraction: super::sysctl::high_fraction(),
        command,
        clock: clock.to_owned(),
        recorder_pids: vec![std::process::id()],
        ..Facts::default()
    }
}

/// Adds the facts in `buddyinfo` and `pagetypeinfo`, the texts of `/proc`.
pub(super) fn of_texts(facts: Facts, buddyinfo: &str, pagetypeinfo: &str) -> Facts {
    Facts {
        pageblock_order: pageblock_order(pagetypeinfo).unwrap_or(Facts::DEFAULT_PAGEBLOCK_ORDER),
        highest_order: highest_order(buddyinfo),
        ..facts
    }
}

/// Memory that is available without reclaim, in bytes: `MemAvailable`.
pub(super) fn available_bytes() -> Option<u64> {
    let meminfo = text("/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The CPUs that are on-line now: from sysfs, or from `/proc/stat` in a container without sysfs.
pub fn online_cpus() -> Vec<u32> {
    let shown = text("/sys/devices/system/cpu/online").map(|list| cpu_list(&list)).filter(|cpus| !cpus.is_empty());
    shown.or_else(|| Some(cpus_of_stat(&text("/proc/stat")?))).unwrap_or_default()
}

/// The CPUs with a line in `/proc/stat`, which are the on-line ones.
fn cpus_of_stat(stat: &str) -> Vec<u32> {
    let words = stat.lines().filter_map(|line| line.split_ascii_whitespace().next());
    words.filter_map(|word| word.strip_prefix("cpu")?.parse().ok()).collect()
}

fn text(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The selected word of a list, in brackets: `always [madvise] never`.
fn bracketed(modes: &str) -> Option<String> {
    let (_, rest) = modes.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Parses a CPU list such as `0-3,8`; invalid parts are left out.
pub(crate) fn cpu_list(list: &str) -> Vec<u32> {
    ranges(list.trim()).flatten().flatten().collect()
}

fn pageblock_order(pagetypeinfo: &str) -> Option<u8> {
    pagetypeinfo.lines().find_map(|line| line.strip_prefix("Page block order:"))?.trim().parse().ok()
}

fn nodes() -> u32 {
    let list = text("/sys/devices/system/node/has_memory").map(|list| cpu_list(&list).len());
    // A kernel without NUMA has one node and no node folder.
    list.and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0).unwrap_or(1)
}

/// The node of each CPU of this machine, by CPU number. A CPU in no node's list is on node 0. Empty if the kernel shows
/// no nodes.
pub fn cpu_nodes() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/sys/devices/system/node") else { return Vec::new() };
    let nodes = folder.flatten().filter_map(|entry| {
        let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((node, cpu_list(&text(entry.path().join("cpulist").to_str()?)?)))
    });
    nodes_by_cpu(nodes)
}

fn nodes_by_cpu(nodes: impl IntoIterator<Item = (u32, Vec<u32>)>) -> Vec<u32> {
    let mut by_cpu = Vec::new();
    for (node, cpus) in nodes {
        for cpu in cpus.into_iter().filter(|&cpu| cpu < MAX_CPUS) {
            let cpu = cpu as usize;
            if by_cpu.len() <= cpu {
                by_cpu.resize(cpu + 1, 0);
            }
            by_cpu[cpu] = node;
        }
    }
    by_cpu
}

/// The highest order of the buddy: the line `Node 0, zone DMA` has one count per order.
fn highest_order(buddyinfo: &str) -> Option<u8> {
    let (_, zone) = buddyinfo.lines().next()?.split_once("zone")?;
    let orders = zone.split_ascii_whitespace().skip(1).count();
    u8::try_from(orders.checked_sub(1)?).ok()
}

/// The last-level caches of these CPUs.
pub fn caches(cpus: &[u32]) -> Vec<CpuCache> {
    cpus.iter().filter_map(|&cpu| last_level_cache(cpu)).collect()
}

/// The cache of `cpu` with the highest level that holds data.
fn last_level_cache(cpu: u32) -> Option<CpuCache> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let caches = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        let read = |file: &str| text(entry.path().join(file).to_str()?);
        let level: u32 = read("level")?.parse().ok()?;
        let sharers = cpu_list(&read("shared_cpu_list")?).len();
        let holds_data = read("type")? != "Instruction";
        let cache = CpuCache { cpu, bytes: size(&read("size")?)?, sharers: u32::try_from(sharers).ok()? };
        holds_data.then_some((level, cache))
    });
    Some(caches.max_by_key(|&(level, _)| level)?.1)
}

/// Parses a cache size such as `36608K` into bytes.
fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// `CONFIG_PCP_BATCH_SCALE_MAX` of the running kernel: from the kernel itself, or from the file that its package installs.
pub fn batch_scale_max() -> Option<u8> {
    let own = || {
        let mut config = String::new();
        flate2::read::GzDecoder::new(fs::File::open("/proc/config.gz").ok()?).read_to_string(&mut config).ok()?;
        Some(config)
    };
    let installed = || fs::read_to_string(format!("/boot/config-{}", text("/proc/sys/kernel/osrelease")?)).ok();
    own().or_else(installed).and_then(|config| scale_of(&config))
}

fn scale_of(config: &str) -> Option<u8> {
    config.lines().find_map(|line| line.strip_prefix("CONFIG_PCP_BATCH_SCALE_MAX="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_texts_are_parsed() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list("0"), [0]);
        assert_eq!(cpu_list("\n"), [0; 0]);
        assert_eq!(cpus_of_stat("cpu  9 1\ncpu0 4 1\ncpu2 5 0\nintr 7\ncpufreq 1\n"), [0, 2]);
        assert_eq!(bracketed("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(bracketed("nothing"), None);
        assert_eq!(size("36608K"), Some(36608 << 10));
        assert_eq!(size("2M"), Some(2 << 20));
        assert_eq!(size("x"), None);
        assert_eq!(pageblock_order("Page block order: 9\nPages per block:  512\n"), Some(9));
        assert_eq!(pageblock_order(""), None);
        assert_eq!(scale_of("CONFIG_NUMA=y\nCONFIG_PCP_BATCH_SCALE_MAX=3\n"), Some(3));
        assert_eq!(scale_of("# CONFIG_PCP_BATCH_SCALE_MAX is not set\n"), None);
        let buddyinfo =
            "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      2 \n";
        assert_eq!(highest_order(buddyinfo), Some(10));
        assert_eq!(highest_order(""), None);
        assert_eq!(nodes_by_cpu([(1, vec![2, 3]), (0, vec![0])]), [0, 0, 1, 1]);
        assert_eq!(nodes_by_cpu([(0, vec![u32::MAX])]), [0; 0]);
    }

    #[test]
    fn facts_of_this_machine() {
        assert_eq!(cpus_of_stat(&text("/proc/stat").unwrap()), online_cpus());
        let buddyinfo = fs::read_to_string("/proc/buddyinfo").unwrap();
        let facts = of_texts(facts(vec!["true".into()], "mono"), &buddyinfo, "Page block order: 9\n");
        assert!(facts.cpus >= 1);
        assert!(facts.page_size.is_power_of_two());
        assert!(facts.nodes >= 1);
        assert!(facts.highest_order.is_some());
        assert!(facts.cpu_nodes.is_empty() || facts.cpu_nodes.len() >= facts.cpus as usize);
        assert_eq!(facts.recorder_pids, [std::process::id()]);
        assert!(facts.caches.iter().all(|cache| cache.bytes > 0 && cache.sharers > 0));
        assert!(available_bytes().unwrap() > 0);
    }
}
