//! Batches of 31, 63 and 127 over many workloads: a row is a workload on a machine, a column is a batch.
//!
//! Scores have the units of their benchmarks. A simulated score is the published score of batch 31 multiplied by the
//! simulated change.

use pageset::Tuning;
use pageset::policy::BatchRule;
use pageset::policy::presets::LINUX_4_17;

use super::cells::{Cells, known, machine};
use super::table::{Column, Experiment, Kind, Row, Table, words};
use super::{How, Measure, Value};
use crate::era::Era;

const ERA: Era = Era::Linux4_16;

pub(super) const HEADER: &str =
    "workload,machine,batch31,batch31_stddev_pct,batch63,batch63_stddev_pct,batch127,batch127_stddev_pct";

/// Names in the table, names here, and the measure.
const NAMES: &[(&str, &str, Measure)] = &[
    ("ebizzy.throughput", "ebizzy", Measure::Score),
    ("kbuild.buildtime", "kbuild", Measure::Time),
    ("netperf/TCP_STREAM.Throughput_total_Mbps", "tcp-stream", Measure::Score),
    ("oltp.transactions", "oltp", Measure::Score),
    ("pigz.throughput", "pigz", Measure::Score),
    ("will-it-scale.malloc1.processes", "malloc1", Measure::Score),
    ("will-it-scale.malloc1.threads", "malloc1-threads", Measure::Score),
    ("will-it-scale.malloc2.processes", "malloc2", Measure::Score),
    ("will-it-scale.malloc2.threads", "malloc2-threads", Measure::Score),
    ("will-it-scale.page_fault1.processes", "page_fault1", Measure::Score),
    ("will-it-scale.page_fault1.threads", "page_fault1-threads", Measure::Score),
    ("will-it-scale.page_fault2.processes", "page_fault2", Measure::Score),
    ("will-it-scale.page_fault2.threads", "page_fault2-threads", Measure::Score),
    ("will-it-scale.page_fault3.processes", "page_fault3", Measure::Score),
    ("will-it-scale.page_fault3.threads", "page_fault3-threads", Measure::Score),
    ("will-it-scale.read1.processes", "read1", Measure::Score),
    ("will-it-scale.read1.threads", "read1-threads", Measure::Score),
    ("will-it-scale.write1.processes", "write1", Measure::Score),
    ("will-it-scale.write1.threads", "write1-threads", Measure::Score),
    ("vm-scalability.anon-r-rand.throughput", "anon-r-rand", Measure::Score),
    ("vm-scalability.anon-r-rand-mt.throughput", "anon-r-rand-mt", Measure::Score),
    ("vm-scalability.lru-file-mmap-read.throughput", "lru-file-mmap-read", Measure::Score),
    ("vm-scalability.lru-file-mmap-read-rand.throughput", "lru-file-mmap-read-rand", Measure::Score),
];

const COLUMNS: [(&str, usize, u32); 3] = [("batch31", 2, 31), ("batch63", 4, 63), ("batch127", 6, 127)];

pub(super) fn add(table: &mut Table, cells: &Cells<'_>) -> Result<(), String> {
    let (word, on) = (cells.word(0), machine(cells.word(1))?);
    let Some(&(_, workload, measure)) = NAMES.iter().find(|(name, ..)| *name == word) else {
        let names: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
        return Err(format!("workload: unknown workload `{word}`; allowed: {}", names.join(", ")));
    };
    let workload = known(workload)?;
    let base = cells.number(2, "batch31")?;
    // Without a published base, the simulated base counts as 100.
    let unit = base.unwrap_or(100.0);
    let mut experiment = |batch| {
        let tuning = Tuning { batch: BatchRule::Fixed(batch), ..LINUX_4_17 };
        table.experiment(Experiment { workload, machine: on, tuning, era: ERA, tasks: None })
    };
    let to = experiment(COLUMNS[0].2);
    let mut columns = Vec::new();
    for (name, place, batch) in COLUMNS {
        columns.push(Column {
            name: name.to_owned(),
            kind: Kind::Amount,
            published: cells.number(place, name)?,
            do_nothing: base,
            forecast: None,
            value: Value { measure, how: How::Ratio(unit), of: experiment(batch), to },
        });
    }
    let keys = words([("workload", word), ("machine", on)]);
    table.rows.push(Row { keys, columns, note: None });
    Ok(())
}
