//! The cases that both sides have.

use indexmap::{IndexMap, IndexSet};
use pageset_statistics::Samples;

use super::input::Side;
use crate::measure::{Kind, Measured, Metric};

/// What distinguishes a case from others of its kind: name and value.
pub(crate) type Properties = Vec<(&'static str, String)>;

/// A case: its kind, and what distinguishes it.
type Case = (&'static Kind, Properties);

/// The files of a metric, each with its samples.
type Files = Vec<Vec<(Option<u64>, f64)>>;

/// A metric of a case, on both sides.
pub(crate) struct Pair {
    pub(crate) kind: &'static Kind,
    pub(crate) case: Properties,
    pub(crate) metric: Metric,
    pub(crate) a: Samples,
    pub(crate) b: Samples,
    /// Whether each file is one sample.
    pub(crate) by_file: bool,
}

/// The pairs, what differs between the sides as a whole, and the cases that one side lacks.
#[derive(Default)]
pub(crate) struct Pairs {
    pub(crate) pairs: Vec<Pair>,
    /// Name, value of A, value of B.
    pub(crate) differs: Vec<(&'static str, String, String)>,
    pub(crate) only_a: Vec<Properties>,
    pub(crate) only_b: Vec<Properties>,
}

/// A case for people.
pub(crate) fn named(case: &[(&'static str, String)]) -> String {
    case.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
}

/// The kinds of the inputs of both sides, in the order of the inputs.
pub(crate) fn kinds(a: &Side, b: &Side) -> IndexSet<&'static Kind> {
    a.measured.iter().chain(&b.measured).flatten().map(|measured| measured.kind).collect()
}

/// Pairs the cases of two sides. If every case of A has one value of a property and every case of B another, that
/// property is the subject of the comparison, and does not distinguish cases.
pub(crate) fn pairs(a: &Side, b: &Side) -> Pairs {
    let mut result = Pairs::default();
    for kind in kinds(a, b) {
        let values = |side: &Side| {
            let mut values: IndexMap<&'static str, IndexSet<String>> = IndexMap::new();
            for (name, value) in side.measured.iter().flatten().filter(|m| m.kind == kind).flat_map(|m| &m.case) {
                values.entry(name).or_default().insert(value.clone());
            }
            values
        };
        let (of_a, of_b) = (values(a), values(b));
        let mut subject = Vec::new();
        for (name, in_a) in &of_a {
            if let (1, Some(in_b)) = (in_a.len(), of_b.get(name))
                && in_b.len() == 1
                && in_a != in_b
            {
                subject.push(*name);
                result.differs.push((name, in_a[0].clone(), in_b[0].clone()));
            }
        }
        let (in_a, in_b) = (cases(a, kind, &subject), cases(b, kind, &subject));
        let missing = |these: &IndexMap<Case, _>, those: &IndexMap<Case, _>| -> Vec<Properties> {
            these.keys().filter(|case| !those.contains_key(*case)).map(|case| case.1.clone()).collect()
        };
        result.only_a.extend(missing(&in_a, &in_b));
        result.only_b.extend(missing(&in_b, &in_a));
        for (case, metrics) in in_a {
            let Some(others) = in_b.get(&case) else { continue };
            for (name, (metric, files_a)) in metrics {
                let Some((_, files_b)) = others.get(&name) else { continue };
                let by_file = kind.by_file && files_a.len() > 1 && files_b.len() > 1;
                if let (Some(a), Some(b)) = (samples(&files_a, by_file), samples(files_b, by_file)) {
                    result.pairs.push(Pair { kind, case: case.1.clone(), metric, a, b, by_file });
                }
            }
        }
    }
    result
}

/// The samples of all files. With `by_file`, each file is one sample: the samples of one process are more alike than
/// those of two. Repetitions with the same number and the same value count once: a seed that ran twice is no second
/// sample.
fn samples(files: &Files, by_file: bool) -> Option<Samples> {
    if by_file {
        let mean = |file: &Vec<(Option<u64>, f64)>| Samples::of(file.iter().map(|(_, value)| *value).collect());
        return Samples::of(files.iter().filter_map(mean).map(|samples| samples.mean).collect());
    }
    let mut seen = Vec::new();
    for sample in files.iter().flatten() {
        if sample.0.is_none() || !seen.contains(sample) {
            seen.push(*sample);
        }
    }
    Samples::of(seen.into_iter().map(|(_, value)| value).collect())
}

/// The metrics of each case of a kind, by name, without the properties of `subject`.
fn cases(
    side: &Side,
    kind: &'static Kind,
    subject: &[&'static str],
) -> IndexMap<Case, IndexMap<String, (Metric, Files)>> {
    let mut cases: IndexMap<Case, IndexMap<String, (Metric, Files)>> = IndexMap::new();
    for file in &side.measured {
        for Measured { kind: of, case, metric, samples } in file {
            if **of != *kind {
                continue;
            }
            let case = case.iter().filter(|(name, _)| !subject.contains(name)).cloned().collect();
            let metrics = cases.entry((kind, case)).or_default();
            let (_, files) = metrics.entry(metric.name.clone()).or_insert_with(|| (metric.clone(), Vec::new()));
            files.push(samples.clone());
        }
    }
    cases
}
