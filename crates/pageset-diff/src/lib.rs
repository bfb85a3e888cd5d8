//! Compares recordings and results: what changed from A to B, with its spread, and whether it is more than noise.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`noise`] | the mean of samples, and the interval of a difference of means |
//! | [`mod@measure`] | the metrics of each kind of input, with their directions |
//! | [`mod@error`] | inputs that cannot be read or compared |
//! | [`input`] | the files of a side, by their content |
//! | [`model`] | the result: rows, verdicts, and which of them exceed a limit |
//! | `pair` | the cases that both sides have |

pub mod error;
pub mod input;
pub mod measure;
pub mod model;
pub mod noise;
mod pair;

pub use error::DiffError;
pub use input::{Side, Step};
pub use model::{Diff, SCHEMA};
