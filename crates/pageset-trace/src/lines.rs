//! The text of other tools: `perf script`, `trace-cmd report`, and ftrace's `trace` and `trace_pipe`.
//!
//! All of them write an event as one line: the task and its number, the CPU in brackets, perhaps flags, the time, the
//! event's name, and its fields. Other lines are skipped: headings, call graphs, other events.
//!
//! ```text
//!        dd 193 [001] 435.725794:  kmem:mm_page_free: page=0x1 pfn=0x1 order=0      perf script
//!        dd-193 [001] 435.725794: mm_page_free:  page=0x1 pfn=0x1 order=0           trace-cmd report
//!        dd-193 [001] d..1. 435.725794: mm_page_free: page=0x1 pfn=0x1 order=0      ftrace
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, ErrorKind, Read};

use pageset::{CpuId, Order};

use crate::error::{Place, TraceError};
use crate::event::{Context, Event, Kind};
use crate::facts::{Facts, Loss, Recipe};
use crate::limits::{self, CPU_ALLOWED, ORDER_ALLOWED, PFN_ALLOWED};
use crate::tracepoint::decode::{TRACEPOINTS, VMSTAT_UPDATE, marker};

/// The longest line, in bytes. A command line in a heading of perf is the longest that we know. A guess.
const MAX_LINE: u64 = 1 << 20;

/// How far the time may go back from one line to the next: a reader of `trace_pipe` may meet a CPU's buffer a little
/// late. A guess. Unit: nanoseconds.
const MAX_BACK_NS: u64 = 1_000_000;

/// The tool that wrote a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `perf script`: the task's number is a word of its own.
    Perf,
    /// trace-cmd and ftrace: the task's number follows a hyphen.
    Ftrace,
}

/// The parts of a line that all events have.
struct Line<'a> {
    dialect: Dialect,
    pid: u32,
    cpu: Option<u64>,
    context: Context,
    time_ns: u64,
    /// Whether the time is a count, not seconds.
    is_count: bool,
    name: &'a str,
    fields: &'a str,
}

/// Removes what a terminal adds: colours, and carriage returns.
fn plain(line: &[u8]) -> Cow<'_, str> {
    let line = String::from_utf8_lossy(line.trim_ascii_end());
    if !line.contains('\u{1b}') {
        return line;
    }
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            text.push(c);
        } else if chars.as_str().starts_with('[') {
            // A control sequence ends with a letter.
            chars.find(char::is_ascii_alphabetic);
        }
    }
    Cow::Owned(text)
}

