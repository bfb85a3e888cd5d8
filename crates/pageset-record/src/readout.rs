//! Reads the ring buffers and writes the file.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use pageset::CpuId;

use crate::error::{Discarded, RecordError};
use crate::output::{Output, is_full};
use crate::proctext::OUTER_TEXTS;
use crate::progress::{Note, Summary};
use crate::setup::{Prepared, RingStats};
use crate::signals::{Signal, Signals};
use crate::snapshot::{SNAPSHOT_INTERVAL, Texts};
use crate::spool::{Pages, Spool, open_ring};
use crate::tracefs::Instance;
use pageset_trace::event::{Event, Kind};
use pageset_trace::facts::{Facts, Loss};
use pageset_trace::file::{Totals, Writer};
use pageset_trace::printable;
use pageset_trace::tracepoint::merge::{Merge, MergeCounts, copy_full};

/// Events between two checks for a signal and reports of progress.
const EVENTS_PER_CHECK: u64 = 1 << 16;

/// What a user does against a full disk.
const NO_ROOM: &str = "give a place with more room with -o, or limit the recording with --duration or --max-size";

/// The source of each CPU's events.
type Sources = Vec<(CpuId, Pages)>;

/// The ring buffers after the recording.
pub(super) struct Rings {
    cpus: Vec<(u32, RingStats)>,
    text: String,
}

impl Rings {
    pub(super) fn read(instance: &Instance) -> Result<Self, RecordError> {
        let mut rings = Rings { cpus: Vec::new(), text: String::new() };
        for cpu in instance.cpus()? {
            let text = instance.read(&format!("per_cpu/cpu{cpu}/stats"))?;
            rings.cpus.push((cpu, RingStats::parse(&text)));
            rings.text.push_str(&text);
        }
        Ok(rings)
    }

    pub(super) fn loss(&self) -> Vec<Loss> {
        let loss = |&(cpu, stats): &(u32, RingStats)| Loss {
            cpu,
            overrun: stats.overrun,
            commit_overrun: stats.commit_overrun,
            ..Loss::default()
        };
        self.cpus.iter().map(loss).collect()
    }

    pub(super) fn entries(&self) -> u64 {
        self.cpus.iter().map(|(_, stats)| stats.entries + stats.read).sum()
    }

    /// Events that a full buffer refused.
    pub(super) fn dropped(&self) -> u64 {
        self.cpus.iter().map(|(_, stats)| stats.dropped).sum()
    }
}

/// The data of a recording other than the events, which are still in the ring buffers.
pub(super) struct Recording {
    pub(super) facts: Facts,
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
    /// The thread tables before and after.
    pub(super) processes: [String; 2],
    pub(super) texts: Texts,
    pub(super) rings: Rings,
    /// The events that the readers moved out of the ring buffers during the recording.
    pub(super) spools: Vec<Spool>,
}

