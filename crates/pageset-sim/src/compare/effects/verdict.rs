//! Whether an effect came out.

use super::Column;
use crate::statistics::Spread;

/// What a column holds, and so how its error counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Something whose change relative to the base matters, and first of all its sign.
    Amount,
    /// Percent of some whole: errors are in percentage points.
    Share,
    /// A change in percent, relative to a base that is 0.
    Change,
}

/// A column and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    /// The column.
    pub column: Column,
    /// The mean over seeds and their deviation.
    pub simulated: Spread,
}

/// What a comparison of one column says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The sign of the change, or the share within ten points, is right.
    Holds,
    /// It is not.
    Misses,
    /// Nothing was published, or a change too small to have a sign.
    Open,
}

/// A change up to this has no sign that could be right: the published runs vary by as much. In percent.
pub const SMALL_CHANGE_PCT: f64 = 3.0;
/// A share is right within so many percentage points.
pub const NEAR_POINTS: f64 = 10.0;

impl Effect {
    /// The published change from the base: in percent, or in points for a share.
    #[must_use]
    pub fn published_change(&self) -> Option<f64> {
        Some(self.change(self.column.published?, self.column.do_nothing?))
    }

    /// The simulated change from the base.
    #[must_use]
    pub fn simulated_change(&self) -> Option<f64> {
        Some(self.change(self.simulated.mean, self.column.do_nothing?))
    }

    fn change(&self, value: f64, base: f64) -> f64 {
        match self.column.kind {
            Kind::Amount => 100.0 * (value / base - 1.0),
            Kind::Share | Kind::Change => value - base,
        }
    }

    /// Whether it came out: a share within [`NEAR_POINTS`], of a change above [`SMALL_CHANGE_PCT`] its sign.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let Some(published) = self.column.published else { return Verdict::Open };
        let holds = match self.column.kind {
            Kind::Share => (self.simulated.mean - published).abs() <= NEAR_POINTS,
            Kind::Amount | Kind::Change => match (self.published_change(), self.simulated_change()) {
                (Some(p), Some(s)) if p.abs() > SMALL_CHANGE_PCT => (p > 0.0) == (s > 0.0) && s != 0.0,
                _ => return Verdict::Open,
            },
        };
        if holds { Verdict::Holds } else { Verdict::Misses }
    }
}