/// Whether a file that starts with these bytes has a line of an event.
pub(crate) fn is_trace(start: &[u8]) -> bool {
    start.split(|&byte| byte == b'\n').any(|line| Line::parse(&plain(line)).is_some())
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Option<Line<'a>> {
        let mut at = 0;
        for word in text.split_ascii_whitespace() {
            let start = at + text[at..].find(word)?;
            at = start + word.len();
            if let Some((time_ns, is_count)) = word.strip_suffix(':').and_then(time)
                && let Some((dialect, pid, cpu, context)) = task(&text[..start])
            {
                let mut rest = text[at..].trim_ascii_start();
                // perf may print the event's period first.
                let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
                if dialect == Dialect::Perf && first.bytes().all(|b| b.is_ascii_digit()) {
                    rest = after.trim_ascii_start();
                }
                let (name, fields) = rest.split_once(' ').unwrap_or((rest, ""));
                let name = name.trim_end_matches(':');
                let name = name.rsplit_once(':').map_or(name, |(_system, name)| name);
                return Some(Line { dialect, pid, cpu, context, time_ns, is_count, name, fields });
            }
        }
        None
    }

    /// The value of `NAME=VALUE`.
    fn field(&self, name: &str) -> Option<&'a str> {
        let mut words = self.fields.split_ascii_whitespace().rev();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let text = self.field(name)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The kind of the event. `None` if it is not part of a recording; an error names the wrong field.
    fn kind(&self) -> Result<Option<Kind>, (&'static str, &'static str)> {
        let pfn = |name| self.number(name).and_then(limits::pfn).ok_or((name, PFN_ALLOWED));
        let order = |name| {
            let order = self.number(name).and_then(|order| u8::try_from(order).ok()).and_then(Order::new);
            order.ok_or((name, ORDER_ALLOWED))
        };
        let small = |name| {
            let number = self.number(name).and_then(|number| u8::try_from(number).ok());
            number.ok_or((name, "a number from 0 to 255"))
        };
        Ok(Some(match self.name {
            "mm_page_alloc" => Kind::Alloc {
                pfn: self.allocated().then(|| pfn("pfn")).transpose()?,
                order: order("order")?,
                migratetype: small("migratetype")?,
                gfp: self.field("gfp_flags").and_then(gfp).ok_or(("gfp_flags", "names of flags, joined with `|`"))?,
            },
            "mm_page_free" => Kind::Free { pfn: pfn("pfn")?, order: order("order")? },
            "mm_page_free_batched" => Kind::FreeBatched { pfn: pfn("pfn")? },
            "mm_page_alloc_zone_locked" => {
                let order = order("order")?;
                let percpu_refill = match self.field("percpu_refill") {
                    Some(_) => small("percpu_refill")? != 0,
                    None => order == Order::ZERO,
                };
                Kind::ZoneLocked { pfn: pfn("pfn")?, order, migratetype: small("migratetype")?, percpu_refill }
            }
            "mm_page_pcpu_drain" => {
                Kind::Drain { pfn: pfn("pfn")?, order: order("order")?, migratetype: small("migratetype")? }
            }
            "mm_page_alloc_extfrag" => Kind::ExtFrag {
                pfn: pfn("pfn")?,
                alloc_order: order("alloc_order")?,
                fallback_order: order("fallback_order")?,
                alloc_migratetype: small("alloc_migratetype")?,
                fallback_migratetype: small("fallback_migratetype")?,
                change_ownership: small("change_ownership")? != 0,
            },
            "workqueue_execute_start" if self.fields.trim_ascii_end().ends_with(VMSTAT_UPDATE) => Kind::VmstatWork,
            "mm_vmscan_kswapd_wake" => Kind::KswapdWake,
            "mm_vmscan_kswapd_sleep" => Kind::KswapdSleep,
            "mm_vmscan_direct_reclaim_begin" => Kind::DirectReclaim,
            "sched_process_fork" => {
                let child = self.number("child_pid").and_then(|child| u32::try_from(child).ok());
                Kind::Fork { child: child.ok_or(("child_pid", "a number below 2^32"))? }
            }
            "tracing_mark_write" | "print" => {
                // trace-cmd puts the place of the write before the text.
                let text = ["ZB ", "ZE "].into_iter().find_map(|mark| self.fields.find(mark));
                return Ok(text.and_then(|at| marker(&self.fields.as_bytes()[at..])));
            }
            _ => return Ok(None),
        }))
    }

    /// Whether an allocation has a page: a failed one is printed with page frame 0 or with all ones.
    fn allocated(&self) -> bool {
        !matches!(self.number("pfn"), Some(0 | u64::MAX))
    }
}

/// A time in seconds with a fraction, in nanoseconds; or a whole number, and `true`.
fn time(text: &str) -> Option<(u64, bool)> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((seconds, fraction)) = text.split_once('.') else {
        return if digits(text) { Some((text.parse().ok()?, true)) } else { None };
    };
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let seconds: u64 = seconds.parse().ok()?;
    Some((seconds.checked_mul(1_000_000_000)?.checked_add(fraction.parse::<u64>().ok()? * scale)?, false))
}

/// The task, the CPU and the context, from the text before the time.
fn task(text: &str) -> Option<(Dialect, u32, Option<u64>, Context)> {
    let mut words = text.split_ascii_whitespace().rev();
    let mut word = words.next()?;
    let bracketed = |word: &str| word.strip_prefix('[')?.strip_suffix(']')?.parse::<u64>().ok();
    let (mut cpu, mut context) = (bracketed(word), Context::Process);
    if cpu.is_some() {
        word = words.next()?;
    } else if let Some(before) = words.clone().next()
        && let Some(number) = bracketed(before)
    {
        // ftrace's flags: the third one is the context.
        context = match word.as_bytes().get(2) {
            Some(b'z' | b'Z') => Context::Nmi,
            Some(b'h' | b'H') => Context::HardIrq,
            Some(b's') => Context::SoftIrq,
            _ => Context::Process,
        };
        cpu = Some(number);
        words.next();
        word = words.next()?;
    }
    // ftrace's number of the process, if the option `record-tgid` is set: `( 123)` or `(-----)`.
    if word.ends_with(')') {
        if !word.starts_with('(') {
            words.next();
        }
        word = words.next()?;
    }
    let number = |text: &str| text.parse::<u32>().ok();
    // perf prints `TID` or `PID/TID`.
    let perf = number(word.rsplit_once('/').map_or(word, |(_, tid)| tid)).filter(|_| words.next().is_some());
    if let Some(pid) = perf {
        return Some((Dialect::Perf, pid, cpu, context));
    }
    let (_, pid) = word.rsplit_once('-')?;
    cpu?;
    Some((Dialect::Ftrace, number(pid)?, cpu, context))
}

