//! Merge skipping and clusters, the RFC of 2018: a row is one measure of an experiment, a column is a set of rules.

use pageset::Tuning;
use pageset::policy::presets::{CLUSTERS, CLUSTERS_FREE, LINUX_4_17, MERGE_SKIP};

use super::cells::{Cells, known};
use super::table::{Column, Experiment, Kind, Row, Table, words};
use super::{How, Measure, Value};
use crate::era::Era;

const ERA: Era = Era::Linux4_16;

pub(super) const HEADER: &str = "experiment,metric,base,merge_skip,merge_skip_and_clusters";

const COLUMNS: [(&str, Tuning); 3] =
    [("base", LINUX_4_17), ("merge_skip", MERGE_SKIP), ("merge_skip_and_clusters", CLUSTERS_FREE)];

/// Metrics by the words that they contain.
const METRICS: &[(&str, Kind, Measure)] = &[
    ("allocation path", Kind::Share, Measure::ZoneAllocPct),
    ("free path", Kind::Share, Measure::ZoneFreePct),
    ("lru lock contention", Kind::Share, Measure::LruPct),
    ("zone lock contention", Kind::Share, Measure::ZonePct),
    ("score change", Kind::Change, Measure::Score),
    ("success rate", Kind::Share, Measure::SuccessPct),
    ("ns per order-9 allocation", Kind::Amount, Measure::HugeNs),
    ("order-0 score", Kind::Amount, Measure::Score),
    ("THP score", Kind::Amount, Measure::SecondScore),
];
/// The metric of the share of bulk frees, whose text is in the other column.
const CLUSTER_METRIC: &str = "pct";

pub(super) fn add(table: &mut Table, cells: &Cells<'_>) -> Result<(), String> {
    let (word, metric) = (cells.word(0), cells.word(1));
    let known_metric =
        METRICS.iter().find(|(words, ..)| metric.contains(words)).map(|&(_, kind, measure)| (kind, measure));
    let of_clusters = (metric == CLUSTER_METRIC).then_some((Kind::Share, Measure::ClusterPct));
    let Some((kind, measure)) = known_metric.or(of_clusters) else {
        let allowed: Vec<&str> = METRICS.iter().map(|(words, ..)| *words).collect();
        let allowed = allowed.join(" or ");
        return Err(format!("metric: {metric}; allowed: {CLUSTER_METRIC}, or text that contains {allowed}"));
    };
    let (workload, tasks) = workload(word)?;
    let workload = known(workload)?;
    let machine = machine(word)?;
    let mut experiment = |mut tuning: Tuning| {
        if tuning == CLUSTERS_FREE && word.contains("without the free-path batch") {
            tuning = CLUSTERS;
        }
        table.experiment(Experiment { workload, machine, tuning, era: ERA, tasks })
    };
    let to = experiment(LINUX_4_17);
    let base = cells.number(2, "base")?;
    let mut columns = Vec::new();
    for (place, (name, tuning)) in COLUMNS.into_iter().enumerate() {
        let published = cells.number(place + 2, name)?;
        // Rules without a published value in this experiment need no simulation.
        if published.is_none() {
            continue;
        }
        let of = experiment(tuning);
        let value = match (kind, base) {
            (Kind::Change, _) => Value { measure, how: How::ChangePct, of, to },
            (Kind::Amount, Some(base)) => Value { measure, how: How::Ratio(base), of, to },
            (Kind::Share, _) | (Kind::Amount, None) => Value::itself(measure, of),
        };
        columns.push(Column { name: name.to_owned(), kind, published, do_nothing: base, forecast: None, value });
    }
    let keys = words([("experiment", word), ("metric", metric)]);
    table.rows.push(Row { keys, columns, note: None });
    Ok(())
}

fn workload(word: &str) -> Result<(&'static str, Option<u32>), String> {
    Ok(match () {
        () if word.contains("THP") => ("thp-mix", None),
        () if word.contains("page_fault1 thread") => ("page_fault1-threads", None),
        () if word.contains("page_fault1") => ("page_fault1", None),
        () if word.contains("parallel free") => ("parallel-free", None),
        () if word.contains("stress-highalloc") && word.contains("100 ms") => ("stress-highalloc-100ms", None),
        () if word.contains("stress-highalloc") => ("stress-highalloc-1ms", None),
        () if word.contains("bulk frees") => ("kbuild", None),
        () => {
            let allowed = "page_fault1, parallel free, stress-highalloc, THP, bulk frees";
            return Err(format!("experiment: {word}; allowed: text that contains one of: {allowed}"));
        }
    })
}

fn machine(word: &str) -> Result<&'static str, String> {
    Ok(match () {
        () if word.contains("4-socket Skylake") => "lkp-skl-4sp1",
        () if word.contains(", 8 CPUs") => "vm-8",
        // The 112 tasks of the mix equal the CPUs of this machine. Kernel builds are published without a machine.
        () if ["2-socket Skylake", "56 order-0 and 56 THP", "after kbuild"]
            .iter()
            .any(|known| word.contains(known)) =>
        {
            "lkp-skl-2sp2"
        }
        () => {
            let allowed = "2-socket Skylake, 4-socket Skylake, 8 CPUs";
            return Err(format!("experiment: {word}; unknown machine; allowed: text that contains one of: {allowed}"));
        }
    })
}
