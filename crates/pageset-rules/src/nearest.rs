//! Suggestions for misspelt words.

use std::cmp::{Ordering, Reverse};

/// The number of names in a suggestion.
const SHOWN: usize = 3;

/// A name by its meaning: the text with `#` for each number, and the numbers. `linux-6.1` and `linux-6.10` have one text and
/// different numbers, although one letter turns one into the other.
fn parts(text: &str) -> (String, Vec<u64>) {
    let (mut shape, mut numbers) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if digits > 0 {
            shape.push('#');
            numbers.push(rest[..digits].parse().unwrap_or(u64::MAX));
            rest = &rest[digits..];
        } else {
            shape.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    (shape, numbers)
}

/// How far a name is from a word: edits of the text, then differences of the numbers, the first number first. After the
/// first number that differs, the larger numbers are nearer to a word above the name, as 6.19 is nearer to 7.0 than 6.0.
fn distance(word: &(String, Vec<u64>), name: &str) -> (usize, Vec<u64>, Reverse<usize>) {
    let (shape, numbers) = parts(name);
    let edits = strsim::osa_distance(&word.0, &shape);
    let length = word.1.len().max(numbers.len());
    let at = |all: &[u64], place: usize| all.get(place).copied().unwrap_or(0);
    let mut side = Ordering::Equal;
    let difference = |place| {
        let (wanted, number) = (at(&word.1, place), at(&numbers, place));
        let before = side;
        side = side.then(wanted.cmp(&number));
        match before {
            Ordering::Equal => wanted.abs_diff(number),
            Ordering::Greater => u64::MAX - number,
            Ordering::Less => number,
        }
    };
    let differences = (0..length).map(difference).collect();
    // Among equals, a name that begins like the word.
    let alike = word.0.chars().zip(shape.chars()).take_while(|(a, b)| a == b).count();
    (edits, differences, Reverse(alike))
}

/// The three names that are closest to `word` in their meaning, the closest first. Fewer if there are fewer names.
pub fn closest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let word = parts(word);
    let mut ranked: Vec<_> = names.map(|name| (distance(&word, name), name)).collect();
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().take(SHOWN).map(|(_, name)| name).collect()
}

/// `; the closest are A, B, C`, or empty without names.
pub fn suggestion<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    match closest(word, names) {
        names if names.is_empty() => String::new(),
        names => format!("; the closest are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names() {
        let names = ["batch", "auto_high", "below_high", "high_threshold_616", "linux-6.7", "linux-6.10", "linux-5.18"];
        for (word, meant) in [
            ("bath", "batch"),
            ("bacth", "batch"),
            ("autohigh", "auto_high"),
            ("high_treshhold_616", "high_threshold_616"),
            ("linux6.7", "linux-6.7"),
            // 6.1 is older than 6.7: 6.10 is further away, although it has the same letters and one more.
            ("linux-6.1", "linux-6.7"),
            ("linux-6.11", "linux-6.10"),
            ("linux-5.4", "linux-5.18"),
            ("linux-12.0", "linux-6.10"),
            ("linux-2.6", "linux-5.18"),
        ] {
            let found = closest(word, names.into_iter());
            assert_eq!((found[0], found.len()), (meant, 3), "{word}: {found:?}");
        }
        assert_eq!(closest("linux-6.1", names.into_iter()), ["linux-6.7", "linux-6.10", "linux-5.18"]);
        assert_eq!(closest("a", ["b"].into_iter()), ["b"]);
        assert_eq!(suggestion("a", std::iter::empty()), "");
        assert_eq!(suggestion("a", ["b", "ab"].into_iter()), "; the closest are ab, b");
        // A number that no integer holds.
        assert_eq!(parts("x99999999999999999999999y"), ("x#y".to_owned(), vec![u64::MAX]));
    }
}
