//! Recordings of a live kernel's page traffic: how they are made, read, kept and replayed.
//!
//! From the bottom up, each module using only those before it:
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`number`], `schema` | numbers as text; names and versions of results |
//! | [`event`], [`facts`], `limits` | what a recording consists of, and the values allowed in it |
//! | [`error`] | what can be wrong with it, and where |
//! | [`procfs`] | the kernel's own texts: zoneinfo, buddyinfo, pagetypeinfo |
//! | [`snapshots`] | those texts as they were taken along |
//! | [`text`], [`mod@file`] | the text form and our own |
//! | [`record`] | a recording of this machine, made through tracefs |
//! | [`live`] | what this machine's kernel does now, counted; its module `bpf::sys` has the only unsafe code |
//! | `perf` | a `perf.data`, its tracepoints read by the decoder of [`record`] |
//! | [`trace`] | a recording of any form, opened by its content |
//! | [`replay`] | a recording run through the allocator |
//! | [`measure`], [`advise`], [`info`] | the results of `pageset replay`, `identify`, `advise` and `trace info` |
//! | `schemas` | the JSON schemas of those results |
#![deny(unsafe_code)]

#[macro_use]
mod schema;

pub mod advise;
pub mod error;
pub mod event;
pub mod facts;
pub mod file;
pub mod info;
pub mod limits;
pub mod live;
pub mod measure;
pub mod number;
mod perf;
pub mod procfs;
pub mod record;
pub mod replay;
mod schemas;
pub mod snapshots;
mod source;
pub mod text;
pub mod trace;

pub use error::{ErrorKind, Place, TraceError};
pub use event::{Context, Event, Kind, StateChange};
pub use facts::{CpuCache, Facts, Loss};
pub use schemas::schemas;
pub use snapshots::Snapshots;
pub use trace::{Events, Form, OpenOptions, Trace};
