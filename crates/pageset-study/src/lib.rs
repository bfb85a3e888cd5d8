//! Studies: many simulations from one file.
//!
//! A study file lists machines, workloads, rules, settings, tasks and seeds. Each combination is a *cell*: one run of the
//! simulator. The description of a cell defines its outcome, and the hash of the description is the cell's *address*. A
//! finished cell is a file with this address as its name. So workers need no coordination: each writes the same outcome
//! under the same name, and a file that exists is complete.
//!
//! Modules, bottom to top; each module uses only modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`error`] | invalid study files, and results that cannot be stored |
//! | [`mod@file`] | the study file |
//! | [`cell`] | the cells of a study: description and address |
//! | [`store`] | the folder of results: one file per finished cell |
//! | [`work`] | running the cells that are not finished |
//! | `table` | tables of results as Parquet, written and read; with the feature `parquet` |
//!
//! A crate of its own, because a simulator needs neither Parquet nor rules by name.

pub mod cell;
pub mod error;
pub mod file;
pub mod store;
#[cfg(feature = "parquet")]
pub mod table;
pub mod work;
