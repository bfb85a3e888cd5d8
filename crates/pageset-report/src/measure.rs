//! A metric with its direction, and its samples.

use std::path::Path;

use pageset_columns::Column;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which direction of a metric is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither: the metric describes the load, or is a gain and a cost at once.
    Neither,
}

/// The unit of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Percent of the mean of A.
    Percent,
    /// Percentage points: the metric is a share itself.
    Points,
}

/// A measured quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as in the tables of the commands.
    pub name: String,
    /// The better direction.
    pub better: Better,
    /// The unit of its change.
    pub change: Change,
}

/// A kind of inputs. Only inputs of one kind are compared.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Its name in the JSON of a comparison.
    pub name: &'static str,
    /// What a file of this kind is, with its article.
    pub about: &'static str,
    /// Whether a file is one sample if each side has several: its samples are more alike than those of two files.
    pub by_file: bool,
    /// What samples of one file lack; empty if they lack nothing.
    pub note: &'static str,
}

/// One metric of one case in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The kind of the file.
    pub kind: &'static Kind,
    /// What distinguishes the case from others of its kind: name and value.
    pub case: Vec<(&'static str, String)>,
    /// The metric.
    pub metric: Metric,
    /// The samples. The number distinguishes repetitions that have one, such as seeds.
    pub samples: Vec<(Option<u64>, f64)>,
}

/// The progress of reading the files of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A file is read next.
    File(&'a Path),
    /// Events of the file, a recording, have been read.
    Events {
        /// The number of events so far. Each event is read twice.
        read: u64,
        /// The number at the end, if the recording says how many events it has.
        of: Option<u64>,
    },
}

/// A metric whose change is in percent.
pub fn amount(name: impl Into<String>, better: Better) -> Metric {
    Metric { name: name.into(), better, change: Change::Percent }
}

/// Per 1000 of `operations`; 0 without operations.
pub fn per_1000(count: u64, operations: u64) -> f64 {
    if operations == 0 { 0.0 } else { count as f64 * 1000.0 / operations as f64 }
}

/// The metrics of a case: the columns of its rows that have a direction, in the order of their ranks. Each row is a sample;
/// `of` gives its number and its operations.
pub fn measured<R: JsonSchema + Serialize>(
    kind: &'static Kind,
    case: &[(&'static str, String)],
    rows: &[R],
    of: fn(&R) -> (Option<u64>, u64),
) -> Vec<Measured> {
    let mut columns = pageset_columns::columns::<R>();
    columns.sort_by_key(|column| if column.rank == 0 { usize::MAX } else { column.rank });
    let json: Vec<Value> = rows.iter().map(|row| serde_json::to_value(row).unwrap_or_default()).collect();
    let metric = |column: &Column| {
        let better = match column.better.as_str() {
            "lower" => Better::Lower,
            "higher" => Better::Higher,
            "neither" => Better::Neither,
            _ => return None,
        };
        let per = if column.per.is_empty() { String::new() } else { format!("/{}", column.per) };
        let change = if column.unit == "percent" { Change::Points } else { Change::Percent };
        let sample = |(row, json)| {
            let ((number, operations), value) = (of(row), column.of(json)?.as_f64()?);
            Some((number, if per.is_empty() { value } else { value * 1000.0 / operations.max(1) as f64 }))
        };
        let samples = rows.iter().zip(&json).filter_map(sample).collect();
        let metric = Metric { name: format!("{}{per}", column.heading), better, change };
        Some(Measured { kind, case: case.to_vec(), metric, samples })
    };
    columns.iter().filter_map(metric).collect()
}

/// One sample of a metric.
pub fn single(kind: &'static Kind, case: &[(&'static str, String)], metric: Metric, value: f64) -> Measured {
    Measured { kind, case: case.to_vec(), metric, samples: vec![(None, value)] }
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;

    use super::*;
    use crate::columns::{Shown, trimmed};
    use crate::page::card::{Card, Trust, Verdict, deciding_figures, sure};
    use crate::page::{Report, render};
    use crate::{csv, explain};

    static KIND: Kind = Kind { name: "small", about: "a small result", by_file: false, note: "" };

    #[derive(Serialize, JsonSchema)]
    struct Row {
        /// The set of rules.
        #[schemars(extend("tables" = "small"))]
        rules: &'static str,
        /// Pages that moved twice.
        #[schemars(extend("heading" = "moved twice", "better" = "lower", "per" = "1000 ops", "tables" = "small",
            "rank" = 1, "figure" = "moved twice", "unit" = "pages", "bad" = "Any."))]
        twice: u64,
    }

    /// Text, CSV, the schema of JSON, `explain`, reports and `diff`. Parquet and OpenMetrics are tested where they are written.
    #[test]
    fn a_column_is_declared_once_and_stands_in_all_outputs() {
        let row = Row { rules: "linux-6.18", twice: 1234 };
        let shown = Shown::of::<Row>("small");
        let mut table = shown.table();
        table.add_row(shown.cells(&row));
        assert_eq!(trimmed(&table), " rules       moved twice\n linux-6.18        1,234\n");
        let mut out = Vec::new();
        csv::write(&mut out, [(Vec::new(), &row)].into_iter()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "rules,twice\nlinux-6.18,1234\n");
        let schema = schema_for!(Row);
        assert_eq!(schema.as_value()["properties"]["twice"]["description"], "Pages that moved twice.");
        let schemas = explain::Schemas { names: &["small"], of: |_| Some(schema_for!(Row)) };
        for name in ["moved twice", "twice"] {
            let text = explain::explained(&schemas, name);
            assert_eq!(text, format!("{name} (column)\n  Pages that moved twice.\n  bad: Any.\n"));
        }
        // A report, as Markdown and as HTML.
        let (figures, sure) = (deciding_figures(Some(&row), "", None), sure([(Trust::Low, "one run")], ""));
        let (verdict, warnings) = (Verdict::none("nothing is compared"), Vec::new());
        let cards = vec![Card { about: "a small result".to_owned(), verdict, sure, figures, warnings, next: None }];
        let report = Report { cards, ..Report::default() };
        let (markdown, html) = (render::markdown(&report), render::html(&report).unwrap());
        assert!(markdown.contains("| moved twice | 1,234 | pages |"), "{markdown}");
        for part in ["moved twice", "1,234", "pages"] {
            assert!(html.contains(&format!(">{part}<")), "{part}: {html}");
        }
        let [metric] = measured(&KIND, &[], &[row], |_| (Some(1), 2000)).try_into().unwrap();
        assert_eq!(metric.metric, amount("moved twice/1000 ops", Better::Lower));
        assert_eq!(metric.samples, [(Some(1), 617.0)]);
    }
}
