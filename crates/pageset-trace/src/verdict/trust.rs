//! The trust in a verdict, and its reasons.

use std::fmt;

use pageset_statistics::verdict::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Events were lost.
    EventsLost,
    /// The recording has no allocations and frees.
    Empty,
    /// The recording is too short.
    ShortRecording,
    /// The kernel's own events say it.
    Counted,
    /// The replay of the setting in force is outside its limits.
    ControlDiffers,
    /// The replay of the setting in force is of no use.
    ControlFails,
    /// The replay of the setting in force moves what the kernel moved.
    ControlFollows,
    /// The setting in force was not replayed.
    NoControl,
    /// The kernel refilled and drained only a few times.
    FewMoves,
    /// A zone was at its high watermark.
    NearHighMark,
    /// The recording does not name its kernel.
    KernelUnknown,
    /// Many drains of other nodes' idle pages come at the kernel's ticks.
    KernelTicks,
    /// The verdict changes watermarks, of which a replay does not tell everything.
    OtherWatermarks,
}

/// A reason for or against the trust in a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// What it is about.
    pub name: Cause,
    /// The reason in a sentence without its full stop.
    pub text: String,
}

/// Prints the sentence.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The trust in a verdict and its reasons: reasons against it come first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sure {
    /// The confidence: `high`, `fair` or `low`.
    #[schemars(extend("bad" = "Low.", "todo" = "Read the reasons. Record for longer, or on a quieter machine."))]
    pub trust: Trust,
    /// The reasons for the confidence.
    pub reasons: Vec<Reason>,
}

impl Sure {
    /// No trust, for one reason.
    pub fn none(name: Cause, text: impl Into<String>) -> Sure {
        Sure { trust: Trust::Low, reasons: vec![Reason { name, text: text.into() }] }
    }

    /// Whether a reason is about this.
    pub fn has(&self, name: Cause) -> bool {
        self.reasons.iter().any(|reason| reason.name == name)
    }
}

/// Prints the trust and its first reason.
impl fmt::Display for Sure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trust {}", self.trust.name())?;
        self.reasons.first().map_or(Ok(()), |first| write!(f, ": {first}"))
    }
}
