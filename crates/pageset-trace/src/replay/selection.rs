//! Selects refills and drains by the CPU, process or cgroup that caused them.
//!
//! A replay always runs the whole recording, because all processes share the pagesets. A refill belongs to its
//! allocation. A drain belongs to the free or timer work before it. A requested drain belongs to the next event on the
//! pageset's CPU.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::setting::{Setting, State};
use super::{Move, Moves};
use crate::error::TraceError;
use crate::event::{Event, Kind};
use crate::number::ranges;
use crate::trace::Trace;

/// The tags of a recording's thread tables, before and after.
const TABLES: [&str; 2] = ["processes.0", "processes.1"];

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// Events on these CPUs.
    Cpu(Vec<RangeInclusive<u32>>),
    /// Events of this process or thread, by number or by name, and of its children.
    Process(String),
    /// Events of processes in this cgroup or below it.
    Cgroup(String),
}

impl FromStr for Only {
    type Err = String;

    /// Reads `cpu=LIST`, `process=NAME`, `process=NUMBER` or `cgroup=PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not a condition; allowed: cpu=0-3,8 process=NAME process=NUMBER cgroup=PATH");
        let (kind, value) = text.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(wrong)?;
        match kind {
            "cpu" => ranges(value).collect::<Option<_>>().map(Self::Cpu).ok_or_else(wrong),
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

/// The events that meet the conditions. Conditions of one kind are alternatives. With several kinds, an event must meet
/// one condition of each kind.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Selected allocations and frees.
    pub operations: u64,
    /// Allocations and frees that are not selected because the recording does not show their thread's name or cgroup.
    pub unlisted: u64,
    /// For each CPU, the runs of selected or unselected input events. Each run has the place of its last event and
    /// whether it is selected. The place counts the earlier input events of all CPUs.
    runs: HashMap<u32, Vec<(u64, bool)>>,
}

impl Selection {
    /// Reads a recording and selects its events.
    ///
    /// # Errors
    /// If the recording is damaged, has no thread table although a condition needs it, or has no CPU or process that a
    /// condition names.
    pub fn new(trace: &Trace, setting: &Setting, only: &[Only]) -> Result<Self, TraceError> {
        let compact = trace.compact(&mut |_| {})?;
        let mut conditions = Conditions::new(trace, only)?;
        let mut selection = Selection::default();
        let mut seen = HashSet::new();
        let mut place = 0;
        let mut window = setting.window();
        for event in compact.events(trace)? {
            let event = event?;
            let state = window.at(&event);
            if let Kind::Fork { child } = event.kind {
                conditions.fork(event.pid, child);
                seen.insert(child);
            }
            seen.insert(event.pid);
            if !event.kind.is_input() {
                continue;
            }
            let selected = conditions.meet(&event);
            let runs = selection.runs.entry(event.cpu.0).or_default();
            match runs.last_mut() {
                Some((last, same)) if *same == selected => *last = place,
                _ => runs.push((place, selected)),
            }
            place += 1;
            if state == State::Inside && matches!(event.kind, Kind::Alloc { .. } | Kind::Free { .. }) {
                selection.operations += u64::from(selected);
                selection.unlisted += u64::from(!selected && conditions.is_unlisted(&event));
            }
        }
        let cpus = selection.runs.keys().map(|cpu| cpu + 1).max().unwrap_or(0).max(trace.facts().cpus);
        conditions.are_met_by(cpus, &seen, only)?;
        Ok(selection)
    }

    /// The moves that selected events caused.
    #[must_use]
    pub fn of(&self, moves: &Moves) -> Moves {
        let selected = |moves: &[Move]| moves.iter().filter(|moved| self.caused(moved)).copied().collect();
        Moves { refills: selected(&moves.refills), drains: selected(&moves.drains) }
    }

    /// Whether a selected event caused this move. A refill's events come before the event of its allocation, so the
    /// cause is the next input event on the CPU.
    fn caused(&self, moved: &Move) -> bool {
        let Some(runs) = self.runs.get(&moved.cpu.0) else { return false };
        let next = runs.partition_point(|(last, _)| *last < moved.place);
        runs.get(next).is_some_and(|(_, selected)| *selected)
    }
}

/// The conditions on an event.
#[derive(Debug)]
struct Conditions {
    cpus: Vec<RangeInclusive<u32>>,
    /// Threads that the process conditions select, if any; the same for cgroups below.
    processes: Option<Threads>,
    cgroups: Option<Threads>,
    /// All threads of the tables, if a condition uses the tables.
    listed: Option<Threads>,
    /// The numbers of all threads and processes of the tables.
    numbers: HashSet<u32>,
}

/// A set of threads.
#[derive(Debug, Default)]
struct Threads {
    current: HashSet<u32>,
    /// Threads of the table after the recording, which shows the last owner of a number.
    after: HashSet<u32>,
}

impl Threads {
    fn extend(&mut self, threads: &[Thread<'_>], is_selected: impl Fn(&Thread<'_>) -> bool) {
        for thread in threads.iter().filter(|thread| is_selected(thread)) {
            self.current.insert(thread.tid);
            if thread.is_after {
                self.after.insert(thread.tid);
            }
        }
    }

