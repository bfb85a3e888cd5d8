//! Tests of the pool in one program: one file per subject. What needs a process of its own is a program of its own.

#[path = "../common/mod.rs"]
mod common;

mod affinity;
mod bad_use;
mod callbacks;
mod contig;
mod ecosystem;
mod give_back;
mod give_back_parts;
mod limit;
mod metrics;
mod pool;
mod resize;
mod shared;
mod wait;
mod zeroed;
