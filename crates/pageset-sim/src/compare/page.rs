//! All published tables on one page: each published value next to its prediction, the prediction's interval, both baselines, and
//! what the model had seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BASE_BATCH;
use super::result::{CompareResult, CompareRow, Effect, NEAR_POINTS, SMALL_CHANGE_PCT};
use super::seen::{Seen, seen};
use super::table::{Key, Kind, Layout};

/// The schema of [`Page`].
pub const PAGE_SCHEMA: &str = "pageset.compare-page/1";

/// All tables.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Page {
    /// [`PAGE_SCHEMA`].
    pub schema: String,
    /// The tables, in the order of their simulation.
    pub tables: Vec<PageTable>,
}

/// A table of the page.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct PageTable {
    /// The comparison, with both baselines and the settings of each simulation.
    pub comparison: CompareResult,
    /// A judgement of each published value, in the order of the table.
    pub values: Vec<Judged>,
    /// What the values come to.
    pub counts: Counts,
    /// The same for values that the model had not seen.
    pub unseen: Counts,
}

/// A published value and its prediction.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Judged {
    /// The key columns of the row, separated by commas.
    pub row: String,
    /// The column of the table, or its metric.
    pub column: String,
    /// The kind of the column.
    pub kind: Kind,
    /// The published value.
    pub published: f64,
    /// The mean of the predictions over the seeds.
    pub predicted: f64,
    /// Half the width of the 95 % interval of that mean: over the seeds, or over time if there is one seed. Missing where neither is
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<f64>,
    /// Whether a simulation of a published row has not settled: with more time its means may move by more than the
    /// interval.
    #[schemars(extend("bad" = "A tilde behind the row."))]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsettled: bool,
    /// The baseline "do nothing". Missing where it is the published value by definition: in the row that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub do_nothing: Option<f64>,
    /// The forecast of the table: the line in 1/batch, or Amdahl's law. Missing in the rows that it goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<f64>,
    /// What the model had seen of this value.
    pub seen: Seen,
    /// Whether the sign of a change above 3 % is right, or a share within ten points. False for a predicted change below 0.05 %, which has
    /// no sign. Missing for other values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

/// How many values come out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct Counts {
    /// Published values that are no base.
    pub values: u32,
    /// Of these, values that the baseline "do nothing" has to guess, and to which nothing was fitted.
    pub with_nothing: u32,
    /// The same for the forecast.
    pub with_forecast: u32,
    /// Values whose prediction is nearer than doing nothing.
    pub nearer_than_nothing: u32,
    /// Values whose prediction is nearer than the forecast.
    pub nearer_than_forecast: u32,
    /// Values with a baseline.
    pub with_any: u32,
    /// Of these, values whose prediction is nearer than every baseline that they have.
    pub nearer_than_all: u32,
    /// Published changes above 3 %.
    pub changes: u32,
    /// Of these, changes whose predicted sign is right.
    pub right_signs: u32,
    /// Published shares of time.
    pub shares: u32,
    /// Of these, shares within ten points.
    pub near_shares: u32,
}

/// What the baselines know of a value: whether "do nothing" repeats it, and whether the forecast goes through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Known {
    nothing: bool,
    forecast: bool,
}

impl Known {
    /// What the baselines know of a column of the row at `place`.
    fn of(layout: Layout, rows: &[CompareRow], place: usize, column: &str) -> Known {
        let row = &rows[place];
        let key = |row: &CompareRow, key: &str| row.keys.get(key).cloned();
        let alike = |name: &'static str| {
            let own = key(row, name);
            rows.iter().enumerate().filter(move |(_, other)| key(other, name) == own).map(|(place, _)| place)
        };
        match layout {
            Layout::BatchSweep => {
                let nothing = key(row, "batch") == Some(Key::Number(BASE_BATCH.into()));
                Known { nothing, forecast: nothing || alike("machine").next_back() == Some(place) }
            }
            Layout::Tasks => {
                let tasks = |place: &usize| match rows[*place].keys.get("tasks") {
                    Some(Key::Number(tasks)) => *tasks,
                    _ => 0,
                };
                let first = alike("kernel").min_by_key(tasks) == Some(place);
                Known { nothing: first, forecast: first || alike("kernel").max_by_key(tasks) == Some(place) }
            }
            // The base is a row of the table, or the first column of each row.
            Layout::Effects => {
                let nothing = match key(row, "state") {
                    Some(state) => state == Key::Word("base".to_owned()),
                    None => row.published.first().is_some_and(|(first, _)| first == column),
                };
                Known { nothing, forecast: false }
            }
        }
    }
}

impl Judged {
    fn of(table: &str, row: &CompareRow, known: Known, column: &str, effect: &Effect) -> Option<Judged> {
        let keys: Vec<String> = row.keys.values().map(Key::to_string).collect();
        Some(Judged {
            row: keys.join(", "),
            column: column.to_owned(),
            kind: effect.kind,
            published: effect.published?,
            predicted: effect.simulated.mean,
            interval: row.interval.get(column).copied(),
            unsettled: row.is_unsettled(),
            do_nothing: effect.do_nothing.filter(|_| !known.nothing),
            forecast: effect.forecast.filter(|_| !known.forecast),
            seen: seen(table, &row.keys, column),
            holds: effect.holds(),
        })
    }

