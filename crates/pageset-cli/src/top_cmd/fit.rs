//! Fits columns and lines into a width without cutting a number. Pure: texts in, texts out.

use crate::columns::grouped;

/// A column of a table: its heading and its cells.
pub(super) struct Column {
    pub(super) head: String,
    pub(super) cells: Vec<String>,
    /// The usual width, so that columns stay in place while numbers change. Unit: characters.
    pub(super) usual: usize,
    /// The columns with the largest rank leave first.
    pub(super) rank: usize,
    /// Words are aligned to the left, numbers to the right.
    pub(super) words: bool,
}

impl Column {
    /// The width that shows every cell whole, with a space on the left of numbers and on the right of words. The heading
    /// may be cut. Unit: characters.
    fn needed(&self, is_first: bool) -> usize {
        let longest = self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        longest + usize::from(self.words || !is_first)
    }

    /// A text of this column in `width` characters.
    pub(super) fn padded(&self, text: &str, width: usize) -> String {
        if self.words { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }

    /// The heading in `width` characters, with a space to its neighbour.
    pub(super) fn heading(&self, width: usize, is_first: bool) -> String {
        let room = width.saturating_sub(usize::from(self.words || !is_first));
        self.padded(&self.head.chars().take(room).collect::<String>(), width)
    }
}

/// Marks from nothing to a full character, in eighths.
pub(super) const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
thread_local! {
    /// Every text that was fitted, before anything was cut.
    pub(super) static SEEN: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A text that is drawn whole.
pub(super) fn whole(text: String) -> String {
    #[cfg(test)]
    SEEN.with_borrow_mut(|seen| seen.push(text.clone()));
    text
}

/// The columns that fit into `room`, in their order, each with its width: the most important ones, up to the first that
/// does not fit. Every cell of a returned column fits.
pub(super) fn columns(columns: &[Column], room: usize, usual: bool) -> Vec<(usize, usize)> {
    #[cfg(test)]
    columns
        .iter()
        .flat_map(|column| column.cells.iter().chain([&column.head]))
        .for_each(|text| _ = whole(text.clone()));
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|place| columns[*place].rank);
    let (mut taken, mut fitted) = (0, Vec::new());
    for place in order {
        let column = &columns[place];
        let needed = column.needed(place == 0);
        let width = if usual { needed.max(column.usual) } else { needed.max(column.usual.min(MIN_WIDTH)) };
        if taken + width > room {
            break;
        }
        taken += width;
        fitted.push((place, width));
    }
    fitted.sort_unstable();
    fitted
}

/// The smallest width of a column in a table of short numbers, so that its heading is readable. Unit: characters.
const MIN_WIDTH: usize = 6;

/// A number in at most five characters: `9,999`, `12.3k`, `1.93M`.
pub(super) fn short(number: u64) -> String {
    if number < 10_000 {
        return grouped(number);
    }
    let mut unit: u128 = 1;
    for letter in ["k", "M", "G", "T", "P", "E"] {
        unit *= 1000;
        for (decimals, scale) in [(2_usize, 100_u128), (1, 10), (0, 1)] {
            // Rounded half up, in hundredths, tenths or whole units.
            let value = (u128::from(number) * scale + unit / 2) / unit;
            // Three digits: below 10.00, below 100.0, below 1000.
            if value < 1000 {
                let (whole, part) = (value / scale, value % scale);
                return match decimals {
                    0 => format!("{whole}{letter}"),
                    _ => format!("{whole}.{part:0decimals$}{letter}"),
                };
            }
        }
    }
    grouped(number)
}

/// The parts that fit into `width`, from the first on. A part is shown whole or not at all, except that a first part
/// that is too long loses words at its end. An ellipsis replaces what is left out, if there is room for it.
pub(super) fn line(parts: &[String], width: usize) -> String {
    #[cfg(test)]
    whole(parts.concat());
    let length = |text: &str| text.chars().count();
    let mut text = String::new();
    for (place, part) in parts.iter().enumerate() {
        let ellipsis = usize::from(place + 1 < parts.len());
        if length(&text) + length(part) + ellipsis > width {
            let all: usize = parts[place..].iter().map(|part| length(part)).sum();
            if length(&text) + all <= width {
                text.extend(parts[place..].iter().map(String::as_str));
                return text;
            }
            if place == 0 {
                for word in part.split_inclusive(' ') {
                    if length(&text) + length(word.trim_end()) + 1 > width {
                        break;
                    }
                    text += word;
                }
                text.truncate(text.trim_end().len());
            }
            if length(&text) < width {
                text.push('…');
            }
            return text;
        }
        text += part;
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_numbers() {
        for (number, text) in [
            (0, "0"),
            (9_999, "9,999"),
            (10_000, "10.0k"),
            (772_915, "773k"),
            (999_499, "999k"),
            (999_500, "1.00M"),
            (1_930_000, "1.93M"),
            (9_995_000, "10.0M"),
            (99_950_000, "100M"),
            (u64::MAX, "18.4E"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn lines_lose_whole_parts() {
        let parts = ["CPU 3: 1,234 of 2,000", ", +11", ", refill/s 6,300"].map(str::to_owned);
        assert_eq!(line(&parts, 80), "CPU 3: 1,234 of 2,000, +11, refill/s 6,300");
        assert_eq!(line(&parts, 42), "CPU 3: 1,234 of 2,000, +11, refill/s 6,300");
        assert_eq!(line(&parts, 41), "CPU 3: 1,234 of 2,000, +11…");
        assert_eq!(line(&parts, 22), "CPU 3: 1,234 of 2,000…");
        assert_eq!(line(&parts, 15), "CPU 3: 1,234…");
        assert_eq!((line(&parts, 2).as_str(), line(&parts, 0).as_str()), ("…", ""));
    }

    proptest! {
        #[test]
        fn a_short_number_is_near_and_fits(number: u64) {
            let text = short(number);
            prop_assert!(text.len() <= 5, "{text}");
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let power = "kMGTPE".find(text.chars().last().unwrap()).map_or(0, |place| place as i32 + 1);
            let value: f64 = digits.replace(',', "").parse::<f64>().unwrap() * 1000_f64.powi(power);
            prop_assert!((value - number as f64).abs() <= 0.005 * number as f64, "{number}: {text}");
        }

        #[test]
        fn a_line_fits(parts in prop::collection::vec("[a-z0-9, ]{0,12}", 0..6), width in 0..60_usize) {
            let fitted = line(&parts, width);
            prop_assert!(fitted.chars().count() <= width, "{fitted:?}");
            let all = parts.concat();
            prop_assert!(all == fitted || all.starts_with(fitted.trim_end_matches('…').trim_end()), "{fitted:?}");
            prop_assert!(all.chars().count() > width || all == fitted, "{fitted:?}");
        }
    }
}
