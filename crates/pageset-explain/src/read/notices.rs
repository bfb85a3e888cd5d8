//! Messages and tables that people post with a shortage, but that are not about a zone: the limit of a memory cgroup, a lock-up, memory
//! that others manage.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pageset_trace::number::grouped;
use serde::Deserialize;

use super::heads::Heads;
use super::prefix::digits;
use super::profile::is_executed;
use super::tables::{TABLES, Tables};

#[derive(Debug, Default)]
pub(crate) struct Notices {
    pub(crate) group: Option<Group>,
    pub(crate) lockup: Option<Lockup>,
    /// Each kind once, in the order of the texts.
    pub(crate) messages: Vec<Said>,
    pub(crate) tables: Tables,
    /// What the OOM killer killed, for whatever reason.
    pub(crate) killed: Option<String>,
    /// `warn_alloc` is in a call trace, so that a request failed.
    pub(crate) has_failure_trace: bool,
    /// Lines that follow the zones of a report.
    pub(crate) has_end_of_report: bool,
    /// The message of the line before, if it ends with a comma: mail programs break lines there.
    open: Option<(String, &'static Notice)>,
}

/// A message with what stands in its line.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) notice: &'static Notice,
    /// The sentence, without its full stop.
    pub(crate) clause: String,
}

/// A memory cgroup at its limit.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) path: Option<String>,
    /// What is limited: `memory`, `memory+swap`, `kmem`, `swap`; used and allowed KiB, and how often the limit was reached.
    pub(crate) limits: Vec<(String, u64, u64, u64)>,
}

/// A CPU that a watchdog found stuck.
#[derive(Debug)]
pub(crate) struct Lockup {
    pub(crate) what: &'static str,
    pub(crate) cpu: Option<u64>,
    pub(crate) seconds: Option<u64>,
    pub(crate) process: Option<String>,
    /// The function that the CPU executed.
    pub(crate) executed: Option<String>,
}

/// A message whose cause is not a zone.
#[derive(PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Notice {
    /// The line has all words of one of these.
    words: Vec<Vec<String>>,
    /// Parts of the line by name: what is between two texts. The line has all of them.
    #[serde(default)]
    find: BTreeMap<String, [String; 2]>,
    /// The least value of some parts, which are numbers.
    #[serde(default)]
    at_least: BTreeMap<String, u64>,
    /// A sentence without its full stop. `{name}` stands for a part, and `{victim}` for what the OOM killer killed.
    clause: String,
    /// The call traces of the text belong to the message: they are not waits.
    #[serde(default)]
    pub(crate) is_first: bool,
    /// Any other message says more.
    #[serde(default)]
    pub(crate) is_weak: bool,
    /// The message is about huge pages: a table that has their numbers says more.
    #[serde(default)]
    pub(crate) is_of_huge_pages: bool,
    /// What to do.
    pub(crate) step: String,
    #[serde(default)]
    pub(crate) command: String,
}

impl Notice {
    /// The sentence, if the line is this message.
    fn said(&'static self, text: &str) -> Option<Said> {
        if !self.words.iter().any(|words| words.iter().all(|word| text.contains(word))) {
            return None;
        }
        let mut clause = self.clause.clone();
        for (name, [before, after]) in &self.find {
            let rest = &text[text.find(before)? + before.len()..];
            let part = rest[..rest.find(after)?].trim();
            let number = digits(part);
            let is_none = part.is_empty() || part == "(null)" || part.len() > 64;
            if is_none || self.at_least.get(name).is_some_and(|least| number < Some(*least)) {
                return None;
            }
            clause = clause.replace(&format!("{{{name}}}"), &number.map_or(part.to_owned(), grouped));
        }
        Some(Said { notice: self, clause })
    }
}

/// The messages: those of `notices.toml`.
static MESSAGES: LazyLock<Vec<Notice>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        message: Vec<Notice>,
    }
    toml::from_str::<File>(include_str!("notices.toml")).expect("the tests read notices.toml").message
});

/// The first message that a line is.
fn said(text: &str) -> Option<Said> {
    MESSAGES.iter().find_map(|notice| notice.said(text))
}

/// What each line that is one of these has, apart from rows of tables.
static HEADS: LazyLock<Heads> = LazyLock::new(|| {
    let words = "mem_cgroup|emory cgroup|CONSTRAINT_MEMCG|killed as a result|oom_memcg=|,task=|: usage |Killed process|\
                 Kill process|lockup|LOCKUP|detected stall|self-detected|blocked for more|NMI backtrace|warn_alloc|total pagecache|\
                 pages reserved|pressure|/numastat";
    let messages = MESSAGES.iter().flat_map(|message| &message.words).map(|words| words[0].as_str());
    Heads::of(words.split('|').chain(messages).chain(TABLES.iter().map(|(words, _)| words[0])))
});

