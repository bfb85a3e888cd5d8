//! Variation of durations: random factors, which are the only randomness in virtual time, and the fixed spread of cores.

use std::cell::Cell;

use crate::time::Time;

/// Quantiles in a variation table. A power of two.
const QUANTILES: usize = 1024;

/// A deterministic stream of random numbers (SplitMix64), equal for equal seeds on every machine.
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

    pub(crate) fn below(&self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// A factor on a duration, relative to its mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Factor(u32);

impl Factor {
    pub(crate) const ONE: Factor = Factor(1024);

    /// Multiplies `time` by a random factor.
    #[inline]
    pub(crate) fn of(self, time: Time) -> Time {
        Time::from_ps(time.ps() * u64::from(self.0) / u64::from(Self::ONE.0))
    }
}

/// Factors whose mean is 1.
#[derive(Debug)]
pub(crate) struct Variation {
    /// Equally likely factors; `None` without variation.
    factors: Option<Box<[Factor; QUANTILES]>>,
}

impl Variation {
    /// A constant part plus an exponential part. `cv`, from 0 to 1, is the coefficient of variation: standard deviation
    /// over mean.
    pub(crate) fn exponential(cv: f64) -> Self {
        let exponential = |p: f64| -p.ln();
        let mean = (0..QUANTILES).map(|i| exponential(probability(i))).sum::<f64>() / QUANTILES as f64;
        Self::of_quantiles(cv, |p| 1.0 - cv + cv * exponential(p) / mean)
    }

    /// The lognormal distribution with coefficient of variation `cv`. Its tail ends at the last quantile.
    pub(crate) fn lognormal(cv: f64) -> Self {
        let sigma = cv.mul_add(cv, 1.0).ln().sqrt();
        Self::of_quantiles(cv, |p| (sigma * normal_quantile(p)).exp())
    }

    /// `count` different factors, in thousandths, of the lognormal distribution with coefficient of variation `cv`, which they approach
    /// with many factors: 18 to 28 have 0.85 to 0.9 of it. Their mean is 1000,
    /// and the first few have a mean near it as well: their places in the distribution are a half, a quarter, three quarters,
    /// an eighth and so on (van der Corput's sequence).
    pub(crate) fn spread_permille(cv: f64, count: u32) -> Vec<u64> {
        let sigma = cv.mul_add(cv, 1.0).ln().sqrt();
        let place = |i: u32| f64::from((i + 1).reverse_bits()) / 2_f64.powi(32);
        let factors: Vec<f64> = (0..count).map(|i| (sigma * normal_quantile(place(i))).exp()).collect();
        let mean = factors.iter().sum::<f64>() / f64::from(count);
        factors.iter().map(|factor| (1000.0 * factor / mean).round() as u64).collect()
    }

    /// A distribution from its quantiles, scaled to a mean of 1.
    fn of_quantiles(cv: f64, quantile: impl Fn(f64) -> f64) -> Self {
        let factors = (cv > 0.0).then(|| {
            let mean = (0..QUANTILES).map(|i| quantile(probability(i))).sum::<f64>() / QUANTILES as f64;
            let factor = |i| quantile(probability(i)) / mean * f64::from(Factor::ONE.0);
            Box::new(std::array::from_fn(|i| Factor(factor(i).round() as u32)))
        });
        Variation { factors }
    }

    #[inline]
    pub(crate) fn draw(&self, random: &Random) -> Factor {
        match &self.factors {
            None => Factor::ONE,
            Some(factors) => factors[random.next() as usize % QUANTILES],
        }
    }

    #[inline]
    pub(crate) fn apply(&self, time: Time, random: &Random) -> Time {
        match &self.factors {
            None => time,
            Some(_) => self.draw(random).of(time),
        }
    }
}

/// The midpoint of interval `i` of equally likely intervals.
fn probability(i: usize) -> f64 {
    (i as f64 + 0.5) / QUANTILES as f64
}

/// The quantile of the standard normal distribution at `p`, 0 < `p` < 1; absolute error 0.0005. Abramowitz and Stegun,
/// Handbook of Mathematical Functions, 26.2.23.
fn normal_quantile(p: f64) -> f64 {
    let t = (-2.0 * p.min(1.0 - p).ln()).sqrt();
    let above =
        t - (2.515_517 + t * (0.802_853 + t * 0.010_328)) / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    above.copysign(p - 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_match_the_configuration() {
        let random = Random::new(1);
        let cvs = [0.0, 0.2, 0.5, 1.0];
        let of = |shape: fn(f64) -> Variation| cvs.map(|cv| (cv, shape(cv)));
        for (cv, variation) in of(Variation::exponential).into_iter().chain(of(Variation::lognormal)) {
            let times: Vec<f64> =
                (0..100_000).map(|_| variation.apply(Time::from_ps(1000), &random).ps() as f64).collect();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let deviation = (times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / times.len() as f64).sqrt();
            assert!((mean - 1000.0).abs() < 10.0, "mean {mean} with cv {cv}");
            // The table cuts the tail of the widest distribution at its last quantile.
            let near = if cv < 1.0 { 0.01 } else { 0.03 };
            assert!((deviation / 1000.0 - cv).abs() < near, "deviation {deviation} with cv {cv}");
        }
    }

    #[test]
    fn spread_factors_have_mean_and_deviation_and_the_first_few_are_balanced() {
        let spread = Variation::spread_permille(0.075, 24);
        let mean = |n: usize| spread[..n].iter().sum::<u64>() as f64 / n as f64;
        assert!((mean(24) - 1000.0).abs() < 1.0, "{spread:?}");
        assert!((1..24).all(|n| (mean(n) - 1000.0).abs() < 30.0), "{spread:?}");
        let deviation = (spread.iter().map(|of| (*of as f64 - 1000.0).powi(2)).sum::<f64>() / 24.0).sqrt();
        assert!((60.0..80.0).contains(&deviation), "{deviation}");
        assert_eq!(Variation::spread_permille(0.0, 3), [1000; 3]);
        assert_eq!(Variation::spread_permille(0.5, 1), [1000]);
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let random = Random::new(7);
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
