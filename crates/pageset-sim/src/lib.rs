//! A simulator of many-core machines that runs the pageset allocator in virtual time.
//!
//! Virtual CPUs take turns on one host thread. The CPU with the earliest virtual time always runs next. It runs the
//! unchanged allocator under a small operating system model. Three things cost virtual time: stated work, cache lines,
//! and waiting for locks and handing them over. The cost of a line depends on its last holder and on the lines that the
//! holder's core has brought in since. The settings and the seed define a run: the same run always has the same outcome,
//! to the last digit.
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
//! let machine = machine::find("lkp-sb02").ok_or("unknown machine")??;
//! let run = Run {
//!     workload: Workload::find("page_fault1").ok_or("unknown workload")?,
//!     machine: &machine,
//!     tuning: Tuning::default(),
//!     era: Era::default(),
//!     high_fraction: 0,
//!     tasks: 4,
//!     warm_up: Time::from_seconds(0.001),
//!     time: Time::from_seconds(0.005),
//!     detect_warm_up: false,
//!     precision_pct: None,
//!     whole: true,
//!     seed: 1,
//! };
//! let outcome = run.run(|| true)?;
//! assert!(outcome.score() > 100_000.0, "pages a second");
//! assert_eq!(outcome.operations, run.run(|| true)?.operations);
//! # Ok(())
//! # }
//! ```
//!
//! Modules, bottom to top; each module uses only modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`time`] | virtual time |
//! | [`era`] | kernel changes outside of the allocator's rules |
//! | [`engine`] | virtual CPUs, locks, cache lines |
//! | [`machine`] | machine descriptions |
//! | `sim_lock`, [`world`] | the allocator's lock and machine traits on the engine |
//! | [`os`] | address spaces, files, sockets, LRU |
//! | [`workload`] | workloads: what the tasks do |
//! | [`run`], [`sweep`] | one run and its result; many runs in parallel, with all seeds |
//! | [`interleave`] | random interleavings and their invariants |
//! | [`calibrate`], [`compare`] | setting the costs that machines share; comparing simulated with published tables |
//! | [`verdict`] | what a result says, and how far to trust it |

pub mod calibrate;
pub mod compare;
pub mod engine;
pub mod era;
pub mod interleave;
pub mod machine;
pub mod os;
pub mod run;
mod sim_lock;
pub mod sweep;
pub mod time;
pub mod verdict;
pub mod workload;
pub mod world;
