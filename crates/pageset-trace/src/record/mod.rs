//! Recording a live kernel's page traffic through a tracing instance of our own.
//!
//! Specification: `trace-replay.md` 4. A ring buffer is read while the recording goes on once it is half full, not
//! before; afterwards the rest is read out, merged by time and written in our own file form, one page a CPU in memory at a time. Tracing instance
//! and sysctl are put back by guards, on every way out: an error, a panic, SIGINT, SIGTERM, SIGHUP, SIGQUIT.
//!
//! From the bottom up, each module using only those before it:
//!
//! | module | what it knows |
//! | --- | --- |
//! | `error` | why there is no recording |
//! | [`mod@format`] | the kernel's descriptions of its records |
//! | [`ring`] | one page of a ring buffer |
//! | [`decode`] | one record |
//! | `bulk` | one bulk allocation from two records |
//! | [`merge`] | the events of all CPUs by time |
//! | `owner`, `tracefs`, `sysctl`, `probes` | what is changed on the machine, and how it is put back |
//! | `leftovers` | what a killed recording left, and how it is put back |
//! | `setup` | which events, which clock, how large the buffers |
//! | `machine`, `processes`, `proctext`, `snapshot` | what is written down beside the events |
//! | `signals`, `launch`, `output` | being interrupted, the command, the file |
//! | `spool` | reading the ring buffers while the recording goes on |
//! | `readout` | reading the ring buffers out into the file |
//! | `session` | one recording from begin to end |

mod bulk;
pub mod decode;
mod error;
pub mod format;
mod launch;
mod leftovers;
pub(crate) mod machine;
pub mod merge;
mod output;
mod owner;
mod probes;
mod processes;
mod proctext;
mod progress;
mod readout;
pub mod ring;
mod session;
mod setup;
mod signals;
mod snapshot;
mod spool;
mod sysctl;
pub(crate) mod tracefs;

pub use error::RecordError;
pub use launch::{HOLD, hold};
pub use leftovers::clean_up;
pub use output::Destination;
pub use progress::{Note, Phase, Summary};
pub use session::{Limits, Options, record};
pub use setup::default_buffer_bytes;
