//! Finds tracefs and creates a tracing instance, which is always removed afterwards.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::RecordError;
use crate::owner::Owner;

/// The mount points of tracefs, the current one first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The prefix of instance names; the owner and the suffix of [`super::sysctl`] follow.
const PREFIX: &str = "pageset-";

/// The mounted tracing file system.
#[derive(Debug)]
pub(crate) struct Tracefs {
    root: PathBuf,
    /// Whether this process mounted it and unmounts it.
    mounted: bool,
}

impl Tracefs {
    /// Finds tracefs, and mounts it if it is not mounted and the user may mount it.
    pub(crate) fn find() -> Result<Self, RecordError> {
        for place in PLACES {
            let root = PathBuf::from(place);
            match fs::metadata(root.join("instances")) {
                Ok(_) => return Ok(Tracefs { root, mounted: false }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(no_permission(&root)),
                Err(_) => {}
            }
        }
        let root = PathBuf::from(PLACES[0]);
        if !root.is_dir() {
            return Err(RecordError::Missing {
                what: "the kernel has no tracing: there is no /sys/kernel/tracing".into(),
                help: "record on a kernel built with CONFIG_TRACING=y and CONFIG_EVENT_TRACING=y; in a container, on \
                       the host"
                    .into(),
            });
        }
        let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
        match rustix::mount::mount("tracefs", &root, "tracefs", flags, None) {
            Ok(()) => Ok(Tracefs { root, mounted: true }),
            // Another recording has mounted it in the meantime.
            Err(rustix::io::Errno::BUSY) if root.join("instances").exists() => Ok(Tracefs { root, mounted: false }),
            Err(error) => Err(RecordError::Missing {
                what: format!("tracefs is not mounted and cannot be: {error}"),
                help: "as root: mount -t tracefs tracefs /sys/kernel/tracing; in a container, start it with \
                       --privileged -v /sys/kernel/tracing:/sys/kernel/tracing"
                    .into(),
            }),
        }
    }

    /// The path of a file in the tracing file system.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// The folder of an event, which exists only if this kernel has the event.
    pub(crate) fn event(&self, system: &str, name: &str) -> PathBuf {
        self.root.join("events").join(system).join(name)
    }

    /// Whether this kernel has an event.
    pub(super) fn has_event(&self, system: &str, name: &str) -> bool {
        self.event(system, name).join("format").exists()
    }

    /// The tracing file system, if it is mounted and this user may access it.
    pub(super) fn mounted() -> Option<Self> {
        let place = PLACES.into_iter().map(PathBuf::from).find(|root| root.join("instances").exists());
        place.map(|root| Tracefs { root, mounted: false })
    }

    /// Whether this user may list the instances.
    pub(super) fn can_list(&self) -> bool {
        fs::read_dir(self.root.join("instances")).is_ok()
    }

    /// The instances of recordings with their owners.
    pub(super) fn instances(&self) -> Vec<(Owner, String)> {
        let Ok(instances) = fs::read_dir(self.root.join("instances")) else { return Vec::new() };
        let names = instances.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| Some((Owner::parse(name.strip_prefix(PREFIX)?, '-')?.0, name))).collect()
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.mounted {
            // A process with its working directory there keeps tracefs mounted, which is harmless.
            let _ = rustix::mount::unmount(&self.root, rustix::mount::UnmountFlags::empty());
        }
    }
}

/// Reads a text with one large read: some files of tracefs return data only on the first read.
fn read_in_one(path: &Path) -> io::Result<String> {
    let mut text = vec![0; 1 << 16];
    let mut file = fs::File::open(path)?;
    let mut length = 0;
    loop {
        match file.read(&mut text[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == text.len() {
            text.resize(2 * length, 0);
        }
    }
    text.truncate(length);
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

pub(super) fn no_permission(root: &Path) -> RecordError {
    let what = format!("no permission to trace: {} is closed to this user", root.display());
    let help = if rustix::process::geteuid().is_root() {
        "root without CAP_SYS_ADMIN, or a kernel locked down for confidentiality: record on the host, or boot with \
         lockdown=none"
    } else {
        "run it as root, such as with sudo"
    };
    RecordError::Missing { what, help: help.into() }
}

/// A tracing instance: its own ring buffers, events and clock. Dropping it stops the tracing and removes it.
///
/// All of its files must be closed before the drop, or the kernel does not remove it.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    removed: bool,
}

impl Instance {
    /// Creates the instance `pageset-PID-START-SUFFIX`, with tracing off; START is the process's start time.
    pub(super) fn create(tracefs: &Tracefs, suffix: &str) -> Result<Self, RecordError> {
        let name = format!("{PREFIX}{}-{suffix}", Owner::this().name('-'));
        let path = tracefs.root.join("instances").join(name);
        fs::create_dir(&path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => no_permission(&tracefs.root),
            _ => RecordError::on("create the tracing instance", &path)(error),
        })?;
        let instance = Instance { path, removed: false };
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    /// The path of a file in the instance.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Writes a setting.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), RecordError> {
        let path = self.path(file);
        fs::write(&path, text).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => no_permission(&path),
            _ => RecordError::on(&format!("write {text:?} to"), &path)(error),
        })
    }

    /// Reads a file of the instance.
    pub(super) fn read(&self, file: &str) -> Result<String, RecordError> {
        let path = self.path(file);
        read_in_one(&path).map_err(RecordError::on("read", &path))
    }

    /// The CPUs that have a ring buffer, in the order of their numbers.
    pub(super) fn cpus(&self) -> Result<Vec<u32>, RecordError> {
        let folder = self.path("per_cpu");
        let entries = fs::read_dir(&folder).map_err(RecordError::on("read", &folder))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut cpus: Vec<u32> = names.filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.path
    }

    /// Leaves the removal to another process.
    pub(super) fn leave(mut self) {
        self.removed = true;
    }

    /// Removes the instance and frees its memory.
    pub(super) fn remove(mut self) -> Result<(), RecordError> {
        self.try_remove().map_err(RecordError::on("remove the tracing instance", &self.path))
    }

    fn try_remove(&mut self) -> io::Result<()> {
        if self.removed {
            return Ok(());
        }
        let _ = fs::write(self.path("tracing_on"), "0");
        let mut result = fs::remove_dir(&self.path);
        // A file that anyone closed just now can keep the instance busy for a moment.
        for _ in 0..50 {
            match &result {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(20));
                    result = fs::remove_dir(&self.path);
                }
                _ => break,
            }
        }
        self.removed = result.is_ok();
        result
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A drop cannot report an error. The next recording removes the leftover.
        let _ = self.try_remove();
    }
}
