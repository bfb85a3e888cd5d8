//! The mean of samples, and the interval of a difference of means. Pure: numbers in, numbers out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Samples with their mean and their spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of single samples; null for a single sample.
    pub deviation: Option<f64>,
    /// The samples.
    pub samples: Vec<f64>,
}

impl Samples {
    /// The mean and spread of `samples`; `None` without samples.
    #[must_use]
    pub fn of(samples: Vec<f64>) -> Option<Samples> {
        let n = samples.len() as f64;
        if samples.is_empty() {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / n;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviation = (samples.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        Some(Samples { mean, deviation, samples })
    }

    /// The variance of the mean.
    fn variance_of_mean(&self) -> Option<f64> {
        Some(self.deviation?.powi(2) / self.samples.len() as f64)
    }
}

/// The interval of the difference `b - a` of the means, by Welch's method: the two sides may differ in their variance.
/// The interval contains the true difference with the probability `confidence`, if means of samples are distributed
/// normally. `None` if a side has a single sample: its noise is unknown.
#[must_use]
pub fn interval(a: &Samples, b: &Samples, confidence: f64) -> Option<(f64, f64)> {
    let (va, vb) = (a.variance_of_mean()?, b.variance_of_mean()?);
    let (difference, variance) = (b.mean - a.mean, va + vb);
    if variance == 0.0 {
        return Some((difference, difference));
    }
    let degrees = |samples: &Samples| (samples.samples.len() - 1) as f64;
    // Welch-Satterthwaite.
    let freedom = variance.powi(2) / (va.powi(2) / degrees(a) + vb.powi(2) / degrees(b));
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.5 + confidence / 2.0);
    let half = t * variance.sqrt();
    Some((difference - half, difference + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(all: &[f64]) -> Samples {
        Samples::of(all.to_vec()).unwrap()
    }

    #[test]
    fn the_interval_is_welchs() {
        // Means 3 and 6, variances 2.5 and 10, five samples each: the variance of the difference is 0.5 + 2 = 2.5, the
        // degrees of freedom are 2.5^2 / (0.5^2 / 4 + 2^2 / 4) = 5.882, and t(0.975, 5.882) is 2.4589.
        let (a, b) = (samples(&[1.0, 2.0, 3.0, 4.0, 5.0]), samples(&[2.0, 4.0, 6.0, 8.0, 10.0]));
        let (low, high) = interval(&a, &b, 0.95).unwrap();
        let half = 2.4589 * 2.5_f64.sqrt();
        assert!((low - (3.0 - half)).abs() < 2e-3 && (high - (3.0 + half)).abs() < 2e-3, "{low} {high}");
        // More confidence, a wider interval.
        let (wide_low, wide_high) = interval(&a, &b, 0.999).unwrap();
        assert!(wide_low < low && wide_high > high);
    }

    #[test]
    fn a_single_sample_has_no_known_noise() {
        assert_eq!(interval(&samples(&[1.0]), &samples(&[2.0, 3.0]), 0.95), None);
        assert_eq!(Samples::of(vec![]), None);
        assert_eq!(samples(&[1.0]).deviation, None);
    }

    #[test]
    fn samples_without_spread_differ_for_certain() {
        assert_eq!(interval(&samples(&[1.0, 1.0]), &samples(&[2.0, 2.0]), 0.95), Some((1.0, 1.0)));
    }

    /// Of intervals of 95 % over noise alone, about 5 % exclude 0.
    #[test]
    fn intervals_of_noise_exclude_zero_as_often_as_they_say() {
        let mut state = 1_u64;
        // Sums of twelve uniform numbers are nearly normal.
        let mut normal = || {
            let uniform = |state: &mut u64| {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*state >> 11) as f64 / (1_u64 << 53) as f64
            };
            (0..12).map(|_| uniform(&mut state)).sum::<f64>() - 6.0
        };
        let mut excluded = 0;
        for _ in 0..4000 {
            let a: Vec<f64> = (0..5).map(|_| normal()).collect();
            let b: Vec<f64> = (0..3).map(|_| 3.0 * normal()).collect();
            let (low, high) = interval(&samples(&a), &samples(&b), 0.95).unwrap();
            excluded += u32::from(low > 0.0 || high < 0.0);
        }
        assert!((120..=280).contains(&excluded), "{excluded} of 4000, expected near 200");
    }
}
