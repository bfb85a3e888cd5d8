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

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn spread_of_no_value_one_value_and_several_values() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[5.0]), Some(Spread { mean: 5.0, deviation: 0.0 }));
        assert_eq!(Spread::of(&[1.0, 2.0, 3.0]), Some(Spread { mean: 2.0, deviation: 1.0 }));
    }
}
