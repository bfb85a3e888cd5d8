//! Empties the pagesets before a recording, and restores the sysctl that this changes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::RecordError;

/// The sysctl's value while the pagesets are emptied. A zone divided by it is less than one page, so `high` becomes its
/// minimum. The value also marks a killed run that did not restore the old one.
const EMPTYING: u32 = i32::MAX as u32;
/// The number of decay runs that empty lists of any size: each run removes an eighth. Source: `trace-replay.md` 4.
const DECAYS: u32 = 70;

/// The longest time in which another recording empties the lists. A value that stays longer counts as a leftover. A
/// guess: two hundred CPUs take about a second.
const OTHER_RECORDING_MAX: Duration = Duration::from_secs(5);

pub(super) const NAME: &str = "vm.percpu_pagelist_high_fraction";

const HIGH_FRACTION: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
const STAT_REFRESH: &str = "/proc/sys/vm/stat_refresh";

/// `vm.percpu_pagelist_high_fraction`; `None` if the kernel does not have it.
pub(super) fn high_fraction() -> Option<u32> {
    fs::read_to_string(HIGH_FRACTION).ok()?.trim().parse().ok()
}

/// Whether the value in force is that of a run that empties the lists or was killed meanwhile.
pub(super) fn is_emptying() -> bool {
    high_fraction() == Some(EMPTYING)
}

/// The old value in the name of an instance.
pub(super) fn old_value(instance: &str) -> Option<u32> {
    instance.rsplit_once("-hf")?.1.parse().ok()
}

/// Restores the value after a killed run.
pub(super) fn restore(old: u32) -> io::Result<()> {
    fs::write(HIGH_FRACTION, old.to_string())
}

/// The part of an instance's name that [`old_value`] reads.
pub(super) fn name_suffix() -> String {
    match high_fraction() {
        Some(fraction) if fraction != EMPTYING => format!("hf{fraction}"),
        _ => "hf0".to_owned(),
    }
}

fn set(path: &Path, value: u32) -> Result<(), RecordError> {
    fs::write(path, value.to_string()).map_err(|source| RecordError::Io {
        what: format!("write {value} to {}", path.display()),
        source,
        help: Some("--empty-lists changes this sysctl for a moment; run as root, or leave the flag out".into()),
    })
}

/// A sysctl with a changed value; dropping it restores the old value.
#[derive(Debug)]
struct Restore {
    path: PathBuf,
    old: u32,
    restored: bool,
}

impl Restore {
    fn restore(&mut self) -> Result<(), RecordError> {
        if !self.restored {
            set(&self.path, self.old)?;
            self.restored = true;
        }
        Ok(())
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // The error that caused the drop has already been reported.
        let _ = self.restore();
    }
}

/// The permanent fraction: if another recording empties the lists, waits until it has restored the value.
fn settled_fraction(interrupted: &mut impl FnMut() -> bool) -> Option<u32> {
    let deadline = Instant::now() + OTHER_RECORDING_MAX;
    loop {
        match high_fraction()? {
            EMPTYING if interrupted() || Instant::now() > deadline => return Some(0),
            EMPTYING => thread::sleep(Duration::from_millis(20)),
            fraction => return Some(fraction),
        }
    }
}

/// Empties every pageset to the kernel's minimum. `interrupted` is called between the steps and can end them. The old
/// value is always restored.
pub(super) fn empty_lists(mut interrupted: impl FnMut() -> bool) -> Result<(), RecordError> {
    let Some(old) = settled_fraction(&mut interrupted) else {
        return Err(RecordError::Missing {
            what: format!("the kernel has no {HIGH_FRACTION}, which emptying the lists takes"),
            help: "leave --empty-lists out, or record on Linux 5.14 or later".into(),
        });
    };
    let mut restore = Restore { path: HIGH_FRACTION.into(), old, restored: false };
    set(&restore.path, EMPTYING)?;
    for _ in 0..DECAYS {
        if interrupted() {
            break;
        }
        let path = Path::new(STAT_REFRESH);
        // A read that reports an invalid counter has still run the decay.
        if let Err(error) = fs::read(path)
            && error.kind() != io::ErrorKind::InvalidInput
        {
            return Err(RecordError::on("read", path)(error));
        }
    }
    restore.restore()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_restores_the_old_value() {
        let path = std::env::temp_dir().join(format!("pageset-sysctl-{}", std::process::id()));
        fs::write(&path, "8\n").unwrap();
        let guard = Restore { path: path.clone(), old: 8, restored: false };
        set(&path, EMPTYING).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2147483647");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _guard = guard;
            panic!("while the value is changed");
        }));
        assert!(panicked.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "8");
        fs::remove_file(&path).unwrap();
    }
}
