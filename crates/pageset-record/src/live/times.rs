//! Classes of duration for waits, and percentiles from them.

use std::ops::Range;

/// The number of classes: two for each power of two of nanoseconds, up to 2 to the 32nd, which is 4.3 s.
pub const BUCKETS: usize = 64;

/// How many waits for zone locks took how long, on all CPUs: for each path in the order of
/// [`Waits::paths`](super::Waits::paths), the number in each class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitTimes(pub [[u64; BUCKETS]; 4]);

impl Default for WaitTimes {
    fn default() -> Self {
        WaitTimes([[0; BUCKETS]; 4])
    }
}

/// The class of a duration in nanoseconds. The last class also has all longer durations.
pub fn bucket(ns: u64) -> usize {
    let ns = ns.min(u32::MAX.into());
    // The leading bit and the next one select the class.
    let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(1);
    2 * shift as usize + (ns >> shift) as usize
}

/// The durations of a class, in nanoseconds.
pub fn durations(bucket: usize) -> Range<u64> {
    if bucket < 2 {
        return bucket as u64..bucket as u64 + 1;
    }
    let (leading, shift) = (2 + bucket as u64 % 2, bucket / 2 - 1);
    leading << shift..(leading + 1) << shift
}

/// The duration that `percent` of the waits do not exceed, in nanoseconds: exact to its class, and evenly spread inside
/// it. `None` without waits.
pub fn percentile(waits: &[(Range<u64>, u64)], percent: f64) -> Option<f64> {
    let all: f64 = waits.iter().map(|(_, count)| *count as f64).sum();
    let wanted = (all * percent / 100.0).max(f64::MIN_POSITIVE);
    let mut below = 0.0;
    for (range, count) in waits.iter().filter(|(_, count)| *count > 0) {
        let count = *count as f64;
        if below + count >= wanted {
            let inside = ((wanted - below) / count).clamp(0.0, 1.0);
            return Some(range.start as f64 + inside * (range.end.saturating_sub(range.start)) as f64);
        }
        below += count;
    }
    waits.iter().rfind(|(_, count)| *count > 0).map(|(range, _)| range.end as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_its_class() {
        let edges = (0..32).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit >> 1]);
        for ns in edges.chain(0..5000) {
            assert!(durations(bucket(ns)).contains(&ns), "{ns} ns is in class {}", bucket(ns));
        }
        assert_eq!((bucket(u32::MAX.into()), bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
        // The classes have no gaps.
        for place in 1..BUCKETS {
            assert_eq!(durations(place - 1).end, durations(place).start);
        }
    }

    #[test]
    fn percentiles_of_classes() {
        let waits = [(100..200, 50), (200..300, 0), (300..400, 49), (1000..2000, 1)];
        for (percent, expected) in [(50.0, 200.0), (25.0, 150.0), (99.0, 400.0), (100.0, 2000.0)] {
            assert_eq!(percentile(&waits, percent), Some(expected), "{percent} %");
        }
        assert_eq!(percentile(&[(100..200, 0)], 50.0), None);
        assert_eq!(percentile(&[], 50.0), None);
    }
}
