//! The card at the top of a report, for each kind of result. The verdicts are those of the libraries.
//!
//! | module | the card of |
//! | --- | --- |
//! | `simulation` | a run or a sweep, and a study |
//! | `compare` | a comparison with published values |
//! | `bench` | a benchmark |

pub(crate) mod bench;
pub(crate) mod compare;
#[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "the card of a study"))]
pub(crate) mod simulation;

use pageset_report::page::card::{Card, Figure, Verdict, deciding_figures, number, sure, times};

#[cfg(test)]
mod tests;
