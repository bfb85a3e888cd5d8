//! The early end of a steady run: its measurement is cut into windows and ends when their mean is precise enough.

use crate::statistics::Spread;
use crate::time::Time;

/// Windows of a full measurement.
const MAX_WINDOWS: u64 = 10;
/// Minimum of windows. A deviation of fewer says little.
const MIN_WINDOWS: usize = 4;
/// Quantities per window: operations, seconds of waiting for zone locks, seconds of waiting for LRU locks.
const KINDS: usize = 3;

pub(super) struct Windows {
    length: Time,
    tasks: f64,
    /// Sums at the end of the last window.
    before: [f64; KINDS],
    /// The increase in each window.
    added: [Vec<f64>; KINDS],
}

impl Windows {
    /// The windows of a measurement of at most `time` with `tasks` tasks.
    pub(super) fn new(time: Time, tasks: u32) -> Self {
        // Rounded up, so that the last window ends with the measurement or after it.
        let length = Time::from_ps(time.ps().div_ceil(MAX_WINDOWS));
        Windows { length, tasks: f64::from(tasks), before: [0.0; KINDS], added: Default::default() }
    }

    /// The end of the next window, relative to the start of the measurement.
    pub(super) fn next_end(&self) -> Time {
        self.length.times(self.added[0].len() as u64 + 1)
    }

    /// Adds a window that has ended. `sums` are totals since the start of the measurement.
    pub(super) fn add(&mut self, sums: [f64; KINDS]) {
        for (kind, sum) in sums.into_iter().enumerate() {
            self.added[kind].push(sum - self.before[kind]);
        }
        self.before = sums;
    }

    /// Whether the standard error of the operations is at most `precision_pct` per cent, and that of both shares of
    /// time at most `precision_pct` percentage points.
    pub(super) fn are_precise(&self, precision_pct: f64) -> bool {
        if self.added[0].len() < MIN_WINDOWS {
            return false;
        }
        let busy = self.length.seconds() * self.tasks;
        self.added.iter().enumerate().all(|(kind, added)| {
            Spread::of(added).is_some_and(|spread| {
                let error = spread.deviation / (added.len() as f64).sqrt();
                let whole = if kind == 0 { spread.mean } else { busy };
                100.0 * error <= precision_pct * whole
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rates: &[[f64; KINDS]]) -> Windows {
        let mut windows = Windows::new(Time::from_seconds(MAX_WINDOWS as f64), 10);
        let mut sums = [0.0; KINDS];
        for rate in rates {
            sums = std::array::from_fn(|kind| sums[kind] + rate[kind]);
            windows.add(sums);
        }
        windows
    }

    #[test]
    fn equal_windows_are_precise_from_the_fourth_on() {
        let even = [[100.0, 2.0, 3.0]; 5];
        for n in 0..5 {
            assert_eq!(of(&even[..n]).are_precise(0.3), n >= 4, "{n} windows");
        }
    }

    #[test]
    fn every_quantity_must_be_precise() {
        // Four windows of mean 100 that are off by 1 have a standard error of 0.577.
        let score = [[99.0, 2.0, 3.0], [101.0, 2.0, 3.0], [99.0, 2.0, 3.0], [101.0, 2.0, 3.0]];
        assert!(of(&score).are_precise(0.58) && !of(&score).are_precise(0.57));
        // Ten tasks have 10 s per window: a deviation of 0.1 s is one percentage point.
        for kind in [1, 2] {
            let mut share = [[100.0, 2.0, 3.0]; 4];
            share.iter_mut().enumerate().for_each(|(i, window)| window[kind] += if i % 2 == 0 { 0.1 } else { -0.1 });
            assert!(of(&share).are_precise(0.58) && !of(&share).are_precise(0.57), "{kind}");
        }
    }

    #[test]
    fn the_last_window_ends_with_the_measurement() {
        let mut windows = Windows::new(Time::from_ps(81), 1);
        let mut end = windows.next_end();
        for _ in 1..MAX_WINDOWS {
            windows.add([1.0; KINDS]);
            end = windows.next_end();
        }
        assert!(end >= Time::from_ps(81) && end < Time::from_ps(81 + MAX_WINDOWS), "{end:?}");
    }
}
