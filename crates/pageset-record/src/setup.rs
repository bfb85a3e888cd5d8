//! Sets up the tracing instance: clock, buffers, events and the filter on the timer work.

use std::io;

use crate::error::RecordError;
use crate::machine;
use crate::probes::Probes;
use crate::symbols::Symbols;
use crate::tracefs::{Instance, Tracefs};
use pageset_trace::tracepoint::decode::{Decoder, TRACEPOINTS, VMSTAT_WORK};
use pageset_trace::tracepoint::format::{Format, FormatError, PageLayout};

/// The trace clock that all CPUs share and that user space can read.
pub(super) const CLOCK: &str = "mono";

/// The work function that decays pagesets.
pub(super) const VMSTAT_UPDATE: &str = "vmstat_update";

/// The default size of a CPU's ring buffer: 6 seconds of the busiest known traffic, 40 MB/s of page faults.
/// Unit: bytes. Source: `trace-replay.md` 4.
const BUFFER_BYTES: u64 = 256 << 20;
/// The divisor of the available memory that limits all buffers together to a quarter, so that the buffers do not cause
/// memory pressure. A guess.
const BUFFER_DIVISOR: u64 = 4;
/// The smallest buffer; smaller buffers hold a few milliseconds. Unit: bytes.
pub(super) const MIN_BUFFER_BYTES: u64 = 1 << 20;

/// The default size of each CPU's ring buffer in bytes: 256 MiB, or less if all CPUs together would take more than a
/// quarter of the available memory, but at least 1 MiB.
pub fn default_buffer_bytes() -> u64 {
    let cpus = machine::online_cpus().len().max(1) as u64;
    buffer_bytes(machine::available_bytes().unwrap_or(0), cpus)
}

fn buffer_bytes(available: u64, cpus: u64) -> u64 {
    let share = available / BUFFER_DIVISOR / cpus;
    // Whole mebibytes make messages easier to read.
    (share.min(BUFFER_BYTES) >> 20 << 20).max(MIN_BUFFER_BYTES)
}

/// The data needed to read the buffers afterwards.
pub(super) struct Prepared {
    pub(super) layout: PageLayout,
    pub(super) decoder: Decoder,
    pub(super) clock: String,
    /// The enabled optional sources of events.
    pub(super) sources: Vec<String>,
}

/// Fails if this kernel lacks a required event.
pub(super) fn require_events(tracefs: &Tracefs) -> Result<(), RecordError> {
    for tracepoint in TRACEPOINTS {
        if tracepoint.without.is_none() && !tracefs.has_event(tracepoint.system, tracepoint.name) {
            return Err(RecordError::Missing {
                what: format!("the kernel has no event {}:{}", tracepoint.system, tracepoint.name),
                help: "record on a kernel built with CONFIG_EVENT_TRACING=y".into(),
            });
        }
    }
    Ok(())
}

