//! The text form of a recording: two header lines, then one event a line (`trace-replay.md` 2).
//!
//! [`TextReader`] and [`TextWriter`] are each other's inverse: a text that the writer made is read into the events that
//! were written, and a text in the recorder's own spelling is written again byte for byte.

mod fields;
mod reader;
mod writer;

pub use reader::TextReader;
pub use writer::TextWriter;

/// How the text form starts: its name, a space and its version.
pub(crate) const MAGIC: &[u8] = b"#pcptrace ";

/// The version that is read and written.
const VERSION: u64 = 1;
