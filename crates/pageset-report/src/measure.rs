//! A metric with its direction, and its samples.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
#[must_use]
pub fn amount(name: impl Into<String>, better: Better) -> Metric {
    Metric { name: name.into(), better, change: Change::Percent }
}

/// A share, of which less is better.
#[must_use]
pub fn share(name: &str) -> Metric {
    Metric { name: name.to_owned(), better: Better::Lower, change: Change::Points }
}

/// Per 1000 of `operations`; 0 without operations.
#[must_use]
pub fn per_1000(count: u64, operations: u64) -> f64 {
    if operations == 0 { 0.0 } else { count as f64 * 1000.0 / operations as f64 }
}

/// One sample of a metric.
#[must_use]
pub fn single(kind: &'static Kind, case: &[(&'static str, String)], metric: Metric, value: f64) -> Measured {
    Measured { kind, case: case.to_vec(), metric, samples: vec![(None, value)] }
}
