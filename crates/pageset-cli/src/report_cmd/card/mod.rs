//! The card at the top of a report, for each kind of input.
//!
//! | module | the card of |
//! | --- | --- |
//! | `replay` | the replays of a recording |
//! | `advise` | an advice, on one recording or on several; a recording |
//! | `looks` | the output of `pageset top` |

pub(super) mod advise;
pub(super) mod looks;
pub(super) mod replay;

use pageset_report::page::card::{Card, Figure, Kind, Verdict, capital, deciding_figures, number, sure};

#[cfg(test)]
mod tests;
