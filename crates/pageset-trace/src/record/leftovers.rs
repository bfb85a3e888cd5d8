//! What a killed recording left on the machine: its tracing instance with the ring buffers, its probes, a sysctl.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use super::owner::Owner;
use super::tracefs::Tracefs;
use super::{probes, sysctl};

/// How long the removal of a tracing instance may take: ring buffers of half a gigabyte take tenths of a second. A guess.
const REMOVAL_TAKES: Duration = Duration::from_secs(2);

/// Removes what recordings that were killed left on this machine, or says what it is and how root removes it.
///
/// Every command calls this first: where nothing was left it reads a folder and two small files. What other recordings
/// that still run use is not touched. tracefs is not mounted for this.
pub fn clean_up(warn: &mut dyn FnMut(&str)) {
    let tracefs = Tracefs::mounted();
    if let Some(tracefs) = &tracefs {
        clean_up_in(tracefs, warn);
    }
    if sysctl::is_emptying() && !tracefs.is_some_and(|tracefs| tracefs.can_list()) && !recorder_runs() {
        warn(&format!(
            "a killed recording may have left {} changed; put it back as root: sysctl -w {}=0",
            sysctl::NAME,
            sysctl::NAME
        ));
    }
}

/// As [`clean_up`], in a tracing file system that was found already.
pub(super) fn clean_up_in(tracefs: &Tracefs, warn: &mut dyn FnMut(&str)) {
    let (alive, dead): (Vec<_>, Vec<_>) = tracefs.instances().into_iter().partition(|(owner, _)| owner.is_alive());
    // The names of the dead know the old value. While another recording empties the lists, it keeps its own.
    let changed = sysctl::is_emptying();
    if changed && alive.is_empty() && tracefs.can_list() {
        let old = dead.iter().find_map(|(_, name)| sysctl::old_value(name)).unwrap_or(0);
        match sysctl::put_back(old) {
            Ok(()) => warn(&format!("a killed recording had left {} changed; it is {old} again", sysctl::NAME)),
            Err(error) => {
                warn(&format!(
                    "a killed recording left {} changed ({error}); put it back as root: sysctl -w {}={old}",
                    sysctl::NAME,
                    sysctl::NAME
                ));
            }
        }
    }
    if !changed || alive.is_empty() {
        for (_, name) in &dead {
            let path = tracefs.path("instances").join(name);
            let what = format!("the ring buffers of a killed recording, {}", path.display());
            say(warn, &what, remove_instance(&path), &format!("rmdir {}", path.display()));
        }
    }
    for group in probes::stale(tracefs) {
        let file = tracefs.path("kprobe_events");
        let remove = format!("sh -c 'echo \"-:{group}/\" >> {}'", file.display());
        say(warn, &format!("the probes {group} of a killed recording"), probes::remove_stale(tracefs, &group), &remove);
    }
}

/// Removes a tracing instance. The kernel is busy with it while another command removes it, and for a moment after its
/// last file was closed.
fn remove_instance(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + REMOVAL_TAKES;
    loop {
        match fs::remove_dir(path) {
            Err(_) if !path.exists() => return Err(io::ErrorKind::NotFound.into()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            removed => return removed,
        }
    }
}

fn say(warn: &mut dyn FnMut(&str), what: &str, removed: io::Result<()>, command: &str) {
    match removed {
        Ok(()) => warn(&format!("removed {what}")),
        // Another command was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => warn(&format!("cannot remove {what}: {error}; as root: {command}")),
    }
}

/// Whether another process of this program runs, which may be emptying the lists at this moment.
fn recorder_runs() -> bool {
    let comm = |folder: &std::path::Path| fs::read_to_string(folder.join("comm")).ok();
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let ours = comm(std::path::Path::new("/proc/self"));
    processes.flatten().any(|process| {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        pid.is_some_and(|pid| pid != std::process::id() && Owner::any(pid).is_alive()) && comm(&process.path()) == ours
    })
}
