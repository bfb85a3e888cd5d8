//! Warnings: their names, and one short sentence each.

use std::fmt;

use crate::number::grouped;

/// The warnings by name, each with an entry in `pageset explain`.
macro_rules! names {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// Which warning it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Name {
            $(#[doc = $name]
            $variant),+
        }

        impl Name {
            /// All of them.
            pub const ALL: &[Name] = &[$(Name::$variant),+];

            /// As it is printed, and asked for with `pageset explain`.
            #[must_use]
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
}

/// What weakens a result, in one sentence.
#[derive(Clone, Debug)]
pub struct Warning {
    name: Name,
    text: String,
}

impl Warning {
    pub(super) fn new(name: Name, text: impl Into<String>) -> Self {
        Warning { name, text: text.into() }
    }
}

/// The sentence, and the name to ask `pageset explain` for.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.text, self.name.text())
    }
}

/// Something that happened, how often, and what that means.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Which warning it is.
    pub name: Name,
    /// What happened.
    pub what: &'static str,
    /// How often.
    pub count: u64,
    /// Why that weakens the result, or how the replay goes on.
    pub(super) why: &'static str,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, grouped(self.count), self.why)
    }
}

impl Counted {
    /// With its name, and `of`, which says of which replay it is told.
    #[must_use]
    pub fn warning(&self, of: &str) -> Warning {
        Warning::new(self.name, format!("{self}{of}"))
    }
}
