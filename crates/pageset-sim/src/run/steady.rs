//! The measurement of a steady run, cut into windows: where it begins, when it ends, and whether the run has settled.
//!
//! The windows are grouped into [`BATCHES`] batches of equal length. The batches give an interval for the mean of each
//! quantity (method of batch means), and the difference between the first half of the batches and the second gives the
//! drift. A measurement with a drift began too early: it is discarded, and the next one begins where it ended.

use super::outcome::{Figures, Steadiness};
use crate::time::Time;
use pageset_statistics::{CONFIDENCE, Spread, student};

/// Windows of a measurement of the full time.
const MAX_WINDOWS: u64 = 60;
/// Batches of a measurement. A measurement is judged after each multiple of this number of windows, so that its batches
/// become longer: long batches depend less on each other.
const BATCHES: usize = 10;
/// The drift counts if chance alone gives a larger one in 1 % of all cases: quantile of Student's distribution for two
/// times five batches.
const STUDENT_OF_HALVES: f64 = 3.355;
/// A drift below this share of the precision is never counted.
const LEAST_DRIFT: f64 = 0.5;
/// The precision by which a measurement of a fixed time is judged: 1 % of the score, one point of contention.
const PRECISION_PCT: f64 = 1.0;

/// Totals since the start of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) operations: f64,
    /// Waits for zone locks and for LRU locks of all tasks, in seconds.
    pub(super) waits: [f64; 2],
    /// Sleep of all tasks, in seconds.
    pub(super) slept: f64,
}

/// When a measurement ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// See [`Run::precision_pct`](super::Run::precision_pct).
    pub(super) precision_pct: Option<f64>,
    /// See [`Run::detect_warm_up`](super::Run::detect_warm_up).
    pub(super) detects_warm_up: bool,
    /// The latest end of the run.
    pub(super) limit: Time,
}

/// What follows a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Another window.
    Window,
    /// Another measurement: this one was a warm-up.
    Restart,
    /// Nothing: the measurement is over.
    End,
}

/// The windows of a measurement.
pub(super) struct Windows {
    length: Time,
    tasks: f64,
    ends: Vec<Totals>,
}

impl Windows {
    pub(super) fn new(time: Time, tasks: u32) -> Self {
        // Rounded up, so that the last window ends with the measurement or after it.
        let length = Time::from_ps(time.ps().div_ceil(MAX_WINDOWS));
        Windows { length, tasks: f64::from(tasks), ends: Vec::new() }
    }

    /// The end of the next window, relative to the start of the measurement.
    pub(super) fn next_end(&self) -> Time {
        self.length.times(self.ends.len() as u64 + 1)
    }