    /// Whether the prediction is nearer to the published value than `other`.
    fn is_nearer_than(&self, other: f64) -> bool {
        (self.predicted - self.published).abs() < (other - self.published).abs()
    }
}

impl Counts {
    /// Counts of `values`. A base counts nowhere, but for a share, which is published like any other.
    pub fn of<'v>(values: impl IntoIterator<Item = &'v Judged>) -> Counts {
        let mut counts = Counts::default();
        for value in values.into_iter().filter(|value| value.seen != Seen::Base) {
            // A fitted value wins nothing.
            let baselines =
                [value.do_nothing, value.forecast].map(|other| other.filter(|_| value.seen != Seen::Fitted));
            let nearer = baselines.map(|other| other.map(|other| value.is_nearer_than(other)));
            let (any, all) = (nearer.iter().any(Option::is_some), nearer.iter().all(|nearer| nearer.unwrap_or(true)));
            counts.values += 1;
            counts.with_nothing += u32::from(nearer[0].is_some());
            counts.with_forecast += u32::from(nearer[1].is_some());
            counts.with_any += u32::from(any);
            counts.nearer_than_nothing += u32::from(nearer[0] == Some(true));
            counts.nearer_than_forecast += u32::from(nearer[1] == Some(true));
            counts.nearer_than_all += u32::from(any && all);
            if let Some(holds) = value.holds {
                let (all, right) = if value.kind == Kind::Share {
                    (&mut counts.shares, &mut counts.near_shares)
                } else {
                    (&mut counts.changes, &mut counts.right_signs)
                };
                *all += 1;
                *right += u32::from(holds);
            }
        }
        counts
    }
}

impl PageTable {
    /// Judges a comparison.
    pub fn new(comparison: CompareResult) -> PageTable {
        let mut values = Vec::new();
        for (place, row) in comparison.rows.iter().enumerate() {
            for (column, effect) in row.effects() {
                let known = Known::of(comparison.layout, &comparison.rows, place, column);
                values.extend(Judged::of(&comparison.table, row, known, column, &effect));
            }
        }
        let counts = Counts::of(&values);
        let unseen = Counts::of(values.iter().filter(|value| value.seen == Seen::Unseen));
        PageTable { comparison, values, counts, unseen }
    }
}

impl Page {
    /// The page of these comparisons.
    pub fn new(comparisons: impl Iterator<Item = CompareResult>) -> Page {
        Page { schema: PAGE_SCHEMA.to_owned(), tables: comparisons.map(PageTable::new).collect() }
    }
}

