//! Sparklines in Braille: two values in a character, four dots high. Pure.

/// The dots of a column from the bottom up: left and right half of a character.
const DOTS: [[u32; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
/// The character without dots.
const BLANK: u32 = 0x2800;

/// The form of a sparkline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Filled from the bottom: an amount.
    Filled,
    /// Only the topmost dot: a limit.
    Line,
}

/// The last values in `width` characters, scaled to `most`; the last value is on the right. A value above 0 has at least
/// a dot.
pub(super) fn spark(values: &[Option<f32>], most: f32, width: usize, form: Form) -> String {
    let columns = 2 * width;
    let shown = &values[values.len().saturating_sub(columns)..];
    let level = |value: Option<f32>| match value {
        Some(value) if value > 0.0 && most > 0.0 => ((value / most * 4.0).ceil() as usize).clamp(1, 4),
        _ => 0,
    };
    let mut levels = vec![0; columns - shown.len()];
    levels.extend(shown.iter().map(|value| level(*value)));
    let dots = |level: usize, half: usize| -> u32 {
        match form {
            Form::Filled => DOTS[half][..level].iter().sum(),
            Form::Line => level.checked_sub(1).map_or(0, |top| DOTS[half][top]),
        }
    };
    let character = |pair: &[usize]| char::from_u32(BLANK + dots(pair[0], 0) + dots(pair[1], 1)).unwrap_or(' ');
    levels.chunks(2).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_in_a_character() {
        let values: Vec<Option<f32>> = [0.0, 1.0, 25.0, 26.0, 75.0, 100.0, 900.0].map(Some).to_vec();
        // The last values that fit, however many there are.
        assert_eq!(spark(&values, 100.0, 2, Form::Filled), "⣴⣿");
        assert_eq!(spark(&values, 100.0, 0, Form::Filled), "");
        // 1 and 25 are in the lowest quarter, 26 in the second, 75 in the third.
        assert_eq!(spark(&values[1..5], 100.0, 2, Form::Filled), "⣀⣴");
        assert_eq!(spark(&values[1..5], 100.0, 2, Form::Line), "⣀⠔");
        // Too few values stay on the right; no value and 0 have no dot.
        assert_eq!(spark(&[None, Some(0.0), Some(5.0)], 5.0, 3, Form::Filled), "⠀⠀⢸");
        assert_eq!(spark(&[Some(5.0)], 0.0, 1, Form::Filled), "⠀");
    }
}
