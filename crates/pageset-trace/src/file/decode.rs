//! Decodes the events of one section from its byte streams.

use pageset::{CpuId, Order, Pfn};

use super::encode::{IDLE, KIND, NEW_CPU, NEW_PROCESS, Process, number};
use super::varint;
use crate::event::{Context, Event, Kind, StateChange};
use crate::limits;

/// The decoder's position in a section's streams.
///
/// The caller keeps the payload's buffer. The decoder has only positions in it, so that reader and buffer fit in one
/// struct.
#[derive(Default)]
pub(super) struct Decoder {
    /// Events not returned yet.
    left: u32,
    /// The next byte and the end of each stream: heads, times, pfns, args.
    heads: Stream,
    times: Stream,
    pfns: Stream,
    args: Stream,
    time_ns: u64,
    cpu: u32,
    processes: Vec<Process>,
}

#[derive(Clone, Copy, Default)]
struct Stream {
    at: usize,
    end: usize,
}

impl Stream {
    #[inline]
    fn byte(&mut self, raw: &[u8]) -> Option<u8> {
        if self.at == self.end {
            return None;
        }
        let byte = raw[self.at];
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn varint(&mut self, raw: &[u8]) -> Option<u64> {
        let mut rest = &raw[self.at..self.end];
        let value = varint::take(&mut rest)?;
        self.at = self.end - rest.len();
        Some(value)
    }

    fn bytes<'a>(&mut self, raw: &'a [u8], length: usize) -> Option<&'a [u8]> {
        let bytes = raw[self.at..self.end].get(..length)?;
        self.at += length;
        Some(bytes)
    }

    fn is_empty(&self) -> bool {
        self.at == self.end
    }
}

/// The error in a section with a correct checksum: the writer wrote it wrongly.
pub(super) type Fault = &'static str;

impl Decoder {
    /// Starts on the payload `raw` with `events` events.
    pub(super) fn start(&mut self, raw: &[u8], events: u32) -> Result<(), Fault> {
        let length = |i: usize| raw.get(4 * i..4 * i + 4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes")));
        let mut at = 12;
        let mut stream = |bytes: Option<u32>| {
            let end = at + bytes.ok_or("the lengths of the streams are missing")? as usize;
            let stream = Stream { at, end };
            at = end;
            if end <= raw.len() { Ok(stream) } else { Err("the streams are longer than the section") }
        };
        self.heads = stream(length(0))?;
        self.times = stream(length(1))?;
        self.pfns = stream(length(2))?;
        self.args = Stream { at: self.pfns.end, end: raw.len() };
        if self.heads.end - self.heads.at != events as usize {
            return Err("the heads are not as many as the events");
        }
        self.left = events;
        (self.time_ns, self.cpu) = (0, 0);
        self.processes.clear();
        Ok(())
    }

    /// The next event of the started payload `raw`; `None` after the last.
    #[inline]
    pub(super) fn next(&mut self, raw: &[u8]) -> Result<Option<Event>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let event = self.event(raw).ok_or("an event is cut short or has a value that is not allowed")?;
        let all_read = self.times.is_empty() && self.pfns.is_empty() && self.args.is_empty();
        if self.left == 0 && !all_read {
            return Err("bytes are left after the last event");
        }
        Ok(Some(event))
    }

    #[inline]
    fn event(&mut self, raw: &[u8]) -> Option<Event> {
        let head = self.heads.byte(raw)?;
        if head & !(KIND | NEW_CPU | NEW_PROCESS) != 0 {
            return None;
        }
        if head & NEW_CPU != 0 {
            self.cpu = limits::cpu(self.args.varint(raw)?)?.0;
        }
        if self.processes.len() <= self.cpu as usize {
            self.processes.resize(self.cpu as usize + 1, IDLE);
        }
        if head & NEW_PROCESS != 0 {
            let pid = u32::try_from(self.args.varint(raw)?).ok()?;
            self.processes[self.cpu as usize] = (pid, context(self.args.byte(raw)?)?);
        }
        let (pid, context) = self.processes[self.cpu as usize];
        self.time_ns = self.time_ns.checked_add(self.times.varint(raw)?)?;
        let kind = self.kind(raw, head & KIND)?;
        Some(Event { time_ns: self.time_ns, cpu: CpuId(self.cpu), pid, context, kind })
    }