/// The bounds of [`Counts`], for people: the largest change without a sign, in per cent, and the tolerance of a share, in points.
pub const BOUNDS: (f64, f64) = (SMALL_CHANGE_PCT, NEAR_POINTS);

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: Kind, [published, predicted, nothing]: [f64; 3], forecast: Option<f64>, seen: Seen) -> Judged {
        let effect = Effect {
            kind,
            published: Some(published),
            do_nothing: Some(nothing),
            forecast,
            simulated: pageset_statistics::Spread { mean: predicted, deviation: 1.0 },
        };
        let judged = Judged::of("t.csv", &CompareRow::default(), Known::default(), "c", &effect).unwrap();
        Judged { seen, ..judged }
    }

    #[test]
    fn wins_signs_and_shares_match_a_count_by_hand() {
        let values = [
            // A change of +10 %, predicted as +5 %: right sign, nearer than nothing, not nearer than the forecast.
            value(Kind::Amount, [110.0, 105.0, 100.0], Some(109.0), Seen::Unseen),
            // A change of -10 %, predicted as +1 %.
            value(Kind::Amount, [90.0, 101.0, 100.0], Some(102.0), Seen::Chosen),
            // Too small to have a sign.
            value(Kind::Amount, [102.0, 101.9, 100.0], None, Seen::Unseen),
            // Shares: within ten points, and not.
            value(Kind::Share, [50.0, 45.0, 20.0], None, Seen::Unseen),
            value(Kind::Share, [50.0, 30.0, 49.0], None, Seen::Shared),
            // A base counts nowhere, and a fitted value against no baseline.
            value(Kind::Amount, [100.0, 100.0, 100.0], None, Seen::Base),
            value(Kind::Amount, [101.0, 101.0, 100.0], Some(100.0), Seen::Fitted),
        ];
        let all = Counts {
            values: 6,
            with_nothing: 5,
            with_forecast: 2,
            with_any: 5,
            nearer_than_nothing: 3,
            nearer_than_forecast: 1,
            nearer_than_all: 2,
            changes: 2,
            right_signs: 1,
            shares: 2,
            near_shares: 1,
        };
        assert_eq!(Counts::of(values.iter()), all);
        let unseen = Counts::of(values.iter().filter(|value| value.seen == Seen::Unseen));
        assert_eq!((unseen.values, unseen.right_signs, unseen.near_shares), (3, 1, 1));
        assert_eq!(values[0].interval, None, "the row has none");
    }

    /// A row that a baseline repeats or goes through is no test of it.
    #[test]
    fn baselines_know_the_rows_that_they_are_made_of() {
        let comparison = |layout, names: [&str; 2], rows: &[(&str, u64)]| {
            let row = |(word, number): &(&str, u64)| CompareRow {
                keys: [Key::Word((*word).to_owned()), Key::Number(*number)]
                    .into_iter()
                    .zip(names)
                    .map(|(key, name)| (name.to_owned(), key))
                    .collect(),
                ..CompareRow::default()
            };
            let rows: Vec<CompareRow> = rows.iter().map(row).collect();
            let known = (0..rows.len()).map(|place| Known::of(layout, &rows, place, "score"));
            known.map(|known| (known.nothing, known.forecast)).collect::<Vec<_>>()
        };
        let sweep = [("a", 31), ("b", 31), ("a", 63), ("a", 90), ("b", 63)];
        let of_sweep = comparison(Layout::BatchSweep, ["machine", "batch"], &sweep);
        assert_eq!(of_sweep, [(true, true), (true, true), (false, false), (false, true), (false, true)]);
        let of_tasks = comparison(Layout::Tasks, ["kernel", "tasks"], &[("4.16", 1), ("4.16", 40), ("4.16", 2)]);
        assert_eq!(of_tasks, [(true, true), (false, true), (false, false)]);
        let series = |state: &str, column| {
            let keys = [("state".to_owned(), Key::Word(state.to_owned()))].into();
            let published = ["a", "b"].map(|column| (column.to_owned(), 1.0)).into();
            Known::of(Layout::Effects, &[CompareRow { keys, published, ..CompareRow::default() }], 0, column).nothing
        };
        assert_eq!([series("base", "b"), series("patch1", "a")], [true, false]);
        let published = ["31", "63"].map(|column| (column.to_owned(), 1.0)).into();
        let columns = [CompareRow { published, ..CompareRow::default() }];
        assert_eq!(["31", "63"].map(|column| Known::of(Layout::Effects, &columns, 0, column).nothing), [true, false]);
    }

    #[test]
    fn a_value_has_only_baselines_that_have_to_guess() {
        let effect = Effect {
            kind: Kind::Amount,
            published: Some(110.0),
            do_nothing: Some(100.0),
            forecast: Some(105.0),
            simulated: pageset_statistics::Spread { mean: 105.0, deviation: 1.0 },
        };
        let baselines = |nothing, forecast| {
            let known = Known { nothing, forecast };
            let judged = Judged::of("t.csv", &CompareRow::default(), known, "c", &effect).expect("it was published");
            (judged.do_nothing, judged.forecast)
        };
        assert_eq!(baselines(false, false), (Some(100.0), Some(105.0)));
        assert_eq!([baselines(true, false), baselines(false, true)], [(None, Some(105.0)), (Some(100.0), None)]);
    }

    #[test]
    fn a_value_has_the_interval_of_its_column() {
        let mut row = CompareRow::default();
        row.interval.insert("c".to_owned(), 1.59);
        let effect = Effect {
            kind: Kind::Amount,
            published: Some(110.0),
            do_nothing: None,
            forecast: None,
            simulated: pageset_statistics::Spread { mean: 105.0, deviation: 1.0 },
        };
        let interval =
            |column| Judged::of("t.csv", &row, Known::default(), column, &effect).expect("it was published").interval;
        assert_eq!((interval("c"), interval("d")), (Some(1.59), None));
    }

    #[test]
    fn fitted_values_are_not_called_unseen() {
        let keys = |words: &[(&str, &str)]| {
            words.iter().map(|(key, word)| ((*key).to_owned(), Key::Word((*word).to_owned()))).collect()
        };
        let sweep = "page_fault1-batch-sweep.csv";
        let of = |batch, column| seen(sweep, &keys(&[("machine", "lkp-sb02"), ("batch", batch)]), column);
        assert_eq!(of("31", "score"), Seen::Fitted);
        assert_eq!(of("31", "zone_contention_pct"), Seen::Shared);
        assert_eq!(of("63", "zone_contention_pct"), Seen::Chosen);
        let tasks = |tasks| seen("page_fault1-1-to-40-tasks.csv", &keys(&[("tasks", tasks)]), "processes_faults_per_s");
        assert_eq!((tasks("40"), tasks("1")), (Seen::Fitted, Seen::Chosen));
        let series = |state, column| {
            let keys = keys(&[("workload", "netperf-sctp-stream-many-score"), ("state", state)]);
            seen("pcp-autotune-patch-by-patch.csv", &keys, column)
        };
        assert_eq!(series("base", "result_pct_of_base"), Seen::Base);
        assert_eq!(series("patch7", "result_pct_of_base"), Seen::Unseen);
        assert_eq!(seen("mine.csv", &keys(&[]), "score"), Seen::Unseen);
    }
}
