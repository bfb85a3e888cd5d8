//! The text of other tools: `perf script`, `trace-cmd report`, and ftrace's `trace` and `trace_pipe`.
//!
//! | module | contents |
//! | --- | --- |
//! | `dialect` | a line of an event, in each tool's form |
//!
//! Lines without an event say what was lost, and on which machine. Others are skipped: headings, other events.

mod dialect;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, ErrorKind, Read};

use pageset::CpuId;

pub(crate) use self::dialect::Dialect;
use self::dialect::Line;
pub use self::dialect::perf_script_line;
use crate::error::{Place, TraceError};
use crate::event::Event;
use crate::facts::{Facts, Loss, Recipe};
use crate::limits::{self, CPU_ALLOWED};
use crate::tracepoint::decode::TRACEPOINTS;

/// The longest line, in bytes. A command line in a heading of perf is the longest that we know. A guess.
const MAX_LINE: u64 = 1 << 20;

/// How far the time may go back from one line to the next: a reader of `trace_pipe` may meet a CPU's buffer a little
/// late. A guess. Unit: nanoseconds.
const MAX_BACK_NS: u64 = 1_000_000;

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

/// Whether a text has events of the page allocator, in whatever form.
pub(crate) fn has_events(start: &[u8]) -> bool {
    plain(start).lines().any(|line| line.contains("mm_page_") && line.contains(": "))
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
            // ftrace prints it as lines of an arrow and a function.
            self.call_graphs |= address == "=>";
        }
    }
}

pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    number: u64,
    time_ns: u64,
    seen: Seen,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(input: R) -> Self {
        let input = BufReader::with_capacity(256 << 10, input);
        LineReader { input, line: Vec::new(), number: 0, time_ns: 0, seen: Seen::default() }
    }

    /// The next event. Not called again after an error or the end.
    pub(crate) fn event(&mut self) -> Result<Option<Event>, TraceError> {
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
                return Err(
                    wrong(what).allowed("events in the order of time, as perf script prints them without --deltatime")
                );
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

#[cfg(test)]
mod tests {
    use pageset::Order;
    use proptest::prelude::*;

    use super::*;
    use crate::event::{Context, Kind};

    const EVENT: &str = "mm_page_free: page=0x1 pfn=0x5a order=1";

    fn events_of(text: &str) -> Result<Vec<Event>, TraceError> {
        let mut reader = LineReader::new(text.as_bytes());
        std::iter::from_fn(|| reader.event().transpose()).collect()
    }

    fn events(text: &str) -> Result<(Vec<Event>, Opened), TraceError> {
        Ok((events_of(text)?, open(text.as_bytes())?))
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
            prop_assert_eq!(events_of(&format!("{line}\n")).unwrap(), [event]);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "([a-z0-9 \\[\\]:.=-]|\\PC|\n|mm_page_free: pfn=1 order=0| \\[001\\] 4.5: |dd-1){0,40}") {
            let _ = events(&text);
        }
    }
}