    #[inline]
    fn kind(&mut self, raw: &[u8], kind: u8) -> Option<Kind> {
        const A: u8 = number(b'A');
        const F: u8 = number(b'F');
        const B: u8 = number(b'B');
        const Z: u8 = number(b'Z');
        const D: u8 = number(b'D');
        const X: u8 = number(b'X');
        const V: u8 = number(b'V');
        const WAKE: u8 = number(b'K');
        const SLEEP: u8 = number(b'k');
        const R: u8 = number(b'R');
        const FAILED: u8 = number(b'a');
        const BEGIN: u8 = number(b'b');
        const END: u8 = number(b'e');
        const U: u8 = number(b'U');
        const S: u8 = number(b'S');
        const P: u8 = number(b'P');
        Some(match kind {
            A | FAILED => Kind::Alloc {
                pfn: if kind == A { Some(self.pfn(raw)?) } else { None },
                order: self.order(raw)?,
                migratetype: self.args.byte(raw)?,
                gfp: u32::try_from(self.args.varint(raw)?).ok()?,
            },
            F => Kind::Free { pfn: self.pfn(raw)?, order: self.order(raw)? },
            B => Kind::FreeBatched { pfn: self.pfn(raw)? },
            Z => Kind::ZoneLocked {
                pfn: self.pfn(raw)?,
                order: self.order(raw)?,
                migratetype: self.args.byte(raw)?,
                percpu_refill: self.flag(raw)?,
            },
            D => Kind::Drain { pfn: self.pfn(raw)?, order: self.order(raw)?, migratetype: self.args.byte(raw)? },
            X => Kind::ExtFrag {
                pfn: self.pfn(raw)?,
                alloc_order: self.order(raw)?,
                fallback_order: self.order(raw)?,
                alloc_migratetype: self.args.byte(raw)?,
                fallback_migratetype: self.args.byte(raw)?,
                change_ownership: self.flag(raw)?,
            },
            U => self.bulk_alloc(raw)?,
            S => Kind::StateChange(self.state_change(raw)?),
            P => Kind::Fork { child: u32::try_from(self.args.varint(raw)?).ok()? },
            V => Kind::VmstatWork,
            WAKE => Kind::KswapdWake,
            SLEEP => Kind::KswapdSleep,
            R => Kind::DirectReclaim,
            BEGIN => Kind::SnapshotBegin(self.tag(raw)?),
            END => Kind::SnapshotEnd(self.tag(raw)?),
            _ => return None,
        })
    }

    fn state_change(&mut self, raw: &[u8]) -> Option<StateChange> {
        let what = self.args.byte(raw)?;
        let target = self.args.varint(raw)?;
        Some(match what {
            0 if target == 0 => StateChange::ReclaimEnded,
            1 => StateChange::CpuOffline(limits::cpu(target)?),
            2 => StateChange::CpuOnline(limits::cpu(target)?),
            3 => StateChange::PagesetsOff(limits::pfn(target)?),
            4 => StateChange::PagesetsOn(limits::pfn(target)?),
            5 => StateChange::ZoneCounter {
                zone: limits::pfn(target)?,
                counter: self.args.byte(raw)?,
                change: i32::from_le_bytes(self.args.bytes(raw, 4)?.try_into().ok()?),
            },
            _ => return None,
        })
    }

    fn bulk_alloc(&mut self, raw: &[u8]) -> Option<Kind> {
        let mut number = || u32::try_from(self.args.varint(raw)?).ok();
        let (asked, taken, gfp) = (number()?, number()?, number()?);
        let node = i32::try_from(self.args.varint(raw)?).ok()? - 1;
        let kind = Kind::BulkAlloc { asked, taken, gfp, node };
        limits::check(&kind).is_ok().then_some(kind)
    }

    #[inline]
    fn pfn(&mut self, raw: &[u8]) -> Option<Pfn> {
        limits::pfn(self.pfns.varint(raw)?)
    }

    #[inline]
    fn order(&mut self, raw: &[u8]) -> Option<Order> {
        Order::new(self.args.byte(raw)?)
    }

    #[inline]
    fn flag(&mut self, raw: &[u8]) -> Option<bool> {
        match self.args.byte(raw)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn tag(&mut self, raw: &[u8]) -> Option<String> {
        let length = self.args.byte(raw)?;
        limits::tag(self.args.bytes(raw, length.into())?).map(str::to_owned)
    }
}

fn context(byte: u8) -> Option<Context> {
    [Context::Process, Context::SoftIrq, Context::HardIrq, Context::Nmi].into_iter().find(|c| *c as u8 == byte)
}
