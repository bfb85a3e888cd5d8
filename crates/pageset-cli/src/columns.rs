//! Text in aligned columns, for people.

use std::ops::Range;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
pub(crate) use pageset_trace::number::grouped;

/// The largest width of text for people. Unit: characters. Source: `max_term_width` of the command line's help.
const WIDTH: u16 = 120;

/// A table without lines. The columns `words` are aligned to the left, all others, which are numbers, to the right.
pub(crate) fn numbers<'a>(heads: impl Iterator<Item = &'a str>, words: Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(heads);
    for (i, column) in table.column_iter_mut().enumerate() {
        if !words.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A table of words without lines. Cells wrap so that the table is at most [`WIDTH`] wide.
pub(crate) fn wrapped<'a>(heads: impl Iterator<Item = &'a str>) -> Table {
    let mut table = numbers(heads, 0..usize::MAX);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table
}

/// The table's text without spaces at the ends of lines.
pub(crate) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A standard deviation between seeds in percent of their mean; `-` for a single seed.
pub(crate) fn spread_pct(deviation: f64, mean: f64) -> String {
    if deviation > 0.0 { format!("{:.2}", 100.0 * deviation / mean) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::spread_pct;

    #[test]
    fn one_seed_has_no_spread() {
        assert_eq!((spread_pct(1.0, 50.0).as_str(), spread_pct(0.0, 50.0).as_str()), ("2.00", "-"));
    }
}
