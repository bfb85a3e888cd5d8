//! How much memory the measurement may use.

use std::fs;
use std::path::Path;

/// Memory in bytes that is available without swapping, within the limits of the process' control groups. `None` if the
/// system does not say. `root` is `/` or a folder with a copy of the needed files.
///
/// Limits of control groups version 1 are not seen.
pub fn free_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    Some(of_groups(root).map_or(available, |group| group.min(available)))
}

/// Whether the system gives huge pages to programs that ask for them. Without them, latencies of loads include misses of
/// the TLB.
pub fn has_huge_pages(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("sys/kernel/mm/transparent_hugepage/enabled"));
    text.is_ok_and(|text| !text.contains("[never]"))
}

/// The least that a control group of the process, or a group around it, has left.
fn of_groups(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let top = root.join("sys/fs/cgroup");
    let folder = top.join(own.trim_start_matches('/'));
    let inside = folder.ancestors().take_while(|folder| folder.starts_with(&top));
    let number = |folder: &Path, file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    // A group without a limit says "max".
    let left = |folder: &Path| {
        Some(number(folder, "memory.max")?.saturating_sub(number(folder, "memory.current").unwrap_or(0)))
    };
    inside.filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_limited_by_all_groups() {
        let root = std::env::temp_dir().join(format!("pageset-memory-{}", std::process::id()));
        let put = |file: &str, text: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        assert_eq!((free_bytes(&root), has_huge_pages(&root)), (None, false));
        put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        assert!(has_huge_pages(&root));
        put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
        assert!(!has_huge_pages(&root));
        put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    4096 kB\n");
        assert_eq!(free_bytes(&root), Some(4 << 20));
        put("proc/self/cgroup", "0::/user/shell\n");
        put("sys/fs/cgroup/user/shell/memory.max", "max\n");
        assert_eq!(free_bytes(&root), Some(4 << 20));
        put("sys/fs/cgroup/user/memory.max", "3145728\n");
        put("sys/fs/cgroup/user/memory.current", "1048576\n");
        assert_eq!(free_bytes(&root), Some(2 << 20), "the group around has less");
        put("sys/fs/cgroup/user/shell/memory.max", "1048576\n");
        put("sys/fs/cgroup/user/shell/memory.current", "2097152\n");
        assert_eq!(free_bytes(&root), Some(0), "a group above its limit");
        fs::remove_dir_all(&root).expect("the folder goes");
    }
}
