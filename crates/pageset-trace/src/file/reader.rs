//! Reads the project's own form.

use std::io::{BufReader, Read, Seek};

use super::decode::Decoder;
use super::section::{HEADER_BYTES, Header, SectionKind, Unpacker};
use super::{MAGIC, OLDEST_VERSION, Totals, VERSION};
use crate::error::{Place, TraceError};
use crate::event::Event;
use crate::facts::Facts;
use crate::snapshots::{Collector, Snapshots};
use crate::source::{Cursor, Source};

const FILE_HEADER_BYTES: u64 = 16;

/// The contents of a file, except the events, of which it has only the start.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) facts: Facts,
    pub(crate) snapshots: Snapshots,
    pub(crate) totals: Totals,
    pub(crate) first: Start,
}

/// The number and byte offset of the first section after the snapshots.
pub(crate) type Start = (u32, u64);

impl Layout {
    /// Reads all sections and checks everything except the events, so that a truncated file is detected.
    pub(crate) fn read(source: &Source) -> Result<Layout, TraceError> {
        file_header(source)?;
        let mut walk = Walk::new(source, (0, FILE_HEADER_BYTES));
        let mut unpacker = Unpacker::default();
        let mut raw = Vec::new();

        let (header, place) = walk.header()?;
        if header.kind != SectionKind::Facts {
            return Err(out_of_place(&place));
        }
        unpacker.read(&mut walk.cursor, &header, &place, &mut raw)?;
        let mut facts: Facts = json(&raw, &place)?;

        let mut collector = Collector::default();
        let mut first = walk.next;
        let (mut events, mut snapshots) = (0u64, 0u64);
        let totals: Totals = loop {
            let (header, place) = walk.header()?;
            match header.kind {
                SectionKind::Snapshots if events == 0 => {
                    unpacker.read(&mut walk.cursor, &header, &place, &mut raw)?;
                    snapshots_of(&raw, header.items, &place, &mut collector)?;
                    snapshots += u64::from(header.items);
                    first = walk.next;
                }
                SectionKind::Events => events += u64::from(header.items),
                SectionKind::End => {
                    unpacker.read(&mut walk.cursor, &header, &place, &mut raw)?;
                    break json(&raw, &place)?;
                }
                _ => return Err(out_of_place(&place)),
            }
        };
        let end = walk.next.1;
        if end != source.bytes() {
            let what = format!("{} bytes follow the end of the recording", source.bytes() - end);
            return Err(TraceError::damaged(Place::Byte(end), what).allowed("nothing after ENDS"));
        }
        if (totals.events, totals.snapshots) != (events, snapshots) {
            let what = format!("{events} events and {snapshots} snapshots");
            let allowed = format!("{} and {}, as the end tells", totals.events, totals.snapshots);
            return Err(TraceError::damaged(Place::WholeFile, what).allowed(allowed));
        }
        if let Some(loss) = &totals.loss {
            facts.loss.clone_from(loss);
        }
        Ok(Layout { facts, snapshots: collector.snapshots, totals, first })
    }
}

fn file_header(source: &Source) -> Result<(), TraceError> {
    let mut bytes = [0; FILE_HEADER_BYTES as usize];
    source.at(0).read_exact(&mut bytes).map_err(|e| TraceError::reading(Place::Byte(0), e))?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if !bytes.starts_with(MAGIC) {
        return Err(TraceError::unsupported("this is not a recording of pageset"));
    }
    if crc32fast::hash(&bytes[..12]) != word(12) {
        let what = "the checksum of the file's header is wrong";
        return Err(TraceError::damaged(Place::Byte(0), what).allowed("the bytes that were written"));
    }
    if !(OLDEST_VERSION..=VERSION).contains(&word(8)) {
        let what = format!("version {} of the recording's form is not known", word(8));
        return Err(TraceError::unsupported(what).allowed(format!("versions {OLDEST_VERSION} to {VERSION}")));
    }
    Ok(())
}

/// Iterates over the sections.
struct Walk {
    cursor: BufReader<Cursor>,
    /// The number and byte offset of the next section's header.
    next: (u32, u64),
    bytes: u64,
}

impl Walk {
    fn new(source: &Source, next: (u32, u64)) -> Walk {
        Walk { cursor: BufReader::new(source.at(next.1)), next, bytes: source.bytes() }
    }

