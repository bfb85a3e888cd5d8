//! Virtual time: whole picoseconds, so that sums are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A point in virtual time, or a length of it, in picoseconds. Reaches 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

const PS_IN_NS: f64 = 1e3;
const PS_IN_S: f64 = 1e12;

impl Time {
    /// The beginning, and no time at all.
    pub const ZERO: Time = Time(0);
    /// Later than all else.
    pub const NEVER: Time = Time(u64::MAX);

    /// A time of whole picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// A time of nanoseconds, rounded to a picosecond. Negative values are no time.
    #[must_use]
    pub fn from_ns(ns: f64) -> Time {
        Time((ns * PS_IN_NS).round() as u64)
    }

    /// A time of seconds, rounded to a picosecond. Negative values are no time.
    #[must_use]
    pub fn from_seconds(s: f64) -> Time {
        Time((s * PS_IN_S).round() as u64)
    }

    /// In picoseconds.
    #[must_use]
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// In whole nanoseconds, rounded down.
    #[must_use]
    pub const fn whole_ns(self) -> u64 {
        self.0 / 1000
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / PS_IN_S
    }

    /// This many thousandths of it.
    #[inline]
    #[must_use]
    pub const fn permille(self, permille: u64) -> Time {
        Time(self.0 * permille / 1000)
    }

    /// So many times as long.
    #[inline]
    #[must_use]
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
