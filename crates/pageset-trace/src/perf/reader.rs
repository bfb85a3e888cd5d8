//! The events of a `perf.data` in the order of time.

use std::io::BufReader;

use linux_perf_data::linux_perf_event_reader::{
    EventRecord, RecordParseInfo, RecordType, SampleFormat, SampleRecord, SamplingPolicy,
};
use linux_perf_data::{AttributeDescription, Error, Feature, PerfFile, PerfFileReader, PerfFileRecord, PerfRecordIter};
use pageset::CpuId;

use super::guard;
use crate::bytes::Bytes;
use crate::error::{Place, TraceError};
use crate::event::Event;
use crate::facts::{Facts, Recipe};
use crate::limits::{self, CPU_ALLOWED};
use crate::source::{Cursor, Source};
use crate::tracepoint::decode::{Decoder, VMSTAT_WORK};
use crate::tracepoint::format::Format;
use crate::tracepoint::tracing_data;

/// The filter of the works in the recipe: only the decay of pagesets. Kernels from 6.4 on resolve the name.
const VMSTAT_FILTER: &str = "function.function == vmstat_update";

/// The data of the file that is read before its events.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    /// The decoder for the file's tracepoints.
    pub(crate) decoder: Decoder,
}

/// Checks the file including all records, and reads the facts about the machine and losses.
pub(crate) fn open(source: &Source) -> Result<Opened, TraceError> {
    let records = guard::structure(source)?;
    let PerfFileReader { perf_file, .. } = start(source)?;
    for attribute in perf_file.event_attributes() {
        check(attribute)?;
    }
    let section = perf_file.feature_section_data(Feature::TRACING_DATA);
    let section = section.ok_or_else(|| no_events("the file has no descriptions of tracepoints"))?;
    let (page_size, formats) = descriptions(section).ok_or_else(|| {
        TraceError::damaged(Place::WholeFile, "the descriptions of the tracepoints cannot be understood")
            .allowed("those that `perf record` copies from tracefs")
    })?;
    let command = perf_file.cmdline().ok().flatten().unwrap_or_default();
    let shows_timer = is_filtered(&command);
    let decoder = decoder(&formats, shows_timer)?;

    // The reader refuses a file whose events differ in the layout of the data after non-sample records.
    let info = perf_file.event_attributes().first().map(|a| RecordParseInfo::new(&a.attr, perf_file.endian()));
    let info = info.ok_or_else(|| no_events("the file has no events"))?;
    let cpus = perf_file.nr_cpus().ok().flatten().map_or(0, |cpus| cpus.nr_cpus_online);
    let guard::Counted { loss, cpus: only_cpus, some_processes } = guard::records(source, records, &info, cpus)?;
    let attributes = perf_file.event_attributes();
    let text = |value: Result<Option<&str>, Error>| value.ok().flatten().map(str::to_owned);
    let facts = Facts {
        kernel_release: text(perf_file.os_release()),
        cpus,
        page_size,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        clock: "perf".to_owned(),
        loss,
        recipe: Some(Recipe {
            tool: "perf record".to_owned(),
            events: Some(attributes.iter().filter_map(|a| recorded(a, shows_timer)).collect()),
            cpus: only_cpus,
            some_processes,
            call_graphs: attributes.iter().any(|a| a.attr.sample_format.contains(SampleFormat::CALLCHAIN)),
            groups: perf_file.features().has_feature(Feature::GROUP_DESC),
            cut: false,
        }),
        ..Facts::default()
    };
    Ok(Opened { facts, decoder })
}

fn start(source: &Source) -> Result<PerfFileReader<BufReader<Cursor>>, TraceError> {
    PerfFileReader::parse_file(BufReader::with_capacity(256 << 10, source.at(0))).map_err(|e| damaged(&e))
}

fn damaged(error: &Error) -> TraceError {
    TraceError::damaged(Place::WholeFile, format!("the perf.data cannot be read ({error})"))
        .allowed("a perf.data that `perf record` wrote to its end")
}

fn no_events(what: &str) -> TraceError {
    TraceError::unsupported(what)
        .allowed("`perf record -c 1 -a -e kmem:mm_page_alloc,kmem:mm_page_free,…` and the other kmem events")
}

/// Checks that every occurrence of an event was recorded, with its CPU and time.
fn check(attribute: &AttributeDescription) -> Result<(), TraceError> {
    let name = attribute.name().unwrap_or("an event");
    let format = attribute.attr.sample_format;
    if !format.contains(SampleFormat::RAW) {
        return Ok(()); // a software event that perf adds for itself
    }
    if !matches!(attribute.attr.sampling_policy, SamplingPolicy::Period(period) if period.get() == 1) {
        let what = format!("not every {name} was recorded, only samples");
        return Err(TraceError::unsupported(what).allowed("`perf record -c 1`"));
    }
    if !format.contains(SampleFormat::TIME | SampleFormat::CPU) {
        let what = format!("{name} was recorded without its CPU or time");
        return Err(TraceError::unsupported(what).allowed("`perf record -a`"));
    }
    Ok(())
}

