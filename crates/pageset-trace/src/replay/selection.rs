//! Whose refills and drains are looked at, where not all are: those that some CPUs, processes or cgroups caused.
//!
//! All of a recording is replayed in any case, since all share the pagesets.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{Move, Moves};
use crate::error::TraceError;
use crate::event::{Event, Kind};
use crate::trace::Trace;

/// The tables of threads that a recording has, of before and after.
const TABLES: [&str; 2] = ["processes.0", "processes.1"];

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// Events on these CPUs.
    Cpu(Vec<RangeInclusive<u32>>),
    /// Events of this process or thread, by number or by name, and of what it makes.
    Process(String),
    /// Events of processes in this cgroup or below it.
    Cgroup(String),
}

impl FromStr for Only {
    type Err = String;

    /// Reads `cpu=LIST`, `process=NAME`, `process=NUMBER` or `cgroup=PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is no condition; allowed: cpu=0-3,8 process=NAME process=NUMBER cgroup=PATH");
        let (kind, value) = text.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(wrong)?;
        match kind {
            "cpu" => value.split(',').map(range).collect::<Option<_>>().map(Self::Cpu).ok_or_else(wrong),
            "process" => Ok(Self::Process(value.to_owned())),
            "cgroup" if value.starts_with('/') => Ok(Self::Cgroup(value.trim_end_matches('/').to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(ranges) => {
                let range = |range: &RangeInclusive<u32>| match (range.start(), range.end()) {
                    (first, last) if first == last => first.to_string(),
                    (first, last) => format!("{first}-{last}"),
                };
                write!(f, "cpu={}", ranges.iter().map(range).collect::<Vec<_>>().join(","))
            }
            Self::Process(process) => write!(f, "process={process}"),
            Self::Cgroup(path) if path.is_empty() => f.write_str("cgroup=/"),
            Self::Cgroup(path) => write!(f, "cgroup={path}"),
        }
    }
}

/// `3` or `3-5`.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// The events that meet conditions. Conditions of one kind are alternatives; of several kinds one each has to be met.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Allocations and frees selected.
    pub operations: u64,
    /// Those of threads that are in no table of the recording, so that their name and cgroup are not known. None of them
    /// is selected by name or cgroup.
    pub unlisted: u64,
    /// Of each CPU the input events: how many came before on all CPUs, and whether this one is selected.
    events: HashMap<u32, Vec<(u64, bool)>>,
}

impl Selection {
    /// Looks a recording over.
    ///
    /// # Errors
    /// A damaged recording; one without a table of threads where a condition needs it; a name or cgroup that is not in it.
    pub fn new(trace: &Trace, only: &[Only]) -> Result<Self, TraceError> {
        let mut conditions = Conditions::new(trace, only)?;
        let mut selection = Selection::default();
        let mut place = 0;
        for event in trace.events()? {
            let event = event?;
            if let Kind::Fork { child } = event.kind {
                conditions.fork(event.pid, child);
            }
            if !event.kind.is_input() {
                continue;
            }
            let selected = conditions.meet(&event);
            selection.events.entry(event.cpu.0).or_default().push((place, selected));
            place += 1;
            if matches!(event.kind, Kind::Alloc { .. } | Kind::Free { .. } | Kind::BulkAlloc { .. }) {
                selection.operations += u64::from(selected);
                selection.unlisted += u64::from(conditions.is_unlisted(event.pid));
            }
        }
        Ok(selection)
    }

    /// The moves that selected events caused.
    #[must_use]
    pub fn of(&self, moves: &Moves) -> Moves {
        let selected = |moves: &[Move]| moves.iter().filter(|moved| self.caused(moved)).copied().collect();
        Moves { refills: selected(&moves.refills), drains: selected(&moves.drains) }
    }

    /// The events of a refill come before the allocation that caused it, so its cause is the next input on its CPU.
    fn caused(&self, moved: &Move) -> bool {
        let Some(events) = self.events.get(&moved.cpu.0) else { return false };
        let next = events.partition_point(|(place, _)| *place < moved.place);
        events.get(next).is_some_and(|(_, selected)| *selected)
    }
}

/// What an event has to meet.
#[derive(Debug)]
struct Conditions {
    cpus: Vec<RangeInclusive<u32>>,
    /// Threads, where a condition names processes or cgroups.
    processes: Option<HashSet<u32>>,
    cgroups: Option<HashSet<u32>>,
    /// All threads of the tables, where a condition takes them.
    listed: Option<HashSet<u32>>,
}

