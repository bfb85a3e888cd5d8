//! What is not about a zone: a memory cgroup at its limit, a lock-up, memory that others manage, tables of the whole machine.

use pageset_trace::number::grouped;

use super::{Part, tables};
use crate::locks;
use crate::read::Texts;
use crate::read::mem_info::Report;
use crate::read::notices::{Group, Lockup, Said};
use crate::read::request::Message;

/// The commands for texts that have no zones.
const ZONES: (&str, &str) = ("post the zones and their free blocks", "cat /proc/zoneinfo /proc/buddyinfo");

/// Whether the answer is a memory cgroup's limit: the texts have no zones of a failed request.
pub(super) fn is_group(texts: &Texts, report: Option<&Report>) -> bool {
    let is_failure = |report: &&Report| report.requests.iter().any(|request| request.message != Message::OomKiller);
    texts.notices.group.is_some() && report.is_none_or(|report| report.zones.is_empty() && !is_failure(&report))
}

/// A memory cgroup at its limit.
pub(super) fn group(texts: &Texts, report: Option<&Report>, is_answer: bool) -> Part {
    let mut part = Part::default();
    let Some(group) = &texts.notices.group else { return part };
    let clause = format!("a memory cgroup, not a zone, is short: {}", state(group, texts, report));
    if let Some(path) = &group.path {
        part.finding("memory-cgroup", format!("the cgroup is {path}"));
    }
    for (what, used, limit, failures) in &group.limits {
        // 2^63 rounded to pages is no limit.
        let limit = if *limit > 1 << 50 { "no limit".to_owned() } else { format!("{} kB", grouped(*limit)) };
        part.finding("memory-cgroup", format!("{what}: {} kB used of {limit}, {}", grouped(*used), times(*failures)));
    }
    if !is_answer {
        part.finding("memory-cgroup", clause);
        return part;
    }
    part.clauses.push(clause);
    part.step(
        "see the limit and how often it was reached, with GROUP from the text (version 2 of cgroups)",
        "grep . /sys/fs/cgroup/GROUP/memory.{max,peak,events}",
    );
    part.step("raise the limit (memory.max; in Kubernetes resources.limits.memory), or make the load smaller", "");
    part.step("leave zones and per-CPU lists as they are: no setting of theirs changes a cgroup's limit", "");
    part
}

fn times(failures: u64) -> String {
    if failures == 1 { "reached once".to_owned() } else { format!("reached {} times", grouped(failures)) }
}

fn state(group: &Group, texts: &Texts, report: Option<&Report>) -> String {
    let process = report.and_then(|report| report.requests.first()).and_then(|request| request.process.clone());
    // Its last part names the container; a finding has the whole path.
    let name = group.path.as_deref().map(|path| path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path));
    let name = name.unwrap_or("the cgroup of this process");
    let reached = group.limits.iter().find(|(_, used, limit, failures)| *failures > 0 && used >= &(limit / 100 * 99));
    let killed = texts.notices.killed.as_ref();
    let end = killed.map_or(String::new(), |killed| format!(", and the kernel killed {killed} in it"));
    match (reached.or(group.limits.first()), process) {
        (Some((what, used, limit, failures)), _) => {
            let what = if what == "memory" { String::new() } else { format!(" of {what}") };
            let (used, limit) = (grouped(*used), grouped(*limit));
            format!("{name} uses {used} kB of its limit{what} of {limit} kB ({}){end}", times(*failures))
        }
        (None, Some(process)) if group.path.is_none() => {
            format!("{process} asked for memory beyond the limit of its cgroup{end}")
        }
        (None, _) => format!("{name} is at its limit{end}"),
    }
}

/// What other messages and tables say, if nothing else is the answer.
pub(super) fn part(texts: &Texts, is_answered: bool) -> Part {
    let mut part = Part::default();
    let notices = &texts.notices;
    if let Some(lockup) = &notices.lockup {
        let clause = stuck(lockup);
        match is_answered {
            true => part.finding("lockup", clause),
            false => {
                part.clauses.push(match &lockup.executed {
                    Some(function) if locks::spins(function) => {
                        format!("{clause}; it waits for a spin lock, but the text ends before the call trace, so it does not show which")
                    }
                    Some(function) => format!("{clause}; it executed {function}, which is not a wait for a spin lock"),
                    None => format!("{clause}; {}", asleep(texts)),
                });
                part.step(
                    "post the lines after it: RIP and Call Trace",
                    "sudo dmesg | grep -A40 -E 'lockup|LOCKUP|stall|blocked for'",
                );
            }
        }
    }
    let (weak, strong): (Vec<&Said>, Vec<&Said>) = notices.messages.iter().partition(|said| said.notice.is_weak);
    for said in strong.into_iter().chain(weak) {
        let mut clause = said.clause.replace("{victim}", notices.killed.as_deref().unwrap_or("a process"));
        match is_answered || !part.clauses.is_empty() {
            true => part.finding("other-message", clause),
            false => {
                if let Some(huge) = tables::huge_pages(&notices.tables).filter(|_| said.notice.is_of_huge_pages) {
                    clause = format!("{huge}: {clause}");
                }
                part.clauses.push(clause);
            }
        }
        part.step(&said.notice.step, &said.notice.command);
    }
    if is_answered || !part.clauses.is_empty() {
        if let Some(state) = tables::state(&notices.tables) {
            part.finding("whole-machine", state);
        }
        return part;
    }
    if notices.has_failure_trace {
        part.clauses
            .push("a request failed, but the text has only its call trace: neither the order nor the zones".to_owned());
        part.step("post the lines before and after", "sudo dmesg | grep -B5 -A60 -E 'allocation failure|warn_alloc'");
    } else if let Some(table) = notices.tables.first {
        let name = notices.tables.pressure().map_or(table.name, |pressure| pressure.file());
        let is_file = name.starts_with('/')
            || [".events", ".stat", " files", ".pressure", "(PSI)"].iter().any(|end| name.ends_with(end));
        let output = if is_file { "" } else { "the output of " };
        part.clauses.push(tables::state(&notices.tables).map_or_else(
            || {
                format!(
                    "the text is {output}{name}: it shows {}, but no zone, mark, free block or per-CPU list",
                    table.shows
                )
            },
            |state| {
                format!("{state}; the text is {output}{name}, which shows no zone, mark, free block or per-CPU list")
            },
        ));
        part.step(ZONES.0, ZONES.1);
        part.step("if a request failed, post the kernel's message", "sudo dmesg | grep -A60 'page allocation failure'");
    } else if !texts.rows.settings.is_empty() {
        settings(&mut part, texts);
    } else if let Some(function) = texts.profile.trace.first().filter(|_| texts.profile.stacks.is_empty()) {
        let why = reason(&texts.profile.trace).map_or(String::new(), |why| format!(" {why}"));
        part.clauses.push(format!(
            "the text is a call trace without its message, so it does not show what happened: the task was in {function}{why}"
        ));
        part.step("post the lines before it", "sudo dmesg | grep -B40 -A20 'Call Trace'");
    } else if notices.has_end_of_report {
        part.clauses
            .push("the text is the end of a report: the request and the zones are in the lines before it".to_owned());
        part.step("post the whole report", "sudo dmesg | grep -B60 'total pagecache pages'");
    }
    part
}

