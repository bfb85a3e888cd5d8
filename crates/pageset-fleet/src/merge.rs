//! The lines of a fleet, merged: which machines, what to set, ranked by the time to be won.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, BufRead, Read as _};

use pageset_trace::number::grouped;
use pageset_trace::verdict::machine::Level;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::prometheus;

/// The wrong lines that a result has. The others are counted.
const WRONG_SHOWN: usize = 5;
/// The hosts that a sentence names.
const HOSTS_SAID: usize = 3;
/// The hosts that a group has.
const HOSTS_KEPT: usize = 10;
/// The longest line: a machine of 1,000 zones has about a tenth. Unit: bytes.
const LINE_MAX: u64 = 1 << 20;

/// Machines of one verdict, in JSON of the schema `pageset.fleet/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// The verdict's name; `pageset explain NAME` describes it.
    #[schemars(extend("tables" = "fleet"))]
    pub verdict: String,
    /// How urgent the verdict is, on the machine where it is most urgent.
    pub level: Level,
    /// The number of machines with the verdict.
    #[schemars(extend("tables" = "fleet"))]
    pub machines: u64,
    /// The time that all CPUs of these machines wait for zone locks, in CPUs: 2 is as much as two CPUs do nothing else. No
    /// setting wins more. Null if waits are not measured on any of them.
    #[schemars(extend("heading" = "CPUs that wait", "digits" = 2, "tables" = "fleet", "rank" = 2,
        "bad" = "Above a hundredth of the CPUs.", "todo" = "Set what the row says, or record one of the machines."))]
    pub waiting_cpus: Option<f64>,
    /// The share of the time of all CPUs of these machines spent waiting for zone locks, where waits are measured.
    #[schemars(extend("heading" = "wait %", "digits" = 2, "tables" = "fleet", "rank" = 3, "as" = "wait %"))]
    pub wait_pct: Option<f64>,
    /// The setting that may help, as `sysctl -w` takes it; null if none is known.
    #[schemars(extend("tables" = "fleet"))]
    pub set: Option<String>,
    /// Whether only a recording of such a machine (`pageset advise --live 5`) can say what to do.
    #[schemars(extend("heading" = "record first", "tables" = "fleet", "rank" = 1))]
    pub needs_recording: bool,
    /// The kernels of these machines, that of most machines first.
    #[schemars(extend("tables" = "fleet", "rank" = 5))]
    pub kernels: Vec<String>,
    /// The machines with the longest waits: at most ten.
    #[schemars(extend("tables" = "fleet", "rank" = 4))]
    pub hosts: Vec<String>,
    /// The recordings that agents of these machines have made: at most ten.
    pub recordings: Vec<Recorded>,
}

/// A recording on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// The machine.
    pub host: String,
    /// The file there.
    pub file: String,
}

/// A line that no agent has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wrong {
    /// The file.
    pub file: String,
    /// The line's number in its file, from 1 on.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// What the lines of all machines say together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// The form of the JSON, with its version. Within a version the meaning of a member never changes.
    pub schema: String,
    /// The answer in a sentence without its full stop.
    pub sentence: String,
    /// The number of machines. The latest line of each machine counts.
    pub machines: u64,
    /// The number of readable lines.
    pub lines: u64,
    /// The number of lines that no agent has written.
    pub wrong_lines: u64,
    /// The first of them.
    pub first_wrong_lines: Vec<Wrong>,
    /// The machines by verdict and setting, the most time to be won first.
    pub groups: Vec<Group>,
}

impl Fleet {
    /// The name and version of the JSON.
    pub const SCHEMA: &'static str = "pageset.fleet/1";
}

/// Merges lines. It keeps one line of each machine, and the number of its source.
#[derive(Debug, Default)]
pub struct Merge {
    latest: HashMap<String, (u32, Line)>,
    source: u32,
    lines: u64,
    wrong_lines: u64,
    wrong: Vec<Wrong>,
}

impl Merge {
    /// Reads all lines of a file. Empty lines do not count. Of a machine's lines in one file the last one counts, whatever their times: a
    /// clock may jump. Of several files the latest line counts.
    pub fn read(&mut self, file: &str, mut from: impl BufRead) -> io::Result<()> {
        self.source += 1;
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            if from.by_ref().take(LINE_MAX).read_until(b'\n', &mut text)? == 0 {
                break;
            }
            if text.len() as u64 == LINE_MAX && !text.ends_with(b"\n") {
                from.skip_until(b'\n')?;
                self.wrong(file, number, format!("longer than {} bytes", grouped(LINE_MAX)));
                continue;
            }
            let text = text.trim_ascii();
            if !text.is_empty() {
                match Line::parse(text) {
                    Ok(line) => self.add(line),
                    Err(reason) => self.wrong(file, number, reason),
                }
            }
        }
        Ok(())
    }

    /// Asks a Prometheus server for the machines that it scrapes: `http://HOST:PORT`. The machines' names are those of its targets.
    pub fn query(&mut self, url: &str) -> Result<(), String> {
        self.source += 1;
        prometheus::lines(url)?.into_iter().for_each(|line| self.add(line));
        Ok(())
    }

    fn wrong(&mut self, file: &str, line: u64, reason: String) {
        self.wrong_lines += 1;
        if self.wrong.len() < WRONG_SHOWN {
            self.wrong.push(Wrong { file: file.to_owned(), line, reason });
        }
    }

    /// Adds the line of a machine.
    fn add(&mut self, mut line: Line) {
        self.lines += 1;
        (line.zones, line.missing) = (Vec::new(), Vec::new());
        match self.latest.get_mut(&line.host) {
            Some((source, kept)) if *source != self.source && kept.time_ns > line.time_ns => {}
            Some(kept) => *kept = (self.source, line),
            None => drop(self.latest.insert(line.host.clone(), (self.source, line))),
        }
    }

    /// The answer.
    pub fn finish(self) -> Fleet {
        let mut by_verdict: HashMap<(&str, Option<&str>), Vec<&Line>> = HashMap::new();
        for (_, line) in self.latest.values() {
            by_verdict.entry((&line.verdict.key, line.verdict.set.as_deref())).or_default().push(line);
        }
        let mut groups: Vec<Group> = by_verdict.into_values().map(group).collect();
        // No unmeasured time is longer than a measured one.
        let time = |group: &Group| group.waiting_cpus.unwrap_or(-1.0);
        let is_idle = |group: &Group| !group.is_about_locks();
        groups.sort_by(|a, b| {
            let level = if is_idle(a) { a.level.cmp(&b.level) } else { Ordering::Equal };
            let urgent = is_idle(a).cmp(&is_idle(b)).then(level).then(time(b).total_cmp(&time(a)));
            urgent.then(b.machines.cmp(&a.machines)).then_with(|| (&a.verdict, &a.set).cmp(&(&b.verdict, &b.set)))
        });
        Fleet {
            schema: Fleet::SCHEMA.to_owned(),
            sentence: sentence(self.latest.len() as u64, self.latest.values().map(|(_, line)| line), &groups),
            machines: self.latest.len() as u64,
            lines: self.lines,
            wrong_lines: self.wrong_lines,
            first_wrong_lines: self.wrong,
            groups,
        }
    }
}

