//! The records of the kernel's tracepoints, in the binary form in which tracefs and `perf.data` have them.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`mod@format`] | the kernel's descriptions of its records |
//! | [`ring`] | one page of a ring buffer |
//! | [`decode`] | one record |
//! | `bulk` | one bulk allocation from two records |
//! | [`merge`] | the events of all CPUs by time |
//! | `tracing_data` | copies of the descriptions in files of other tools |

mod bulk;
pub mod decode;
pub mod format;
pub mod merge;
pub mod ring;
pub(crate) mod tracing_data;
