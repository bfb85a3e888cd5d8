//! Writes the text form.

use std::io::{self, Write};

use super::{MAGIC, VERSION};
use crate::event::{Context, Event, Kind, StateChange};
use crate::limits;

/// The size at which the buffer is written, in bytes.
const BUFFER: usize = 64 << 10;

/// Writes events as text, after the headers.
#[derive(Debug)]
pub struct TextWriter<W: Write> {
    out: W,
    buffer: Vec<u8>,
    /// The time of the previous event, in ns; `None` before the first event, whose time becomes `#t0`.
    time_ns: Option<u64>,
}

impl<W: Write> TextWriter<W> {
    /// Creates a writer to `out`, which needs no buffer.
    pub fn new(out: W) -> Self {
        TextWriter { out, buffer: Vec::with_capacity(BUFFER + 1024), time_ns: None }
    }

    /// Writes one event.
    ///
    /// # Errors
    ///
    /// If the output fails; [`io::ErrorKind::InvalidInput`] for a time before the previous event's and for values
    /// beyond [`limits`].
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        let before = match self.time_ns {
            Some(before) => before,
            None => self.header(event.time_ns),
        };
        let Some(step) = event.time_ns.checked_sub(before) else {
            let what = format!("time goes back from {before} to {} ns", event.time_ns);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        };
        limits::check(&event.kind).map_err(|(name, value, allowed)| {
            let what = format!("{name} {value} is not allowed; allowed: {allowed}");
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        self.time_ns = Some(event.time_ns);
        line(&mut self.buffer, step, event);
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the rest and returns the output. A recording without events has the start time 0.
    pub fn finish(mut self) -> io::Result<W> {
        if self.time_ns.is_none() {
            self.header(0);
        }
        self.flush()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn header(&mut self, time_ns: u64) -> u64 {
        self.buffer.extend_from_slice(MAGIC);
        decimal(&mut self.buffer, VERSION);
        self.buffer.extend_from_slice(b"\n#t0 ");
        decimal(&mut self.buffer, time_ns);
        self.buffer.push(b'\n');
        time_ns
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Appends the line of one event, `step` ns after the previous one.
fn line(out: &mut Vec<u8>, step: u64, event: &Event) {
    decimal(out, step);
    out.push(b' ');
    decimal(out, event.cpu.0.into());
    out.push(b' ');
    decimal(out, event.pid.into());
    out.push(match event.context {
        Context::Process => b'p',
        Context::SoftIrq => b's',
        Context::HardIrq => b'h',
        Context::Nmi => b'n',
    });
    match &event.kind {
        Kind::Alloc { pfn, order, migratetype, gfp } => {
            out.extend_from_slice(b" A ");
            match pfn {
                Some(pfn) => hex(out, pfn.0),
                None => out.push(b'-'),
            }
            numbers(out, &[order.get(), *migratetype]);
            out.push(b' ');
            hex(out, (*gfp).into());
        }
        Kind::Free { pfn, order } => {
            out.extend_from_slice(b" F ");
            hex(out, pfn.0);
            numbers(out, &[order.get()]);
        }
        Kind::FreeBatched { pfn } => {
            out.extend_from_slice(b" B ");
            hex(out, pfn.0);
        }
        Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => {
            out.extend_from_slice(b" Z ");
            hex(out, pfn.0);
            numbers(out, &[order.get(), *migratetype, (*percpu_refill).into()]);
        }
        Kind::Drain { pfn, order, migratetype } => {
            out.extend_from_slice(b" D ");
            hex(out, pfn.0);
            numbers(out, &[order.get(), *migratetype]);
        }
        Kind::ExtFrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
        } => {
            out.extend_from_slice(b" X ");
            hex(out, pfn.0);
            numbers(out, &[alloc_order.get(), fallback_order.get(), *alloc_migratetype, *fallback_migratetype]);
            numbers(out, &[(*change_ownership).into()]);
        }
        Kind::BulkAlloc { asked, taken, gfp, node } => {
            out.extend_from_slice(b" U ");
            decimal(out, u64::from(*asked));
            out.push(b' ');
            decimal(out, u64::from(*taken));
            out.push(b' ');
            hex(out, u64::from(*gfp));
            out.extend_from_slice(if *node < 0 { b" -" } else { b" " });
            decimal(out, node.unsigned_abs().into());
        }
        Kind::StateChange(change) => state_change(out, *change),
        Kind::Fork { child } => {
            out.extend_from_slice(b" P ");
            decimal(out, u64::from(*child));
        }
        Kind::VmstatWork => out.extend_from_slice(b" V"),
        Kind::KswapdWake => out.extend_from_slice(b" K"),
        Kind::KswapdSleep => out.extend_from_slice(b" k"),
        Kind::DirectReclaim => out.extend_from_slice(b" R"),
        Kind::SnapshotBegin(tag) => {
            out.extend_from_slice(b" M ZB ");
            out.extend_from_slice(tag.as_bytes());
        }
        Kind::SnapshotEnd(tag) => {
            out.extend_from_slice(b" M ZE ");
            out.extend_from_slice(tag.as_bytes());
        }
    }
    out.push(b'\n');
}

fn state_change(out: &mut Vec<u8>, change: StateChange) {
    out.extend_from_slice(b" S ");
    let (what, cpu, pfn): (&[u8], _, _) = match change {
        StateChange::ReclaimEnded => (b"reclaim-ended", None, None),
        StateChange::CpuOffline(cpu) => (b"cpu-offline ", Some(cpu), None),
        StateChange::CpuOnline(cpu) => (b"cpu-online ", Some(cpu), None),
        StateChange::PagesetsOff(pfn) => (b"pagesets-off ", None, Some(pfn)),
        StateChange::PagesetsOn(pfn) => (b"pagesets-on ", None, Some(pfn)),
        StateChange::ZoneCounter { zone, .. } => (b"zone-counter ", None, Some(zone)),
    };
    out.extend_from_slice(what);
    if let Some(cpu) = cpu {
        decimal(out, cpu.0.into());
    }
    if let Some(pfn) = pfn {
        hex(out, pfn.0);
    }
    if let StateChange::ZoneCounter { counter, change, .. } = change {
        numbers(out, &[counter]);
        out.extend_from_slice(if change < 0 { b" -" } else { b" " });
        decimal(out, change.unsigned_abs().into());
    }
}

/// Appends a space and a number for each value.
fn numbers(out: &mut Vec<u8>, values: &[u8]) {
    for &value in values {
        out.push(b' ');
        decimal(out, value.into());
    }
}

fn decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20]; // 2^64 has 20 digits
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

fn hex(out: &mut Vec<u8>, value: u64) {
    let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * place) & 0xf) as usize]);
    }
}