/// The bits of a request's flags by their names, as kernels from 6.10 on number them. A replay uses bits 0 to 5 and 10,
/// which are the same in all kernels that print these names.
const GFP: [(&str, u32); 38] = [
    ("GFP_TRANSHUGE", 0x1c_24ca),
    ("GFP_TRANSHUGE_LIGHT", 0x1c_20ca),
    ("GFP_HIGHUSER_MOVABLE", 0x10_0cca),
    ("GFP_HIGHUSER", 0x10_0cc2),
    ("GFP_USER", 0x10_0cc0),
    ("GFP_KERNEL_ACCOUNT", 0x40_0cc0),
    ("GFP_KERNEL", 0xcc0),
    ("GFP_NOFS", 0xc40),
    ("GFP_ATOMIC", 0x820),
    ("GFP_NOIO", 0xc00),
    ("GFP_NOWAIT", 0x2800),
    ("GFP_DMA", 0x1),
    ("GFP_DMA32", 0x4),
    ("__GFP_RECLAIM", 0xc00),
    ("__GFP_DMA", 0x1),
    ("__GFP_HIGHMEM", 0x2),
    ("__GFP_DMA32", 0x4),
    ("__GFP_MOVABLE", 0x8),
    ("__GFP_RECLAIMABLE", 0x10),
    ("__GFP_HIGH", 0x20),
    ("__GFP_IO", 0x40),
    ("__GFP_FS", 0x80),
    ("__GFP_ZERO", 0x100),
    ("__GFP_DIRECT_RECLAIM", 0x400),
    ("__GFP_KSWAPD_RECLAIM", 0x800),
    ("__GFP_WRITE", 0x1000),
    ("__GFP_NOWARN", 0x2000),
    ("__GFP_RETRY_MAYFAIL", 0x4000),
    ("__GFP_NOFAIL", 0x8000),
    ("__GFP_NORETRY", 0x1_0000),
    ("__GFP_MEMALLOC", 0x2_0000),
    ("__GFP_COMP", 0x4_0000),
    ("__GFP_NOMEMALLOC", 0x8_0000),
    ("__GFP_HARDWALL", 0x10_0000),
    ("__GFP_THISNODE", 0x20_0000),
    ("__GFP_ACCOUNT", 0x40_0000),
    ("__GFP_ZEROTAGS", 0x80_0000),
    ("__GFP_NO_OBJ_EXT", 0x100_0000),
];

/// The flags of a request. Unknown names, which other kernels have, are no bits.
fn gfp(text: &str) -> Option<u32> {
    let mut bits = 0;
    for name in text.split('|') {
        let known = GFP.into_iter().find(|&(known, _)| known == name).map(|(_, bits)| bits);
        bits |= match name.strip_prefix("0x") {
            // The bits that the kernel had no name for, or all of them.
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None if name == "none" || name.starts_with("GFP_") || name.starts_with("__GFP_") => known.unwrap_or(0),
            None => name.parse().ok()?,
        };
    }
    Some(bits)
}

/// Names of the flags of a request, as the kernel prints them; flags without a name are a number.
fn gfp_names(gfp: u32) -> String {
    let (mut left, mut names) = (gfp, Vec::new());
    for (name, bits) in GFP {
        if left & bits == bits {
            left &= !bits;
            names.push(name.to_owned());
        }
    }
    match left {
        _ if gfp == 0 => "none".to_owned(),
        0 => names.join("|"),
        _ => format!("{}{}{left:#x}", names.join("|"), if names.is_empty() { "" } else { "|" }),
    }
}

