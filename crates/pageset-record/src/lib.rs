//! Records a live kernel's page traffic through a tracing instance of its own, and counts it without a recording.
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
//! | `owner`, `symbols`, `btf` | the owner of a change to the machine, addresses of kernel functions, and offsets in kernel structures |
//! | `tracefs`, `sysctl`, `probes` | changes to the machine, and their removal |
//! | `leftovers` | the removal of changes that a killed recording left |
//! | `removal` | the removal by a process of its own, after a signal |
//! | `machine`, `remote` | facts of this machine, and which counters are of other nodes |
//! | `setup` | the events, the clock and the size of the buffers |
//! | `ready` | whether this user can record |
//! | `processes`, `proctext`, `snapshot` | the other data of a recording that are not events |
//! | `signals`, `launch`, `output` | signals, the command and the file |
//! | `spool` | reading of the ring buffers during the recording |
//! | `readout` | reading of the ring buffers into the file |
//! | `session` | one recording from begin to end |
//! | [`live`] | live counts; its module `bpf::sys` has the only unsafe code |
#![deny(unsafe_code)]

mod btf;
mod error;
mod launch;
mod leftovers;
pub mod live;
mod machine;
mod output;
mod owner;
mod probes;
mod processes;
mod proctext;
mod progress;
mod readout;
mod ready;
mod remote;
mod removal;
mod session;
mod setup;
mod signals;
mod snapshot;
mod spool;
mod symbols;
mod sysctl;
mod tracefs;

pub use error::{Discarded, RecordError};
pub use launch::{HOLD, hold};
pub use leftovers::clean_up;
pub use output::Destination;
pub use progress::{Note, Phase, Summary};
pub use ready::ready;
pub use session::{Limits, Options, record};
pub use setup::default_buffer_bytes;
