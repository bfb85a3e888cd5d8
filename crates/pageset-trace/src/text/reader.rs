//! Reads the text form.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use pageset::{Order, Pfn};

use super::fields::{Fault, Fields, decimal, fault, lossy};
use super::{MAGIC, VERSION};
use crate::error::{Place, TraceError};
use crate::event::{Context, Event, Kind, StateChange};
use crate::limits::{
    self, BULK_ALLOWED, CPU_ALLOWED, MAX_BULK, MAX_CPUS, MAX_NODES, MAX_PFN, NODE_ALLOWED, ORDER_ALLOWED, PFN_ALLOWED,
    TAG_ALLOWED,
};

/// The size of the read buffer, in bytes.
const BUFFER: usize = 256 << 10;

/// The longest accepted line, in bytes; the writer's longest line has under 200.
const MAX_LINE: usize = 4096;

/// An iterator over the events of a text, in constant memory.
///
/// After an error or the end, it returns `None`.
#[derive(Debug)]
pub struct TextReader<R> {
    lines: Lines<R>,
    /// The time of the previous event, in ns.
    time_ns: u64,
    done: bool,
}

impl<R: Read> TextReader<R> {
    /// Reads the two header lines.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for another form or version.
    /// [`Damaged`](crate::ErrorKind::Damaged) for incomplete headers.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut lines = Lines { input, buffer: vec![0; BUFFER], start: 0, end: 0, number: 0 };
        let version = "a text that starts with `#pcptrace 1`";
        let Some(line) = lines.next()? else {
            return Err(TraceError::damaged(Place::Line(1), "the file is empty").allowed(version));
        };
        let line = &lines.buffer[line];
        match line.strip_prefix(MAGIC) {
            None => return Err(TraceError::unsupported("this is not the text form of a recording").allowed(version)),
            Some(number) if decimal(number) != Some(VERSION) => {
                let what = format!("version {} of the text form is not known", lossy(number));
                return Err(TraceError::unsupported(what).allowed(version));
            }
            Some(_) => {}
        }
        let start = "`#t0` and a time in nanoseconds in the second line";
        let line = lines.next()?.map_or(&[][..], |line| &lines.buffer[line]);
        let Some(time_ns) = line.strip_prefix(b"#t0 ").and_then(decimal) else {
            return Err(
                TraceError::damaged(Place::Line(2), format!("{} is not a start line", lossy(line))).allowed(start)
            );
        };
        Ok(TextReader { lines, time_ns, done: false })
    }

    fn event(&mut self) -> Result<Option<Event>, TraceError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        match parse(&self.lines.buffer[line], self.time_ns) {
            Ok(event) => {
                self.time_ns = event.time_ns;
                Ok(Some(event))
            }
            Err(fault) => {
                let (what, allowed) = fault.into_parts();
                Err(TraceError::damaged(Place::Line(self.lines.number), what).allowed(allowed))
            }
        }
    }
}

impl<R: Read> Iterator for TextReader<R> {
    type Item = Result<Event, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.event().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The lines of an input, through a buffer larger than any line.
#[derive(Debug)]
struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// The range of the buffer that is not returned yet.
    start: usize,
    end: usize,
    /// The number of the last returned line, from 1.
    number: u64,
}

impl<R: Read> Lines<R> {
    /// The next line without its newline, as a range of the buffer.
    #[inline]
    fn next(&mut self) -> Result<Option<Range<usize>>, TraceError> {
        self.number += 1;
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(length) = memchr::memchr(b'\n', &unread[searched..]) {
                let line = self.start..self.start + searched + length;
                self.start = line.end + 1;
                return Ok(Some(line));
            }
            searched = unread.len();
            if searched > MAX_LINE {
                let what = format!("the line has more than {MAX_LINE} bytes");
                return Err(TraceError::damaged(Place::Line(self.number), what).allowed("one event a line"));
            }
            if !self.fill()? {
                if searched == 0 {
                    return Ok(None);
                }
                let what = "the text ends in the middle of a line";
                return Err(TraceError::damaged(Place::Line(self.number), what).allowed("a newline after every line"));
            }
        }
    }

    /// Reads more bytes; returns false at the end of the input.
    fn fill(&mut self) -> Result<bool, TraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::reading(Place::Line(self.number), error)),
            }
        }
    }
}