/// The event as a line of `perf script --ns`. `None` for markers, and for what no tracepoint shows: bulk allocations and
/// changes of state.
pub fn perf_script_line(event: &Event) -> Option<String> {
    let text = match &event.kind {
        Kind::Alloc { pfn, order, migratetype, gfp } => {
            let (pfn, order, gfp) = (pfn.map_or(0, |pfn| pfn.0), order.get(), gfp_names(*gfp));
            let fields = format!("order={order} migratetype={migratetype} gfp_flags={gfp}");
            format!("kmem:mm_page_alloc: page={pfn:#x} pfn={pfn:#x} {fields}")
        }
        Kind::Free { pfn, order } => {
            format!("kmem:mm_page_free: page={0:#x} pfn={0:#x} order={1}", pfn.0, order.get())
        }
        Kind::FreeBatched { pfn } => format!("kmem:mm_page_free_batched: page={0:#x} pfn={0:#x} order=0", pfn.0),
        Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => format!(
            "kmem:mm_page_alloc_zone_locked: page={0:#x} pfn={0:#x} order={1} migratetype={migratetype} percpu_refill={2}",
            pfn.0,
            order.get(),
            u8::from(*percpu_refill)
        ),
        Kind::Drain { pfn, order, migratetype } => format!(
            "kmem:mm_page_pcpu_drain: page={0:#x} pfn={0:#x} order={1} migratetype={migratetype}",
            pfn.0,
            order.get()
        ),
        Kind::ExtFrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
        } => format!(
            "kmem:mm_page_alloc_extfrag: page={0:#x} pfn={0:#x} alloc_order={1} fallback_order={2} \
             alloc_migratetype={alloc_migratetype} fallback_migratetype={fallback_migratetype} change_ownership={3}",
            pfn.0,
            alloc_order.get(),
            fallback_order.get(),
            u8::from(*change_ownership)
        ),
        Kind::VmstatWork => format!("workqueue:workqueue_execute_start: work struct 0x0: function {VMSTAT_UPDATE}"),
        Kind::KswapdWake => "vmscan:mm_vmscan_kswapd_wake: nid=0 order=0".to_owned(),
        Kind::KswapdSleep => "vmscan:mm_vmscan_kswapd_sleep: nid=0".to_owned(),
        Kind::DirectReclaim => "vmscan:mm_vmscan_direct_reclaim_begin: order=0".to_owned(),
        Kind::Fork { child } => {
            format!("sched:sched_process_fork: comm=:{0} pid={0} child_comm=:{child} child_pid={child}", event.pid)
        }
        Kind::BulkAlloc { .. } | Kind::StateChange(_) | Kind::SnapshotBegin(_) | Kind::SnapshotEnd(_) => return None,
    };
    let (seconds, ns) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000);
    // perf prints a process whose name it does not know as its number after a colon.
    Some(format!("{:>16} {:>7} [{:03}] {seconds}.{ns:09}: {text}", format!(":{}", event.pid), event.pid, event.cpu.0))
}

/// The data of the text that is read before its events.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) dialect: Dialect,
}

/// Reads the whole text once.
pub(crate) fn open(input: impl Read) -> Result<Opened, TraceError> {
    let mut reader = LineReader::new(input);
    let mut cpus = 0;
    while let Some(event) = reader.event()? {
        cpus = cpus.max(event.cpu.0 + 1);
    }
    let seen = reader.seen;
    let Some(dialect) = seen.dialect else {
        return Err(TraceError::unsupported("the text has no event of the page allocator")
            .allowed("lines such as `dd-193 [001] 435.725794: mm_page_free: page=0x1 pfn=0x1 order=0`"));
    };
    let cpus = cpus.max(seen.cpus).max(seen.loss.keys().last().map_or(0, |cpu| cpu + 1));
    let mut loss = seen.loss;
    // ftrace prints each loss; perf does so only if asked.
    if dialect == Dialect::Ftrace || !loss.is_empty() {
        (0..cpus).for_each(|cpu| _ = loss.entry(cpu).or_default());
    }
    let loss = loss.into_iter().map(|(cpu, dropped)| Loss { cpu, dropped, ..Loss::default() });
    let mut loss: Vec<Loss> = loss.collect();
    if let Some(first) = loss.first_mut() {
        first.overrun = seen.overwritten;
    }
    // Without an event that every replay needs, the events that the text has are taken to be all that were recorded.
    let required = TRACEPOINTS.iter().filter(|point| point.without.is_none());
    let lacks = required.map(|point| point.name).any(|name| !seen.names.contains(name));
    let recipe = Recipe {
        tool: "text".to_owned(),
        events: lacks.then(|| seen.names.iter().map(|name| (*name).to_owned()).collect()),
        call_graphs: seen.call_graphs,
        cut: seen.cut,
        ..Recipe::default()
    };
    let clock = if seen.counts { "counter" } else { "unknown" }.to_owned();
    let facts = Facts { kernel_release: seen.release, cpus, clock, loss, recipe: Some(recipe), ..Facts::default() };
    Ok(Opened { facts, dialect })
}

