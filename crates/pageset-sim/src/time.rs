//! Virtual time in whole picoseconds, so that sums are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A point in virtual time or a duration, in picoseconds. The range is 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

const PS_IN_NS: f64 = 1e3;
const PS_IN_S: f64 = 1e12;

impl Time {
    /// The start of virtual time; a duration of zero.
    pub const ZERO: Time = Time(0);
    /// Later than every other time.
    pub const NEVER: Time = Time(u64::MAX);

    /// A time from picoseconds.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// A time from nanoseconds, rounded to a picosecond. Negative values give zero.
    pub fn from_ns(ns: f64) -> Time {
        Time((ns * PS_IN_NS).round() as u64)
    }

    /// A time from seconds, rounded to a picosecond. Negative values give zero.
    pub fn from_seconds(s: f64) -> Time {
        Time((s * PS_IN_S).round() as u64)
    }

    /// The time in picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// The time in nanoseconds, rounded down.
    pub const fn whole_ns(self) -> u64 {
        self.0 / 1000
    }

    /// The time in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / PS_IN_S
    }

    /// The time multiplied by `permille` / 1000, rounded down.
    #[inline]
    pub const fn permille(self, permille: u64) -> Time {
        Time(self.0 * permille / 1000)
    }

    /// The time multiplied by `n`.
    #[inline]
    pub const fn times(self, n: u64) -> Time {
        Time(self.0 * n)
    }
}

impl Add for Time {
    type Output = Time;

    #[inline]
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;

    #[inline]
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}ns", self.0 / 1000, self.0 % 1000)
    }
}