impl Group {
    fn is_about_locks(&self) -> bool {
        self.set.is_some() || self.needs_recording
    }

    /// The first machines by name, for a sentence.
    fn some_hosts(&self) -> String {
        let more = if self.machines > HOSTS_SAID as u64 { ", …" } else { "" };
        format!("{}{more}", self.hosts[..self.hosts.len().min(HOSTS_SAID)].join(", "))
    }
}

/// The machines of one verdict and setting, at least one.
fn group(mut lines: Vec<&Line>) -> Group {
    let wait = |line: &Line| line.zone_lock_wait_ns_per_s.unwrap_or(-1.0);
    lines.sort_by(|a, b| wait(b).total_cmp(&wait(a)).then_with(|| a.host.cmp(&b.host)));
    let measured = lines.iter().filter_map(|line| Some((line.zone_lock_wait_ns_per_s? / 1e9, line.cpus)));
    let total = measured.reduce(|sum, of| (sum.0 + of.0, sum.1.saturating_add(of.1)));
    let mut kernels: HashMap<&str, u64> = HashMap::new();
    for line in &lines {
        *kernels.entry(line.kernel.as_deref().unwrap_or("unknown")).or_default() += 1;
    }
    let mut kernels: Vec<(&str, u64)> = kernels.into_iter().collect();
    kernels.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let verdict = &lines[0].verdict;
    Group {
        verdict: verdict.key.clone(),
        level: lines.iter().map(|line| line.verdict.level).min().unwrap_or(verdict.level),
        machines: lines.len() as u64,
        waiting_cpus: total.map(|(waits, _)| waits),
        wait_pct: total.map(|(waits, cpus)| 100.0 * waits / f64::from(cpus)),
        set: verdict.set.clone(),
        needs_recording: lines.iter().any(|line| line.verdict.needs_recording),
        kernels: kernels.into_iter().map(|(kernel, _)| kernel.to_owned()).collect(),
        recordings: lines.iter().filter_map(|line| recorded(line)).take(HOSTS_KEPT).collect(),
        hosts: lines.iter().take(HOSTS_KEPT).map(|line| line.host.clone()).collect(),
    }
}

fn recorded(line: &Line) -> Option<Recorded> {
    Some(Recorded { host: line.host.clone(), file: line.recording.clone()? })
}

/// How many machines wait, and what to set or to do; then what else is wrong.
fn sentence<'l>(machines: u64, lines: impl Iterator<Item = &'l Line>, groups: &[Group]) -> String {
    let (mut waiting, mut may_wait, mut severe, mut unknown) = (0, 0, 0, 0);
    for line in lines {
        *match (line.is_about_locks(), line.zone_lock_wait_ns_per_s, line.verdict.level) {
            (true, Some(_), _) => &mut waiting,
            (true, None, _) => &mut may_wait,
            (_, _, Level::Severe | Level::Unusual) => &mut severe,
            (_, _, Level::Unknown) => &mut unknown,
            _ => continue,
        } += 1;
    }
    let of = |count: u64| if count == 0 { "none".to_owned() } else { grouped(count) };
    let verb = if waiting == 1 || waiting == 0 { "waits" } else { "wait" };
    let mut parts = vec![format!("{} of {} machines {verb} for zone locks", of(waiting), grouped(machines))];
    let more = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", grouped(count)));
    parts.extend(more(may_wait, "may wait: waits are not measured there"));
    let hosts = |group: &Group| format!("{} of them ({})", grouped(group.machines), group.some_hosts());
    let settable = groups.iter().find(|group| group.set.is_some() && !group.needs_recording);
    parts.extend(settable.and_then(|group| Some(format!("set {} on {}", group.set.as_ref()?, hosts(group)))));
    let open = groups.iter().find(|group| group.needs_recording);
    parts.extend(open.map(|group| match group.recordings.first() {
        Some(Recorded { host, file }) => format!("run `pageset advise {file}` on {host}"),
        None => format!("run `pageset advise --live 5` on {}", group.hosts[0]),
    }));
    parts.extend(more(severe, "short of memory"));
    parts.extend(more(unknown, "cannot tell: the agent there lacks privileges"));
    parts.join("; ")
}
