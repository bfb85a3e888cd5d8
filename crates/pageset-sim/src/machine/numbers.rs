//! The number types of a description, each with its unit and range.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Upper limit of counts and sizes: far above any machine, and products of two fit 64 bits.
const MAX: i64 = 1 << 30;

/// Defines a number type: stored type, parsed type, range, unit, and the range as text.
macro_rules! number {
    ($(#[$about:meta])* $name:ident($kept:ty), $read:literal $from:ty, $range:expr, $unit:literal, $allowed:literal) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, JsonSchema, Serialize, Deserialize)]
        #[serde(try_from = $read)]
        pub struct $name($kept);

        impl TryFrom<$from> for $name {
            type Error = String;

            fn try_from(value: $from) -> Result<Self, String> {
                const RANGE: RangeInclusive<$from> = $range;
                let allowed = || format!("{value}{}; allowed: {}", $unit, $allowed);
                RANGE.contains(&value).then_some($name(value as $kept)).ok_or_else(allowed)
            }
        }

        impl $name {
            /// The value.
            pub const fn get(self) -> $kept {
                self.0
            }
        }
    };
}

number! {
    /// A time in nanoseconds, from 0 to one second.
    Ns(f64), "f64" f64, 0.0..=1e9, " ns", "0 to 1000000000 ns"
}
number! {
    /// A number of clock cycles, from 0 to a billion.
    Cycles(f64), "f64" f64, 0.0..=1e9, " cycles", "0 to 1000000000 cycles"
}
number! {
    /// A rate or a factor, from 0.01 to a million.
    Rate(f64), "f64" f64, 0.01..=1e6, "", "0.01 to 1000000"
}
number! {
    /// A number of things: at least one.
    Count(u64), "i64" i64, 1..=MAX, "", "1 and above"
}
number! {
    /// A size in KiB: at least one.
    Kib(u64), "i64" i64, 1..=MAX, " KiB", "1 KiB and above"
}
number! {
    /// A share, from 0 to 1.
    Share(f64), "f64" f64, 0.0..=1.0, "", "0 to 1"
}
number! {
    /// A slowdown: a duration relative to another, 1 to 100.
    Slowdown(f64), "f64" f64, 1.0..=100.0, "", "1 to 100"
}

impl From<Ns> for Time {
    fn from(ns: Ns) -> Time {
        Time::from_ns(ns.0)
    }
}

impl Count {
    pub(super) const fn one() -> Self {
        Count(1)
    }

    /// Whether the number is one, so that a description may leave it out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) const fn is_one(&self) -> bool {
        self.0 == 1
    }
}

impl Share {
    pub(crate) const fn none() -> Share {
        Share(0.0)
    }
}

impl Cycles {
    pub(crate) const fn none() -> Cycles {
        Cycles(0.0)
    }
}

impl Rate {
    /// One: no change.
    pub const ONE: Rate = Rate(1.0);
}

impl Slowdown {
    pub(crate) const fn none() -> Slowdown {
        Slowdown(1.0)
    }

    /// The value in thousandths.
    pub fn permille(self) -> u64 {
        (self.0 * 1000.0).round() as u64
    }
}
