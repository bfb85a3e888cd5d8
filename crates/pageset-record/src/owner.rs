//! The owner of an instance or a probe: the recorder's process, identified by its number and start time.

use std::fs;

use crate::error::RecordError;

/// A process that created an instance or a probe, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    /// The process's start time in clock ticks since boot, which distinguishes it from a later process with the same
    /// number. `None` for names of recorders before 0.2.
    start: Option<u64>,
}

/// A process as `/proc/PID/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    start: u64,
}

impl Stat {
    /// Parses the text of `/proc/PID/stat`. The second field, the name, may contain spaces and parentheses.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        // The state is field 3, the start time field 22.
        let state = fields.next()?.chars().next()?;
        Some(Stat { state, start: fields.nth(18)?.parse().ok()? })
    }

    fn of(process: &str) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }
}

/// Fails if `/proc` does not show this process under its number. It then shows other processes, or none.
pub(super) fn require_own_proc() -> Result<(), RecordError> {
    let shown = fs::read_link("/proc/self");
    let shown_pid = shown.as_ref().ok().and_then(|pid| pid.to_str()?.parse::<u32>().ok());
    if shown_pid == Some(std::process::id()) {
        return Ok(());
    }
    let what = match shown {
        // The target is empty or the link is unreadable in a PID namespace that this /proc does not show.
        Ok(_) => "/proc is that of another PID namespace".to_owned(),
        Err(_) if fs::metadata("/proc/version").is_ok() => "/proc is that of another PID namespace".to_owned(),
        Err(error) => format!("/proc is not mounted: {error}"),
    };
    Err(RecordError::Missing { what, help: "mount it in this namespace: mount -t proc proc /proc".into() })
}

impl Owner {
    pub(super) fn this() -> Owner {
        Owner::any(std::process::id())
    }

    /// The process that has this number now.
    pub(super) fn any(pid: u32) -> Owner {
        Owner { pid, start: Stat::of(&pid.to_string()).map(|stat| stat.start) }
    }

    /// The owner's part of a name, with `separator` between the numbers.
    pub(super) fn name(self, separator: char) -> String {
        format!("{}{separator}{}", self.pid, self.start.unwrap_or(0))
    }

    /// Parses the owner at the front of a name. Returns it and the text after the next separator.
    pub(super) fn parse(name: &str, separator: char) -> Option<(Owner, &str)> {
        let (pid, rest) = name.split_once(separator).unwrap_or((name, ""));
        let pid = pid.parse().ok()?;
        let (start, after) = rest.split_once(separator).unwrap_or((rest, ""));
        Some(match start.parse() {
            Ok(start) => (Owner { pid, start: Some(start) }, after),
            Err(_) => (Owner { pid, start: None }, rest),
        })
    }

    /// Whether the process still runs. A zombie does not: it has no open files, and its parent may never reap it.
    pub(super) fn is_alive(self) -> bool {
        let Some(stat) = Stat::of(&self.pid.to_string()) else { return false };
        if matches!(stat.state, 'Z' | 'X' | 'x') {
            return false;
        }
        match self.start {
            Some(start) => stat.start == start,
            None => {
                let comm = |process: &str| fs::read_to_string(format!("/proc/{process}/comm")).ok();
                comm(&self.pid.to_string()).is_some_and(|name| Some(name) == comm("self"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn names_parse_back() {
        let owner = Owner { pid: 7, start: Some(99) };
        assert_eq!(Owner::parse("7-99-hf8", '-'), Some((owner, "hf8")));
        assert_eq!(Owner::parse(&owner.name('_'), '_'), Some((owner, "")));
        assert_eq!(Owner::parse("7-hf8", '-'), Some((Owner { pid: 7, start: None }, "hf8")));
        assert_eq!(Owner::parse("x-7", '-'), None);
        assert_eq!(Stat::parse("7 (a) b) (c) S 1 2"), None);
        let text = "7 (a) Z) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1000 2";
        assert_eq!(Stat::parse(text), Some(Stat { state: 'S', start: 4242 }));
    }

    #[test]
    fn a_zombie_and_a_reused_number_are_not_alive() {
        let this = Owner::this();
        assert!(this.is_alive());
        assert!(Owner { start: None, ..this }.is_alive());
        let later = Owner { start: this.start.map(|start| start + 1), ..this };
        assert!(!later.is_alive(), "another process of the same number");

        // The child is not waited for, so it stays a zombie.
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let owner = Owner::any(pid);
        assert!(owner.is_alive());
        child.kill().unwrap();
        while Stat::of(&pid.to_string()).unwrap().state != 'Z' {
            std::thread::yield_now();
        }
        assert!(!owner.is_alive(), "a zombie");
        child.wait().unwrap();
        assert!(!owner.is_alive(), "gone");
    }
}
