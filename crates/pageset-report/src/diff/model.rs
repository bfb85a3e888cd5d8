//! The result of `pageset diff`: rows, verdicts, and which rows exceed a limit.

use indexmap::IndexSet;
use pageset_statistics::{CONFIDENCE, Compared, Samples, compare, difference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::Side;
use super::pair::{Pair, Pairs, Properties, kinds, named, pairs};
use crate::error::{Exit, Failure};
use crate::measure::{Better, Change, Kind};

/// The schema of [`Diff`].
pub const SCHEMA: &str = "pageset.diff/1";

/// What changed from A to B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// `pageset.diff/1`.
    pub schema: String,
    /// The files of A.
    pub a_files: Vec<String>,
    /// The files of B.
    pub b_files: Vec<String>,
    /// The properties that all cases of A share, that all cases of B share, and that differ: what is compared.
    pub subject: Vec<Subject>,
    /// The properties that all cases of both sides share: name and value.
    pub common: Vec<Property>,
    /// The confidence of all intervals together. Unit: percent.
    pub confidence_pct: f64,
    /// A row for each case and metric.
    pub rows: Vec<Row>,
    /// The cases that only A has; they are not compared.
    #[schemars(extend("bad" = "Any.", "todo" = "Compare results of the same command on the same load."))]
    pub only_a: Vec<String>,
    /// The cases that only B has; they are not compared.
    #[schemars(extend("as" = "only_a"))]
    pub only_b: Vec<String>,
    /// What weakens the result.
    pub notes: Vec<String>,
    /// The limit of --fail-above; null without a limit.
    pub fail_above: Option<f64>,
    /// Whether a row exceeds the limit.
    pub failed: bool,
}

/// A property that differs between the sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// The property's name.
    pub name: String,
    /// The value of A.
    pub a: String,
    /// The value of B.
    pub b: String,
}

/// A property of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Property {
    /// The property's name.
    pub name: String,
    /// The property's value.
    pub value: String,
}

/// The change of one metric in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The kind of the inputs: `recording`, `replay`, `run` or `bench`.
    pub kind: String,
    /// Of a comparison: what distinguishes the case from the others, such as the rules and the number of tasks.
    pub case: String,
    /// The quantity that the table's authors measured. Of a comparison: the measured quantity, named as in the table of
    /// its command.
    pub metric: String,
    /// The better direction of the metric: lower, higher or neither.
    pub better: Better,
    /// The mean of the samples of A.
    pub a: Samples,
    /// The mean of the samples of B.
    pub b: Samples,
    /// The unit of a change: percent of A, or percentage points.
    pub change_unit: Change,
    /// The change of the mean from A to B; null if it is in percent and the mean of A is 0 but that of B is not.
    pub change: Option<f64>,
    /// The least and the largest change that the samples are compatible with. All intervals of a comparison together
    /// hold with 95 %: Welch's method, with the correction of Bonferroni. `-`: a side has a single sample, so its noise
    /// is unknown.
    #[schemars(extend("heading" = "change between", "bad" = "Both signs: the change may be noise.",
        "todo" = "As A spread %."))]
    pub interval: Option<Interval>,
    /// Whether the change is more than noise, and its direction.
    pub verdict: Verdict,
    /// Whether the row exceeds the limit of --fail-above.
    #[schemars(extend("bad" = "true."))]
    pub fails: bool,
}

/// The changes that samples are compatible with, in the unit of the change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The least change.
    pub low: f64,
    /// The largest change.
    pub high: f64,
}

/// What a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More than noise, and better.
    Better,
    /// More than noise, and worse.
    Worse,
    /// More than noise, of a metric without a better direction.
    Changed,
    /// Not more than noise.
    Noise,
    /// All samples of both sides are equal.
    Equal,
    /// A side has a single sample.
    UnknownNoise,
}

impl Verdict {
    /// For a table.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Changed => "changed",
            Verdict::Noise => "noise",
            Verdict::Equal => "equal",
            Verdict::UnknownNoise => "noise unknown",
        }
    }
}

impl Diff {
    /// Compares two sides. A row fails if its metric worsens by more than `fail_above` (percent, or percentage points of a
    /// share) and the change is more than noise, or its noise is unknown.
    ///
    /// # Errors
    /// The sides have no kind or no case in common.
    pub fn of(a: &Side, b: &Side, fail_above: Option<f64>) -> Result<Diff, Failure> {
        let Pairs { pairs, differs, only_a, only_b } = pairs(a, b);
        if pairs.is_empty() {
            return Err(apart(a, b, &only_a, &only_b));
        }
        let known = pairs.iter().filter(|pair| pair.a.deviation.is_some() && pair.b.deviation.is_some()).count();
        // Bonferroni: with one chance in twenty for each of a hundred rows, five rows would differ by chance.
        let confidence = 1.0 - (1.0 - CONFIDENCE) / known.max(1) as f64;
        let common = common(&pairs);
        let rows: Vec<Row> = pairs.iter().map(|pair| row(pair, &common, confidence, fail_above)).collect();
        let cases = |cases: &[Properties]| cases.iter().map(|case| named(case)).collect();
        let files = |side: &Side| side.files.iter().map(|file| file.display().to_string()).collect();
        Ok(Diff {
            schema: SCHEMA.to_owned(),
            a_files: files(a),
            b_files: files(b),
            subject: differs.into_iter().map(|(name, a, b)| Subject { name: name.to_owned(), a, b }).collect(),
            confidence_pct: CONFIDENCE * 100.0,
            notes: notes(&pairs, rows.iter().filter(|row| row.verdict == Verdict::UnknownNoise).count()),
            failed: rows.iter().any(|row| row.fails),
            common: common.into_iter().map(|(name, value)| Property { name: name.to_owned(), value }).collect(),
            rows,
            only_a: cases(&only_a),
            only_b: cases(&only_b),
            fail_above,
        })
    }
}

