//! The card at the top of a report, for each kind of input.
//!
//! | module | the card of |
//! | --- | --- |
//! | `replay` | a recording, and its replays |
//! | `advise` | an advice, on one recording or on several |
//! | `looks` | the output of `pageset top` |

pub(super) mod advise;
pub(super) mod looks;
pub(super) mod replay;

use pageset_report::page::card::{Card, Figure, Kind, Verdict, capital, number, times, trust};

#[cfg(test)]
mod tests;
