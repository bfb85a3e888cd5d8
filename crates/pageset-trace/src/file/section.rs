//! The frame of a section: its header, its checksums, its compression.

use std::io::{self, Read, Write};

use super::{MAX_EVENTS_BYTES, MAX_JSON_BYTES, MAX_SECTION_EVENTS, MAX_SNAP_BYTES};
use crate::error::{Place, TraceError};

pub(super) const HEADER_BYTES: usize = 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionKind {
    Facts,
    Snapshots,
    Events,
    End,
}

impl SectionKind {
    const ALL: [SectionKind; 4] = [Self::Facts, Self::Snapshots, Self::Events, Self::End];

    fn name(self) -> &'static [u8; 4] {
        match self {
            Self::Facts => b"FACT",
            Self::Snapshots => b"SNAP",
            Self::Events => b"EVTS",
            Self::End => b"ENDS",
        }
    }

    /// The largest size before compression, in bytes.
    fn bytes_max(self) -> u32 {
        match self {
            Self::Facts | Self::End => MAX_JSON_BYTES,
            Self::Snapshots => MAX_SNAP_BYTES,
            Self::Events => MAX_EVENTS_BYTES,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: SectionKind,
    pub(super) index: u32,
    pub(super) items: u32,
    pub(super) raw_bytes: u32,
    pub(super) stored_bytes: u32,
    payload_crc: u32,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(self.kind.name());
        let words = [self.index, self.items, self.raw_bytes, self.stored_bytes, self.payload_crc];
        for (place, word) in bytes[4..24].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[..24]);
        bytes[24..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header at byte `offset` of the file; its index must be `index`.
    pub(super) fn read(input: &mut impl Read, index: u32, offset: u64) -> Result<Header, TraceError> {
        let place = Place::Section { index, offset };
        let damaged = |what: String| TraceError::damaged(place.clone(), what);
        let mut bytes = [0; HEADER_BYTES];
        input.read_exact(&mut bytes).map_err(|e| TraceError::reading(place.clone(), e))?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if crc32fast::hash(&bytes[..24]) != word(24) {
            let what = "the checksum of the section's header is wrong".to_owned();
            return Err(damaged(what).allowed("the bytes that were written"));
        }
        let Some(kind) = SectionKind::ALL.into_iter().find(|kind| kind.name() == &bytes[..4]) else {
            let what = format!("a section of kind `{}`", bytes[..4].escape_ascii());
            return Err(damaged(what).allowed("FACT, SNAP, EVTS or ENDS"));
        };
        let header = Header {
            kind,
            index: word(4),
            items: word(8),
            raw_bytes: word(12),
            stored_bytes: word(16),
            payload_crc: word(20),
        };
        if header.index != index {
            let what = format!("the section says that it is number {}", header.index);
            return Err(damaged(what).allowed("every section in its place"));
        }
        if header.raw_bytes > kind.bytes_max() || header.stored_bytes as usize > zstd_bound(kind.bytes_max()) {
            let what = format!("a section of {} bytes, stored in {}", header.raw_bytes, header.stored_bytes);
            return Err(damaged(what).allowed(format!("at most {} bytes", kind.bytes_max())));
        }
        if kind == SectionKind::Events && (header.items == 0 || header.items > MAX_SECTION_EVENTS) {
            let what = format!("a section of {} events", header.items);
            return Err(damaged(what).allowed(format!("1 to {MAX_SECTION_EVENTS}")));
        }
        Ok(header)
    }

    /// The place of this section, with its header at byte `offset` of the file.
    pub(super) fn place(&self, offset: u64) -> Place {
        Place::Section { index: self.index, offset }
    }
}

/// Reads and decompresses payloads, with reused buffers.
#[derive(Default)]
pub(super) struct Unpacker {
    stored: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Unpacker {
    /// Reads the payload that follows `header` into `raw`.
    pub(super) fn read(
        &mut self,
        input: &mut impl Read,
        header: &Header,
        place: &Place,
        raw: &mut Vec<u8>,
    ) -> Result<(), TraceError> {
        // The claimed size is not trusted: memory grows with the bytes that the file has.
        self.stored.clear();
        let stored = input.take(header.stored_bytes.into()).read_to_end(&mut self.stored);
        match stored {
            Ok(bytes) if bytes == header.stored_bytes as usize => {}
            Ok(_) => return Err(TraceError::reading(place.clone(), io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(TraceError::reading(place.clone(), error)),
        }
        if crc32fast::hash(&self.stored) != header.payload_crc {
            let what = "the checksum of the section is wrong";
            return Err(TraceError::damaged(place.clone(), what).allowed("the bytes that were written"));
        }
        let unpack = |error: io::Error| {
            TraceError::damaged(place.clone(), format!("the section cannot be decompressed ({error})"))
                .allowed("a zstd frame of the size that the header tells")
        };
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::bulk::Decompressor::new().map_err(unpack)?),
        };
        raw.clear();
        raw.reserve(header.raw_bytes as usize);
        zstd.decompress_to_buffer(&self.stored, raw).map_err(unpack)?;
        if raw.len() != header.raw_bytes as usize {
            let what = format!("the section has {} bytes and should have {}", raw.len(), header.raw_bytes);
            return Err(TraceError::damaged(place.clone(), what).allowed("the size that the header tells"));
        }
        Ok(())
    }
}

/// Compresses payloads and writes sections.
pub(super) struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    stored: Vec<u8>,
    /// The number of the next section.
    index: u32,
}

impl Packer {
    pub(super) fn new(level: i32) -> io::Result<Packer> {
        Ok(Packer { zstd: zstd::bulk::Compressor::new(level)?, stored: Vec::new(), index: 0 })
    }

    /// Writes a section of `items` with the payload `raw`. Returns its length in bytes.
    pub(super) fn write(&mut self, out: &mut impl Write, kind: SectionKind, items: u32, raw: &[u8]) -> io::Result<u64> {
        let raw_bytes = u32::try_from(raw.len()).ok().filter(|&bytes| bytes <= kind.bytes_max());
        let raw_bytes = raw_bytes.ok_or_else(|| {
            let what = format!("{} bytes in one section, where {} are allowed", raw.len(), kind.bytes_max());
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        self.stored.clear();
        self.stored.reserve(zstd_bound(raw_bytes));
        self.zstd.compress_to_buffer(raw, &mut self.stored)?;
        let header = Header {
            kind,
            index: self.index,
            items,
            raw_bytes,
            stored_bytes: self.stored.len() as u32,
            payload_crc: crc32fast::hash(&self.stored),
        };
        let next = self.index.checked_add(1).ok_or_else(|| io::Error::other("too many sections"))?;
        out.write_all(&header.to_bytes())?;
        out.write_all(&self.stored)?;
        // A section that was written in part does not count.
        self.index = next;
        Ok((HEADER_BYTES + self.stored.len()) as u64)
    }
}

/// The largest number of bytes that zstd needs for `raw_bytes`.
fn zstd_bound(raw_bytes: u32) -> usize {
    zstd::zstd_safe::compress_bound(raw_bytes as usize)
}
