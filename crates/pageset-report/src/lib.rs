//! What the commands of pageset share: exit codes and errors, forms of output, statistics, comparisons and reports.
//!
//! The library knows no result type by name: each program lists its kinds of results ([`kinds::Inputs`]).
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | `closed`, `printable` | a standard output that was closed at the start; lines that are safe to print |
//! | [`mod@error`] | the exit codes, and a failure with its remedy |
//! | [`program`] | the version, and the end of the process |
//! | [`interrupt`] | how signals end a command |
//! | [`time`] | durations on the command line |
//! | [`csv`], [`output`], [`columns`] | results as CSV and JSON, files that appear only when complete, and text in columns |
//! | [`perfetto`] | timelines for Perfetto's viewer |
//! | [`host`], [`rules`] | the kernel of this machine; `--rules` and `--set` |
//! | [`manual`], [`completions`], [`generate`] | man pages and shell completions |
//! | [`measure`] | a metric with its direction, and its samples |
//! | [`progress`] | a progress bar for long reading |
//! | [`page`] | the content of a report, and its form as HTML, SVG and Markdown |
//! | [`kinds`] | the kinds of files and results that a program reads |
//! | [`diff`] | the command `diff`: what changed between two sets of inputs |
//! | [`report`] | the command `report` |
//! | [`explain`] | what a column, a rule or a warning means |

mod closed;
pub mod columns;
pub mod completions;
pub mod csv;
pub mod diff;
pub mod error;
pub mod explain;
pub mod generate;
pub mod host;
pub mod interrupt;
pub mod kinds;
pub mod manual;
pub mod measure;
pub mod output;
pub mod page;
pub mod perfetto;
mod printable;
pub mod program;
pub mod progress;
pub mod report;
pub mod rules;
pub mod time;
