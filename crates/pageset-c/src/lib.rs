//! The C interface of `pageset-host`. `include/pageset.h` declares it and is generated from this crate.
//!
//! Modules, bottom to top. Each uses only modules above it in this table.
//!
//! | module | contents |
//! | --- | --- |
//! | `cancel` | cancellation of threads |
//! | `error` | error codes, failures, and the last error of each thread |
//! | `signals` | signals of the threads that this library starts |
//! | `versioned` | structures that may grow: the program passes the size that it knows |
//! | `handle` | the handle of a pool, and the detection of destroyed pools |
//! | `options` | the settings of a pool |
//! | `pages` | functions that allocate and free pages, and that resize and maintain a pool |
//! | `runs` | zeroed and deferred calls, calls with a time limit, and the limit of a pool |
//! | `shared` | functions for memory that devices and other processes use: descriptors and offsets |
//! | `stats` | functions that report the state of a pool |
//! | `ticker` | the thread that maintains a pool |
//!
//! No panic leaves a function: [`error::catch`] turns it into `PAGESET_ERR_INTERNAL`.
#![allow(non_camel_case_types, reason = "the names are those of the C interface")]
#![allow(unsafe_code, reason = "pointers come from C")]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod cancel;
pub mod error;
pub mod handle;
pub mod options;
pub mod pages;
pub mod runs;
pub mod shared;
mod signals;
pub mod stats;
pub mod ticker;
mod versioned;
