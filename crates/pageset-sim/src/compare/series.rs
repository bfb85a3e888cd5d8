//! The auto-tuning series, patch by patch: a row is a workload with the first N patches.
//!
//! The kernels are those of the first posting. The posting does not name the machines: they are from memory of the
//! mails. Their costs are those of the Skylake server, the most similar calibrated machine.

use pageset::Tuning;
use pageset::policy::presets::{LINUX_5_18, POSTED_3, POSTED_5, POSTED_7, POSTED_9, POSTED_10, SERIES_1};

use super::cells::{Cells, known};
use super::table::{Column, Experiment, Kind, Row, Table, words};
use super::{How, Measure, Value};
use crate::era::Era;

const ERA: Era = Era::Posted;

pub(super) const HEADER: &str =
    "workload,state,result_pct_of_base,zone_lock_pct,free_high_pct_of_base,alloc_zone_pct_of_base,cache_miss_rate_pct";

/// A workload of the table: its names, machine, tasks and measures.
struct Subject {
    name: &'static str,
    workload: &'static str,
    machine: &'static str,
    tasks: Option<u32>,
    result: Measure,
    high_order_drains: Measure,
    from_zone: Measure,
}

const SUBJECTS: &[Subject] = &[
    // A build is a fixed amount of work: its counters cover the whole build.
    Subject {
        name: "kbuild-build-time",
        workload: "kbuild",
        machine: "spr-2s224",
        tasks: None,
        result: Measure::Time,
        high_order_drains: Measure::HighOrderDrainsOfWork,
        from_zone: Measure::FromZoneOfWork,
    },
    // This benchmark and the next run for a fixed time.
    Subject {
        name: "netperf-sctp-stream-many-score",
        workload: "sctp-stream-many",
        machine: "icx-2s128",
        tasks: None,
        result: Measure::Score,
        high_order_drains: Measure::HighOrderDrains,
        from_zone: Measure::FromZone,
    },
    // 16 pairs on two sockets, from memory of the mails like the machines. The scheduler spreads the pairs, and the
    // simulation runs the eight pairs of one node. No column depends on the number of equal nodes.
    Subject {
        name: "lmbench3-af-unix-score",
        workload: "af-unix",
        machine: "icx-2s128",
        tasks: Some(16),
        result: Measure::Score,
        high_order_drains: Measure::HighOrderDrains,
        from_zone: Measure::FromZone,
    },
];

/// The rules with the patches up to `state`. Patches 2 and 6 change nothing by themselves.
fn rules(state: &str) -> Option<Tuning> {
    Some(match state {
        "base" => LINUX_5_18,
        "patch1" | "patch2" => SERIES_1,
        "patch3" => POSTED_3,
        "patch4" => Tuning { scale_cap: true, ..POSTED_3 },
        "patch5" | "patch6" => POSTED_5,
        "patch7" => POSTED_7,
        "patch8" => Tuning { below_high: true, ..POSTED_7 },
        "patch9" => POSTED_9,
        "patch10" => POSTED_10,
        _ => return None,
    })
}

pub(super) fn add(table: &mut Table, cells: &Cells<'_>) -> Result<(), String> {
    let (word, state) = (cells.word(0), cells.word(1));
    let Some(subject) = SUBJECTS.iter().find(|subject| subject.name == word) else {
        let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
        return Err(format!("workload: unknown workload `{word}`; allowed: {}", names.join(", ")));
    };
    let tuning = rules(state).ok_or_else(|| format!("state: {state}; allowed: base, patch1 to patch10"))?;
    let workload = known(subject.workload)?;
    let mut experiment = |tuning| {
        table.experiment(Experiment { workload, machine: subject.machine, tuning, era: ERA, tasks: subject.tasks })
    };
    let (of, to) = (experiment(tuning), experiment(LINUX_5_18));
    // The base's own row, if the table has one.
    let base = cells.all.iter().map(|(_, record)| record).find(|r| r.get(0) == Some(word) && r.get(1) == Some("base"));
    let percent = |measure| Value { measure, how: How::Ratio(100.0), of, to };
    let mut columns = Vec::new();
    for (place, name, kind, value) in [
        (2, "result_pct_of_base", Kind::Amount, percent(subject.result)),
        (3, "zone_lock_pct", Kind::Share, Value::itself(Measure::ZonePct, of)),
        (4, "free_high_pct_of_base", Kind::Amount, percent(subject.high_order_drains)),
        (5, "alloc_zone_pct_of_base", Kind::Amount, percent(subject.from_zone)),
        (6, "cache_miss_rate_pct", Kind::Share, Value::itself(Measure::MissPct, of)),
    ] {
        let published = cells.number(place, name)?;
        let of_base = base.and_then(|record| record.get(place)).unwrap_or_default();
        let do_nothing = super::cells::number(of_base, name)?;
        if published.is_some() || !is_missing_for_all(cells, word, place) {
            columns.push(Column { name: name.to_owned(), kind, published, do_nothing, forecast: None, value });
        }
    }
    let keys = words([("workload", word), ("state", state)]);
    table.rows.push(Row { keys, columns, note: None });
    Ok(())
}

/// Whether a column is empty in all rows of a workload, because it was not measured.
fn is_missing_for_all(cells: &Cells<'_>, workload: &str, place: usize) -> bool {
    let same = cells.all.iter().map(|(_, record)| record).filter(|record| record.get(0) == Some(workload));
    same.into_iter().all(|record| record.get(place).is_none_or(|cell| cell.trim().is_empty()))
}
