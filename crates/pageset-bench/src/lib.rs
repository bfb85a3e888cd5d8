//! How fast page allocators are: patterns of traffic, run by pinned threads, everyone in turn, beside floors that say
//! what the hardware allows.
//!
//! A figure here is nanoseconds for one page taken and given back, on each thread: perfect scaling means that two
//! threads have the figure of one. A sample counts only if every thread had its CPU for 97 % of the time.
//!
//! Modules, bottom to top; each uses those before it:
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`pattern`] | the patterns, by name |
//! | [`subject`] | what is measured: the trait, and each pattern as a loop over it |
//! | [`floors`] | the least that a cache of pages can cost |
//! | [`ours`] | `pageset-host`'s pool |
//! | [`sample`] | one measurement on pinned threads |
//! | [`report`] | the result: every sample, medians, ratios |
//! | [`rounds`] | what is measured, in which order |
#![deny(unsafe_code)]

pub mod floors;
mod look;
pub mod ours;
pub mod pattern;
pub mod report;
mod ring;
pub mod rounds;
pub mod sample;
pub mod subject;

pub use pattern::Pattern;
pub use report::Report;
pub use rounds::{Settings, SettingsError, run};
pub use subject::{Built, Entry, Pages, Refusal, Run, Subject};

/// Those that every build can measure: the floors and the pool.
#[must_use]
pub fn entries() -> Vec<Entry> {
    let mut entries = floors::entries();
    entries.push(ours::entry());
    entries
}
