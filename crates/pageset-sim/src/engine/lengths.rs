//! How long things took: a histogram that is quick to add to.

use std::cell::Cell;

use hdrhistogram::Histogram;

use crate::time::Time;

/// Nanoseconds that a histogram reaches: ten seconds, far more than any wait.
const MOST_NS: u64 = 10_000_000_000;
/// Bits of a length that count: 1 %.
const BITS: u32 = 8;
/// Half as many as there are numbers of so many bits: lengths with the same number of digits above these.
const HALF: usize = 1 << (BITS - 1);
/// One place for each length of up to [`BITS`] bits, then [`HALF`] for each further bit.
const PLACES: usize = HALF * ((MOST_NS.ilog2() + 1 - BITS) as usize + 2);

/// A histogram of times in nanoseconds, exact to 1 %.
pub(crate) fn histogram() -> Histogram<u64> {
    // Two digits and these bounds are valid; the fallback is one that grows.
    Histogram::new_with_bounds(1, MOST_NS, 2).unwrap_or_else(|_| unreachable!("the bounds are valid"))
}

/// What such a histogram counts.
#[derive(Debug)]
pub(crate) struct Lengths {
    counts: Box<[Cell<u64>]>,
}

impl Lengths {
    pub(crate) fn new() -> Self {
        Lengths { counts: vec![Cell::new(0); PLACES].into() }
    }

    /// One more.
    #[inline]
    pub(crate) fn add(&self, time: Time) {
        let ns = match time.whole_ns() {
            ns if ns < MOST_NS.next_power_of_two() => ns,
            _ => MOST_NS,
        };
        // Digits below those that count.
        let digits = (ns | (2 * HALF as u64 - 1)).ilog2() + 1 - BITS;
        let count = &self.counts[(ns >> digits) as usize + HALF * digits as usize];
        count.set(count.get() + 1);
    }

    /// All of them, in nanoseconds.
    pub(crate) fn histogram(&self) -> Histogram<u64> {
        let mut all = histogram();
        // A length that did not occur would still be the histogram's longest.
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| count.get() > 0) {
            let digits = (place / HALF).saturating_sub(1);
            all.saturating_record_n(((place - HALF * digits) as u64) << digits, count.get());
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
        fn it_is_the_plain_histogram(lengths in prop::collection::vec((0..45_u32, any::<u64>()), 0..50)) {
            let (times, mut plain) = (Lengths::new(), histogram());
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
    fn what_a_histogram_takes_for_its_longest_is_so_here() {
        for ns in [0, 255, 256, 511, 512, MOST_NS, MOST_NS + 1, (1 << 34) - 1, 1 << 34, 99_000_000_000] {
            let (times, mut plain) = (Lengths::new(), histogram());
            times.add(Time::from_ps(1000 * ns));
            plain.saturating_record(ns);
            assert_eq!(times.histogram(), plain, "{ns}");
            assert_eq!(times.histogram().max(), plain.max(), "{ns}");
        }
    }
}
