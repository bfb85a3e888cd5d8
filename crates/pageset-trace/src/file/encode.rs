//! Encodes the events of one section as byte streams.

use std::io;

use super::{LETTERS, MAX_SECTION_EVENTS, varint};
use crate::event::{Context, Event, Kind, StateChange};
use crate::limits::{self, CPU_ALLOWED};

/// Bit of a head byte: the CPU differs from the previous event's.
pub(super) const NEW_CPU: u8 = 0x10;
/// Bit of a head byte: the process or context differs from the previous one on this CPU.
pub(super) const NEW_PROCESS: u8 = 0x20;
/// The bits of a head byte with the kind.
pub(super) const KIND: u8 = 0x0f;

/// The number of the kind with this letter in [`LETTERS`].
pub(super) const fn number(letter: u8) -> u8 {
    let mut i = 0;
    while LETTERS[i] != letter {
        i += 1;
    }
    i as u8
}

/// The last process and context on a CPU.
pub(super) type Process = (u32, Context);

/// The process and context of every CPU at the start of a section.
pub(super) const IDLE: Process = (0, Context::Process);

/// Collects the events of a section.
#[derive(Default)]
pub(super) struct Encoder {
    events: u32,
    heads: Vec<u8>,
    times: Vec<u8>,
    pfns: Vec<u8>,
    args: Vec<u8>,
    time_ns: u64,
    cpu: u32,
    processes: Vec<Process>,
}

impl Encoder {
    /// Adds an event. The caller ensures that its time is not before the last event's.
    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        let cpu = limits::cpu(event.cpu.0.into()).ok_or_else(|| refused("CPU", event.cpu.0, CPU_ALLOWED))?.0;
        limits::check(&event.kind).map_err(|(name, value, allowed)| refused(name, value, allowed))?;
        let process = (event.pid, event.context);
        let mut head = 0;
        if cpu != self.cpu {
            head |= NEW_CPU;
            self.cpu = cpu;
            varint::put(&mut self.args, cpu.into());
        }
        if self.processes.len() <= cpu as usize {
            self.processes.resize(cpu as usize + 1, IDLE);
        }
        let last = &mut self.processes[cpu as usize];
        if *last != process {
            head |= NEW_PROCESS;
            *last = process;
            varint::put(&mut self.args, event.pid.into());
            self.args.push(event.context as u8);
        }
        let (letter, pfn) = self.kind(&event.kind);
        if let Some(pfn) = pfn {
            varint::put(&mut self.pfns, pfn.0);
        }
        self.heads.push(head | number(letter));
        varint::put(&mut self.times, event.time_ns - self.time_ns);
        self.time_ns = event.time_ns;
        self.events += 1;
        Ok(())
    }

    /// Adds the data of the kind. Returns its letter and page frame number.
    fn kind(&mut self, kind: &Kind) -> (u8, Option<pageset::Pfn>) {
        let args = &mut self.args;
        match *kind {
            Kind::Alloc { pfn, order, migratetype, gfp } => {
                args.extend_from_slice(&[order.get(), migratetype]);
                varint::put(args, gfp.into());
                (if pfn.is_some() { b'A' } else { b'a' }, pfn)
            }
            Kind::Free { pfn, order } => {
                args.push(order.get());
                (b'F', Some(pfn))
            }
            Kind::FreeBatched { pfn } => (b'B', Some(pfn)),
            Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => {
                args.extend_from_slice(&[order.get(), migratetype, percpu_refill.into()]);
                (b'Z', Some(pfn))
            }
            Kind::Drain { pfn, order, migratetype } => {
                args.extend_from_slice(&[order.get(), migratetype]);
                (b'D', Some(pfn))
            }
            Kind::ExtFrag {
                pfn,
                alloc_order,
                fallback_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
            } => {
                args.extend_from_slice(&[alloc_order.get(), fallback_order.get(), alloc_migratetype]);
                args.extend_from_slice(&[fallback_migratetype, change_ownership.into()]);
                (b'X', Some(pfn))
            }
            Kind::BulkAlloc { asked, taken, gfp, node } => {
                for value in [asked, taken, gfp] {
                    varint::put(args, value.into());
                }
                varint::put(args, (i64::from(node) + 1).cast_unsigned()); // at least -1, as checked above
                (b'U', None)
            }
            Kind::VmstatWork => (b'V', None),
            Kind::KswapdWake => (b'K', None),
            Kind::KswapdSleep => (b'k', None),
            Kind::DirectReclaim => (b'R', None),
            Kind::StateChange(change) => {
                let (what, target) = match change {
                    StateChange::ZoneCounter { zone, .. } => (5, zone.0),
                    StateChange::ReclaimEnded => (0, 0),
                    StateChange::CpuOffline(cpu) => (1, cpu.0.into()),
                    StateChange::CpuOnline(cpu) => (2, cpu.0.into()),
                    StateChange::PagesetsOff(pfn) => (3, pfn.0),
                    StateChange::PagesetsOn(pfn) => (4, pfn.0),
                };
                args.push(what);
                varint::put(args, target);
                if let StateChange::ZoneCounter { counter, change, .. } = change {
                    args.push(counter);
                    args.extend_from_slice(&change.to_le_bytes());
                }
                (b'S', None)
            }
            Kind::Fork { child } => {
                varint::put(args, child.into());
                (b'P', None)
            }
            Kind::SnapshotBegin(ref tag) => {
                put_tag(args, tag);
                (b'b', None)
            }
            Kind::SnapshotEnd(ref tag) => {
                put_tag(args, tag);
                (b'e', None)
            }
        }
    }

    pub(super) fn events(&self) -> u32 {
        self.events
    }

    pub(super) fn is_full(&self) -> bool {
        self.events == MAX_SECTION_EVENTS
    }

    /// Writes the payload into `raw` and starts the next section.
    pub(super) fn finish(&mut self, raw: &mut Vec<u8>) {
        raw.clear();
        for stream in [&self.heads, &self.times, &self.pfns] {
            raw.extend_from_slice(&(stream.len() as u32).to_le_bytes());
        }
        for stream in [&mut self.heads, &mut self.times, &mut self.pfns, &mut self.args] {
            raw.append(stream);
        }
        self.processes.clear();
        (self.events, self.time_ns, self.cpu) = (0, 0, 0);
    }
}

fn put_tag(args: &mut Vec<u8>, tag: &str) {
    args.push(tag.len() as u8); // at most 64, as checked above
    args.extend_from_slice(tag.as_bytes());
}

/// The error for a value that the file cannot contain.
pub(super) fn refused(name: &str, value: impl std::fmt::Display, allowed: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{name} {value} is not allowed; allowed: {allowed}"))
}
