//! Text in aligned columns, for people.

use std::io;
use std::ops::Range;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use pageset_columns::{Column, Form};
pub use pageset_trace::number::grouped;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::output::WideOption;

/// The largest width of text for people. Unit: characters. Source: `max_term_width` of the command line's help.
const WIDTH: u16 = 120;

/// A table without lines. The columns `words` are aligned to the left, all others, which are numbers, to the right.
pub fn numbers<'a>(heads: impl Iterator<Item = &'a str>, words: Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(heads);
    for (i, column) in table.column_iter_mut().enumerate() {
        if !words.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A table of a type of results: the columns that stand in it, in the order of the fields.
pub struct Shown(Vec<Column>);

impl Shown {
    /// The columns of the rows `R` in the table of this name.
    pub fn of<R: JsonSchema>(name: &str) -> Shown {
        Shown(pageset_columns::columns::<R>().into_iter().filter(|column| column.is_in(name)).collect())
    }

    /// An empty table.
    pub fn table(&self) -> Table {
        let words = self.0.iter().take_while(|column| column.form == Form::Text).count();
        numbers(self.headings(), 0..words)
    }

    /// The headings.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|column| column.heading.as_str())
    }

    /// The importance of the columns, for [`Fit::table`].
    pub fn ranks(&self) -> Vec<usize> {
        self.0.iter().map(|column| column.rank).collect()
    }

    /// The cells of a row, or of a part of a row: those of the columns that it has.
    pub fn cells(&self, row: &impl Serialize) -> Vec<String> {
        let row = serde_json::to_value(row).unwrap_or_default();
        self.0.iter().filter_map(|column| Some(cell(column, column.of(&row)?))).collect()
    }
}

/// A value for people; `-` if it is missing.
fn cell(column: &Column, value: &Value) -> String {
    let real = value.as_f64().unwrap_or(0.0);
    match (value, column.digits) {
        (Value::String(text), _) => text.clone(),
        (Value::Number(number), _) if column.form == Form::Change => signed(number.as_i64().unwrap_or(0)),
        (Value::Number(_), Some(0)) => grouped(real.round() as u64),
        (Value::Number(_), Some(digits)) => format!("{real:.digits$}"),
        (Value::Number(_), None) if column.unit == "percent" => format!("{real:.1} %"),
        (Value::Number(number), None) => number.as_u64().map_or_else(|| figure(real), grouped),
        (Value::Array(words), _) => listed(words),
        (Value::Bool(flag), _) => if *flag { "yes" } else { "no" }.to_owned(),
        _ => "-".to_owned(),
    }
}

fn listed(words: &[Value]) -> String {
    let first = words.iter().take(3).filter_map(Value::as_str);
    first.chain((words.len() > 3).then_some("…")).collect::<Vec<_>>().join(", ")
}

/// The numbers of a row that decide: its columns with a figure, by rank. Without a row they have no values.
pub fn deciding<R: JsonSchema + Serialize>(row: Option<&R>) -> Vec<(Column, Option<f64>)> {
    let json = row.and_then(|row| serde_json::to_value(row).ok()).unwrap_or_default();
    let mut columns: Vec<Column> =
        pageset_columns::columns::<R>().into_iter().filter(|column| !column.figure.is_empty()).collect();
    columns.sort_by_key(|column| column.rank);
    // Of a mean with its deviation, the mean.
    let number = |value: &Value| value.get("mean").unwrap_or(value).as_f64();
    let with_value = |column: Column| {
        let value = column.of(&json).and_then(number);
        (column, value)
    };
    columns.into_iter().map(with_value).collect()
}

/// A change with its sign.
pub fn signed(change: i64) -> String {
    let sign = match change {
        0 => "",
        ..0 => "-",
        1.. => "+",
    };
    format!("{sign}{}", grouped(change.unsigned_abs()))
}

/// A table of words without lines. Cells wrap so that the table is at most 120 characters wide, and fits the terminal.
pub fn wrapped<'a>(heads: impl Iterator<Item = &'a str>) -> Table {
    let mut table = numbers(heads, 0..usize::MAX);
    let line = Fit::new(&WideOption::default()).line().and_then(|width| u16::try_from(width).ok());
    let width = line.unwrap_or(WIDTH).min(WIDTH);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

/// The table's text without spaces at the ends of lines.
pub fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The width of the terminal, which tables of numbers fit.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Of tables of numbers. Unit: characters; `None` without a limit.
    width: Option<usize>,
    /// Of lines of words. Unit: characters; `None` without a limit.
    line: Option<usize>,
}

impl Fit {
    /// No limit.
    pub const UNLIMITED: Fit = Fit { width: None, line: None };

    /// The width of the terminal on standard output. No limit in a pipe, nor with `--wide` for tables of numbers.
    pub fn new(wide: &WideOption) -> Fit {
        let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok();
        // A terminal without a size, such as a serial line, reports 0.
        let line = terminal.map(|size| usize::from(size.ws_col)).filter(|&width| width > 0);
        Fit { width: line.filter(|_| !wide.wide), line }
    }

    /// The width of lines of words. Unit: characters; `None` without a limit.
    pub fn line(self) -> Option<usize> {
        self.line
    }

