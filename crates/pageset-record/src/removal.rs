//! The removal of the tracing instance and the probes by a process of its own, after a signal.
//!
//! The kernel waits for all CPUs at each event that is switched off. With 8 emulated CPUs that takes a second when they are idle and six when
//! they are busy. A user who presses Ctrl-C waits for the file, not for that: the process begins while the recorder writes the file, and
//! goes on after the recorder's end if it must.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::{leftovers, probes};

/// The argument after [`crate::HOLD`] that makes the helper remove; the instance, the file of the probes and their group follow.
pub(super) const REMOVE: &str = "__remove";

/// How long after a signal the recorder waits for the process at most. Measured on 8 emulated CPUs: an idle recorder then ends in 2 seconds,
/// and next to busy processes, where the file alone takes more than one, in 3 to 5 instead of 8 to 10.
pub(super) const PATIENCE: Duration = Duration::from_millis(1200);

/// The process that removes.
#[derive(Debug)]
pub(super) struct Removal {
    process: Child,
    deadline: Instant,
}

/// How far the removal is when the recorder ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    All,
    /// The process goes on.
    Soon,
    /// The process failed.
    Failed,
}

impl Removal {
    /// Starts the process for an instance, and for a group of probes in `file`. It switches the events off, and waits for [`Removal::finish`] or the recorder's end with the rest.
    pub(super) fn start(launcher: &[OsString], instance: &Path, file: &Path, group: &str) -> io::Result<Removal> {
        let mut command = Command::new(&launcher[0]);
        command.args(&launcher[1..]).arg(REMOVE).args([instance, file]).arg(group);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let deadline = Instant::now() + PATIENCE;
        // A signal of the terminal is for the recorder.
        let process = command.process_group(0).spawn()?;
        Ok(Removal { process, deadline })
    }

    /// Lets the process go on, after all files of the instance were closed, and waits for it, but not for long.
    pub(super) fn finish(mut self) -> Removed {
        drop(self.process.stdin.take());
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return Removed::All,
                Ok(None) if Instant::now() < self.deadline => thread::sleep(Duration::from_millis(2)),
                Ok(None) => return Removed::Soon,
                _ => return Removed::Failed,
            }
        }
    }
}

/// Runs the process with the arguments after [`REMOVE`]. Returns its exit code.
pub(super) fn run(mut arguments: impl Iterator<Item = OsString>) -> u8 {
    let (Some(instance), Some(file), Some(group)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return 2;
    };
    let instance = Path::new(&instance);
    let _ = fs::write(instance.join("tracing_on"), "0");
    let _ = fs::write(instance.join("events/enable"), "0");
    // The input ends when the recorder has closed its files, or has ended.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let removed = leftovers::remove_instance(instance);
    let probes = probes::remove(Path::new(&file), group.to_str().unwrap_or_default());
    u8::from(removed.is_err() || probes.is_err())
}

/// Whether the helper was started to remove.
pub(super) fn is_asked_for(first: &OsStr) -> bool {
    first == REMOVE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(script: &str) -> (Removed, Duration) {
        let launcher = ["/bin/sh", "-c", script].map(OsString::from);
        let removal = Removal::start(&launcher, Path::new("/nonexistent"), Path::new("/nonexistent"), "g").unwrap();
        let begun = Instant::now();
        (removal.finish(), begun.elapsed())
    }

    #[test]
    fn the_recorder_waits_for_the_process_but_not_for_long() {
        // The shell takes the arguments as its own; `cat` ends when the recorder lets it go on.
        assert_eq!(finish("cat; test $0 = __remove && test $3 = g").0, Removed::All);
        assert_eq!(finish("cat; exit 1").0, Removed::Failed);
        let (removed, waited) = finish("exec sleep 30");
        assert_eq!(removed, Removed::Soon);
        assert!(waited < PATIENCE + Duration::from_secs(2), "{waited:?}");
    }

    #[test]
    fn arguments_name_what_is_removed() {
        assert_eq!(run(["/x", "/y"].map(OsString::from).into_iter()), 2);
        assert!(is_asked_for(OsStr::new("__remove")) && !is_asked_for(OsStr::new("/proc/7/fd/3")));
    }
}
