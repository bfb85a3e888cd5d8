//! The project's own form of a recording: one compressed file that contains everything.
//!
//! # The format, version 4
//!
//! All numbers are little-endian. A file is a header, then sections without gaps, then nothing:
//!
//! | bytes | header |
//! | --- | --- |
//! | 8 | `89 70 73 74 72 61 63 65`: the byte 0x89 and `pstrace` |
//! | 4 | version: 4 |
//! | 4 | CRC-32 of the 12 bytes before |
//!
//! | bytes | section |
//! | --- | --- |
//! | 4 | kind: `FACT`, `SNAP`, `EVTS` or `ENDS` |
//! | 4 | index: 0 for the first section, one more for each |
//! | 4 | items: snapshots of a `SNAP`, events of an `EVTS`, else 1 |
//! | 4 | bytes of the payload before compression |
//! | 4 | bytes of the payload as stored |
//! | 4 | CRC-32 of the payload as stored |
//! | 4 | CRC-32 of the 24 bytes before |
//! | … | the payload: one zstd frame |
//!
//! The sections are one `FACT`, any number of `SNAP`, any number of `EVTS`, one `ENDS`. A file without `ENDS`, or with
//! bytes after it, is damaged. A checksum covers every byte, so a file with any changed byte is damaged too.
//! Payloads, decompressed:
//!
//! * `FACT`: [`Facts`](crate::Facts) as JSON.
//! * `SNAP`: for each snapshot the length of its tag (1 byte), the tag, the length of its text (4 bytes), the text.
//! * `EVTS`: the lengths of the first three of four streams (4 bytes each), then the streams. `heads`: one byte per
//!   event. Its low four bits are the kind (the order of [`LETTERS`]). Bit 4 is set if the CPU differs from the
//!   previous event's, bit 5 if the process or context differs from the previous one on this CPU. `times`: a varint per
//!   event, the ns since the previous event; for the section's first event, its time. `pfns`: a varint for each event
//!   with a page frame number. `args`: the other data of an event, in this order: CPU (varint) if bit 4; process
//!   (varint) and context (1 byte, 0 to 3 for `p`, `s`, `h`, `n`) if bit 5; then the data of the kind. A failed
//!   allocation has a kind of its own. At the start of each section the CPU is 0, and each CPU's process is 0 and its
//!   context `p`, so a section is independent of earlier ones.
//! * `ENDS`: [`Totals`] as JSON.
//!
//! Version 2 adds the kind `U` (bulk allocation). Version 3 adds two kinds. `S` is a change of state: its number as one
//! byte, then a varint with the CPU, the page frame number or 0. `P` is a new process or thread: its number as a
//! varint. Version 4 adds a change of state, number 5: after the first page of the zone, the counter (1 byte) and the change (4 bytes).
//! This build reads all versions. An older reader refuses a newer file by its header.
//!
//! A varint has seven bits per byte, lowest first; bit 7 is set in all bytes but the last.
//!
//! The constants limit the memory that a hostile file can make its reader allocate. Reading takes the memory of one
//! `EVTS` section, stored and decompressed, besides the snapshots.

mod decode;
mod encode;
mod reader;
mod section;
mod varint;
mod writer;

use serde::{Deserialize, Serialize};

use crate::facts::Loss;

pub(crate) use reader::{EventReader, Layout, Start};
pub use writer::Writer;

/// The first bytes of a file. The first byte is not text, so that programs do not take the file for text.
pub(crate) const MAGIC: &[u8; 8] = b"\x89pstrace";

/// The version that is written.
pub(crate) const VERSION: u32 = 4;

/// The oldest version that is read.
pub(crate) const OLDEST_VERSION: u32 = 1;

/// The kinds of events by their number in a head byte, as the letters of the text form; `a` is a failed allocation, `b`
/// and `e` are the beginning and the end of a snapshot.
pub const LETTERS: &[u8; 16] = b"AFBZDXVKkRabeUSP";

/// The largest number of events in an `EVTS` section.
pub const MAX_SECTION_EVENTS: u32 = 32 << 10;

/// The largest size of an `EVTS` section before compression, in bytes. The largest event has under 128.
pub const MAX_EVENTS_BYTES: u32 = MAX_SECTION_EVENTS * 128;

/// The largest size of a `SNAP` section before compression, in bytes: one zoneinfo of 1024 CPUs and 8 nodes has 5 MB.
pub const MAX_SNAP_BYTES: u32 = 64 << 20;

/// The largest size of a `FACT` or `ENDS` section before compression, in bytes: 65536 CPUs of 100 bytes each, rounded
/// up.
pub const MAX_JSON_BYTES: u32 = 16 << 20;

/// The last section's counts of the whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Events in all `EVTS` sections.
    pub events: u64,
    /// Snapshots in all `SNAP` sections.
    pub snapshots: u64,
    /// The first event's time, in ns; 0 without events.
    pub first_ns: u64,
    /// The last event's time, in ns; 0 without events.
    pub last_ns: u64,
    /// Lost events, if known only after the events; replaces the `loss` of the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Vec<Loss>>,
}