/// Parses the event of one line. `before` is the time of the previous event, in ns.
#[inline]
fn parse(line: &[u8], before: u64) -> Result<Event, Fault> {
    let mut fields = Fields::new(line);
    let step = fields.decimal("time", u64::MAX, "nanoseconds since the line before: a decimal number below 2^64")?;
    let Some(time_ns) = before.checked_add(step) else {
        return Err(Fault::new("the time overflows", "times below 2^64 ns"));
    };
    let cpu = fields.decimal("CPU", u64::from(MAX_CPUS - 1), CPU_ALLOWED)? as u32;
    let (pid, context) = pid_and_context(fields.word())?;
    let before_letter = fields.rest();
    let kind = match fields.letter() {
        b'A' => {
            let failed = fields.rest().starts_with(b"- ");
            let pfn = if failed { None } else { Some(fields.hex("pfn", MAX_PFN - 1, ALLOC_PFN)?) };
            if failed {
                fields.word();
            }
            let (order, migratetype) = (order(&mut fields)?, migratetype(&mut fields)?);
            Kind::Alloc { pfn: pfn.map(Pfn), order, migratetype, gfp: gfp(&mut fields)? }
        }
        b'F' => Kind::Free { pfn: pfn(&mut fields)?, order: order(&mut fields)? },
        b'B' => Kind::FreeBatched { pfn: pfn(&mut fields)? },
        b'Z' => Kind::ZoneLocked {
            pfn: pfn(&mut fields)?,
            order: order(&mut fields)?,
            migratetype: migratetype(&mut fields)?,
            percpu_refill: flag(&mut fields, "percpu_refill")?,
        },
        b'D' => {
            Kind::Drain { pfn: pfn(&mut fields)?, order: order(&mut fields)?, migratetype: migratetype(&mut fields)? }
        }
        b'X' => Kind::ExtFrag {
            pfn: pfn(&mut fields)?,
            alloc_order: order(&mut fields)?,
            fallback_order: order(&mut fields)?,
            alloc_migratetype: migratetype(&mut fields)?,
            fallback_migratetype: migratetype(&mut fields)?,
            change_ownership: flag(&mut fields, "change_ownership")?,
        },
        b'U' => bulk_alloc(&mut fields)?,
        b'S' => Kind::StateChange(state_change(&mut fields)?),
        b'P' => Kind::Fork { child: fields.decimal("child", u64::from(u32::MAX), "a number below 2^32")? as u32 },
        b'V' => Kind::VmstatWork,
        b'K' => Kind::KswapdWake,
        b'k' => Kind::KswapdSleep,
        b'R' => Kind::DirectReclaim,
        b'M' => marker(&mut fields)?,
        _ => {
            return Err(fault("kind", Fields::new(before_letter).word(), "A, F, B, Z, D, X, U, S, P, V, K, k, R or M"));
        }
    };
    fields.end()?;
    Ok(Event { time_ns, cpu: pageset::CpuId(cpu), pid, context, kind })
}

const ALLOC_PFN: &str = "`-` or a page frame number below 2^52, in hexadecimal";

#[inline]
fn pfn(fields: &mut Fields<'_>) -> Result<Pfn, Fault> {
    fields.hex("pfn", MAX_PFN - 1, PFN_ALLOWED).map(Pfn)
}

#[inline]
fn order(fields: &mut Fields<'_>) -> Result<Order, Fault> {
    let order = fields.decimal("order", u64::from(Order::MAX.get()), ORDER_ALLOWED)?;
    Ok(Order::new(order as u8).expect("at most Order::MAX"))
}

