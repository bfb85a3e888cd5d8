//! How long allocations took: nearly all are so short that a count for each length is quicker than a histogram.

use std::cell::{Cell, RefCell};

use hdrhistogram::Histogram;

use crate::engine::histogram;
use crate::time::Time;

/// Nanoseconds below which each length has its own count: a hit in a pageset takes fewer.
const SHORT_NS: usize = 256;

#[derive(Debug)]
pub(super) struct AllocTimes {
    short: Box<[Cell<u64>; SHORT_NS]>,
    long: RefCell<Histogram<u64>>,
}

impl AllocTimes {
    pub(super) fn new() -> Self {
        AllocTimes { short: Box::new([const { Cell::new(0) }; SHORT_NS]), long: RefCell::new(histogram()) }
    }

    /// One more allocation.
    #[inline]
    pub(super) fn add(&self, time: Time) {
        let ns = time.whole_ns();
        match self.short.get(ns as usize) {
            Some(count) => count.set(count.get() + 1),
            None => self.long.borrow_mut().saturating_record(ns),
        }
    }

    /// All of them, in nanoseconds.
    pub(super) fn histogram(&self) -> Histogram<u64> {
        let mut all = self.long.borrow().clone();
        // A length that did not occur would still be the histogram's longest.
        for (ns, count) in self.short.iter().enumerate().filter(|(_, count)| count.get() > 0) {
            all.saturating_record_n(ns as u64, count.get());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_times_are_in_one_histogram() {
        for lengths in [&[0, 3, 3][..], &[0, 1, 1, 255, 256, 257, 1_000_000, 99_000_000_000], &[]] {
            let (times, mut plain) = (AllocTimes::new(), histogram());
            for &ns in lengths {
                times.add(Time::from_ps(1000 * ns + 999));
                plain.saturating_record(ns);
            }
            assert_eq!(times.histogram(), plain);
            assert_eq!(times.histogram().max(), plain.max());
        }
    }
}
