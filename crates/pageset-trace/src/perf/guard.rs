//! Checks a file's structure: every stated size lies within the file.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use linux_perf_data::linux_perf_event_reader::{CommonData, RawData, RecordParseInfo};

use crate::bytes::Bytes;
use crate::error::{Place, TraceError};
use crate::facts::Loss;
use crate::limits::MAX_CPUS;
use crate::source::Source;

const HEADER_BYTES: usize = 104;

/// The largest size of all sections except the records, which are kept in memory. They have 20 KB for six recorded
/// events, and some MB for all of a kernel's events.
const MAX_FEATURE_BYTES: u64 = 64 << 20;

/// The section with the descriptions of the events (`HEADER_EVENT_DESC`).
const EVENT_DESC: usize = 12;

/// The section with the command line of `perf record` (`HEADER_CMDLINE`).
const COMMAND_LINE: usize = 11;

#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    size: u64,
}

impl Part {
    fn take(bytes: &mut Bytes<'_>) -> Option<Part> {
        Some(Part { offset: bytes.u64()?, size: bytes.u64()? })
    }

    /// The part's end, if it is within a file of `bytes`.
    fn end(self, bytes: u64) -> Option<u64> {
        self.offset.checked_add(self.size).filter(|&end| end <= bytes)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Records(Part);

/// Checks everything except the records.
pub(super) fn structure(source: &Source) -> Result<Records, TraceError> {
    let damaged = |what: &str| {
        TraceError::damaged(Place::Byte(0), what).allowed("a perf.data that `perf record` wrote to its end")
    };
    let start = source.start(HEADER_BYTES).map_err(|e| TraceError::io("cannot be read", e))?;
    let mut header = Bytes(&start);
    header.take(8); // the magic
    if header.u64() == Some(16) {
        return Err(TraceError::unsupported("this perf.data was written to a pipe").allowed("`perf record -o FILE`"));
    }
    let short = || damaged("the header is cut short");
    let attr_bytes = header.u64().ok_or_else(short)?;
    let mut part = || Part::take(&mut header).ok_or_else(short);
    let (attrs, data, _types) = (part()?, part()?, part()?);
    let features = header.take(32).ok_or_else(short)?;
    let has = |feature: usize| features[feature / 8] & 1 << (feature % 8) != 0;

    if data.size == 0 {
        return Err(damaged("the recording was not ended: the header says that it has no records"));
    }
    let file = source.bytes();
    let outside = || damaged("a section lies outside the file, which may be cut short");
    let after = data.end(file).ok_or_else(outside)?;
    attrs.end(file).ok_or_else(outside)?;
    if attr_bytes == 0 || !has(EVENT_DESC) {
        return Err(damaged("the file does not describe its events"));
    }
    let count = features.iter().map(|b| b.count_ones()).sum::<u32>();
    let mut table = vec![0; 16 * count as usize];
    source.at(after).read_exact(&mut table).map_err(|e| TraceError::reading(Place::Byte(after), e))?;
    let mut table = Bytes(&table);
    let mut all = 0u64;
    for feature in (0..features.len() * 8).filter(|&f| has(f)) {
        let part = Part::take(&mut table).ok_or_else(short)?;
        part.end(file).ok_or_else(outside)?;
        all = all.saturating_add(part.size);
        if all > MAX_FEATURE_BYTES {
            let what = "the sections beside the records are too long";
            return Err(damaged(what).allowed(format!("{MAX_FEATURE_BYTES} bytes")));
        }
        let (check, what): (fn(Bytes<'_>) -> Option<()>, _) = match feature {
            EVENT_DESC => (event_desc, "the description of the events is cut short"),
            COMMAND_LINE => (command_line, "the command line is cut short"),
            _ => continue,
        };
        let mut section = vec![0; part.size as usize];
        let read = source.at(part.offset).read_exact(&mut section);
        read.map_err(|e| TraceError::reading(Place::Byte(part.offset), e))?;
        check(Bytes(&section)).ok_or_else(|| damaged(what))?;
    }
    Ok(Records(data))
}

/// Checks the counts and lengths of the section that describes the events.
fn event_desc(mut bytes: Bytes<'_>) -> Option<()> {
    let (count, attr_bytes) = (bytes.u32()?, bytes.u32()?);
    // The reader allocates the stated number before it reads the first description.
    if u64::from(count) * u64::from(attr_bytes.max(64)) > bytes.0.len() as u64 {
        return None;
    }
    for _ in 0..count {
        bytes.take(attr_bytes.into())?;
        let ids = bytes.u32()?;
        let name = bytes.u32()?;
        bytes.take(name.into())?;
        bytes.take(u64::from(ids) * 8)?;
    }
    Some(())
}

/// Checks the stated number of arguments, because the reader allocates it before it reads the first one. Each argument
/// begins with its length in 4 bytes.
fn command_line(mut bytes: Bytes<'_>) -> Option<()> {
    let count = bytes.u32()?;
    (u64::from(count) * 4 <= bytes.0.len() as u64).then_some(())
}

/// Types of records, as the kernel and perf number them.
mod record_type {
    pub(super) const LOST: u32 = 2;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const THREAD_MAP: u32 = 73;
    pub(super) const CPU_MAP: u32 = 74;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// What the records other than samples say.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) loss: Vec<Loss>,
    /// The recorded CPUs; `None` for all, or if no record says it.
    pub(super) cpus: Option<Vec<u32>>,
    /// Whether only some processes were recorded.
    pub(super) some_processes: bool,
}

/// Whether a map of threads names threads: a recording of the whole machine has the one entry -1.
fn some_threads(mut body: Bytes<'_>) -> Option<bool> {
    let (count, first) = (body.u64()?, body.u64()?);
    Some((count, first) != (1, u64::MAX))
}

/// The CPUs in a map of CPUs: a list (type 0), a mask (1) or a range (2). `None` for another form, and for "any CPU".
fn cpu_map(mut body: Bytes<'_>) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    match body.u16()? {
        0 => {
            for _ in 0..body.u16()? {
                cpus.push(u32::from(body.u16()?));
            }
        }
        1 => {
            let (words, bytes) = (body.u16()?, body.u16()?);
            body.take(if bytes == 8 { 2 } else { 0 })?; // words of 8 bytes are aligned
            let mask = body.take(u64::from(words) * u64::from(bytes))?;
            let bit = |cpu: &u32| mask[*cpu as usize / 8] & 1 << (cpu % 8) != 0;
            cpus.extend((0..mask.len() as u32 * 8).filter(bit));
        }
        2 => {
            body.take(2)?; // whether "any CPU" is included, and padding
            cpus.extend(u32::from(body.u16()?)..=u32::from(body.u16()?));
        }
        _ => return None,
    }
    (!cpus.is_empty() && !cpus.contains(&u32::from(u16::MAX))).then_some(cpus)
}

/// Checks the sizes of all records and counts the lost events on each of `cpus` CPUs.
///
/// Two counts report the same losses. LOST records come as soon as the buffer has room again, by CPU. From perf 6.1 on,
/// LOST_SAMPLES records at the end also include the last losses, but without a CPU. Their surplus counts for CPU 0. A
/// throttled event has lost an unknown number of events: it counts as one.
pub(super) fn records(
    source: &Source,
    records: Records,
    info: &RecordParseInfo,
    cpus: u32,
) -> Result<Counted, TraceError> {
    let Part { offset, size } = records.0;
    let end = offset + size;
    let mut input = BufReader::with_capacity(256 << 10, source.at(offset));
    let mut at = offset;
    let mut lost: BTreeMap<u32, u64> = (0..cpus.min(MAX_CPUS)).map(|cpu| (cpu, 0)).collect();
    let mut lost_samples = 0u64;
    let (mut only_cpus, mut some_processes) = (None, false);
    let mut body = Vec::new();
    while at < end {
        let damaged = |what: &str| TraceError::damaged(Place::Byte(at), what);
        let mut header = [0; 8];
        input.read_exact(&mut header).map_err(|e| TraceError::reading(Place::Byte(at), e))?;
        let mut header = Bytes(&header);
        let (kind, _misc, bytes) = (header.u32(), header.u16(), header.u16());
        let (kind, bytes) = (kind.unwrap_or(0), u64::from(bytes.unwrap_or(0)));
        if bytes < 8 || at + bytes > end {
            let what = format!("a record of {bytes} bytes");
            return Err(damaged(&what).allowed("8 bytes or more, within the file"));
        }
        match kind {
            record_type::COMPRESSED | record_type::COMPRESSED2 => {
                return Err(TraceError::unsupported("the records are compressed").allowed("`perf record` without -z"));
            }
            record_type::AUXTRACE => {
                return Err(TraceError::unsupported("the file has records of a processor trace")
                    .allowed("`perf record` of the kmem events alone"));
            }
            record_type::THREAD_MAP | record_type::CPU_MAP => {
                body.resize(bytes as usize - 8, 0);
                input.read_exact(&mut body).map_err(|e| TraceError::reading(Place::Byte(at), e))?;
                if kind == record_type::CPU_MAP {
                    only_cpus = cpu_map(Bytes(&body));
                } else {
                    some_processes = some_threads(Bytes(&body)).unwrap_or(false);
                }
            }
            record_type::LOST | record_type::LOST_SAMPLES | record_type::THROTTLE => {
                body.resize(bytes as usize - 8, 0);
                input.read_exact(&mut body).map_err(|e| TraceError::reading(Place::Byte(at), e))?;
                let cpu = CommonData::parse_nonsample(RawData::Single(&body), info).ok().and_then(|common| common.cpu);
                let mut body = Bytes(&body);
                let first = body.u64();
                let events = match kind {
                    record_type::LOST => body.u64(),
                    record_type::LOST_SAMPLES => first,
                    _ => Some(1),
                };
                let events = events.ok_or_else(|| damaged("a record of lost events is cut short"))?;
                if kind == record_type::LOST_SAMPLES {
                    lost_samples = lost_samples.saturating_add(events);
                } else {
                    let count = lost.entry(cpu.unwrap_or(0)).or_default();
                    *count = count.saturating_add(events);
                }
            }
            _ => input.seek_relative(bytes as i64 - 8).map_err(|e| TraceError::io("cannot be read", e))?,
        }
        at += bytes;
    }
    let reported = lost.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
    if lost_samples > reported {
        let count = lost.entry(0).or_default();
        *count = count.saturating_add(lost_samples - reported);
    }
    let loss = lost.into_iter().map(|(cpu, dropped)| Loss { cpu, dropped, ..Loss::default() }).collect();
    let is_all = |only: &Vec<u32>| (0..cpus).all(|cpu| only.contains(&cpu));
    Ok(Counted { loss, cpus: only_cpus.filter(|only| !is_all(only)), some_processes })
}