/// Why two sides have no pair.
fn apart(a: &Side, b: &Side, only_a: &[Properties], only_b: &[Properties]) -> Failure {
    let has = |side: &Side, kind: &Kind| side.measured.iter().flatten().any(|measured| measured.kind == kind);
    let kinds = kinds(a, b);
    if kinds.iter().any(|kind| has(a, kind) && has(b, kind)) {
        let shown = |cases: &[Properties]| {
            let text = |case: &Properties| {
                case.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
            };
            match cases {
                [] => "none".to_owned(),
                [one] => text(one),
                [first, more @ ..] => format!("{} and {} more", text(first), more.len()),
            }
        };
        let (a, b) = (shown(only_a), shown(only_b));
        let message = format!("cannot compare: A and B have nothing in common; A has {a}; B has {b}");
        return Failure::new(Exit::Usage, message).help("compare results of the same command on the same load");
    }
    let of = |side: &Side| {
        let first = |kind: &&'static Kind| {
            let of = side.measured.iter().position(|file| file.iter().any(|measured| measured.kind == *kind))?;
            let about = kind.about.to_owned();
            Some(side.files.get(of).map_or(about, |file| format!("{} is {}", file.display(), kind.about)))
        };
        kinds.iter().filter_map(first).collect::<Vec<_>>().join(", ")
    };
    let message = format!("cannot compare inputs of different kinds: in A, {}; in B, {}", of(a), of(b));
    Failure::new(Exit::Usage, message).help("compare recordings with recordings, and results with results of one kind")
}

fn common(pairs: &[Pair]) -> Vec<(&'static str, String)> {
    let shared: IndexSet<_> = pairs.first().map(|pair| pair.case.iter().cloned().collect()).unwrap_or_default();
    shared.into_iter().filter(|property| pairs.iter().all(|pair| pair.case.contains(property))).collect()
}

fn row(pair: &Pair, common: &[(&'static str, String)], confidence: f64, fail_above: Option<f64>) -> Row {
    let Pair { kind, case, metric, a, b, .. } = pair;
    let own: Vec<_> = case.iter().filter(|property| !common.contains(property)).cloned().collect();
    let in_unit = |difference: f64| match metric.change {
        Change::Points => Some(difference),
        Change::Percent if a.mean != 0.0 => Some(100.0 * difference / a.mean.abs()),
        Change::Percent => (difference == 0.0).then_some(0.0),
    };
    let change = in_unit(b.mean - a.mean);
    let known = difference(&a.samples, &b.samples, confidence);
    let worsens = match metric.better {
        Better::Lower => b.mean > a.mean,
        Better::Higher => b.mean < a.mean,
        Better::Neither => false,
    };
    let verdict = match compare(&a.samples, &b.samples, confidence) {
        Compared::Equal => Verdict::Equal,
        Compared::UnknownNoise => Verdict::UnknownNoise,
        Compared::Noise => Verdict::Noise,
        _ if metric.better == Better::Neither => Verdict::Changed,
        _ if worsens => Verdict::Worse,
        _ => Verdict::Better,
    };
    let counts = matches!(verdict, Verdict::Worse | Verdict::UnknownNoise) && worsens;
    // From 0 to anything is more than any share of 0.
    let exceeds = |limit: f64| change.is_none_or(|change| change.abs() > limit);
    Row {
        kind: kind.name.to_owned(),
        case: named(&own),
        metric: metric.name.clone(),
        better: metric.better,
        a: a.clone(),
        b: b.clone(),
        change_unit: metric.change,
        change,
        interval: known.and_then(|(low, high)| Some(Interval { low: in_unit(low)?, high: in_unit(high)? })),
        verdict,
        fails: counts && fail_above.is_some_and(exceeds),
    }
}

/// What weakens the result.
fn notes(pairs: &[Pair], unknown: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if unknown > 0 {
        notes.push(format!(
            "the noise of {} of {} rows is unknown: a side has a single sample; give several recordings or results of each side, or more seeds",
            unknown,
            pairs.len()
        ));
    }
    for pair in pairs.iter().filter(|pair| !pair.kind.note.is_empty()) {
        let lacks = if pair.kind.by_file { !pair.by_file } else { pair.a.deviation.is_some() };
        if lacks && !notes.iter().any(|note| note == pair.kind.note) {
            notes.push(pair.kind.note.to_owned());
        }
    }
    notes
}
