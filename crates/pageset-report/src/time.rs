//! Durations on the command line.

/// The seconds of `500ms`, `1.5s`, `10s`, `2m` or `1h`; a number alone is seconds. `None` for anything else.
pub fn seconds(text: &str) -> Option<f64> {
    let letters = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(letters);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_have_units() {
        let times = ["250us", "500ms", "1.5", "1.5s", "2m", "2min", "1h", "-1s"].map(seconds);
        let expected = [0.00025, 0.5, 1.5, 1.5, 120.0, 120.0, 3600.0, -1.0];
        for (time, expected) in times.into_iter().zip(expected) {
            assert!((time.unwrap() - expected).abs() < 1e-12, "{time:?} {expected}");
        }
        for wrong in ["", "s", "1 s", "1d", "1sec", "s1", "1e"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