    /// Lines of words. A line that does not fit is broken between words, and its rest begins with two spaces.
    pub fn prose(self, text: &str) -> String {
        let Some(width) = self.line else { return text.to_owned() };
        let mut lines = String::new();
        for line in text.lines() {
            let mut length = 0;
            for word in line.split(' ') {
                let letters = word.chars().count();
                match length {
                    0 => {}
                    _ if length + 1 + letters > width => {
                        lines += "\n  ";
                        length = 2;
                    }
                    _ => {
                        lines.push(' ');
                        length += 1;
                    }
                }
                lines += word;
                length += letters;
            }
            lines.push('\n');
        }
        lines
    }

    /// A table of words, whose cells wrap.
    pub fn words(self, mut table: Table) -> String {
        if let Some(width) = self.line {
            let width = u16::try_from(width).unwrap_or(u16::MAX);
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        trimmed(&table)
    }

    /// The table's text. Columns that do not fit leave, those with the largest of `ranks` first, and a line below names them.
    /// Columns of rank 0 stay.
    pub fn table(self, mut table: Table, ranks: &[usize]) -> String {
        let Some(width) = self.width else { return trimmed(&table) };
        let heads: Vec<String> =
            table.header().map(|row| row.cell_iter().map(|cell| cell.content()).collect()).unwrap_or_default();
        let mut order: Vec<usize> = (0..ranks.len()).filter(|place| ranks[*place] > 0).collect();
        order.sort_by_key(|place| ranks[*place]);
        let mut left = Vec::new();
        let is_too_wide = |text: &str| text.lines().any(|line| line.chars().count() > width);
        let mut text = trimmed(&table);
        while is_too_wide(&text)
            && let Some(place) = order.pop()
        {
            let Some(column) = table.column_mut(place) else { continue };
            if column.constraint() != Some(&ColumnConstraint::Hidden) {
                column.set_constraint(ColumnConstraint::Hidden);
                left.push(place);
            }
            text = trimmed(&table);
        }
        if !left.is_empty() {
            left.sort_unstable();
            let names: Vec<&str> = left.iter().filter_map(|place| heads.get(*place)).map(String::as_str).collect();
            text += &self.prose(&format!("not shown: {}; --wide shows all columns\n", names.join(", ")));
        }
        text
    }
}

/// A number with four significant digits, and groups of three.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{}{}", if value < 0.0 { "-" } else { "" }, grouped(size.round() as u64)),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// A standard deviation between seeds in percent of their mean; `-` for a single seed.
pub fn spread_pct(deviation: f64, mean: f64) -> String {
    if deviation > 0.0 { format!("{:.2}", 100.0 * deviation / mean) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_leave_by_importance() {
        let table = || {
            let mut table = numbers(["rules", "refills", "pages", "held"].into_iter(), 0..1);
            table.add_row(["linux-6.18", "1,234,567", "22,222", "333"]);
            table
        };
        let fitted = |width| Fit { width, line: None }.table(table(), &[0, 3, 1, 2]);
        let all = trimmed(&table());
        assert_eq!((fitted(None), fitted(Some(80))), (all.clone(), all.clone()));
        let widest = all.lines().map(|line| line.chars().count()).max().unwrap();
        assert_eq!(fitted(Some(widest)), all);
        let narrow = fitted(Some(widest - 1));
        assert!(!narrow.contains("1,234,567") && narrow.contains("22,222") && narrow.contains("333"), "{narrow}");
        assert!(narrow.ends_with("not shown: refills; --wide shows all columns\n"), "{narrow}");
        // A column of rank 0 stays, and no number is cut.
        let least = fitted(Some(3));
        assert!(least.contains("linux-6.18") && least.contains("not shown: refills, pages, held;"), "{least}");
    }

    #[test]
    fn prose_is_broken_between_words() {
        let text = "one two three\nfour\n";
        let prose = |width| Fit { width: None, line: width }.prose(text);
        assert_eq!((prose(None), prose(Some(13))), (text.to_owned(), text.to_owned()));
        assert_eq!(prose(Some(8)), "one two\n  three\nfour\n");
        // A word that is too long stays whole.
        assert_eq!(prose(Some(3)), "one\n  two\n  three\nfour\n");
        let mut table = numbers(["", ""].into_iter(), 0..2);
        table.add_row(["zones", "DMA of 3,840 pages, DMA32 of 500,181 pages"]);
        let lines = Fit { width: None, line: Some(30) }.words(table);
        assert!(lines.lines().count() > 2 && lines.lines().all(|line| line.chars().count() <= 30), "{lines}");
    }

    #[test]
    fn figures_have_four_digits() {
        let texts = [0.0, 0.1234, 12.345, 123.45, 1234.5, 1_234_567.0, -2000.0].map(figure);
        assert_eq!(texts, ["0", "0.123", "12.35", "123.5", "1,235", "1,234,567", "-2,000"].map(str::to_owned));
    }

    #[test]
    fn one_seed_has_no_spread() {
        assert_eq!((spread_pct(1.0, 50.0).as_str(), spread_pct(0.0, 50.0).as_str()), ("2.00", "-"));
    }
}