/// Sets up the instance, with tracing still off. `warn` receives what the recording will lack, and the consequence. `check` is called
/// between the steps; its error ends the preparation.
pub(super) fn prepare(
    tracefs: &Tracefs,
    instance: &Instance,
    (probes, symbols): (&Probes, &Symbols),
    buffer_bytes: u64,
    warn: &mut dyn FnMut(&str),
    check: &mut dyn FnMut() -> Result<(), RecordError>,
) -> Result<Prepared, RecordError> {
    let clock = match instance.write("trace_clock", CLOCK) {
        Ok(()) => CLOCK.to_owned(),
        Err(_) => {
            warn("the kernel has no trace clock mono; its global clock is used, which is coarser");
            instance.write("trace_clock", "global")?;
            "global".to_owned()
        }
    };
    // A full buffer refuses new events and keeps old ones, so the recording is complete up to that point.
    instance.write("options/overwrite", "0")?;
    // A recording has no process names; older kernels save them per instance.
    let _ = instance.write("options/record-cmd", "0");
    allocate_buffers(instance, buffer_bytes)?;

    let mut formats = vec![read_format(instance, "ftrace", "print")?];
    for tracepoint in TRACEPOINTS {
        check()?;
        let (system, name) = (tracepoint.system, tracepoint.name);
        match tracepoint.without {
            Some(without) if !tracefs.has_event(system, name) => {
                warn(&format!("the kernel has no event {system}:{name}: {without}"));
            }
            _ => {
                formats.push(read_format(instance, system, name)?);
                instance.write(&format!("events/{system}/{name}/enable"), "1")?;
            }
        }
    }
    if filter_vmstat_work(tracefs, instance, symbols.address(VMSTAT_UPDATE), warn)? {
        formats.push(read_format(instance, VMSTAT_WORK.system, VMSTAT_WORK.name)?);
        instance.write(&format!("events/{}/{}/enable", VMSTAT_WORK.system, VMSTAT_WORK.name), "1")?;
    }

    let mut sources = Vec::new();
    for (source, events, filter, without) in probes.sources() {
        check()?;
        match enable_probes(instance, probes.group(), events, filter) {
            Ok(read) => {
                formats.extend(read);
                sources.push(source);
            }
            Err(error) => warn(&format!("{error}: {}", without.unwrap_or("the recording goes without"))),
        }
    }

    check_record_headers(&instance.read("events/header_event")?).map_err(unknown)?;
    let layout = PageLayout::parse(&instance.read("events/header_page")?).map_err(unknown)?;
    Ok(Prepared { layout, decoder: Decoder::new(&formats).map_err(unknown)?, clock, sources })
}

/// Enables all probes of a source in the instance, or none. `filter` keeps a part of their events.
fn enable_probes(
    instance: &Instance,
    group: &str,
    events: impl Iterator<Item = &'static str>,
    filter: Option<&str>,
) -> Result<Vec<Format>, RecordError> {
    let events: Vec<&str> = events.collect();
    let formats = events.iter().map(|event| read_format(instance, group, event)).collect::<Result<_, _>>()?;
    let set = |event: &str, file, text| instance.write(&format!("events/{group}/{event}/{file}"), text);
    let enable = |event: &&str| {
        filter.map_or(Ok(()), |filter| set(event, "filter", filter)).map_err(|error| match error {
            // The filter itself may be long.
            RecordError::Io { source, help, .. } => {
                let what = "restrict the probes of counters to other nodes' zones".into();
                RecordError::Io { what, source, help }
            }
            other => other,
        })?;
        set(event, "enable", "1")
    };
    match events.iter().try_for_each(enable) {
        Ok(()) => Ok(formats),
        Err(error) => {
            // The probes of a source are useful only together.
            events.iter().for_each(|event| _ = set(event, "enable", "0"));
            Err(error)
        }
    }
}

fn unknown(error: FormatError) -> RecordError {
    RecordError::Unknown(format!("this kernel's trace records are not of a known form: {error}"))
}

fn read_format(instance: &Instance, system: &str, name: &str) -> Result<Format, RecordError> {
    Format::parse(&instance.read(&format!("events/{system}/{name}/format"))?).map_err(unknown)
}

fn allocate_buffers(instance: &Instance, bytes: u64) -> Result<(), RecordError> {
    let kib = bytes.div_ceil(1024).to_string();
    instance.write("buffer_size_kb", &kib).map_err(|error| match error {
        RecordError::Io { source, .. } if source.kind() == io::ErrorKind::OutOfMemory => RecordError::Io {
            what: format!("get ring buffers of {kib} KiB for each CPU"),
            source,
            help: Some("give a smaller --buffer; each CPU gets one".into()),
        },
        other => other,
    })
}

