//! Numbers that may be missing, as text.

use crate::columns::{self, grouped};

pub(super) const NONE: &str = "-";

/// A number, or `-` for none.
pub(super) fn number(number: Option<u64>) -> String {
    number.map_or(NONE.to_owned(), grouped)
}

/// A change with its sign.
pub(super) fn signed(change: Option<i64>) -> String {
    change.map_or(NONE.to_owned(), columns::signed)
}

/// A rate, in whole numbers.
pub(super) fn rate(rate: Option<f64>) -> String {
    rate.map_or(NONE.to_owned(), |rate| grouped(rate.round() as u64))
}

/// A percentage with two decimals.
pub(super) fn percent(percent: Option<f64>) -> String {
    percent.map_or(NONE.to_owned(), |percent| format!("{percent:.2}"))
}

/// A fragmentation index; `ok` if there is a block.
pub(super) fn index(index: Option<f64>) -> String {
    index.map_or("ok".to_owned(), |index| format!("{index:.2}"))
}