    /// Reads the next section's header. Afterwards the cursor is at the payload; the caller may move it.
    fn header(&mut self) -> Result<(Header, Place), TraceError> {
        let (index, offset) = self.next;
        let io = |e| TraceError::io("cannot be read", e);
        let here = self.cursor.stream_position().map_err(io)?;
        // A relative seek stays within the buffer if the distance is short.
        self.cursor.seek_relative(offset as i64 - here as i64).map_err(io)?;
        let header = Header::read(&mut self.cursor, index, offset)?;
        let place = header.place(offset);
        let end = offset + HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        if end > self.bytes {
            return Err(TraceError::reading(place, std::io::ErrorKind::UnexpectedEof.into()));
        }
        self.next = (index.saturating_add(1), end);
        Ok((header, place))
    }
}

fn out_of_place(place: &Place) -> TraceError {
    TraceError::damaged(place.clone(), "the section is out of place").allowed("one FACT, SNAP…, EVTS…, one ENDS")
}

fn json<T: serde::de::DeserializeOwned>(raw: &[u8], place: &Place) -> Result<T, TraceError> {
    serde_json::from_slice(raw).map_err(|e| {
        TraceError::damaged(place.clone(), format!("the section cannot be understood ({e})")).allowed("JSON")
    })
}

/// Reads the snapshots of one section.
fn snapshots_of(raw: &[u8], items: u32, place: &Place, into: &mut Collector) -> Result<(), TraceError> {
    let damaged = |what: &str| TraceError::damaged(place.clone(), what).allowed("whole snapshots of text");
    let mut rest = raw;
    for _ in 0..items {
        let take = |rest: &mut &[u8], bytes: usize| {
            let (head, tail) = rest.split_at_checked(bytes)?;
            *rest = tail;
            Some(head.to_vec())
        };
        let snapshot = (|| {
            let length = take(&mut rest, 1)?[0];
            let tag = take(&mut rest, length.into())?;
            let length = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
            Some((String::from_utf8(tag).ok()?, String::from_utf8(take(&mut rest, length as usize)?).ok()?))
        })();
        let (tag, text) = snapshot.ok_or_else(|| damaged("a snapshot is cut short or is not text"))?;
        into.add(&tag, text)?;
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged("bytes are left after the last snapshot")) }
}

pub(crate) struct EventReader {
    walk: Walk,
    unpacker: Unpacker,
    /// The current section, decompressed.
    raw: Vec<u8>,
    decoder: Decoder,
    place: Place,
    time_ns: u64,
}

impl EventReader {
    pub(crate) fn new(source: &Source, start: Start) -> EventReader {
        EventReader {
            walk: Walk::new(source, start),
            unpacker: Unpacker::default(),
            raw: Vec::new(),
            decoder: Decoder::default(),
            place: Place::WholeFile,
            time_ns: 0,
        }
    }

    /// The next event. Not called again after an error or the end.
    #[inline]
    pub(crate) fn event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some(event) = self.in_section()? {
                return Ok(Some(event));
            }
            if !self.section()? {
                return Ok(None);
            }
        }
    }

    /// The next event; `None` at the end of the section.
    #[inline]
    fn in_section(&mut self) -> Result<Option<Event>, TraceError> {
        match self.decoder.next(&self.raw) {
            Ok(Some(event)) if event.time_ns >= self.time_ns => {
                self.time_ns = event.time_ns;
                Ok(Some(event))
            }
            Ok(None) => Ok(None),
            Ok(Some(_)) => Err(self.wrong("time goes back from section to section")),
            Err(what) => Err(self.wrong(what)),
        }
    }

    #[cold]
    fn wrong(&self, what: &str) -> TraceError {
        TraceError::damaged(self.place.clone(), what).allowed("events as the writer makes them")
    }

    /// Starts on the next section; false if there is none.
    fn section(&mut self) -> Result<bool, TraceError> {
        let (header, place) = self.walk.header()?;
        self.place = place;
        match header.kind {
            SectionKind::Events => {}
            SectionKind::End => return Ok(false),
            _ => return Err(out_of_place(&self.place)),
        }
        self.unpacker.read(&mut self.walk.cursor, &header, &self.place, &mut self.raw)?;
        self.decoder.start(&self.raw, header.items).map_err(|what| self.wrong(what))?;
        Ok(true)
    }
}