impl Notices {
    /// Takes a line, and returns whether it is one of these.
    pub(crate) fn line(&mut self, text: &str) -> bool {
        if let Some(lockup) = self.lockup.as_mut().filter(|lockup| lockup.executed.is_none())
            && is_executed(text)
        {
            let symbol = text.split_ascii_whitespace().find_map(|word| word.split_once("+0x"));
            let symbol = symbol.map(|(symbol, _)| symbol.rsplit([':', '(']).next().unwrap_or(symbol));
            lockup.executed = symbol.filter(|symbol| symbol.len() <= 64).map(str::to_owned);
        }
        let may_be_of_a_table = self.tables.may_take(text);
        let continues =
            self.open.take().is_some_and(|(open, notice)| self.continued(&format!("{open} {text}"), notice));
        if !may_be_of_a_table && !HEADS.may_be_in(text) {
            return continues;
        }
        let mut taken = continues | self.group_line(text) | self.lockup_line(text);
        if !continues {
            taken |= self.message(text) | self.tables.line(text);
        }
        self.has_failure_trace |= text.contains("warn_alloc+0x") || text.contains("warn_alloc_failed+0x");
        self.has_failure_trace |= text.contains("(warn_alloc") || text.contains("warn_alloc from ");
        self.has_end_of_report |= text.contains("total pagecache pages") || text.contains("pages reserved");
        taken
    }

    fn message(&mut self, text: &str) -> bool {
        let Some(said) = said(text) else { return false };
        self.open(text, said.notice);
        self.say(said);
        true
    }

    /// Takes a message with its next line, and returns whether that line has more parts of it.
    fn continued(&mut self, text: &str, notice: &'static Notice) -> bool {
        self.open(text, notice);
        let more =
            said(text).filter(|said| said.notice.words == notice.words && said.notice.find.len() > notice.find.len());
        more.map(|said| self.say(said)).is_some()
    }

    fn open(&mut self, text: &str, notice: &'static Notice) {
        self.open = (text.ends_with(',') && text.len() < 1000).then(|| (text.to_owned(), notice));
    }

    /// Keeps a message. What a line with its next one says replaces what the line says alone.
    fn say(&mut self, said: Said) {
        let is_known =
            |known: &Said| known.notice.words == said.notice.words || std::ptr::eq(known.notice, said.notice);
        match self.messages.iter_mut().find(|known| is_known(known)) {
            Some(known) if known.notice.find.len() < said.notice.find.len() => *known = said,
            Some(_) => {}
            None => self.messages.push(said),
        }
    }

    /// The lines about a memory cgroup at its limit.
    fn group_line(&mut self, text: &str) -> bool {
        const STACK: [&str; 3] = ["mem_cgroup_oom_synchronize", "mem_cgroup_out_of_memory", "mem_cgroup_oom+"];
        let is_group = text.contains("emory cgroup out of memory") || text.contains("CONSTRAINT_MEMCG");
        let until = |text: &str, ends: &[char]| text.split(ends).next().unwrap_or("").trim().to_owned();
        let path = [("killed as a result of limit of ", " "), ("oom_memcg=", ","), ("Memory cgroup stats for ", ": ")]
            .iter()
            .find_map(|(mark, end)| {
                let rest = &text[text.find(mark)? + mark.len()..];
                Some(rest.split(end).next().unwrap_or("").trim_end_matches(':').trim().to_owned())
            });
        let killed = ["Killed process ", "Kill process "].iter().find_map(|mark| {
            let (_, name) = text[text.find(mark)? + mark.len()..].split_once('(')?;
            Some(until(name, &[')']))
        });
        let task = text.find(",task=").map(|at| until(&text[at + 6..], &[',']));
        let killed = killed.or(task).filter(|name| !name.is_empty() && name.len() <= 64);
        self.killed = killed.clone().or(self.killed.take());
        let limit = limit(text);
        let taken = is_group || path.is_some() || limit.is_some() || STACK.iter().any(|name| text.contains(name));
        if taken {
            let group = self.group.get_or_insert_default();
            group.path = path.filter(|path| !path.is_empty()).or(group.path.take());
            group.limits.extend(limit.filter(|_| group.limits.len() < 8));
        }
        taken || killed.is_some()
    }

