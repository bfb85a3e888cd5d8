//! Times that vary: the only use of chance in virtual time.

use std::cell::Cell;

use crate::time::Time;

/// Quantiles that a table of variation has. A power of two.
const QUANTILES: usize = 1024;

/// A stream of random numbers: the same for the same seed, on every machine (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Cell::new(seed))
    }

    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is at least 1.
    pub(crate) fn below(&self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Factors with mean 1: a constant part and an exponential one. The size of the latter is the coefficient of variation.
#[derive(Debug)]
pub(crate) struct Variation {
    /// In 1/1024; none where nothing varies.
    factors: Option<Box<[u32; QUANTILES]>>,
}

impl Variation {
    /// Variation by `cv`, from 0 to 1: standard deviation over mean.
    pub(crate) fn new(cv: f64) -> Self {
        let exponential = |i: usize| -((i as f64 + 0.5) / QUANTILES as f64).ln();
        let mean = (0..QUANTILES).map(exponential).sum::<f64>() / QUANTILES as f64;
        let factor = |i| ((1.0 - cv + cv * exponential(i) / mean) * 1024.0).round() as u32;
        let factors = (cv > 0.0).then(|| {
            let mut all = Box::new([0; QUANTILES]);
            all.iter_mut().enumerate().for_each(|(i, f)| *f = factor(i));
            all
        });
        Variation { factors }
    }

    /// A time, varied.
    #[inline]
    pub(crate) fn apply(&self, time: Time, random: &Random) -> Time {
        match &self.factors {
            None => time,
            Some(factors) => Time::from_ps(time.ps() * u64::from(factors[random.next() as usize % QUANTILES]) / 1024),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_spread_are_as_asked() {
        let random = Random::new(1);
        for cv in [0.0, 0.2, 0.5, 1.0] {
            let variation = Variation::new(cv);
            let times: Vec<f64> =
                (0..100_000).map(|_| variation.apply(Time::from_ps(1000), &random).ps() as f64).collect();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let deviation = (times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / times.len() as f64).sqrt();
            assert!((mean - 1000.0).abs() < 10.0, "mean {mean} with cv {cv}");
            assert!((deviation / 1000.0 - cv).abs() < 0.02, "deviation {deviation} with cv {cv}");
        }
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let random = Random::new(7);
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
