//! A description of the host, from `/sys` and `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of `/sys` or `/proc` that is missing or has unexpected contents.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {what}", .file.display())]
pub struct DetectError {
    file: PathBuf,
    what: String,
}

struct Found {
    sockets: usize,
    cores_per_socket: usize,
    threads_per_core: usize,
    memory_gib: u64,
    l1_kib: u64,
    l2_kib: u64,
    llc_kib: u64,
}

/// The text of a description. CPU counts, memory and caches come from Linux; all else comes from the most similar
/// shipped description. `root` is `/` or a folder with a copy of the needed files of `/sys` and `/proc`.
///
/// # Errors
/// A file is missing or has unexpected contents.
pub fn detect(root: &Path, name: &str) -> Result<String, DetectError> {
    let found = Found::read(root)?;
    // The core count separates desktops from servers, whose latencies differ.
    let like = if found.cores_per_socket > 6 { "lkp-skl-2sp2" } else { "lkp-skl-d01" };
    let text = super::SHIPPED.iter().find(|(name, _)| *name == like).map_or("", |(_, text)| text);
    let numbers = [
        ("sockets", found.sockets as u64),
        ("cores_per_socket", found.cores_per_socket as u64),
        ("threads_per_core", found.threads_per_core as u64),
        ("memory_gib", found.memory_gib),
        ("l1_kib", found.l1_kib),
        ("l2_kib", found.l2_kib),
        ("llc_kib", found.llc_kib),
    ];
    let mut out = format!(
        "# This host: counts, memory and caches, as Linux tells them.\n\
         # Another machine, {like}: latencies and costs. They were not measured here.\n"
    );
    // Tables with values of the other machine. Few values of the others differ between machines.
    const OF_MACHINE: [&str; 2] = ["[cited]", "[derived]"];
    let (mut of_machine, mut skipping) = (false, false);
    for line in text.lines().skip(1) {
        let key = line.split_once(" =").map(|(key, _)| key);
        match key {
            Some("name") => out += &format!("name = \"{name}\""),
            Some("about") => {
                let cpus = found.sockets * found.cores_per_socket * found.threads_per_core;
                let memory = found.memory_gib;
                out += &format!("about = \"this host: {cpus} CPUs, {memory} GiB; latencies and costs of {like}\"");
            }
            Some(key) => match numbers.iter().find(|(known, _)| *known == key) {
                Some((key, value)) => out += &format!("{key} = {value} # this host"),
                None if key == "microarchitecture" => out += &format!("microarchitecture = \"unknown\" # as {like}"),
                None if key == "pace" => out += "pace = 1",
                None if of_machine => out += &format!("{line} # {like}"),
                None => out += line,
            },
            // What the other machine's numbers come from is said in its own description.
            None if line.starts_with("# Facts.") => {
                out += &format!("# Hardware facts; `pageset machine show {like}` has the sources of its numbers.");
                skipping = true;
            }
            None => {
                skipping &= line.starts_with('#');
                if skipping {
                    continue;
                }
                of_machine = if line.starts_with('[') { OF_MACHINE.contains(&line) } else { of_machine };
                // The second sentence of a comment is about the other machine's source.
                let first = line.split_once(". ").filter(|_| of_machine).map(|(first, _)| first);
                match first {
                    _ if line.starts_with("# Machines of one") => continue,
                    _ if line.starts_with("# Fitted to") => out += "# Nothing is fitted to this host.",
                    Some(first) => out += &format!("{first}."),
                    None => out += line,
                }
            }
        }
        out.push('\n');
    }
    Ok(out)
}

impl Found {
    fn read(root: &Path) -> Result<Found, DetectError> {
        let cpus = root.join("sys/devices/system/cpu");
        let online = read(&cpus.join("online"))?;
        let numbers = list(&online).ok_or_else(|| unexpected(&cpus.join("online"), &online))?;
        let (mut packages, mut cores) = (BTreeSet::new(), BTreeSet::new());
        for cpu in &numbers {
            let topology = cpus.join(format!("cpu{cpu}/topology"));
            let package = number(&topology.join("physical_package_id"))?;
            packages.insert(package);
            cores.insert((package, number(&topology.join("core_id"))?));
        }
        // A socket of the model is a memory node. A package may have several nodes, and a virtual machine may have
        // packages without nodes of their own.
        let nodes = root.join("sys/devices/system/node/has_cpu");
        let nodes = if nodes.exists() { list(&read(&nodes)?).map(|nodes| nodes.len()) } else { None };
        let (sockets, all_cores) = (nodes.unwrap_or(packages.len()).max(1), cores.len().max(1));
        let meminfo = root.join("proc/meminfo");
        let text = read(&meminfo)?;
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u64 = total
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok())
            .ok_or_else(|| unexpected(&meminfo, "no MemTotal in kB"))?;
        let first = numbers.first().copied().unwrap_or(0);
        let [l1_kib, l2_kib, llc_kib] = caches(&cpus.join(format!("cpu{first}/cache")))?;
        Ok(Found {
            sockets,
            cores_per_socket: all_cores.div_ceil(sockets),
            threads_per_core: numbers.len().div_ceil(all_cores),
            // Rounded: a part of the memory belongs to the kernel's image and to the firmware.
            memory_gib: ((kib + (1 << 19)) >> 20).max(sockets as u64),
            l1_kib,
            l2_kib,
            llc_kib,
        })
    }
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

/// Parses a CPU list such as `0-3,8`.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        all.extend(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?);
    }
    Some(all)
}
