//! A histogram of durations with a fast `add`.

use std::cell::Cell;

use hdrhistogram::Histogram;

use crate::time::Time;

/// Upper limit of the histogram in nanoseconds: ten seconds, far longer than any wait.
const MAX_NS: u64 = 10_000_000_000;
/// Significant bits of a duration; the resolution is 1 %.
const BITS: u32 = 8;
/// Half the number of values with [`BITS`] bits: the durations that share a number of dropped bits.
const HALF: usize = 1 << (BITS - 1);
/// One bucket for each duration of up to [`BITS`] bits, then [`HALF`] buckets for each further bit.
const BUCKETS: usize = HALF * ((MAX_NS.ilog2() + 1 - BITS) as usize + 2);

pub(crate) fn histogram() -> Histogram<u64> {
    // Two digits and these bounds are always valid.
    Histogram::new_with_bounds(1, MAX_NS, 2).unwrap_or_else(|_| unreachable!("two digits and these bounds are valid"))
}

/// The counts for such a histogram.
#[derive(Debug)]
pub(crate) struct Durations {
    counts: Box<[Cell<u64>]>,
}

impl Durations {
    pub(crate) fn new() -> Self {
        Durations { counts: vec![Cell::new(0); BUCKETS].into() }
    }

    pub(crate) fn clear(&self) {
        self.counts.iter().for_each(|count| count.set(0));
    }

    #[inline]
    pub(crate) fn add(&self, time: Time) {
        let ns = match time.whole_ns() {
            ns if ns < MAX_NS.next_power_of_two() => ns,
            _ => MAX_NS,
        };
        // Number of dropped low bits.
        let dropped_bits = (ns | (2 * HALF as u64 - 1)).ilog2() + 1 - BITS;
        let count = &self.counts[(ns >> dropped_bits) as usize + HALF * dropped_bits as usize];
        count.set(count.get() + 1);
    }

    pub(crate) fn histogram(&self) -> Histogram<u64> {
        let mut all = histogram();
        // Empty buckets are skipped: recording a count of 0 would still raise the histogram's maximum.
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| count.get() > 0) {
            let dropped_bits = (bucket / HALF).saturating_sub(1);
            all.saturating_record_n(((bucket - HALF * dropped_bits) as u64) << dropped_bits, count.get());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_the_plain_histogram(lengths in prop::collection::vec((0..45_u32, any::<u64>()), 0..50)) {
            let (times, mut plain) = (Durations::new(), histogram());
            for ns in lengths.into_iter().map(|(bits, ns)| ns % (1 << bits)) {
                times.add(Time::from_ps(1000 * ns + 999));
                plain.saturating_record(ns);
            }
            prop_assert_eq!(&times.histogram(), &plain);
            prop_assert_eq!(times.histogram().max(), plain.max());
            prop_assert_eq!(times.histogram().min(), plain.min());
        }
    }

    #[test]
    fn maximum_equals_that_of_the_plain_histogram() {
        for ns in [0, 255, 256, 511, 512, MAX_NS, MAX_NS + 1, (1 << 34) - 1, 1 << 34, 99_000_000_000] {
            let (times, mut plain) = (Durations::new(), histogram());
            times.add(Time::from_ps(1000 * ns));
            plain.saturating_record(ns);
            assert_eq!(times.histogram(), plain, "{ns}");
            assert_eq!(times.histogram().max(), plain.max(), "{ns}");
        }
    }
}
