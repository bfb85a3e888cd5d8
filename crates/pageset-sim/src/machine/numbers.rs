//! The numbers of a description, each with its unit and range.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A time in nanoseconds, from 0 to one second.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Ns(f64);

/// A number of things: at least one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, Deserialize)]
#[serde(try_from = "i64")]
pub struct Count(u64);

/// A size in KiB: at least one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, Deserialize)]
#[serde(try_from = "i64")]
pub struct Kib(u64);

/// A share, from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(f64);

/// How many times as long something takes: 1 to 100.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub struct Slowdown(f64);

/// Counts and sizes that no machine has: far beyond any, and their products fit 64 bits.
const MOST: i64 = 1 << 30;

impl TryFrom<f64> for Ns {
    type Error = String;

    fn try_from(ns: f64) -> Result<Self, String> {
        if (0.0..=1e9).contains(&ns) { Ok(Ns(ns)) } else { Err(format!("{ns} ns; allowed: 0 to 1000000000 ns")) }
    }
}

impl Ns {
    /// The value.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl From<Ns> for Time {
    fn from(ns: Ns) -> Time {
        Time::from_ns(ns.0)
    }
}

impl TryFrom<i64> for Count {
    type Error = String;

    fn try_from(count: i64) -> Result<Self, String> {
        if (1..=MOST).contains(&count) {
            Ok(Count(count as u64))
        } else {
            Err(format!("{count}; allowed: 1 and above"))
        }
    }
}

impl Count {
    /// One.
    pub(super) const fn one() -> Self {
        Count(1)
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<i64> for Kib {
    type Error = String;

    fn try_from(kib: i64) -> Result<Self, String> {
        if (1..=MOST).contains(&kib) {
            Ok(Kib(kib as u64))
        } else {
            Err(format!("{kib} KiB; allowed: 1 KiB and above"))
        }
    }
}

impl Kib {
    /// The value.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&share) { Ok(Share(share)) } else { Err(format!("{share}; allowed: 0 to 1")) }
    }
}

impl Share {
    /// Nothing.
    #[must_use]
    pub(crate) const fn none() -> Share {
        Share(0.0)
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// In thousandths.
    #[must_use]
    pub fn permille(self) -> u64 {
        (self.0 * 1000.0).round() as u64
    }
}

impl TryFrom<f64> for Slowdown {
    type Error = String;

    fn try_from(times: f64) -> Result<Self, String> {
        if (1.0..=100.0).contains(&times) { Ok(Slowdown(times)) } else { Err(format!("{times}; allowed: 1 to 100")) }
    }
}

impl Slowdown {
    /// As long as without.
    #[must_use]
    pub(crate) const fn none() -> Slowdown {
        Slowdown(1.0)
    }

    /// In thousandths.
    #[must_use]
    pub fn permille(self) -> u64 {
        (self.0 * 1000.0).round() as u64
    }
}