/// What the lines other than events say.
#[derive(Debug, Default)]
struct Seen {
    dialect: Option<Dialect>,
    release: Option<String>,
    /// The tracepoints of [`Recipe::EVENTS`] that the text has.
    names: BTreeSet<&'static str>,
    cpus: u32,
    /// Lost events by CPU.
    loss: BTreeMap<u32, u64>,
    /// Events that ftrace overwrote before the first line.
    overwritten: u64,
    call_graphs: bool,
    counts: bool,
    cut: bool,
}

impl Seen {
    /// Reads a line without an event.
    fn line(&mut self, line: &str) {
        let number = |text: &str| {
            let digits = text.trim_ascii_start();
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse::<u64>().ok()
        };
        let after = |mark: &str| line.split_once(mark).and_then(|(_, rest)| number(rest));
        let cpus = |number: u64| u32::try_from(number).ok().filter(|&cpus| cpus <= limits::MAX_CPUS);
        if line.contains("EVENTS") && line.starts_with("CPU:") {
            // `CPU:1 [LOST 5 EVENTS]` of ftrace, `CPU:1 [5 EVENTS DROPPED]` of trace-cmd, or without a number.
            let cpu = after("CPU:").and_then(limits::cpu).map_or(0, |cpu| cpu.0);
            let lost = after("[LOST ").or(after("[")).unwrap_or(1);
            let count = self.loss.entry(cpu).or_default();
            *count = count.saturating_add(lost);
        } else if let Some(rest) = line.strip_prefix("# entries-in-buffer/entries-written: ") {
            let (kept, written) = rest.split_once('/').unwrap_or((rest, ""));
            self.overwritten = number(written).unwrap_or(0).saturating_sub(number(kept).unwrap_or(0));
            self.cpus = after("#P:").and_then(cpus).unwrap_or(0);
        } else if line.starts_with("cpus=") || line.starts_with("# nrcpus online :") {
            let (_, rest) = line.split_once(['=', ':']).unwrap_or_default();
            self.cpus = number(rest).and_then(cpus).unwrap_or(0);
        } else if let Some(release) = line.strip_prefix("# os release :") {
            self.release = Some(release.trim().to_owned());
        } else if line.starts_with(['\t', ' ']) && self.dialect.is_some() {
            // perf prints a call graph as lines of an address and a function.
            let address = line.split_ascii_whitespace().next().unwrap_or_default();
            self.call_graphs |= address.len() >= 5 && address.bytes().all(|byte| byte.is_ascii_hexdigit());
        } else if line == "=> " || line.starts_with(" => ") || line.contains("<stack trace>") {
            self.call_graphs = true;
        }
    }
}

