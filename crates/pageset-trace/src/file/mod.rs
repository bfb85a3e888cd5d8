//! Our own form of a recording: one file, compressed, with everything inside.
//!
//! # The format, version 2
//!
//! All numbers are little-endian. A file is a header, then sections without gaps, then nothing:
//!
//! | bytes | header |
//! | --- | --- |
//! | 8 | `89 70 73 74 72 61 63 65`: the byte 0x89 and `pstrace` |
//! | 4 | version: 2 |
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
//! anything after it, is damaged; so is every file of which any byte was changed, since each is under a checksum.
//! Payloads, decompressed:
//!
//! * `FACT`: [`Facts`](crate::Facts) as JSON.
//! * `SNAP`: for each snapshot the length of its tag (1 byte), the tag, the length of its text (4 bytes), the text.
//! * `EVTS`: the lengths of the first three of four streams (4 bytes each), then the streams. `heads`: one byte an event,
//!   its low four bits the kind (the order of [`LETTERS`]), bit 4: the CPU is another than the event's before, bit 5: the
//!   process or context is another than before on this CPU. `times`: a varint an event, ns since the event before (of
//!   the section's first: its time). `pfns`: for each event that has a page frame number, a varint. `args`: what else an
//!   event has, in this order: CPU (varint) if bit 4; process (varint) and context (1 byte, 0 to 3 for `p`, `s`, `h`,
//!   `n`) if bit 5; then what the kind needs. A failed allocation has a kind of its own. At the start of each section
//!   the CPU is 0, and each CPU's process 0 and context `p`: a section is read without those before it.
//! * `ENDS`: [`Totals`] as JSON.
//!
//! Version 2 adds the kind `U` (bulk allocation). Version 3 adds two kinds. `S` is a change of state: its number as one
//! byte, then a varint with the CPU, the page frame number or 0. `P` says that a process or thread was made: its number as
//! a varint. All versions are read. An older reader refuses a newer file by its header.
//!
//! A varint has seven bits a byte, lowest first, bit 7 set in all but the last.
//!
//! Limits, so that a hostile file cannot make its reader allocate much: see the constants. Memory for reading is one
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

/// How a file starts. The first byte is no text, so that the file is not taken for one.
pub(crate) const MAGIC: &[u8; 8] = b"\x89pstrace";

/// The version that is written.
pub(crate) const VERSION: u32 = 3;

/// The oldest version that is read.
pub(crate) const OLDEST_VERSION: u32 = 1;

/// The name of files in this form ends so.
pub const SUFFIX: &str = ".pstrace";

/// The kinds of events by their number in a head byte, as the letters of the text form; `a` is a failed allocation, `b`
/// and `e` are the beginning and the end of a snapshot.
pub const LETTERS: &[u8; 16] = b"AFBZDXVKkRabeUSP";

/// Events in an `EVTS` section, at most.
pub const MAX_SECTION_EVENTS: u32 = 32 << 10;

/// Bytes of an `EVTS` section before compression, at most. The largest event has under 128.
pub const MAX_EVENTS_BYTES: u32 = MAX_SECTION_EVENTS * 128;

/// Bytes of a `SNAP` section before compression, at most: one zoneinfo of 1024 CPUs and 8 nodes has 5 MB.
pub const MAX_SNAP_BYTES: u32 = 64 << 20;

/// Bytes of a `FACT` or `ENDS` section before compression, at most: 65536 CPUs of 100 bytes each, rounded up.
pub const MAX_JSON_BYTES: u32 = 16 << 20;

/// What the last section says of the whole file.
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
    /// What was lost, where that was only known after the events; instead of what the facts say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Vec<Loss>>,
}
