//! What to conclude from a recording or from a machine, and how far to trust it: `advise`, the first line of `replay`, reports
//! and `top` print the same values.
//!
//! | module | contents |
//! | --- | --- |
//! | `trust` | the trust in a verdict, and its reasons by name |
//! | `control` | the kernel next to the replay of its own rules: where every verdict on a recording begins |
//! | `rules` | which of the replayed rules take zone locks least |
//! | [`machine`] | a machine between two looks |

mod control;
pub mod machine;
mod rules;
mod trust;

pub use control::{Basis, Control, Decided, LOCKS_LEFT_MAX, NOTICEABLE_PER_CPU_S, is_noticeable, rare};
pub use pageset_statistics::verdict::{Kind, Trust};
pub use rules::{Ranking, RulesVerdict};
pub use trust::{Cause, Reason, Sure};