    /// The lines of the watchdogs.
    fn lockup_line(&mut self, text: &str) -> bool {
        const KINDS: [(&str, &str); 7] = [
            ("soft lockup - CPU#", "did not schedule"),
            ("hard LOCKUP on cpu ", "took no interrupt"),
            ("detected stall on CPU", "kept RCU waiting"),
            ("detected stalls on CPUs", "kept RCU waiting"),
            ("self-detected stall", "kept RCU waiting"),
            ("blocked for more than ", "is not it: a task waited"),
            ("NMI backtrace for cpu ", "was asked for its stack"),
        ];
        let Some((mark, what)) = KINDS.iter().find(|(mark, _)| text.contains(mark)) else { return false };
        let rest = &text[text.find(mark).unwrap_or(0) + mark.len()..];
        let number = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            digits(&text[..end])
        };
        let is_task = mark.starts_with("blocked");
        let seconds = if is_task { number(rest) } else { rest.split_once("stuck for ").and_then(|(_, s)| number(s)) };
        let process = match is_task {
            true => text.split_once("task ").map(|(_, rest)| rest.split(" blocked").next().unwrap_or("").to_owned()),
            false => rest.rsplit_once('[').map(|(_, rest)| rest.trim_end_matches(']').to_owned()),
        };
        let process = process.map(|name| name.rsplit_once(':').map_or(name.clone(), |(name, _)| name.to_owned()));
        let process = process.filter(|name| !name.is_empty() && name.len() <= 64);
        let cpu = number(rest).filter(|_| !is_task);
        self.lockup.get_or_insert(Lockup { what, cpu, seconds, process, executed: None });
        true
    }
}

/// `memory: usage 1048576kB, limit 1048576kB, failcnt 189`.
fn limit(text: &str) -> Option<(String, u64, u64, u64)> {
    let (name, rest) = text.split_once(": usage ")?;
    let name = name.rsplit(' ').next().filter(|name| ["memory", "memory+swap", "swap", "kmem"].contains(name))?;
    let (used, rest) = rest.split_once("kB, limit ")?;
    let (allowed, failures) = rest.split_once("kB, failcnt ")?;
    Some((name.to_owned(), digits(used)?, digits(allowed)?, digits(failures.trim())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Notices {
        let mut notices = Notices::default();
        for line in lines {
            assert!(notices.line(line), "{line}");
        }
        notices
    }

    #[test]
    fn limits_of_groups() {
        let found = of(&[
            "Task in /a/b killed as a result of limit of /a",
            "memory: usage 1048576kB, limit 1048576kB, failcnt 189",
            "kmem: usage 0kB, limit 9007199254740988kB, failcnt 0",
            "Memory cgroup out of memory: Kill process 7 (worker x) score 2 or sacrifice child",
        ]);
        let group = found.group.unwrap();
        assert_eq!((group.path.as_deref(), found.killed.as_deref()), (Some("/a"), Some("worker x")));
        assert_eq!(group.limits[0], ("memory".to_owned(), 1_048_576, 1_048_576, 189));
        let line = of(&[
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/k/p,task_memcg=/k/p/c,task=w,pid=4,uid=0",
        ]);
        assert_eq!(line.group.unwrap().path.as_deref(), Some("/k/p"));
        assert_eq!(line.killed.as_deref(), Some("w"));
        assert!(of(&["oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=w,pid=4"]).group.is_none());
    }

    #[test]
    fn lockups() {
        let soft = of(&["watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [a:b:3810]"]).lockup.unwrap();
        assert_eq!((soft.cpu, soft.seconds, soft.process.as_deref()), (Some(3), Some(23), Some("a:b")));
        let mut running = of(&["NMI watchdog: BUG: soft lockup - CPU#5 stuck for 23s! [modprobe:4176]"]);
        running.line("RIP: 0010:[<ffffffff81088847>]  [<ffffffff81088847>] csd_lock_wait.isra.1+0x4/0xa");
        assert_eq!(running.lockup.unwrap().executed.as_deref(), Some("csd_lock_wait.isra.1"));
        let task = of(&["INFO: task tar:812 blocked for more than 120 seconds."]).lockup.unwrap();
        assert_eq!((task.cpu, task.seconds, task.process.as_deref()), (None, Some(120), Some("tar")));
        let hard = of(&["NMI watchdog: Watchdog detected hard LOCKUP on cpu 12"]).lockup.unwrap();
        assert_eq!((hard.cpu, hard.what), (Some(12), "took no interrupt"));
    }
}
