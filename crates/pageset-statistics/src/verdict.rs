//! What kinds of verdicts there are, and how far a verdict may be trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a verdict says of the control: the kernel's own rules, the setting in force, or the first row of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Something is better or worse than the control.
    Differs,
    /// Nothing has to change, or nothing differs from the control.
    Same,
    /// There is no verdict: the control fails or is missing.
    None,
}

/// The trust in a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// No trust.
    Low,
    /// Limited trust.
    Fair,
    /// Full trust.
    High,
}

impl Trust {
    /// The name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Trust::Low => "low",
            Trust::Fair => "fair",
            Trust::High => "high",
        }
    }
}