    /// Adds the child of a selected thread. Otherwise, the number is removed, because the kernel reuses the number of
    /// an exited thread.
    fn fork(&mut self, parent: u32, child: u32) {
        if self.current.contains(&parent) || self.after.contains(&child) {
            self.current.insert(child);
        } else {
            self.current.remove(&child);
        }
    }
}

impl Conditions {
    fn new(trace: &Trace, only: &[Only]) -> Result<Self, TraceError> {
        let [before, after] = TABLES.map(|tag| trace.snapshots().text(tag).unwrap_or_default());
        let parse = |text, is_after| str::lines(text).filter_map(move |line| Thread::parse(line, is_after));
        Self::of(&parse(before, false).chain(parse(after, true)).collect::<Vec<_>>(), only)
    }

    fn of(threads: &[Thread<'_>], only: &[Only]) -> Result<Self, TraceError> {
        let numbers = threads.iter().flat_map(|thread| [thread.tid, thread.pid]).collect();
        let mut conditions = Conditions { cpus: Vec::new(), processes: None, cgroups: None, listed: None, numbers };
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
            let meets = |thread: &Thread<'_>| match condition {
                Only::Process(_) if number.is_some() => [thread.tid, thread.pid].contains(&number.unwrap_or(0)),
                Only::Process(name) => thread.name == name,
                Only::Cgroup(path) => thread
                    .cgroup
                    .strip_prefix(path.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
                Only::Cpu(_) => false,
            };
            // A process has the name of its first thread; a condition selects all of its threads.
            let first = |thread: &&Thread<'_>| thread.tid == thread.pid && meets(thread);
            let named: HashSet<u32> = threads.iter().filter(first).map(|thread| thread.pid).collect();
            let is_selected = |thread: &Thread<'_>| named.contains(&thread.pid) || meets(thread);
            if number.is_none() && !threads.iter().any(is_selected) {
                return Err(TraceError::missing_snapshots(format!("no process of the recording meets {condition}"))
                    .allowed(choices(threads, matches!(condition, Only::Cgroup(_)))));
            }
            let set = match condition {
                Only::Cgroup(_) => conditions.cgroups.get_or_insert_default(),
                _ => conditions.processes.get_or_insert_default(),
            };
            set.extend(threads, is_selected);
            set.current.extend(number);
            if number.is_none() {
                conditions.listed.get_or_insert_default().extend(threads, |_| true);
            }
        }
        Ok(conditions)
    }

    /// Checks the numbers of `only` against those of the recording: CPUs below `cpus`, and the threads of its events and tables.
    fn are_met_by(&self, cpus: u32, seen: &HashSet<u32>, only: &[Only]) -> Result<(), TraceError> {
        let error =
            |what: &str, only: &Only| TraceError::missing_snapshots(format!("no {what} of the recording meets {only}"));
        for condition in only {
            match condition {
                Only::Cpu(ranges) => {
                    if let Some(range) = ranges.iter().find(|range| *range.start() >= cpus) {
                        let condition = Only::Cpu(vec![range.clone()]);
                        return Err(error("CPU", &condition).allowed(format!("cpu=0-{}", cpus.saturating_sub(1))));
                    }
                }
                Only::Process(name) => {
                    let number = name.parse::<u32>().ok();
                    if number.is_some_and(|number| !seen.contains(&number) && !self.numbers.contains(&number)) {
                        return Err(error("process", condition)
                            .allowed("the number of a thread or process that ran or was listed meanwhile"));
                    }
                }
                Only::Cgroup(_) => {}
            }
        }
        Ok(())
    }

    fn meet(&self, event: &Event) -> bool {
        let in_set = |set: &Option<Threads>| set.as_ref().is_none_or(|set| set.current.contains(&event.pid));
        self.meet_cpu(event) && in_set(&self.processes) && in_set(&self.cgroups)
    }

    fn meet_cpu(&self, event: &Event) -> bool {
        self.cpus.is_empty() || self.cpus.iter().any(|range| range.contains(&event.cpu.0))
    }

    fn fork(&mut self, parent: u32, child: u32) {
        let sets = [&mut self.processes, &mut self.cgroups, &mut self.listed];
        sets.into_iter().flatten().for_each(|set| set.fork(parent, child));
    }

    fn is_unlisted(&self, event: &Event) -> bool {
        // The idle threads have number 0 and are in no table.
        let unlisted = self.listed.as_ref().is_some_and(|listed| !listed.current.contains(&event.pid));
        event.pid != 0 && unlisted && self.meet_cpu(event)
    }
}

/// A line of a thread table.
#[derive(Debug)]
struct Thread<'t> {
    tid: u32,
    pid: u32,
    cgroup: &'t str,
    name: &'t str,
    /// Whether the line is from the table after the recording.
    is_after: bool,
}