/// A pass over the events. After an error or the end, it returns `None`.
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    number: u64,
    time_ns: u64,
    seen: Seen,
    done: bool,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(input: R) -> Self {
        let input = BufReader::with_capacity(256 << 10, input);
        LineReader { input, line: Vec::new(), number: 0, time_ns: 0, seen: Seen::default(), done: false }
    }

    fn event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = self.input.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line);
            match read {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(TraceError::reading(Place::Line(self.number), error)),
            }
            let whole = self.line.last() == Some(&b'\n');
            let text = plain(&self.line);
            let wrong = |what: String| TraceError::damaged(Place::Line(self.number), what);
            let Some(line) = Line::parse(&text) else {
                self.seen.line(&text);
                continue;
            };
            if matches!(line.name, "PERF_RECORD_LOST" | "PERF_RECORD_LOST_SAMPLES") {
                let lost = line.fields.split_ascii_whitespace().find_map(|word| word.parse().ok()).unwrap_or(1);
                let cpu = line.cpu.and_then(limits::cpu).map_or(0, |cpu| cpu.0);
                let count = self.seen.loss.entry(cpu).or_default();
                *count = lost.max(*count);
                continue;
            }
            let kind = match line.kind() {
                Ok(Some(kind)) => kind,
                Ok(None) => continue,
                // A text that was cut ends in the middle of a line.
                Err(_) if !whole => {
                    self.seen.cut = true;
                    continue;
                }
                Err((field, allowed)) => {
                    let what = match line.field(field) {
                        Some(value) => format!("{field}={value} of {} is not allowed", line.name),
                        None => format!("{} has no {field}", line.name),
                    };
                    return Err(wrong(what).allowed(allowed));
                }
            };
            let Some(cpu) = line.cpu else {
                return Err(TraceError::unsupported("the text does not say on which CPU each event was")
                    .allowed("`perf record -a`, and `perf script -F +cpu`"));
            };
            let cpu =
                limits::cpu(cpu).ok_or_else(|| wrong(format!("CPU {cpu} is not allowed")).allowed(CPU_ALLOWED))?;
            if line.time_ns.saturating_add(MAX_BACK_NS) < self.time_ns {
                let what = format!("time goes back from {} to {} ns", self.time_ns, line.time_ns);
                return Err(wrong(what).allowed("events in the order of time"));
            }
            self.time_ns = self.time_ns.max(line.time_ns);
            self.seen.dialect.get_or_insert(line.dialect);
            self.seen.counts |= line.is_count;
            self.seen.names.extend(Recipe::EVENTS.iter().find(|name| **name == line.name));
            let Line { pid, context, .. } = line;
            return Ok(Some(Event { time_ns: self.time_ns, cpu: CpuId(cpu.0), pid, context, kind }));
        }
    }
}

