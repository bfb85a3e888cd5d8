//! Removes the leftovers of a killed recording: its tracing instance with the ring buffers, its probes, a sysctl.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crate::owner::Owner;
use crate::tracefs::Tracefs;
use crate::{probes, sysctl};

/// The longest time to remove a tracing instance: ring buffers of half a gigabyte take tenths of a second. A guess.
const REMOVAL_MAX: Duration = Duration::from_secs(2);

/// Removes the leftovers of killed recordings on this machine, or reports them and the command with which root removes
/// them.
///
/// Every command calls this first. Without leftovers it reads a folder and two small files. It does not touch the
/// resources of running recordings, and it does not mount tracefs.
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

/// Like [`clean_up`], in a known tracing file system.
pub(super) fn clean_up_in(tracefs: &Tracefs, warn: &mut dyn FnMut(&str)) {
    let (alive, dead): (Vec<_>, Vec<_>) = tracefs.instances().into_iter().partition(|(owner, _)| owner.is_alive());
    // The names of leftover instances contain the old value. A running recording that empties the lists keeps its own
    // value.
    let changed = sysctl::is_emptying();
    if changed && alive.is_empty() && tracefs.can_list() {
        let old = dead.iter().find_map(|(_, name)| sysctl::old_value(name)).unwrap_or(0);
        match sysctl::restore(old) {
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
            report(warn, &what, remove_instance(&path), &format!("rmdir {}", path.display()));
        }
    }
    for group in probes::stale(tracefs) {
        let file = tracefs.path("kprobe_events");
        let remove = format!("sh -c 'echo \"-:{group}/\" >> {}'", file.display());
        report(
            warn,
            &format!("the probes {group} of a killed recording"),
            probes::remove_stale(tracefs, &group),
            &remove,
        );
    }
}

/// Removes a tracing instance. The instance is busy while another command removes it, and for a moment after its last
/// file was closed.
pub(super) fn remove_instance(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + REMOVAL_MAX;
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

fn report(warn: &mut dyn FnMut(&str), what: &str, removed: io::Result<()>, command: &str) {
    match removed {
        Ok(()) => warn(&format!("removed {what}")),
        // Another command has removed it already.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => warn(&format!("cannot remove {what}: {error}; as root: {command}")),
    }
}

/// Whether another process of this program runs, which may be emptying the lists.
fn recorder_runs() -> bool {
    let comm = |folder: &std::path::Path| fs::read_to_string(folder.join("comm")).ok();
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let ours = comm(std::path::Path::new("/proc/self"));
    processes.flatten().any(|process| {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        pid.is_some_and(|pid| pid != std::process::id() && Owner::any(pid).is_alive()) && comm(&process.path()) == ours
    })
}