impl<'t> Thread<'t> {
    fn parse(line: &'t str, is_after: bool) -> Option<Self> {
        let mut fields = line.splitn(4, '\t');
        let mut number = || fields.next()?.parse().ok();
        let (tid, pid) = (number()?, number()?);
        Some(Thread { tid, pid, cgroup: fields.next()?, name: fields.next()?, is_after })
    }
}

/// The names or cgroups of up to 20 processes, for an error message.
fn choices(threads: &[Thread<'_>], cgroups: bool) -> String {
    let first = threads.iter().filter(|thread| thread.tid == thread.pid);
    let mut names: Vec<&str> = match cgroups {
        true => first.map(|thread| thread.cgroup).filter(|cgroup| cgroup.starts_with('/')).collect(),
        false => first.map(|thread| thread.name).collect(),
    };
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return "cpu=LIST and process=NAME: the recorded machine has no cgroups".to_owned();
    }
    let more = if names.len() > 20 { ", …" } else { "" };
    names.truncate(20);
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use pageset::CpuId;

    use super::*;

    #[test]
    fn conditions_parse_and_print() {
        for text in ["cpu=0-3,8", "process=12", "process=a b=c", "cgroup=/", "cgroup=/system.slice/x.service"] {
            assert_eq!(text.parse::<Only>().unwrap().to_string(), text);
        }
        for text in ["", "cpu", "cpu=", "cpu=3-1", "cpu=x", "cpu=1,,2", "cgroup=x", "node=0", "process="] {
            assert!(text.parse::<Only>().is_err(), "{text}");
        }
        assert_eq!("cgroup=/a/".parse(), Ok(Only::Cgroup("/a".into())));
    }

    #[test]
    fn the_next_input_event_on_its_cpu_causes_a_refill() {
        let runs = HashMap::from([(0, vec![(0, false), (2, true), (5, false)]), (1, vec![(1, true)])]);
        let selection = Selection { runs, ..Selection::default() };
        let at = |cpu, place| selection.caused(&Move { place, zone: 0, cpu: CpuId(cpu), pages: 1 });
        assert_eq!([at(0, 0), at(0, 1), at(0, 2), at(0, 3), at(0, 6)], [false, true, true, false, false]);
        assert_eq!([at(1, 0), at(1, 1), at(1, 2), at(2, 0)], [true, true, false, false]);
    }

    fn thread(tid: u32, name: &'static str, is_after: bool) -> Thread<'static> {
        Thread { tid, pid: tid, cgroup: "/", name, is_after }
    }

    #[test]
    fn a_condition_selects_children_of_a_process() {
        let threads =
            [thread(1, "init", false), thread(5, "wl", false), thread(9, "dd", true), thread(1, "init", true)];
        let only = ["process=wl".parse().unwrap(), "process=dd".parse().unwrap()];
        let mut conditions = Conditions::of(&threads, &only).unwrap();
        let event = |pid| {
            let kind = Kind::Free { pfn: pageset::Pfn(1), order: pageset::Order::ZERO };
            Event { time_ns: 0, cpu: CpuId(0), pid, context: crate::Context::Process, kind }
        };
        assert!(conditions.meet(&event(5)) && !conditions.meet(&event(6)) && conditions.is_unlisted(&event(6)));
        conditions.fork(5, 6);
        conditions.fork(6, 7);
        assert!(conditions.meet(&event(6)) && conditions.meet(&event(7)) && !conditions.is_unlisted(&event(7)));
        // The number is reused by a child of another process.
        conditions.fork(1, 7);
        assert!(!conditions.meet(&event(7)) && !conditions.is_unlisted(&event(7)));
        // A child of another process, which the second table names `dd`.
        conditions.fork(1, 9);
        assert!(conditions.meet(&event(9)));
        let error = Conditions::of(&threads, &["cgroup=/x".parse().unwrap()]).unwrap_err();
        assert!(error.to_string().contains("no process of the recording meets cgroup=/x; allowed: /"), "{error}");
    }

    #[test]
    fn numbers_are_those_of_the_recording() {
        let check = |only: &str| {
            let only = [only.parse().unwrap()];
            let conditions = Conditions::of(&[thread(5, "idle", false)], &only).unwrap();
            let error = conditions.are_met_by(4, &HashSet::from([7]), &only).err();
            error.map(|error| error.to_string())
        };
        // CPU 3 has no event, and thread 5 only a row of the table.
        assert_eq!(["cpu=3", "cpu=0-63", "process=5", "process=7"].map(check), [None, None, None, None]);
        let cpu = check("cpu=1,4-9").unwrap();
        assert!(cpu.contains("no CPU of the recording meets cpu=4-9; allowed: cpu=0-3"), "{cpu}");
        let process = check("process=8").unwrap();
        assert!(process.contains("no process of the recording meets process=8; allowed: "), "{process}");
    }
}
