//! A comparison as text.

use comfy_table::{Table, presets};
use pageset_statistics::Samples;

use super::model::{Diff, Row, Verdict};
use crate::columns::{Fit, figure, numbers, spread_pct, trimmed};
use crate::measure::{Better, Change};

/// The column headings.
pub const HEADS: [&str; 9] =
    ["case", "metric", "A", "A spread %", "B", "B spread %", "change", "change between", "verdict"];
/// The importance of the columns: those with the largest number leave first.
const RANKS: [usize; 9] = [1, 0, 3, 6, 4, 7, 2, 5, 0];

pub(super) fn text(diff: &Diff, fit: &Fit) -> String {
    let mut text = fit.prose(&answer(diff));
    text.push('\n');
    text += &trimmed(&head(diff));
    text.push('\n');
    text += &fit.table(rows(diff), &RANKS);
    text.push('\n');
    text += &summary(diff);
    for (side, cases) in [("A", &diff.only_a), ("B", &diff.only_b)] {
        for case in cases {
            text += &fit.prose(&format!("only in {side}: {case}\n"));
        }
    }
    diff.notes.iter().for_each(|note| text += &fit.prose(&format!("note: {note}\n")));
    text
}

/// What changed, in one sentence. Each group of rows is shown by its largest change.
fn answer(diff: &Diff) -> String {
    let of = |verdict: Verdict| diff.rows.iter().filter(move |row| row.verdict == verdict);
    // A metric with a better direction decides, and a change from 0 has no size.
    let decides = |row: &Row| (row.better != Better::Neither, row.change.map_or(-1.0, f64::abs));
    let most = |verdict| {
        let by_size = |a: &&Row, b: &&Row| {
            let (a, b) = (decides(a), decides(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        let row = of(verdict).max_by(by_size)?;
        let case = if row.case.is_empty() { String::new() } else { format!(" ({})", row.case) };
        Some(format!("{}{case}, {}", row.metric, changed(row)))
    };
    let named = [(Verdict::Worse, "worse"), (Verdict::Better, "better"), (Verdict::Changed, "changed")];
    let parts: Vec<String> = named
        .into_iter()
        .filter_map(|(verdict, name)| Some(format!("{name} in {}, most in {}", of(verdict).count(), most(verdict)?)))
        .collect();
    let all = match diff.rows.len() {
        1 => "1 row".to_owned(),
        rows => format!("{rows} rows"),
    };
    let answer = match (parts.is_empty(), most(Verdict::UnknownNoise)) {
        (false, _) => format!("Of {all}, B is {}.\n", parts.join("; ")),
        (true, Some(largest)) => format!(
            "Cannot tell a change from noise: a side has one file or sample. The largest change is {largest}.\n"
        ),
        (true, None) if of(Verdict::Noise).next().is_some() => format!("No change is more than noise, in {all}.\n"),
        (true, None) => format!("Nothing changed, in {all}.\n"),
    };
    match diff.subject.iter().any(|subject| subject.name == "load") {
        true => format!("A and B have different loads, so a change tells little. {answer}"),
        false => answer,
    }
}

/// A change in its unit, or both means if the first is 0.
fn changed(row: &Row) -> String {
    match row.change {
        Some(_) => change(row, row.change),
        None => format!("{} to {}", figure(row.a.mean), figure(row.b.mean)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::Side;
    use crate::measure::{Kind, Measured, Metric};

    static RUN: Kind = Kind { name: "run", about: "a result of a run", by_file: false, note: "" };

    /// The sentence about metrics, each with its better direction and the samples of both sides.
    fn answered(load: [&str; 2], metrics: &[(&str, Better, &[f64], &[f64])]) -> String {
        let side = |which: usize| {
            let of = |(name, better, a, b): &(&str, Better, &[f64], &[f64])| Measured {
                kind: &RUN,
                case: vec![("load", load[which].to_owned())],
                metric: Metric { name: (*name).to_owned(), better: *better, change: Change::Percent },
                samples: [a, b][which].iter().zip(0..).map(|(value, seed)| (Some(seed), *value)).collect(),
            };
            Side { files: Vec::new(), measured: vec![metrics.iter().map(of).collect()] }
        };
        answer(&Diff::of(&side(0), &side(1), None).unwrap())
    }

    #[test]
    fn the_answer_is_one_sentence() {
        let (low, high) = (&[100.0, 101.0, 99.0][..], &[120.0, 121.0, 119.0][..]);
        let (lower, neither) = (Better::Lower, Better::Neither);
        let of = |metrics: &[_]| answered(["w", "w"], metrics);
        assert_eq!(
            of(&[("x", lower, low, high), ("y", lower, high, low), ("z", neither, low, high)]),
            "Of 3 rows, B is worse in 1, most in x, +20.00 %; better in 1, most in y, -16.67 %; changed in 1, most in z, +20.00 %.\n"
        );
        assert_eq!(of(&[("x", lower, low, &[101.0, 102.0, 98.0])]), "No change is more than noise, in 1 row.\n");
        assert_eq!(of(&[("x", lower, &[1.0, 1.0], &[1.0, 1.0])]), "Nothing changed, in 1 row.\n");
        // A metric with a direction is named before a larger change of another, and a percentage before a change from 0.
        let one = [("x", lower, &[2.0][..], &[3.0][..]), ("z", neither, &[1.0], &[9.0]), ("y", lower, &[0.0], &[7.0])];
        let single =
            "Cannot tell a change from noise: a side has one file or sample. The largest change is x, +50.00 %.\n";
        assert_eq!(of(&one), single);
        assert!(of(&one[2..]).ends_with("The largest change is y, 0 to 7.000.\n"), "{}", of(&one[2..]));
        let apart = answered(["v", "w"], &one);
        assert_eq!(apart, format!("A and B have different loads, so a change tells little. {single}"));
    }
}