impl<R: Read> Iterator for LineReader<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.event().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVENT: &str = "mm_page_free: page=0x1 pfn=0x5a order=1";

    fn parsed(head: &str) -> Option<(Dialect, u32, Option<u64>, Context, u64)> {
        let text = format!("{head} {EVENT}");
        let line = Line::parse(&text)?;
        assert_eq!(
            line.kind(),
            Ok(Some(Kind::Free { pfn: pageset::Pfn(0x5a), order: Order::new(1).unwrap() })),
            "{head}"
        );
        Some((line.dialect, line.pid, line.cpu, line.context, line.time_ns))
    }

    #[test]
    fn variants_of_the_common_shape() {
        use Context::{HardIrq, Nmi, Process, SoftIrq};
        use Dialect::{Ftrace, Perf};
        let rows = [
            ("  dd 193 [001] 435.725794:", (Perf, 193, Some(1), Process, 435_725_794_000)),
            ("  lto dqhov [1] 9: x 193/194 [001] 435.725794123:  1", (Perf, 194, Some(1), Process, 435_725_794_123)),
            ("kworker/1:2-ev 7 435.5:", (Perf, 7, None, Process, 435_500_000_000)),
            ("  dd-193 [001] 435.725794:", (Ftrace, 193, Some(1), Process, 435_725_794_000)),
            (" a b-c-193  [017] ..s1. 5.000001:", (Ftrace, 193, Some(17), SoftIrq, 5_000_001_000)),
            ("<idle>-0     [000] d.h.. 5.000001:", (Ftrace, 0, Some(0), HardIrq, 5_000_001_000)),
            ("<...>-7 (     7) [000] d.Z3 5.000001:", (Ftrace, 7, Some(0), Nmi, 5_000_001_000)),
            ("<...>-7 (-------) [000] .... 12345:", (Ftrace, 7, Some(0), Process, 12345)),
        ];
        for (head, expected) in rows {
            assert_eq!(parsed(head), Some(expected), "{head}");
        }
        for head in
            ["dd-193 435.7:", "435.7:", "[001] 435.7:", "dd-x [001] 435.7:", "dd-193 [001] 435.7", "=> 1 [0] x:"]
        {
            assert_eq!(parsed(head), None, "{head}");
        }
    }

    fn events(text: &str) -> Result<(Vec<Event>, Opened), TraceError> {
        Ok((LineReader::new(text.as_bytes()).collect::<Result<_, _>>()?, open(text.as_bytes())?))
    }

    #[test]
    fn colours_and_carriage_returns_are_not_text() {
        let line = format!("\u{1b}[01;31m  dd-193\u{1b}[m [001] 4.5: \u{1b}[K{EVENT}\u{1b}[0m\r\n");
        assert!(is_trace(line.as_bytes()));
        assert_eq!(events(&line).unwrap().0.len(), 1);
    }

    #[test]
    fn lost_events_are_counted_by_cpu() {
        let line = format!("dd-1 [000] 4.5: {EVENT}\n");
        let rows: [(&str, &[(u32, u64)]); 4] = [
            ("CPU:1 [LOST 5 EVENTS]\nCPU:1 [LOST 2 EVENTS]\n", &[(0, 0), (1, 7)]),
            ("CPU:2 [9 EVENTS DROPPED]\n", &[(0, 0), (1, 0), (2, 9)]),
            ("CPU:0 [EVENTS DROPPED]\n", &[(0, 1)]),
            ("# entries-in-buffer/entries-written: 1/4   #P:2\n", &[(0, 3), (1, 0)]),
        ];
        for (text, expected) in rows {
            let (_, opened) = events(&format!("{text}{line}")).unwrap();
            let loss: Vec<_> = opened.facts.loss.iter().map(|loss| (loss.cpu, loss.dropped + loss.overrun)).collect();
            assert_eq!(loss, expected, "{text}");
        }
        let perf = format!("x 0 [001] 0.000000: PERF_RECORD_LOST lost 900\ndd 1 [000] 4.5: {EVENT}\n");
        assert_eq!(events(&perf).unwrap().1.facts.loss[1].dropped, 900);
        let quiet = format!("dd 1 [000] 4.5: {EVENT}\n");
        assert!(events(&quiet).unwrap().1.facts.loss.is_empty(), "perf does not say whether it lost any");
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let rows = [
            ("dd-1 [000] 4.5: mm_page_free: pfn=0x5a\n", "line 1: mm_page_free has no order"),
            ("dd-1 [000] 4.5: mm_page_free: pfn=0xg order=0\n", "line 1: pfn=0xg of mm_page_free is not allowed"),
            ("dd-1 [99999] 4.5: mm_page_free: pfn=1 order=0\n", "CPU 99999"),
            ("dd 1 4.5: mm_page_free: pfn=1 order=0\n", "on which CPU"),
            ("a-1 [0] 9.5: mm_page_free: pfn=1 order=0\na-1 [0] 9.4: mm_page_free: pfn=1 order=0\n", "time goes back"),
            ("dd-1 [000] 4.5: sched_switch: prev_comm=x\n", "no event of the page allocator"),
        ];
        for (text, what) in rows {
            let error = events(text).map(|_| ()).expect_err(text).to_string();
            assert!(error.contains(what) && error.contains("; allowed: "), "{text}: {error}");
        }
    }

    proptest! {
        /// Reading is the inverse of writing, except that a text has no context.
        #[test]
        fn a_written_line_is_read(time_ns: u64, cpu in 0..limits::MAX_CPUS, pid: u32, page in 1..limits::MAX_PFN,
                                  order in 0..=Order::MAX.get(), small: u8, gfp: u32, flag: bool, which in 0..12) {
            let (pfn, order) = (pageset::Pfn(page), Order::new(order).unwrap());
            let kind = match which {
                0 => Kind::Alloc { pfn: flag.then_some(pfn), order, migratetype: small, gfp },
                1 => Kind::Free { pfn, order },
                2 => Kind::FreeBatched { pfn },
                3 => Kind::ZoneLocked { pfn, order, migratetype: small, percpu_refill: flag },
                4 => Kind::Drain { pfn, order, migratetype: small },
                5 => Kind::ExtFrag { pfn, alloc_order: order, fallback_order: order, alloc_migratetype: small,
                                     fallback_migratetype: small, change_ownership: flag },
                6 => Kind::VmstatWork,
                7 => Kind::KswapdWake,
                8 => Kind::KswapdSleep,
                9 => Kind::DirectReclaim,
                _ => Kind::Fork { child: gfp },
            };
            let event = Event { time_ns, cpu: CpuId(cpu), pid, context: Context::Process, kind };
            let line = perf_script_line(&event).expect("a tracepoint");
            let read: Vec<_> = LineReader::new(format!("{line}\n").as_bytes()).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(read, [event]);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "([a-z0-9 \\[\\]:.=-]|\\PC|\n|mm_page_free: pfn=1 order=0| \\[001\\] 4.5: |dd-1){0,40}") {
            let _ = events(&text);
        }
    }
}