/// Restricts `workqueue_execute_start` to the decay of pagesets. Returns whether to enable the event.
fn filter_vmstat_work(
    tracefs: &Tracefs,
    instance: &Instance,
    address: Option<u64>,
    warn: &mut dyn FnMut(&str),
) -> Result<bool, RecordError> {
    let without = VMSTAT_WORK.without.unwrap_or_default();
    let event = format!("{}:{}", VMSTAT_WORK.system, VMSTAT_WORK.name);
    if !tracefs.has_event(VMSTAT_WORK.system, VMSTAT_WORK.name) {
        warn(&format!("the kernel has no event {event}: {without}"));
        return Ok(false);
    }
    let file = format!("events/{}/{}/filter", VMSTAT_WORK.system, VMSTAT_WORK.name);
    let filter = match address {
        Some(address) if address != 0 => format!("function == {address:#x}"),
        // Since Linux 6.4 the kernel resolves the name itself.
        _ => format!("function.function == {VMSTAT_UPDATE}"),
    };
    match (instance.write(&file, &filter), address) {
        (Ok(()), _) => Ok(true),
        (Err(_), Some(0)) => Err(RecordError::Missing {
            what: format!("/proc/kallsyms hides its addresses, and the filter for {VMSTAT_UPDATE} takes one"),
            help: "show them to root: sysctl -w kernel.kptr_restrict=1".into(),
        }),
        (Err(error), _) => {
            warn(&format!("{event} cannot be restricted to {VMSTAT_UPDATE} ({error}): {without}"));
            Ok(false)
        }
    }
}

/// Checks that `events/header_event` describes the records that [`pageset_trace::tracepoint::ring`] reads.
fn check_record_headers(text: &str) -> Result<(), FormatError> {
    let words: Vec<&str> = text.split_ascii_whitespace().filter(|word| !matches!(*word, ":" | "type" | "==")).collect();
    let known = [
        ["type_len", "5"],
        ["time_delta", "27"],
        ["padding", "29"],
        ["time_extend", "30"],
        ["time_stamp", "31"],
        ["type_len", "28"],
    ];
    for pair in known {
        // Older kernels write the colon directly after the word.
        let found = words.windows(2).any(|at| at[0].trim_end_matches(':') == pair[0] && at[1] == pair[1]);
        // Kernels before 4.16 neither describe nor write time stamps.
        if !found && pair[0] != "time_stamp" {
            return Err(format!("events/header_event does not say {} {}", pair[0], pair[1]).into());
        }
    }
    Ok(())
}

/// The counts of a CPU's `stats` file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RingStats {
    /// Events in the buffer, and their bytes.
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// Events read from the buffer.
    pub(super) read: u64,
    pub(super) overrun: u64,
    pub(super) commit_overrun: u64,
    pub(super) dropped: u64,
}

impl RingStats {
    /// Parses the text of `per_cpu/cpuN/stats`; missing counts are 0.
    pub(super) fn parse(text: &str) -> Self {
        let count = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        RingStats {
            entries: count("entries"),
            bytes: count("bytes"),
            read: count("read events"),
            overrun: count("overrun"),
            commit_overrun: count("commit overrun"),
            dropped: count("dropped events"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_follows_memory_and_cpus() {
        const GIB: u64 = 1 << 30;
        assert_eq!(buffer_bytes(23 * GIB, 2), 256 << 20);
        assert_eq!(buffer_bytes(GIB, 2), 128 << 20);
        assert_eq!(buffer_bytes(512 * GIB, 192), 256 << 20);
        assert_eq!(buffer_bytes(64 * GIB, 256), 64 << 20);
        assert_eq!(buffer_bytes(0, 1), 1 << 20);
        assert!(default_buffer_bytes() >= 1 << 20);
    }

    #[test]
    fn record_headers() {
        let text = include_str!("../tests/data/header_event");
        assert_eq!(check_record_headers(text), Ok(()));
        let other = text.replace("27 bits", "28 bits");
        assert!(check_record_headers(&other).unwrap_err().to_string().contains("time_delta 27"));
    }

    #[test]
    fn ring_stats() {
        let text = "entries: 594325\noverrun: 1\ncommit overrun: 2\nbytes: 23362964\noldest event ts:  2983.081236\n\
                    now ts:  2984.453482\ndropped events: 3\nread events: 9\n";
        let stats =
            RingStats { entries: 594_325, bytes: 23_362_964, read: 9, overrun: 1, commit_overrun: 2, dropped: 3 };
        assert_eq!(RingStats::parse(text), stats);
        assert_eq!(RingStats::parse(""), RingStats::default());
    }
}
