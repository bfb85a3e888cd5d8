//! Scales of charts, and numbers as text.

/// The ratio of the largest to the smallest bar from which a scale is logarithmic: two decades. Below, small bars are
/// still a few pixels wide. A guess.
const LOG_FROM: f64 = 100.0;
/// The ratio of the largest value to a line's peak, or to the median of a map, from which a scale is logarithmic. A
/// guess: below, a line of a twentieth of the height is still readable.
const LOG_FROM_TYPICAL: f64 = 30.0;
/// The most decades of a scale for lines and maps. Smaller values are at its bottom. A guess.
const DECADES: f64 = 5.0;

/// A scale: which values it shows, and where its ticks are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Scale {
    /// From 0 to the top.
    Linear { top: f64, step: f64 },
    /// From one power of ten to another.
    Log { bottom: f64, top: f64 },
}

impl Scale {
    /// The scale of these values. Logarithmic if the positive ones span decades.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let most = values.clone().fold(0.0, f64::max);
        let least = values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        if least.is_finite() && most / least >= LOG_FROM {
            let power = |value: f64| 10_f64.powf(value);
            return Scale::Log { bottom: power(least.log10().floor()), top: power((most * 0.999).log10().ceil()) };
        }
        Scale::to(most)
    }

    /// The linear scale with this largest value.
    fn to(most: f64) -> Scale {
        let (top, step) = linear(most);
        Scale::Linear { top, step }
    }

    /// The scale of values of which some are typical: logarithmic if these are much smaller than the largest.
    pub(super) fn of_typical(values: impl Iterator<Item = f64> + Clone, typical: f64) -> Scale {
        let most = values.clone().fold(0.0, f64::max);
        if typical <= 0.0 || most / typical < LOG_FROM_TYPICAL {
            return Scale::to(most);
        }
        let least = values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let top = (most * 0.999).log10().ceil();
        let bottom = least.log10().floor().max(top - DECADES);
        Scale::Log { bottom: 10_f64.powf(bottom), top: 10_f64.powf(top) }
    }

    /// The place of a value: 0 at the bottom, 1 at the top. Values below the bottom are at the bottom.
    pub(super) fn place(self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear { top, .. } => value / top,
            Scale::Log { bottom, .. } if value <= bottom => 0.0,
            Scale::Log { bottom, top } => (value / bottom).ln() / (top / bottom).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// The places of the ticks and their texts.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        match self {
            Scale::Linear { top, step } => {
                let steps = (top / step).round() as usize;
                (0..=steps).map(|i| i as f64 * step).map(|value| (self.place(value), tick(value, step))).collect()
            }
            Scale::Log { bottom, top } => {
                let decades = (top / bottom).log10().round() as i32;
                let value = |i: i32| bottom * 10_f64.powi(i);
                // At most seven ticks.
                let every = decades / 7 + 1;
                (0..=decades).filter(|i| i % every == 0).map(|i| (self.place(value(i)), plain(value(i)))).collect()
            }
        }
    }

    pub(super) const fn is_log(self) -> bool {
        matches!(self, Scale::Log { .. })
    }
}

/// The top of the scale, which is a round number at or above the largest value, and the step of the scale.
pub(super) fn linear(most: f64) -> (f64, f64) {
    if most <= 0.0 || !most.is_finite() {
        return (1.0, 1.0);
    }
    let raw = most / 4.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= raw).unwrap_or(raw);
    ((most / step).ceil() * step, step)
}

/// A number as text for an axis or a table.
pub fn plain(value: f64) -> String {
    // The fraction of a number of a thousand or more does not matter.
    if ((value - value.round()).abs() < 1e-9 || value.abs() >= 1000.0) && value.abs() < 1e15 {
        let sign = if value <= -0.5 { "-" } else { "" };
        return format!("{sign}{}", crate::columns::grouped(value.abs().round() as u64));
    }
    match value.abs() {
        // Two significant digits.
        small if small < 0.1 => {
            let places = (1 - small.log10().floor() as i32).clamp(2, 12) as usize;
            format!("{value:.places$}").trim_end_matches('0').to_owned()
        }
        small if small < 10.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

/// A number of a scale, with as many decimals as the step.
pub(super) fn tick(value: f64, step: f64) -> String {
    let whole = |places: &usize| {
        let scaled = step * 10_f64.powi(*places as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    match (0..12).find(whole) {
        Some(0) | None => plain(value),
        Some(_) if value == 0.0 => plain(value),
        Some(places) => format!("{value:.places$}"),
    }
}
