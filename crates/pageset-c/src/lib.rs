//! The C interface of `pageset-host`: what `include/pageset.h` declares. Documentation there is made from here.
//!
//! | module | what lives there |
//! | --- | --- |
//! | `sized` | structures that may grow: the program says how large it knows them |
//! | `error` | codes, and the text of the last error of each thread |
//! | `handle` | what a C program has for a pool, and how a destroyed one is known |
//! | `options` | what a pool is made from |
//! | `calls` | the functions on pages |
//! | `counters` | the functions that tell |
//!
//! No panic leaves a function: [`error::guard`] makes it `PAGESET_ERR_INTERNAL`.
#![allow(non_camel_case_types, reason = "the names are C's")]
#![allow(unsafe_code, reason = "pointers come from C")]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod calls;
pub mod counters;
pub mod error;
pub mod handle;
pub mod options;
mod sized;
