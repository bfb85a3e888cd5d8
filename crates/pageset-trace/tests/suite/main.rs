//! Tests of recordings and replays, in one program: one file per subject.

mod common;

mod corpus;
mod dependencies;
mod formats;
mod own_form;
mod perf;
mod procfs;
mod real;
mod recipes;
#[cfg(target_endian = "little")] // the capture is x86-64's
mod ring_buffers;
mod text;
mod what_if;
