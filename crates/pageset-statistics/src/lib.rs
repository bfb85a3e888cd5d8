//! The statistics of all results: what `diff`, reports, studies, comparisons and benchmarks use to tell a difference from
//! noise. Pure: numbers in, numbers out.

pub mod verdict;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The confidence of an interval where no other is asked for: one interval in twenty does not contain the true value.
pub const CONFIDENCE: f64 = 0.95;

/// A mean and a standard deviation.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of single values, 0 where there is only one.
    #[schemars(extend("as" = "spread %"))]
    pub deviation: f64,
}

impl Spread {
    /// The spread of `values`; `None` without values.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        match values.len() {
            0 => None,
            1 => Some(Spread { mean, deviation: 0.0 }),
            _ => Some(Spread { mean, deviation: (squares / (n - 1.0)).sqrt() }),
        }
    }
}

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
    pub fn of(samples: Vec<f64>) -> Option<Samples> {
        let Spread { mean, deviation } = Spread::of(&samples)?;
        Some(Samples { mean, deviation: (samples.len() > 1).then_some(deviation), samples })
    }
}

/// Half the width of an interval in standard errors, by Student's distribution. Infinite without a degree of freedom.
pub fn student(freedom: f64, confidence: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, freedom);
    distribution.map_or(f64::INFINITY, |distribution| distribution.inverse_cdf(0.5 + confidence / 2.0))
}

/// Half the width of the 95 % interval of the mean of `values`. `None` with fewer than two values.
pub fn interval_95(values: &[f64]) -> Option<f64> {
    let spread = Spread::of(values).filter(|_| values.len() > 1)?;
    let n = values.len() as f64;
    Some(student(n - 1.0, CONFIDENCE) * spread.deviation / n.sqrt())
}

/// The interval of the difference `b - a` of the means, by Welch's method: the two sides may differ in their variance.
/// The interval contains the true difference with the probability `confidence`, if means of values are distributed
/// normally. `None` if a side has fewer than two values: its noise is unknown.
pub fn difference(a: &[f64], b: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let (of_a, of_b) = (Spread::of(a)?, Spread::of(b)?);
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let variance_of_mean = |spread: Spread, values: &[f64]| spread.deviation.powi(2) / values.len() as f64;
    let (va, vb) = (variance_of_mean(of_a, a), variance_of_mean(of_b, b));
    let (difference, variance) = (of_b.mean - of_a.mean, va + vb);
    if variance == 0.0 {
        return Some((difference, difference));
    }
    let degrees = |values: &[f64]| (values.len() - 1) as f64;
    // Welch-Satterthwaite.
    let freedom = variance.powi(2) / (va.powi(2) / degrees(a) + vb.powi(2) / degrees(b));
    let half = student(freedom, confidence) * variance.sqrt();
    Some((difference - half, difference + half))
}

/// How the mean of one side differs from that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// All values are equal.
    Equal,
    /// A side has a single value, so its noise is unknown.
    UnknownNoise,
    /// The difference may be noise.
    Noise,
    /// The second mean is lower.
    Lower,
    /// The second mean is higher.
    Higher,
}

/// Whether `b` differs from `a` by more than noise.
pub fn compare(a: &[f64], b: &[f64], confidence: f64) -> Compared {
    let mut all = a.iter().chain(b);
    let first = all.next();
    if all.all(|value| Some(value) == first) {
        return Compared::Equal;
    }
    match difference(a, b, confidence) {
        None => Compared::UnknownNoise,
        Some((low, _)) if low > 0.0 => Compared::Higher,
        Some((_, high)) if high < 0.0 => Compared::Lower,
        Some(_) => Compared::Noise,
    }
}

/// The quantile at `share`, interpolated between two values; `None` without values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// The geometric mean of positive values; `None` without values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).collect();
    Some(Spread::of(&logs)?.mean.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_students_distribution_match_a_table() {
        for (freedom, quantile) in
            [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (1000.0, 1.962)]
        {
            assert!((student(freedom, CONFIDENCE) - quantile).abs() < 5e-4, "{freedom}");
        }
        assert!(student(0.0, CONFIDENCE).is_infinite());
    }

    #[test]
    fn spread_of_no_value_one_value_and_several_values() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[5.0]), Some(Spread { mean: 5.0, deviation: 0.0 }));
        assert_eq!(Spread::of(&[1.0, 2.0, 3.0]), Some(Spread { mean: 2.0, deviation: 1.0 }));
        assert_eq!(Samples::of(vec![]), None);
        assert_eq!(Samples::of(vec![1.0]).unwrap().deviation, None);
        // The deviation 1 of three values, 4.303 standard errors.
        assert!((interval_95(&[1.0, 2.0, 3.0]).unwrap() - 4.303 / 3_f64.sqrt()).abs() < 1e-3);
        assert_eq!(interval_95(&[1.0]), None);
    }

    #[test]
    fn the_interval_of_a_difference_is_welchs() {
        // Means 3 and 6, variances 2.5 and 10, five values each: the variance of the difference is 0.5 + 2 = 2.5, the
        // degrees of freedom are 2.5^2 / (0.5^2 / 4 + 2^2 / 4) = 5.882, and t(0.975, 5.882) is 2.4589.
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0]);
        let (low, high) = difference(&a, &b, CONFIDENCE).unwrap();
        let half = 2.4589 * 2.5_f64.sqrt();
        assert!((low - (3.0 - half)).abs() < 2e-3 && (high - (3.0 + half)).abs() < 2e-3, "{low} {high}");
        // More confidence, a wider interval.
        let (wide_low, wide_high) = difference(&a, &b, 0.999).unwrap();
        assert!(wide_low < low && wide_high > high);
    }

    #[test]
    fn a_difference_is_named_only_where_the_noise_is_known() {
        for (a, b, compared) in [
            (&[1.0][..], &[1.0][..], Compared::Equal),
            (&[1.0], &[2.0, 3.0], Compared::UnknownNoise),
            (&[1.0, 1.0], &[2.0, 2.0], Compared::Higher),
            (&[2.0, 2.1, 1.9], &[1.0, 1.1, 0.9], Compared::Lower),
            // Means 100 and 110: more than two standard errors apart, and less than Student's 4.303 with three values.
            (&[99.0, 100.0, 101.0], &[104.0, 110.0, 116.0], Compared::Noise),
        ] {
            assert_eq!(compare(a, b, CONFIDENCE), compared, "{a:?} {b:?}");
        }
        assert_eq!(difference(&[1.0], &[2.0, 3.0], CONFIDENCE), None);
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
            excluded += u32::from(compare(&a, &b, CONFIDENCE) != Compared::Noise);
        }
        assert!((120..=280).contains(&excluded), "{excluded} of 4000, expected near 200");
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0, 5.0], 0.25), Some(2.0));
        assert_eq!(quantile(&[2.0, 1.0], 0.75), Some(1.75));
        assert_eq!(quantile(&[], 0.5), None);
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