#[inline]
fn migratetype(fields: &mut Fields<'_>) -> Result<u8, Fault> {
    fields.decimal("migratetype", 255, "a migratetype from 0 to 255").map(|number| number as u8)
}

#[inline]
fn gfp(fields: &mut Fields<'_>) -> Result<u32, Fault> {
    let allowed = "the flags of the request, 32 bits in hexadecimal";
    fields.hex("gfp", u64::from(u32::MAX), allowed).map(|gfp| gfp as u32)
}

fn state_change(fields: &mut Fields<'_>) -> Result<StateChange, Fault> {
    const ALLOWED: &str = "reclaim-ended, cpu-offline, cpu-online, pagesets-off, pagesets-on or zone-counter";
    let cpu = |fields: &mut Fields<'_>| {
        fields.decimal("cpu", u64::from(MAX_CPUS - 1), CPU_ALLOWED).map(|number| pageset::CpuId(number as u32))
    };
    let word = fields.word();
    Ok(match word {
        b"reclaim-ended" => StateChange::ReclaimEnded,
        b"cpu-offline" => StateChange::CpuOffline(cpu(fields)?),
        b"cpu-online" => StateChange::CpuOnline(cpu(fields)?),
        b"pagesets-off" => StateChange::PagesetsOff(pfn(fields)?),
        b"pagesets-on" => StateChange::PagesetsOn(pfn(fields)?),
        b"zone-counter" => zone_counter(fields)?,
        _ => return Err(fault("change", word, ALLOWED)),
    })
}

fn zone_counter(fields: &mut Fields<'_>) -> Result<StateChange, Fault> {
    let zone = pfn(fields)?;
    let counter = fields.decimal("counter", u64::from(u8::MAX), "a counter from 0 to 255")? as u8;
    let word = fields.word();
    let change = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    let change = change.ok_or_else(|| fault("change", word, "a number of 32 bits"))?;
    Ok(StateChange::ZoneCounter { zone, counter, change })
}

fn bulk_alloc(fields: &mut Fields<'_>) -> Result<Kind, Fault> {
    let asked = fields.decimal("asked", u64::from(MAX_BULK), BULK_ALLOWED)?;
    let taken = fields.decimal("taken", asked, BULK_ALLOWED)?;
    let gfp = gfp(fields)?;
    let none = fields.rest() == b"-1";
    let node = if none {
        fields.word();
        -1
    } else {
        fields.decimal("node", u64::from(MAX_NODES - 1), NODE_ALLOWED)? as i32
    };
    Ok(Kind::BulkAlloc { asked: asked as u32, taken: taken as u32, gfp, node })
}

#[inline]
fn flag(fields: &mut Fields<'_>, name: &str) -> Result<bool, Fault> {
    fields.decimal(name, 1, "0 or 1").map(|number| number == 1)
}

#[inline]
fn pid_and_context(word: &[u8]) -> Result<(u32, Context), Fault> {
    let form = "a process id below 2^32 and one of the letters p, s, h, n";
    let parts = word.split_last().and_then(|(letter, pid)| {
        let context = match letter {
            b'p' => Context::Process,
            b's' => Context::SoftIrq,
            b'h' => Context::HardIrq,
            b'n' => Context::Nmi,
            _ => return None,
        };
        Some((u32::try_from(decimal(pid)?).ok()?, context))
    });
    parts.ok_or_else(|| fault("process", word, form))
}

fn marker(fields: &mut Fields<'_>) -> Result<Kind, Fault> {
    let which = fields.word();
    let word = fields.word();
    let tag = limits::tag(word).ok_or_else(|| fault("tag", word, TAG_ALLOWED))?.to_owned();
    match which {
        b"ZB" => Ok(Kind::SnapshotBegin(tag)),
        b"ZE" => Ok(Kind::SnapshotEnd(tag)),
        _ => Err(fault("marker", which, "ZB or ZE")),
    }
}
