//! A machine between two looks, and the verdicts of many machines, merged into one answer: which of them wait for zone locks, and
//! what to set where.
//!
//! `pageset top` shows a [`view::View`], `pageset agent` writes a [`Line`] a minute on each machine, and `pageset fleet` merges the
//! lines of all of them.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`largest`] | the size of the largest lists that a setting makes |
//! | [`look`] | one reading of the machine, or of a saved file |
//! | [`view`] | the values of a look and their changes |
//! | [`watch`] | one view after the other, whatever happens to the counting |
//! | [`metrics`] | a view as OpenMetrics |
//! | [`recorder`] | a recording of a machine whose verdict needs one |
//! | `line` | what an agent says of its machine |
//! | [`agent`] | the line of a view, and the file of the lines |
//! | `prometheus` | the same of a Prometheus server's metrics |
//! | `merge` | the lines of a fleet, read in one pass |
//!
//! ```
//! use pageset_fleet::Merge;
//!
//! let mut merge = Merge::default();
//! merge.read("agents.log", &b"neither JSON\nnor a verdict\n"[..])?;
//! let fleet = merge.finish();
//! assert_eq!((fleet.machines, fleet.wrong_lines), (0, 2));
//! assert_eq!(fleet.first_wrong_lines[0].line, 1);
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod agent;
pub mod largest;
mod line;
pub mod look;
mod merge;
pub mod metrics;
mod prometheus;
pub mod recorder;
pub mod view;
pub mod watch;

pub use line::{Line, Verdict, Zone};
pub use merge::{Fleet, Group, Merge, Recorded, Wrong};
