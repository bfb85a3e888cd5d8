//! Suggestions for misspelt words.

/// The name of `names` that is closest to `word`, if it is close enough: within one edit per five letters, and at least
/// one.
#[must_use]
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let edits_max = (word.chars().count() / 5).max(1);
    let distance = |name: &str| strsim::osa_distance(word, name);
    names.map(|name| (distance(name), name)).filter(|(d, _)| *d <= edits_max).min().map(|(_, name)| name)
}

/// ` (did you mean NAME?)`, or empty.
#[must_use]
pub fn suggestion<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    nearest(word, names).map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names() {
        let names = ["batch", "auto_high", "below_high", "high_threshold_616", "linux-6.7", "linux-6.18"];
        for (word, meant) in [
            ("bath", Some("batch")),
            ("bacth", Some("batch")),
            ("autohigh", Some("auto_high")),
            ("high_treshhold_616", Some("high_threshold_616")),
            ("linux6.18", Some("linux-6.18")),
            ("linux-7.0", None),
            ("size", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names.into_iter()), meant, "{word}");
        }
    }
}