impl Conditions {
    fn new(trace: &Trace, only: &[Only]) -> Result<Self, TraceError> {
        let texts = TABLES.map(|tag| trace.snapshots().text(tag).unwrap_or_default());
        let threads: Vec<Thread<'_>> = texts.iter().flat_map(|text| text.lines()).filter_map(Thread::parse).collect();
        let mut conditions = Conditions { cpus: Vec::new(), processes: None, cgroups: None, listed: None };
        for condition in only {
            if let Only::Cpu(ranges) = condition {
                conditions.cpus.extend(ranges.iter().cloned());
                continue;
            }
            let number = match condition {
                Only::Process(process) => process.parse::<u32>().ok(),
                _ => None,
            };
            if threads.is_empty() && number.is_none() {
                return Err(TraceError::missing_snapshots("the recording has no table of its processes")
                    .allowed("a recording by `pageset record`, or process=NUMBER"));
            }
            let meets = |thread: &&Thread<'_>| match condition {
                Only::Process(_) if number.is_some() => [thread.tid, thread.pid].contains(&number.unwrap_or(0)),
                Only::Process(name) => thread.name == name,
                Only::Cgroup(path) => thread
                    .cgroup
                    .strip_prefix(path.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
                Only::Cpu(_) => false,
            };
            // A process is named by its first thread; all of its threads are meant.
            let first = |thread: &&Thread<'_>| thread.tid == thread.pid;
            let named: HashSet<u32> = threads.iter().filter(first).filter(meets).map(|thread| thread.pid).collect();
            let meant = |thread: &&Thread<'_>| named.contains(&thread.pid) || meets(thread);
            let mut found: HashSet<u32> = threads.iter().filter(meant).map(|thread| thread.tid).collect();
            found.extend(number);
            if found.is_empty() {
                return Err(TraceError::missing_snapshots(format!("no process of the recording meets {condition}"))
                    .allowed(names(&threads)));
            }
            let set = match condition {
                Only::Cgroup(_) => &mut conditions.cgroups,
                _ => &mut conditions.processes,
            };
            set.get_or_insert_default().extend(found);
            if number.is_none() {
                conditions.listed = Some(threads.iter().map(|thread| thread.tid).collect());
            }
        }
        Ok(conditions)
    }

    fn meet(&self, event: &Event) -> bool {
        let cpu = self.cpus.is_empty() || self.cpus.iter().any(|range| range.contains(&event.cpu.0));
        let in_set = |set: &Option<HashSet<u32>>| set.as_ref().is_none_or(|set| set.contains(&event.pid));
        cpu && in_set(&self.processes) && in_set(&self.cgroups)
    }

    /// What a process makes belongs to it. A number that was another process's before is used anew.
    fn fork(&mut self, parent: u32, child: u32) {
        for set in [&mut self.processes, &mut self.cgroups, &mut self.listed].into_iter().flatten() {
            match set.contains(&parent) {
                true => set.insert(child),
                false => set.remove(&child),
            };
        }
    }

    fn is_unlisted(&self, tid: u32) -> bool {
        // The idle threads, all of them number 0, are in no table.
        tid != 0 && self.listed.as_ref().is_some_and(|listed| !listed.contains(&tid))
    }
}

/// A line of a table.
#[derive(Debug)]
struct Thread<'t> {
    tid: u32,
    pid: u32,
    cgroup: &'t str,
    name: &'t str,
}

impl<'t> Thread<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut fields = line.splitn(4, '\t');
        let mut number = || fields.next()?.parse().ok();
        let (tid, pid) = (number()?, number()?);
        Some(Thread { tid, pid, cgroup: fields.next()?, name: fields.next()? })
    }
}

/// The names of some processes, for a message.
fn names(threads: &[Thread<'_>]) -> String {
    let mut names: Vec<&str> = threads.iter().filter(|thread| thread.tid == thread.pid).map(|t| t.name).collect();
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > 20 { ", …" } else { "" };
    names.truncate(20);
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use pageset::CpuId;

    use super::*;

    #[test]
    fn conditions_are_read_and_written() {
        for text in ["cpu=0-3,8", "process=12", "process=a b=c", "cgroup=/", "cgroup=/system.slice/x.service"] {
            assert_eq!(text.parse::<Only>().unwrap().to_string(), text);
        }
        for text in ["", "cpu", "cpu=", "cpu=3-1", "cpu=x", "cpu=1,,2", "cgroup=x", "node=0", "process="] {
            assert!(text.parse::<Only>().is_err(), "{text}");
        }
        assert_eq!("cgroup=/a/".parse(), Ok(Only::Cgroup("/a".into())));
    }

    #[test]
    fn a_refill_is_caused_by_what_comes_next_on_its_cpu() {
        let events = HashMap::from([(0, vec![(0, false), (2, true), (5, false)]), (1, vec![(1, true)])]);
        let selection = Selection { events, ..Selection::default() };
        let at = |cpu, place| selection.caused(&Move { place, zone: 0, cpu: CpuId(cpu), pages: 1 });
        assert_eq!([at(0, 0), at(0, 1), at(0, 2), at(0, 3), at(0, 6)], [false, true, true, false, false]);
        assert_eq!([at(1, 0), at(1, 1), at(1, 2), at(2, 0)], [true, true, false, false]);
    }
}
