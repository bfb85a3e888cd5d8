//! Records a live kernel's page traffic through a tracing instance of its own.
//!
//! Specification: `trace-replay.md` 4. During the recording, a ring buffer is read only once it is half full.
//! Afterwards the remaining events are read, merged by time and written in the project's own form. Only one page per
//! CPU is in memory at a time. Guards restore the tracing instance and the sysctl on every exit: an error, a panic,
//! SIGINT, SIGTERM, SIGHUP, SIGQUIT.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | `error` | reasons why a recording fails |
//! | `progress` | notes during a recording, and its summary |
//! | [`mod@format`] | the kernel's descriptions of its trace records |
//! | [`ring`] | one page of a ring buffer |
//! | [`decode`] | one record |
//! | `bulk` | one bulk allocation from two records |
//! | [`merge`] | the events of all CPUs by time |
//! | `owner`, `tracefs`, `sysctl`, `probes` | changes to the machine, and their removal |
//! | `leftovers` | the removal of changes that a killed recording left |
//! | `setup` | the events, the clock and the size of the buffers |
//! | `ready` | whether this user can record |
//! | `machine`, `processes`, `proctext`, `snapshot` | the data of a recording other than events |
//! | `signals`, `launch`, `output` | signals, the command and the file |
//! | `spool` | reading of the ring buffers during the recording |
//! | `readout` | reading of the ring buffers into the file |
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
mod ready;
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
pub use ready::ready;
pub use session::{Limits, Options, record};
pub use setup::default_buffer_bytes;
