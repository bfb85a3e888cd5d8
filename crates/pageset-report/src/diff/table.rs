//! A comparison as text.

use comfy_table::{Table, presets};
use pageset_statistics::Samples;

use super::model::{Diff, Row, Verdict};
use crate::columns::{Fit, figure, numbers, spread_pct, trimmed};
use crate::measure::Change;

/// The column headings.
pub const HEADS: [&str; 9] =
    ["case", "metric", "A", "A spread %", "B", "B spread %", "change", "change between", "verdict"];
/// The importance of the columns: those with the largest number leave first.
const RANKS: [usize; 9] = [1, 0, 3, 6, 4, 7, 2, 5, 0];

pub(super) fn text(diff: &Diff, fit: &Fit) -> String {
    let mut text = trimmed(&head(diff));
    text.push('\n');
    text += &fit.table(rows(diff), &RANKS);
    text.push('\n');
    text += &summary(diff);
    for (side, cases) in [("A", &diff.only_a), ("B", &diff.only_b)] {
        for case in cases {
            text += &format!("only in {side}: {case}\n");
        }
    }
    diff.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

fn head(diff: &Diff) -> Table {
    let mut lines = Table::new();
    lines.load_preset(presets::NOTHING);
    let files = |files: &[String]| match files {
        [first, .., last] => format!("{first} to {last}, {} files", files.len()),
        files => files.join(""),
    };
    lines.add_row(["A".to_owned(), files(&diff.a_files)]);
    lines.add_row(["B".to_owned(), files(&diff.b_files)]);
    for subject in &diff.subject {
        lines.add_row([subject.name.clone(), format!("{} in A, {} in B", subject.a, subject.b)]);
    }
    for property in &diff.common {
        lines.add_row([property.name.clone(), property.value.clone()]);
    }
    lines
}

fn rows(diff: &Diff) -> Table {
    let with_case = diff.rows.iter().any(|row| !row.case.is_empty());
    let mut table = numbers(HEADS.into_iter(), 0..2);
    if let Some(column) = table.column_mut(8) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for row in &diff.rows {
        let spread = |of: &Samples| of.deviation.map_or("-".to_owned(), |deviation| spread_pct(deviation, of.mean));
        let verdict = if row.fails { format!("{}, fails", row.verdict.name()) } else { row.verdict.name().to_owned() };
        table.add_row([
            row.case.clone(),
            row.metric.clone(),
            figure(row.a.mean),
            spread(&row.a),
            figure(row.b.mean),
            spread(&row.b),
            change(row, row.change),
            between(row),
            verdict,
        ]);
    }
    if !with_case && let Some(column) = table.column_mut(0) {
        column.set_constraint(comfy_table::ColumnConstraint::Hidden);
    }
    table
}

/// A change in its unit.
fn change(row: &Row, change: Option<f64>) -> String {
    let unit = match row.change_unit {
        Change::Percent => "%",
        Change::Points => "points",
    };
    change.map_or("-".to_owned(), |change| format!("{change:+.2} {unit}"))
}

fn between(row: &Row) -> String {
    row.interval.map_or("-".to_owned(), |of| format!("{:+.2} to {:+.2}", of.low, of.high))
}

fn summary(diff: &Diff) -> String {
    let count = |verdict: Verdict| diff.rows.iter().filter(|row| row.verdict == verdict).count();
    let counted = [
        (Verdict::Worse, "worse"),
        (Verdict::Better, "better"),
        (Verdict::Changed, "changed without a better direction"),
        (Verdict::Noise, "within noise"),
        (Verdict::Equal, "equal"),
        (Verdict::UnknownNoise, "of unknown noise"),
    ];
    let parts = counted.into_iter().map(|(verdict, name)| (count(verdict), name)).filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, name)| format!("{count} {name}")).collect();
    format!("{} rows: {}\n", diff.rows.len(), parts.join(", "))
}
