//! Mean and standard deviation over seeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mean and a standard deviation.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of single values, 0 where there is only one.
    pub deviation: f64,
}

impl Spread {
    /// The spread of `values`; `None` without values.
    #[must_use]
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

/// Half the width of the 95 % interval of the mean of `values`. `None` with fewer than two values.
#[must_use]
pub fn interval_95(values: &[f64]) -> Option<f64> {
    let spread = Spread::of(values).filter(|_| values.len() > 1)?;
    Some(student_95(values.len() - 1) * spread.deviation / (values.len() as f64).sqrt())
}

/// The 97.5 % quantile of Student's distribution: the half-width of a 95 % interval in standard errors.
#[must_use]
pub fn student_95(degrees: usize) -> f64 {
    /// The same quantile of the normal distribution.
    const NORMAL: f64 = 1.959_964;
    let n = degrees as f64;
    match degrees {
        0 => f64::INFINITY,
        1 => 12.706,
        2 => 4.303,
        // Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5: the first four terms.
        _ => {
            let [z3, z5, z7] = [3, 5, 7].map(|power| NORMAL.powi(power));
            NORMAL
                + (z3 + NORMAL) / (4.0 * n)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * NORMAL) / (96.0 * n.powi(2))
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * NORMAL) / (384.0 * n.powi(3))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, student_95};

    #[test]
    fn quantiles_match_a_table() {
        for (degrees, quantile) in [(3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)] {
            assert!((student_95(degrees) / quantile - 1.0).abs() < 0.01, "{degrees}");
        }
        assert!(student_95(0).is_infinite() && student_95(1) > student_95(2) && student_95(2) > student_95(3));
    }

    #[test]
    fn spread_of_no_value_one_value_and_several_values() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[5.0]), Some(Spread { mean: 5.0, deviation: 0.0 }));
        assert_eq!(Spread::of(&[1.0, 2.0, 3.0]), Some(Spread { mean: 2.0, deviation: 1.0 }));
    }
}
