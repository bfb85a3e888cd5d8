//! When a steady run has shown enough: its measurement is cut into windows, and ends once their mean is known.

use crate::statistics::Spread;
use crate::time::Time;

/// Windows that a measurement is cut into.
const MOST: u64 = 10;
/// Windows before it may end. With fewer, a spread says little.
const LEAST: usize = 4;
/// What is looked at: operations, seconds of waiting for zone locks and for LRU locks.
const KINDS: usize = 3;

pub(super) struct Windows {
    length: Time,
    tasks: f64,
    /// Sums at the end of the last window.
    before: [f64; KINDS],
    /// What each window has added.
    added: [Vec<f64>; KINDS],
}

impl Windows {
    /// Those of a measurement that takes so long at most, of so many tasks.
    pub(super) fn new(time: Time, tasks: u32) -> Self {
        // Rounded up: the last one ends with the measurement or after it.
        let length = Time::from_ps(time.ps().div_ceil(MOST));
        Windows { length, tasks: f64::from(tasks), before: [0.0; KINDS], added: Default::default() }
    }

    /// When the next window ends, after the beginning of the measurement.
    pub(super) fn next_end(&self) -> Time {
        self.length.times(self.added[0].len() as u64 + 1)
    }

    /// A window is over, and these are the sums from the beginning.
    pub(super) fn add(&mut self, sums: [f64; KINDS]) {
        for (kind, sum) in sums.into_iter().enumerate() {
            self.added[kind].push(sum - self.before[kind]);
        }
        self.before = sums;
    }

    /// Whether the standard error of the operations is at most so many percent, and that of both shares of time so many
    /// percentage points.
    pub(super) fn are_enough(&self, precision_pct: f64) -> bool {
        if self.added[0].len() < LEAST {
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
        let mut windows = Windows::new(Time::from_seconds(MOST as f64), 10);
        let mut sums = [0.0; KINDS];
        for rate in rates {
            sums = std::array::from_fn(|kind| sums[kind] + rate[kind]);
            windows.add(sums);
        }
        windows
    }

    #[test]
    fn even_windows_are_enough_once_there_are_four() {
        let even = [[100.0, 2.0, 3.0]; 5];
        for n in 0..5 {
            assert_eq!(of(&even[..n]).are_enough(0.3), n >= 4, "{n} windows");
        }
    }

    #[test]
    fn each_kind_has_to_be_known() {
        // Standard error of four windows of mean 100 that are 1 off: 0.577.
        let score = [[99.0, 2.0, 3.0], [101.0, 2.0, 3.0], [99.0, 2.0, 3.0], [101.0, 2.0, 3.0]];
        assert!(of(&score).are_enough(0.58) && !of(&score).are_enough(0.57));
        // Ten tasks have 10 s a window: a deviation of 0.1 s is one percentage point.
        for kind in [1, 2] {
            let mut share = [[100.0, 2.0, 3.0]; 4];
            share.iter_mut().enumerate().for_each(|(i, window)| window[kind] += if i % 2 == 0 { 0.1 } else { -0.1 });
            assert!(of(&share).are_enough(0.58) && !of(&share).are_enough(0.57), "{kind}");
        }
    }

    #[test]
    fn the_last_window_ends_with_the_measurement() {
        let mut windows = Windows::new(Time::from_ps(81), 1);
        let mut end = windows.next_end();
        for _ in 1..MOST {
            windows.add([1.0; KINDS]);
            end = windows.next_end();
        }
        assert!(end >= Time::from_ps(81) && end < Time::from_ps(81 + MOST), "{end:?}");
    }
}
