//! Emptying the pagesets before recording, and putting the sysctl that this takes back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::error::RecordError;

/// A page of memory divided by this is less than one page: `high` becomes its smallest. The value is also the mark of
/// a run that was killed before it put the old one back.
const EMPTYING: u32 = i32::MAX as u32;
/// How often the decay runs to empty lists of any size: each takes an eighth. Source: `trace-replay.md` 4.
const DECAYS: u32 = 70;

/// How long another recording may take to empty the lists; what it left changed after that is taken for forgotten. Two
/// hundred CPUs take about a second, as a guess.
const OTHERS_TAKE: Duration = Duration::from_secs(5);

/// What the sysctl is called.
pub(super) const NAME: &str = "vm.percpu_pagelist_high_fraction";

const HIGH_FRACTION: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
const STAT_REFRESH: &str = "/proc/sys/vm/stat_refresh";

/// `vm.percpu_pagelist_high_fraction`; nothing where the kernel does not have it.
pub(super) fn high_fraction() -> Option<u32> {
    fs::read_to_string(HIGH_FRACTION).ok()?.trim().parse().ok()
}

/// Whether the value in force is that of a run that empties the lists, or was killed meanwhile.
pub(super) fn is_emptying() -> bool {
    high_fraction() == Some(EMPTYING)
}

/// The old value, from the name of an instance.
pub(super) fn old_value(instance: &str) -> Option<u32> {
    instance.rsplit_once("-hf")?.1.parse().ok()
}

/// Puts the value of a killed run back.
pub(super) fn put_back(old: u32) -> io::Result<()> {
    fs::write(HIGH_FRACTION, old.to_string())
}

/// What an instance's name has to say so that [`old_value`] finds it.
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

/// A sysctl set to another value; dropping it puts the old one back.
#[derive(Debug)]
struct Restore {
    path: PathBuf,
    old: u32,
    done: bool,
}

impl Restore {
    fn put_back(&mut self) -> Result<(), RecordError> {
        if !self.done {
            set(&self.path, self.old)?;
            self.done = true;
        }
        Ok(())
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // On the way out of an error that has already been told.
        let _ = self.put_back();
    }
}

/// The fraction that is meant to stay: while another recording empties the lists, waits until it has put it back.
fn settled_fraction(interrupted: &mut impl FnMut() -> bool) -> Option<u32> {
    let deadline = Instant::now() + OTHERS_TAKE;
    loop {
        match high_fraction()? {
            EMPTYING if interrupted() || Instant::now() > deadline => return Some(0),
            EMPTYING => thread::sleep(Duration::from_millis(20)),
            fraction => return Some(fraction),
        }
    }
}

/// Empties every pageset down to what the kernel always keeps. `interrupted` is asked between the steps and ends it
/// early; the sysctl has its old value afterwards in any case.
pub(super) fn empty_lists(mut interrupted: impl FnMut() -> bool) -> Result<(), RecordError> {
    let Some(old) = settled_fraction(&mut interrupted) else {
        return Err(RecordError::Missing {
            what: format!("the kernel has no {HIGH_FRACTION}, which emptying the lists takes"),
            help: "leave --empty-lists out, or record on Linux 5.14 or later".into(),
        });
    };
    let mut restore = Restore { path: HIGH_FRACTION.into(), old, done: false };
    set(&restore.path, EMPTYING)?;
    for _ in 0..DECAYS {
        if interrupted() {
            break;
        }
        let path = Path::new(STAT_REFRESH);
        // A read that reports an odd counter still ran the decay.
        if let Err(error) = fs::read(path)
            && error.kind() != io::ErrorKind::InvalidInput
        {
            return Err(RecordError::on("read", path)(error));
        }
    }
    restore.put_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_puts_the_old_value_back() {
        let path = std::env::temp_dir().join(format!("pageset-sysctl-{}", std::process::id()));
        fs::write(&path, "8\n").unwrap();
        let guard = Restore { path: path.clone(), old: 8, done: false };
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
