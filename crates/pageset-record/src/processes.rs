//! The table of processes and threads, which maps the thread numbers of events to processes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The largest number of listed threads: a guard against a table larger than the recording. A guess.
const MAX_THREADS: usize = 1 << 16;

/// The threads of this machine, one per line, with tab-separated fields: the thread's number, its process's number, the
/// process's cgroup (`-` if the kernel has none), and the thread's name. Events have the thread's number.
///
/// A thread that ends before the table is read is missing. Backslashes and control characters are escaped as in Rust.
pub(super) fn table() -> String {
    let mut table = String::new();
    let mut count = 0;
    for pid in numbers(Path::new("/proc")) {
        let folder = format!("/proc/{pid}");
        let cgroup = fs::read(format!("{folder}/cgroup")).map(|text| cgroup(&String::from_utf8_lossy(&text)));
        let cgroup = cgroup.unwrap_or_else(|_| "-".to_owned());
        for tid in numbers(Path::new(&format!("{folder}/task"))) {
            let Ok(name) = fs::read(format!("{folder}/task/{tid}/comm")) else { continue };
            let name = escaped(String::from_utf8_lossy(&name).trim_end_matches('\n'));
            let _ = writeln!(table, "{tid}\t{pid}\t{cgroup}\t{name}");
            count += 1;
            if count == MAX_THREADS {
                return table;
            }
        }
    }
    table
}

/// The entries of a folder whose names are numbers, sorted.
fn numbers(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The cgroup in the text of `/proc/PID/cgroup`: the one of the memory controller, or else the one of cgroup v2.
fn cgroup(text: &str) -> String {
    let path = |wanted: &dyn Fn(&str, &str) -> bool| {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            wanted(number, controllers).then_some(path)
        })
    };
    let memory = |_: &str, controllers: &str| controllers.split(',').any(|controller| controller == "memory");
    let found = path(&memory).or_else(|| path(&|number, _| number == "0"));
    found.map_or_else(|| "-".to_owned(), escaped)
}

fn escaped(text: &str) -> String {
    let plain = |c: char| !c.is_control() && c != '\\';
    if text.chars().all(plain) {
        return text.to_owned();
    }
    text.chars().map(|c| if plain(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_listed() {
        let table = table();
        let (pid, tid) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero());
        let line = table.lines().find(|line| line.starts_with(&format!("{tid}\t{pid}\t"))).unwrap();
        assert_eq!(line.split('\t').count(), 4, "{line}");
        assert!(table.lines().all(|line| line.split('\t').count() == 4));
    }

    #[test]
    fn cgroups_of_both_versions() {
        assert_eq!(cgroup("0::/system.slice/a.service\n"), "/system.slice/a.service");
        assert_eq!(cgroup("9:cpu,memory:/m\n3:name=systemd:/n\n0::/\n"), "/m");
        assert_eq!(cgroup("3:pids:/p\n"), "-");
        assert_eq!(cgroup("0::/a\tb\\\n"), "/a\\tb\\\\");
    }
}