/// Whether the event of the works has the filter of the recipe. Without it, the event is useless: the decay of pagesets is one of many works
/// that start, and the file has no address of its function.
fn is_filtered(command: &[&str]) -> bool {
    let filters = command.windows(2).filter(|words| words[0] == "--filter").map(|words| words[1]);
    let joined = command.iter().filter_map(|word| word.strip_prefix("--filter="));
    let words = |filter: &str| filter.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    filters.chain(joined).any(|filter| words(filter) == VMSTAT_FILTER)
}

/// The tracepoint of an attribute, if a replay uses it. `shows_timer`: see [`is_filtered`].
fn recorded(attribute: &AttributeDescription, shows_timer: bool) -> Option<String> {
    let name = attribute.name()?.rsplit(':').next()?;
    is_used(name, shows_timer).then(|| name.to_owned())
}

fn is_used(name: &str, shows_timer: bool) -> bool {
    Recipe::EVENTS.contains(&name) && (shows_timer || name != VMSTAT_WORK.name)
}

/// The page size in bytes and the descriptions of the events.
fn descriptions(section: &[u8]) -> Option<(u32, Vec<&str>)> {
    let mut bytes = Bytes(section);
    let head = tracing_data::head(&mut bytes).filter(|head| head.little_endian)?;
    tracing_data::header_page(&mut bytes)?;
    let mut formats = Vec::new();
    // The events of ftrace itself are not used.
    tracing_data::formats(&mut bytes, &mut Vec::new())?;
    tracing_data::systems(&mut bytes, &mut formats)?;
    Some((head.page_size, formats))
}

fn decoder(texts: &[&str], shows_timer: bool) -> Result<Decoder, TraceError> {
    let wrong = |what: String| TraceError::damaged(Place::WholeFile, what).allowed("the kernel's description of it");
    let mut formats = Vec::new();
    for text in texts {
        formats.push(Format::parse(text).map_err(|e| wrong(e.to_string()))?);
    }
    formats.retain(|format| is_used(&format.name, shows_timer));
    if formats.is_empty() {
        return Err(no_events("no event of the page allocator was recorded"));
    }
    Decoder::new(&formats).map_err(|e| wrong(e.to_string()))
}

pub(crate) struct PerfReader {
    file: PerfFile,
    records: PerfRecordIter<BufReader<Cursor>>,
    decoder: Decoder,
    /// Samples read so far, for the place of an error.
    samples: u64,
    time_ns: u64,
}

impl PerfReader {
    /// Starts a pass over the file with the decoder from [`open`].
    pub(crate) fn new(source: &Source, decoder: &Decoder) -> Result<PerfReader, TraceError> {
        guard::structure(source)?;
        let PerfFileReader { perf_file: file, record_iter: records } = start(source)?;
        Ok(PerfReader { file, records, decoder: decoder.clone(), samples: 0, time_ns: 0 })
    }

    /// The next event. Not called again after an error or the end.
    pub(crate) fn event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            let Some(record) = self.records.next_record(&mut self.file).map_err(|e| damaged(&e))? else {
                return Ok(None);
            };
            let PerfFileRecord::EventRecord { record, .. } = record else { continue };
            if record.record_type != RecordType::SAMPLE {
                continue;
            }
            self.samples += 1;
            let samples = self.samples;
            let wrong = |what: &str| TraceError::damaged(Place::Sample(samples), what);
            let cut = || wrong("the sample is cut short").allowed("a whole sample");
            let EventRecord::Sample(sample) = record.parse().map_err(|_| cut())? else { return Err(cut()) };
            let SampleRecord { raw: Some(raw), timestamp, cpu, .. } = sample else { continue };
            let (Some(time_ns), Some(cpu)) = (timestamp, cpu) else { return Err(cut()) };
            let raw = raw.as_slice();
            // The first field of every event is its type number.
            let Some(number) = raw.first_chunk().map(|bytes| u16::from_le_bytes(*bytes)) else { return Err(cut()) };
            if !self.decoder.knows(number) {
                continue;
            }
            let cpu = limits::cpu(cpu.into())
                .ok_or_else(|| wrong(&format!("CPU {cpu} is not allowed")).allowed(CPU_ALLOWED))?;
            let event = decode(&self.decoder, time_ns, cpu, &raw);
            let event = event.ok_or_else(|| {
                wrong("the event has a value that is not allowed").allowed("orders 0 to 10, pfns below 2^52")
            })?;
            if time_ns < self.time_ns {
                let what = format!("time goes back from {} to {time_ns} ns", self.time_ns);
                return Err(wrong(&what).allowed("events that can be put in the order of time"));
            }
            self.time_ns = time_ns;
            return Ok(Some(event));
        }
    }
}

fn decode(decoder: &Decoder, time_ns: u64, cpu: CpuId, raw: &[u8]) -> Option<Event> {
    decoder.decode(time_ns, cpu, raw).filter(|event| limits::check(&event.kind).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recipes_filter_makes_works_the_timers() {
        let with = |words: &[&str]| is_filtered(&[&["perf", "record", "-a"], words].concat());
        assert!(with(&["--filter", "function.function == vmstat_update", "true"]));
        assert!(with(&["--filter=function.function  == vmstat_update"]));
        for other in [
            &["--filter", "function.function != vmstat_update"][..],
            &["--filter", "function.function == vmstat_update || pid > 3"],
            &["vmstat_update"],
            &["--filter"],
            &[],
        ] {
            assert!(!with(other), "{other:?}");
        }
    }
}