/// Why a task is where this stack shows it.
fn reason(frames: &[String]) -> Option<&'static str> {
    /// By the beginnings of functions in the stack; the first that fits.
    const REASONS: [(&str, &str); 6] = [
        ("drain_all_pages __drain_all_pages", "until other CPUs have emptied their per-CPU lists"),
        ("lru_add_drain_all __lru_add_drain_all", "until other CPUs have emptied their batches for the LRU lists"),
        (
            "synchronize_rcu synchronize_sched synchronize_net __wait_rcu_gp wait_rcu_gp rcu_barrier",
            "until all CPUs have passed a quiescent state (RCU), which is not a wait for memory",
        ),
        ("throttle_direct_reclaim reclaim_throttle", "because reclaim throttles it: kswapd does not free enough"),
        (
            "try_to_free_ shrink_ __alloc_pages_direct balance_pgdat",
            "while it reclaims memory, which is not a wait for a lock",
        ),
        ("compact_zone migrate_pages", "while it moves pages, which is not a wait for a lock"),
    ];
    let has = |begins: &str| frames.iter().any(|frame| begins.split(' ').any(|begin| frame.starts_with(begin)));
    REASONS.iter().find(|(begins, _)| has(begins)).map(|(_, why)| *why)
}

/// Where a task sleeps that waits for no lock.
fn asleep(texts: &Texts) -> String {
    let stacks = texts.profile.stacks.iter();
    let Some((stack, function)) = stacks.filter_map(|stack| Some((stack, locks::sleeps_in(&stack.frames)?))).next()
    else {
        // Kernels without frame pointers print such lines only.
        let unsure = &texts.profile.unsure;
        if let Some(function) = locks::sleeps_in(unsure).filter(|_| texts.profile.trace.is_empty()) {
            return format!("by lines of its call trace that are not certain (`?`), it sleeps in {function}");
        }
        return "the text has no stack that waits for a lock, so it does not show what it waits for".to_owned();
    };
    let why = reason(&stack.frames).unwrap_or("which is not a wait for a lock");
    format!("it sleeps in {function}, {why}")
}

/// `CPU 3 did not schedule for 23 s (process ipcm)`.
fn stuck(lockup: &Lockup) -> String {
    let cpu = lockup.cpu.map_or("a CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let seconds = lockup.seconds.map_or(String::new(), |seconds| format!(" for {seconds} s"));
    let process = lockup.process.as_ref();
    if lockup.what.contains("task") {
        let process = process.map_or("a task".to_owned(), |process| format!("task {process}"));
        return format!("{process} waited{seconds} or more without running");
    }
    let process = process.map_or(String::new(), |process| format!(" (process {process})"));
    format!("{cpu} {}{seconds}{process}", lockup.what)
}

/// Sysctls alone.
fn settings(part: &mut Part, texts: &Texts) {
    let settings = &texts.rows.settings;
    let mut said: Vec<String> = Vec::new();
    for (name, default) in
        [("min_free_kbytes", None), ("watermark_scale_factor", Some(10)), ("watermark_boost_factor", Some(15_000))]
    {
        if let Some(value) = settings.get(name) {
            let default = default.filter(|default| default != value);
            let default = default.map_or(String::new(), |default| format!(" (the default is {})", grouped(default)));
            said.push(format!("vm.{name} is {}{default}", grouped(*value)));
        }
    }
    let fraction = ["percpu_pagelist_high_fraction", "percpu_pagelist_fraction"];
    if let Some((name, value)) = fraction.iter().find_map(|name| settings.get(*name).map(|value| (*name, *value))) {
        said.push(match value {
            0 => format!("the kernel sizes the per-CPU lists (vm.{name} is 0)"),
            value => format!("the per-CPU lists have fixed sizes (vm.{name} is {value})"),
        });
    }
    if said.is_empty() {
        said.extend(settings.iter().take(3).map(|(name, value)| format!("vm.{name} is {value}")));
    }
    part.clauses.push(format!(
        "these settings: {}; the text has no zones, so it does not show whether one is short",
        said.join(", ")
    ));
    part.step("post the marks that these settings give", "cat /proc/zoneinfo");
}