impl Recording {
    /// Reads the ring buffers and writes the file, then closes the instance's files. More than `patience` signals
    /// during that discard the recording.
    pub(super) fn write(
        mut self,
        output: Output,
        instance: &Instance,
        prepared: &Prepared,
        (signals, patience): (&mut Signals, u32),
        note: &mut dyn FnMut(Note<'_>),
    ) -> Result<Summary, RecordError> {
        let name = output.name().to_owned();
        let failed = |source| RecordError::Output { what: format!("write {name}"), source, help: Some(NO_ROOM.into()) };
        let reading = |source| RecordError::io("read the ring buffers", source);

        let (sources, end_ns, refused) = self.open_rings(&output, instance, prepared, note)?;
        if let Some(end_ns) = end_ns {
            self.texts.cut(end_ns);
        }
        let end_ns = end_ns.unwrap_or(u64::MAX);
        let merge = Merge::new(prepared.layout, prepared.decoder.clone(), end_ns, sources).map_err(reading)?;

        let mut writer = Writer::create(output, &self.facts).map_err(failed)?;
        let mut totals = Totals::default();
        let mut merge = merge;
        let signals_so_far = signals.count() + patience;
        let written = self.write_events(&mut merge, &mut writer, &mut totals, &mut |totals| {
            note(Note::Written { events: totals.events, of: self.rings.entries() });
            let signal = signals.check().filter(|_| signals.count() > signals_so_far);
            let discards =
                |signal: Signal| RecordError::Interrupted { signal: signal.number, at: Discarded::WhileWriting };
            signal.map_or(Ok(()), |signal| Err(discards(signal)))
        })?;
        // What a full disk keeps no event of is no recording, and it has no snapshot either.
        if let Some(source) = refused.filter(|_| written.is_ok() && totals.events == 0) {
            return Err(failed(source));
        }
        let mut loss = self.facts.loss.clone();
        for (loss, (_, missed_pages)) in loss.iter_mut().zip(merge.missed_pages()) {
            loss.missed_pages = missed_pages;
        }
        if loss != self.facts.loss {
            writer.set_loss(loss.clone());
        }
        let counts = merge.counts();
        // This frees the room of the readers' files.
        drop(merge);
        if let Err(source) = written {
            let (bytes, kept) = writer.keep_whole_sections();
            if !is_full(&source) || kept.events == 0 {
                return Err(failed(source));
            }
            note(Note::Warning(&printable(&format!(
                "cannot write {name}: {source}; it keeps the first {} events and lacks all later ones; {NO_ROOM}",
                kept.events
            ))));
            totals = kept.clone();
            if let Err(error) = writer.output().shorten(bytes) {
                return Err(failed(error));
            }
        }
        writer.output().free_reserve();
        let output = writer.finish().map_err(failed)?;
        let file_bytes = output.bytes();
        output.commit().map_err(failed)?;
        self.warn(counts, note);
        Ok(Summary {
            events: totals.events,
            duration: Duration::from_nanos(totals.last_ns - totals.first_ns),
            raw_bytes: counts.raw_bytes,
            file_bytes,
            loss,
            after_full: self.facts.after_full,
            status: ExitStatus::default(),
            interrupted: None,
            limited: false,
        })
    }

    /// Writes the texts and the events, and counts the events. `check` is called now and then; its error ends the
    /// recording. The inner error is that of the output.
    fn write_events<W: io::Write>(
        &self,
        merge: &mut Merge<Pages>,
        writer: &mut Writer<W>,
        totals: &mut Totals,
        check: &mut dyn FnMut(&Totals) -> Result<(), RecordError>,
    ) -> Result<io::Result<()>, RecordError> {
        if let Err(error) = self.write_texts(writer) {
            return Ok(Err(error));
        }
        while let Some(event) = merge.next_event().map_err(|source| RecordError::io("read the ring buffers", source))? {
            if !self.keeps(&event) {
                continue;
            }
            if let Err(error) = writer.event(&event) {
                return Ok(Err(error));
            }
            if totals.events == 0 {
                totals.first_ns = event.time_ns;
            }
            totals.last_ns = event.time_ns;
            totals.events += 1;
            if totals.events.is_multiple_of(EVENTS_PER_CHECK) {
                check(totals)?;
            }
        }
        Ok(writer.flush())
    }

    /// Returns the ring buffers to merge, the time at which the first full buffer ends the recording, and the error of a disk that kept no
    /// more. A full buffer that no reader read is copied first, because only its last page shows that time.
    fn open_rings(
        &mut self,
        output: &Output,
        instance: &Instance,
        prepared: &Prepared,
        note: &mut dyn FnMut(Note<'_>),
    ) -> Result<(Sources, Option<u64>, Option<io::Error>), RecordError> {
        let folder = output.folder();
        let mut spools = std::mem::take(&mut self.spools);
        let (mut sources, mut end_ns, mut refused) = (Vec::new(), None::<u64>, None);
        for &(cpu, stats) in &self.rings.cpus {
            let ring = open_ring(instance, cpu)?;
            let spool = spools.iter().position(|spool| spool.cpu == cpu && spool.is_used());
            let pages = match spool.map(|place| spools.swap_remove(place)) {
                Some(spool) => {
                    if let Some(error) = spool.failed() {
                        note(Note::Warning(&printable(&format!(
                            "cannot keep events in {}: {error}; the recording ends there; {NO_ROOM}",
                            folder.display()
                        ))));
                        let again = error.raw_os_error().map(io::Error::from_raw_os_error);
                        refused = Some(again.unwrap_or_else(|| error.kind().into()));
                    }
                    if stats.dropped > 0 || spool.failed().is_some() {
                        end_ns = end_ns.into_iter().chain([spool.whole_until_ns()]).min();
                    }
                    spool.pages(&prepared.layout, ring).map_err(RecordError::on("read a file in", &folder))?
                }
                None if stats.dropped > 0 => {
                    let copy = tempfile::tempfile_in(&folder);
                    let mut copy = copy.map_err(RecordError::writing("make a file in", &folder))?;
                    let full_ns = copy_full(&prepared.layout, CpuId(cpu), ring, &mut copy);
                    let full_ns = full_ns.map_err(RecordError::writing("copy a ring buffer to", &folder))?;
                    end_ns = end_ns.into_iter().chain(full_ns).min();
                    Pages::of_ring(copy)
                }
                None => Pages::of_ring(ring),
            };
            sources.push((CpuId(cpu), pages));
        }
        Ok((sources, end_ns, refused))
    }

    fn warn(&self, counts: MergeCounts, note: &mut dyn FnMut(Note<'_>)) {
        if self.texts.interval_stride > 1 {
            note(Note::Warning(&format!(
                "the room for snapshots was used up: in the end there was one every {} ms",
                SNAPSHOT_INTERVAL.as_millis() * u128::from(self.texts.interval_stride)
            )));
        }
        if counts.skipped > 0 {
            note(Note::Warning(&format!("{} records could not be read and were left out", counts.skipped)));
        }
        if counts.unpaired > 0 {
            note(Note::Warning(&format!(
                "{} bulk allocations began before the recording or ended after it and were left out",
                counts.unpaired
            )));
        }
    }

    /// Whether to write an event: a marker is written only with its snapshot.
    fn keeps(&self, event: &Event) -> bool {
        match &event.kind {
            Kind::SnapshotBegin(tag) | Kind::SnapshotEnd(tag) => self.texts.has(tag),
            _ => true,
        }
    }

    fn write_texts<W: io::Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        for (tag, text) in self.texts.iter() {
            writer.snapshot_text(tag, &text)?;
        }
        for (suffix, texts) in [("0", &self.before), ("1", &self.after)] {
            for ((name, _), text) in OUTER_TEXTS.iter().zip(texts) {
                writer.snapshot_text(&format!("{name}.{suffix}"), text)?;
            }
        }
        for (tag, table) in ["processes.0", "processes.1"].iter().zip(&self.processes) {
            writer.snapshot_text(tag, table)?;
        }
        writer.snapshot_text("stats", &self.rings.text)
    }
}
