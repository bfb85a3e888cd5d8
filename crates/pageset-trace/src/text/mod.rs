//! The text form of a recording: two header lines, then one event per line (`trace-replay.md` 2).
//!
//! [`TextReader`] and [`TextWriter`] are inverse. The reader returns the events that the writer wrote. The writer
//! reproduces a text in the recorder's spelling byte for byte.

mod fields;
mod reader;
mod writer;

pub use reader::TextReader;
pub use writer::TextWriter;

/// The first bytes of the text form: its name and a space; the version follows.
pub(crate) const MAGIC: &[u8] = b"#pcptrace ";

/// The version that the reader and writer support.
const VERSION: u64 = 1;