    pub(super) fn add(&mut self, totals: Totals) {
        self.ends.push(totals);
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    /// Judges a measurement that began at `begin`, and what follows its last window.
    pub(super) fn decide(&self, rule: &Rule, begin: Time) -> (Next, Option<Steadiness>) {
        let end = begin + self.length.times(self.ends.len() as u64);
        let is_over = end >= rule.limit;
        if !is_over && !self.ends.len().is_multiple_of(BATCHES) {
            return (Next::Window, None);
        }
        let steadiness = self.steadiness(begin, rule.precision_pct.unwrap_or(PRECISION_PCT));
        let shortest = self.length.times(BATCHES as u64);
        let next = match (rule.precision_pct, steadiness) {
            _ if is_over => Next::End,
            (Some(_), Some(found)) if found.settled => Next::End,
            (Some(_), Some(found)) if found.drifts && rule.detects_warm_up && end + shortest <= rule.limit => {
                Next::Restart
            }
            _ => Next::Window,
        };
        (next, steadiness)
    }

    /// The figures of each batch: operations, and the shares of time in per cent. The oldest windows that fill no batch are
    /// left out. `None` with fewer windows than batches.
    fn batches(&self) -> Option<[Vec<f64>; 3]> {
        let windows = self.ends.len() / BATCHES;
        if windows == 0 {
            return None;
        }
        let first = self.ends.len() - windows * BATCHES;
        let before = |end: usize| end.checked_sub(1).map_or(Totals::default(), |end| self.ends[end]);
        let mut figures: [Vec<f64>; 3] = Default::default();
        for batch in 0..BATCHES {
            let from = first + batch * windows;
            let (begin, end) = (before(from), before(from + windows));
            let busy = self.length.seconds() * windows as f64 * self.tasks - (end.slept - begin.slept);
            figures[0].push(end.operations - begin.operations);
            for lock in 0..2 {
                let waited = end.waits[lock] - begin.waits[lock];
                figures[1 + lock].push(if busy > 0.0 { 100.0 * waited / busy } else { 0.0 });
            }
        }
        Some(figures)
    }

    /// How well the measurement so far stands for the steady state, judged by a precision.
    pub(super) fn steadiness(&self, warm_up: Time, precision_pct: f64) -> Option<Steadiness> {
        let [operations, zone, lru] = self.batches()?;
        let mean = Spread::of(&operations)?.mean;
        // Operations in per cent of their mean; shares of time are in percentage points.
        let score: Vec<f64> = operations.iter().map(|n| if mean > 0.0 { 100.0 * n / mean } else { 0.0 }).collect();
        let (mut interval, mut drift, mut drifts) = ([0.0_f64; 3], [0.0_f64; 3], false);
        for (place, figures) in [score, zone, lru].iter().enumerate() {
            let all = Spread::of(figures)?;
            interval[place] = student((BATCHES - 1) as f64, CONFIDENCE) * all.deviation / (BATCHES as f64).sqrt();
            let (early, late) = figures.split_at(BATCHES / 2);
            let (early, late) = (Spread::of(early)?, Spread::of(late)?);
            drift[place] = late.mean - early.mean;
            let pooled = f64::midpoint(early.deviation.powi(2), late.deviation.powi(2)).sqrt();
            let by_chance = STUDENT_OF_HALVES * pooled * (4.0 / BATCHES as f64).sqrt();
            drifts |= drift[place].abs() > by_chance.max(LEAST_DRIFT * precision_pct);
        }
        // No work has no precision.
        let settled = mean > 0.0 && !drifts && interval.into_iter().all(|width| width <= precision_pct);
        Some(Steadiness { warm_up, interval: Figures::from(interval), drift: Figures::from(drift), drifts, settled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steadiness of ten tasks after windows of one second with these operations and seconds of waiting.
    fn of(windows: impl IntoIterator<Item = [f64; 3]>, precision_pct: f64) -> Option<Steadiness> {
        let mut all = Windows::new(Time::from_seconds(MAX_WINDOWS as f64), 10);
        let mut totals = Totals::default();
        for [operations, zone, lru] in windows {
            totals.operations += operations;
            totals.waits[0] += zone;
            totals.waits[1] += lru;
            all.add(totals);
        }
        all.steadiness(Time::ZERO, precision_pct)
    }

    #[test]
    fn equal_windows_are_settled_from_the_tenth_on() {
        let even = [[100.0, 2.0, 3.0]; 25];
        for n in 0..25 {
            let found = of(even[..n].iter().copied(), 0.01);
            assert_eq!(found.is_some(), n >= 10, "{n} windows");
            assert!(found.is_none_or(|found| found.settled && found.interval == Figures::default()), "{n} windows");
        }
    }

    #[test]
    fn no_work_is_not_settled() {
        let found = of([[0.0; 3]; 10], 1.0).unwrap();
        assert!(!found.settled && !found.drifts, "{found:?}");
    }

    #[test]
    fn every_quantity_must_be_precise() {
        // Ten batches of 99 and 101 have a deviation of 1.054: the interval is 2.262 times a third of that.
        let alternating = |place: usize, size: f64| {
            (0..10).map(move |i| {
                let mut window = [100.0, 2.0, 3.0];
                window[place] += if i % 2 == 0 { size } else { -size };
                window
            })
        };
        for (place, size) in [(0, 1.0), (1, 0.1), (2, 0.1)] {
            // Ten tasks have 10 s per window: 0.1 s is one percentage point.
            let found = of(alternating(place, size), 0.76).unwrap();
            assert!(found.settled && !found.drifts, "{place}: {found:?}");
            assert!(!of(alternating(place, size), 0.75).unwrap().settled, "{place}");
        }
    }

    #[test]
    fn a_drift_is_no_steady_state() {
        let rising = |by: f64| (0..20).map(move |i| [100.0 + by * f64::from(i), 2.0, 3.0]);
        let found = of(rising(1.0), 1.0).unwrap();
        assert!(found.drifts && !found.settled, "{found:?}");
        assert!((found.drift.score_pct - 1000.0 / 109.5).abs() < 1e-9, "{found:?}");
        // A drift below half of the precision does not count, however clear it is.
        let found = of(rising(0.02), 1.0).unwrap();
        assert!(!found.drifts && found.settled, "{found:?}");
        assert!(of(rising(0.02), 0.1).unwrap().drifts);
    }

    #[test]
    fn a_drift_restarts_the_measurement_while_there_is_time() {
        let second = |n: u32| Time::from_seconds(f64::from(n));
        let windows = |n: u32, by: f64| {
            let mut all = Windows::new(second(MAX_WINDOWS as u32), 10);
            let mut totals = Totals::default();
            for i in 0..n {
                totals.operations += 100.0 + by * f64::from(i);
                all.add(totals);
            }
            all
        };
        let rule = |precision_pct, detects_warm_up| Rule { precision_pct, detects_warm_up, limit: second(62) };
        let (fixed, known, detected) = (rule(None, false), rule(Some(1.0), false), rule(Some(1.0), true));
        for (rule, begin, n, by, expected) in [
            (&detected, 2, 9, 1.0, Next::Window),
            (&detected, 2, 10, 1.0, Next::Restart),
            (&detected, 2, 10, 0.0, Next::End),
            // The warm-up is given: the run goes on.
            (&known, 2, 10, 1.0, Next::Window),
            (&known, 2, 10, 0.0, Next::End),
            // The whole time is measured.
            (&fixed, 2, 10, 0.0, Next::Window),
            (&fixed, 2, 59, 0.0, Next::Window),
            (&fixed, 2, 60, 0.0, Next::End),
            // Another measurement needs ten windows.
            (&detected, 42, 10, 1.0, Next::Restart),
            (&detected, 43, 10, 1.0, Next::Window),
            (&detected, 43, 19, 1.0, Next::End),
        ] {
            let (next, found) = windows(n, by).decide(rule, second(begin));
            assert_eq!(next, expected, "{rule:?}, from {begin} s, {n} windows, {by}");
            assert_eq!(found.is_some_and(|found| found.settled), n % 10 == 0 && by == 0.0);
            assert!(found.is_none_or(|found| found.warm_up == second(begin)));
        }
    }

    #[test]
    fn sleep_is_no_part_of_the_shares() {
        let mut all = Windows::new(Time::from_seconds(MAX_WINDOWS as f64), 10);
        for n in 1..=10 {
            let n = f64::from(n);
            all.add(Totals { operations: n, waits: [n, 0.0], slept: if n > 5.0 { 5.0 * (n - 5.0) } else { 0.0 } });
        }
        // One second of ten, then one second of five.
        let drift = all.steadiness(Time::ZERO, 1.0).unwrap().drift;
        assert!((drift.zone_points - 10.0).abs() < 1e-9, "{drift:?}");
    }

    #[test]
    fn the_last_window_ends_with_the_measurement() {
        let mut windows = Windows::new(Time::from_ps(81), 1);
        let mut end = windows.next_end();
        for _ in 1..MAX_WINDOWS {
            windows.add(Totals::default());
            end = windows.next_end();
        }
        assert!(end >= Time::from_ps(81) && end < Time::from_ps(81 + MAX_WINDOWS), "{end:?}");
    }
}
