//! Reads, writes and replays recordings of the page traffic of a live kernel.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`number`], [`mod@printable`], `schema`, `bytes` | numbers as text; text that is safe to print; names and versions of results; numbers in bytes |
//! | [`event`], [`facts`], `limits` | the parts of a recording, and the limits on their values |
//! | `coverage` | the events by CPU and kind |
//! | [`error`] | errors in a recording, with their place |
//! | [`procfs`] | parsers of zoneinfo, buddyinfo and pagetypeinfo |
//! | [`snapshots`] | the procfs texts that a recording contains |
//! | [`text`], [`mod@file`] | the text form and the project's own form |
//! | [`tracepoint`] | records of tracepoints in binary form |
//! | `perf`, `trace_dat`, `lines` | the readers of `perf.data`, of `trace.dat`, and of the text of perf, trace-cmd and ftrace |
//! | `resources` | the memory and the threads that replays may use |
//! | [`trace`] | a recording of any form, detected by its content |
//! | [`replay`] | replays of a recording through the allocator |
//! | [`measure`], [`verdict`], [`advise`], [`info`] | the results of `pageset replay`, `identify`, `advise` and `trace info` |
//! | `schemas` | the JSON schemas of those results |
#![forbid(unsafe_code)]

#[macro_use]
mod schema;

pub mod advise;
mod bytes;
mod coverage;
pub mod error;
pub mod event;
pub mod facts;
pub mod file;
pub mod info;
pub mod limits;
mod lines;
pub mod measure;
pub mod number;
mod perf;
pub mod printable;
pub mod procfs;
pub mod replay;
mod resources;
mod schemas;
pub mod snapshots;
mod source;
pub mod text;
pub mod trace;
mod trace_dat;
pub mod tracepoint;
pub mod verdict;

pub use error::{ErrorKind, Place, TraceError};
pub use event::{Context, Event, Kind, StateChange};
pub use facts::{CpuCache, Facts, Loss, Recipe};
pub use lines::perf_script_line;
pub use printable::printable;
pub use resources::Resources;
pub use schemas::schemas;
pub use snapshots::Snapshots;
pub use trace::{Events, Form, OpenOptions, Trace};
