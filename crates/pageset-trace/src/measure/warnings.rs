//! The names and texts of warnings.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number::grouped;

/// The warnings by name, each with an entry in `pageset explain`.
macro_rules! names {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// The name of a warning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum Name {
            $(#[doc = $name]
            #[serde(rename = $name)]
            $variant),+
        }

        impl Name {
            /// All names.
            pub const ALL: &[Name] = &[$(Name::$variant),+];

            /// The name as printed and as `pageset explain` takes it.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Name::$variant => $name),+
                }
            }
        }
    };
}

names! {
    EventsLost = "events-lost",
    LossUnknown = "loss-unknown",
    BufferFull = "buffer-full",
    EventsMissing = "events-missing",
    CpusMissing = "cpus-missing",
    SomeProcesses = "some-processes",
    CallGraphs = "call-graphs",
    EventGroups = "event-groups",
    CutEnd = "cut-end",
    OtherClock = "other-clock",
    NoZoneinfo = "no-zoneinfo",
    OtherZoneinfo = "other-zoneinfo",
    KernelUnknown = "kernel-unknown",
    KernelTraffic = "kernel-traffic",
    CacheUnknown = "cache-unknown",
    NodesUnknown = "nodes-unknown",
    PageSize = "page-size",
    NoMarkers = "no-markers",
    OneSnapshot = "one-snapshot",
    NoPagetypeinfo = "no-pagetypeinfo",
    NearHighMark = "near-high-mark",
    ZoneResized = "zone-resized",
    Reclaim = "reclaim",
    BulkAllocations = "bulk-allocations",
    DirectAllocations = "direct-allocations",
    DirectFrees = "direct-frees",
    RemoteDrains = "remote-drains",
    Expiries = "expiries",
    InterruptedDrains = "interrupted-drains",
    MovedTasks = "moved-tasks",
    RejoinedBlocks = "rejoined-blocks",
    Fallbacks = "fallbacks",
    ForeignPages = "foreign-pages",
    UnseenChanges = "unseen-changes",
    KernelFailures = "kernel-failures",
    NoDecay = "no-decay",
    FewSamples = "few-samples",
    ReplayFailures = "replay-failures",
    BelowMin = "below-min",
    TakenTwice = "taken-twice",
    NotMade = "not-made",
    FreedUnseen = "freed-unseen",
    UnclearStarts = "unclear-starts",
    UndecidedMoments = "undecided-moments",
    KernelTicks = "kernel-ticks",
}

/// A warning about a result, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Its name, as `pageset explain` takes it.
    pub name: Name,
    /// The sentence.
    pub text: String,
}

impl Warning {
    pub(crate) fn new(name: Name, text: impl Into<String>) -> Self {
        Warning { name, text: text.into() }
    }
}

/// Prints the sentence and the name for `pageset explain`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.text, self.name.text())
    }
}

/// A warning with a count and a reason.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The warning's name.
    pub name: Name,
    /// The counted event.
    pub what: &'static str,
    /// The number of times.
    pub count: u64,
    /// Why the event weakens the result, or how the replay continues.
    pub(super) why: Cow<'static, str>,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, grouped(self.count), self.why)
    }
}

impl Counted {
    /// The warning with its name, followed by `of`, which names the replay.
    pub fn warning(&self, of: &str) -> Warning {
        Warning::new(self.name, format!("{self}{of}"))
    }
}
