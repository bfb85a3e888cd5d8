//! Columns that fit into a width, with whole or short numbers, and their lines.

use ratatui::text::Span;

use super::super::figures::{rate, signed};
use super::super::fit::{self, Column};
use crate::columns::grouped;

/// Columns, and the place and width of those that fit.
pub(super) struct Fitted {
    pub(super) columns: Vec<Column>,
    pub(super) widths: Vec<(usize, usize)>,
}

impl Fitted {
    /// The columns that fit into `room`. `all(short)` makes the columns, with whole or with short numbers: short ones if
    /// whole ones leave no room for the columns of a rank below `essential`.
    pub(super) fn new(all: impl Fn(bool) -> Vec<Column>, room: usize, essential: usize) -> Fitted {
        let columns = all(false);
        let widths = fit::columns(&columns, room, true);
        let essentials = columns.iter().filter(|column| column.rank < essential).count();
        if widths.len() >= essentials {
            return Fitted { columns, widths };
        }
        let columns = all(true);
        let widths = fit::columns(&columns, room, false);
        Fitted { columns, widths }
    }

    /// The characters that the columns take.
    pub(super) fn width(&self) -> usize {
        self.widths.iter().map(|(_, width)| width).sum()
    }

    /// The heading of a shown column.
    pub(super) fn heading(&self, shown: usize) -> Span<'static> {
        let (place, width) = self.widths[shown];
        Span::raw(self.columns[place].heading(width, place == 0))
    }

    /// A cell of a shown column.
    pub(super) fn cell(&self, shown: usize, line: usize) -> Span<'static> {
        let (place, width) = self.widths[shown];
        Span::raw(self.columns[place].padded(&self.columns[place].cells[line], width))
    }
}

/// A number, whole or short.
pub(super) fn pages(number: u64, short: bool) -> String {
    if short { fit::short(number) } else { grouped(number) }
}

/// A change with its sign, whole or short.
pub(super) fn change(change: Option<i64>, short: bool) -> String {
    match change.filter(|change| short && *change != 0) {
        None => signed(change),
        Some(by) => format!("{}{}", if by < 0 { "-" } else { "+" }, fit::short(by.unsigned_abs())),
    }
}

/// A rate, whole or short.
pub(super) fn per_s(value: Option<f64>, short: bool) -> String {
    value.filter(|_| short).map_or_else(|| rate(value), |value| fit::short(value.round() as u64))
}
