//! Benchmarks of page allocators. Pinned threads run patterns of allocations; all allocators take turns. Floors show
//! the limits of the hardware.
//!
//! A figure is the time in nanoseconds to allocate and free one page, per thread. With perfect scaling, two threads
//! have the figure of one. A sample counts only if every thread had its CPU for 97 % of the time.
//!
//! Modules, bottom to top; each module uses only modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`pattern`] | the patterns, by name |
//! | `ring` | a ring that carries batches of pages from thread to thread |
//! | [`subject`] | the traits of a measured allocator, and each pattern as a loop over them |
//! | [`floors`] | the lowest possible cost of a page cache per CPU |
//! | [`ours`] | `pageset-host`'s pool |
//! | `thread_time` | running, waiting and sleeping time of a thread |
//! | [`sample`] | one measurement on pinned threads |
//! | [`report`] | the result: all samples, medians, ratios |
//! | [`verdict`] | what the result says of the pool, and how far to trust it |
//! | [`rounds`] | the order of all measurements |
#![deny(unsafe_code)]

pub mod floors;
pub mod ours;
pub mod pattern;
pub mod report;
mod ring;
pub mod rounds;
pub mod sample;
pub mod subject;
mod thread_time;
pub mod verdict;

pub use pattern::Pattern;
pub use report::Report;
pub use rounds::{Settings, SettingsError, run};
pub use subject::{Built, Entry, Pages, Refusal, Run, Subject};

/// The entries of every build: the floor and the pool.
pub fn entries() -> Vec<Entry> {
    let mut entries = floors::entries();
    entries.push(ours::entry());
    entries
}
