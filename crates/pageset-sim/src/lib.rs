//! A many-core machine in virtual time that runs the pageset allocator.
//!
//! Virtual CPUs take turns on one thread, always the earliest in virtual time; what they run is the allocator as it is,
//! under the little of an operating system that a workload needs. Only these cost time: work that is stated, cache lines
//! (by who held them last, and how much that core has touched since), waiting for locks and handing them over. A run is its
//! settings and its seed: the same run has the same outcome, to the last digit.
//!
//! ```
//! use pageset::Tuning;
//! use pageset_sim::era::Era;
//! use pageset_sim::machine;
//! use pageset_sim::run::Run;
//! use pageset_sim::time::Time;
//! use pageset_sim::workload::Workload;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let machine = machine::find("lkp-sb02").ok_or("no such machine")??;
//! let run = Run {
//!     workload: Workload::find("page_fault1").ok_or("no such workload")?,
//!     machine: &machine,
//!     tuning: Tuning::default(),
//!     era: Era::default(),
//!     high_fraction: 0,
//!     tasks: 4,
//!     warm_up: Time::from_seconds(0.001),
//!     time: Time::from_seconds(0.005),
//!     precision_pct: None,
//!     whole: true,
//!     held: 0,
//!     seed: 1,
//! };
//! let outcome = run.run(|| true)?;
//! assert!(outcome.score() > 100_000.0, "pages a second");
//! assert_eq!(outcome.operations, run.run(|| true)?.operations);
//! # Ok(())
//! # }
//! ```
//!
//! Modules, bottom to top; each uses those before it:
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`time`], [`statistics`] | virtual time; means over seeds |
//! | [`era`] | what kernels changed over time outside of the rules |
//! | [`engine`] | virtual CPUs, locks, caches |
//! | [`machine`] | descriptions of machines |
//! | `huge_pages`, `host_cache` | how the host keeps large tables, and fetches from them |
//! | `sim_lock`, [`world`] | what the allocator is given: its lock, its machine |
//! | [`os`] | address spaces and the LRU, above the allocator |
//! | [`workload`] | what the tasks do |
//! | [`run`], [`sweep`] | one run and its result; many at once, with all seeds |
//! | [`interleave`] | interleavings chosen at random, and what must hold under any |
//! | [`calibrate`], [`compare`] | fitting costs to one published row; published tables beside simulated ones |

pub mod calibrate;
pub mod compare;
pub mod engine;
pub mod era;
mod host_cache;
mod huge_pages;
pub mod interleave;
pub mod machine;
pub mod os;
pub mod run;
mod sim_lock;
pub mod statistics;
pub mod sweep;
pub mod time;
pub mod workload;
pub mod world;
