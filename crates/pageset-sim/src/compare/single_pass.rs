//! Bulk free in two passes and in one: a row is an experiment with a number of tasks.
//!
//! Scores and times have the units of the published runs. A simulated value is the published value of two passes
//! multiplied by the simulated change.

use pageset::Tuning;
use pageset::policy::presets::LINUX_5_14;
use pageset::policy::{Backing, BulkFree};

use super::cells::{Cells, cpus, known};
use super::table::{Column, Experiment, Kind, Row, Table, words};
use super::{How, Measure, Value};
use crate::era::Era;

const ERA: Era = Era::Linux5_11;

pub(super) const HEADER: &str = "experiment,tasks,two_pass,single_pass";

/// The table's kernel, 5.17, before and after the change of the drain.
const TWO_PASS: Tuning = LINUX_5_14;
const SINGLE_PASS: Tuning = Tuning { backing: Backing::Kernel(BulkFree::SinglePass), ..LINUX_5_14 };

pub(super) fn add(table: &mut Table, cells: &Cells<'_>) -> Result<(), String> {
    let (word, tasks) = (cells.word(0), cells.word(1));
    let machine = match () {
        () if word.contains("CascadeLake") => "csl-2s80",
        () if word.contains("1-socket Skylake") => "lkp-skl-d01",
        () if word.contains("2-socket Skylake") => "lkp-skl-2sp2",
        () if word.contains("4-socket Skylake") => "lkp-skl-4sp1",
        () => return Err(format!("experiment: {word}; allowed: text that names a CascadeLake or Skylake machine")),
    };
    let (workload, measure) = match () {
        () if word.contains("page_fault1 processes") => ("page_fault1", Measure::Score),
        () if word.contains("page_fault1 threads") => ("page_fault1-threads", Measure::Score),
        () if word.contains("truncate") => ("truncate", Measure::Time),
        () => {
            return Err(format!(
                "experiment: {word}; allowed: text that contains page_fault1 processes, page_fault1 threads or truncate"
            ));
        }
    };
    let workload = known(workload)?;
    let tasks = match tasks {
        "" if workload == "truncate" => Some(1),
        "" => None,
        tasks => match tasks.parse() {
            Ok(n) if n > 0 => Some(n),
            _ => return Err(format!("tasks: {tasks}; allowed: 1 and above, or empty")),
        },
    };
    // Tasks beyond the number of CPUs take turns. To the allocator they count as one task per CPU.
    let most = tasks.and_then(|tasks| cpus(machine).filter(|&cpus| tasks > cpus));
    let note = most.map(|cpus| format!("{word}, {} tasks: simulated as {cpus}, one on each CPU", cells.word(1)));
    let tasks = most.or(tasks);
    let mut experiment = |tuning| table.experiment(Experiment { workload, machine, tuning, era: ERA, tasks });
    let (of, to) = (experiment(SINGLE_PASS), experiment(TWO_PASS));
    let base = cells.number(2, "two_pass")?;
    let unit = base.unwrap_or(100.0);
    let column = |name: &str, published, of| Column {
        name: name.to_owned(),
        kind: Kind::Amount,
        published,
        do_nothing: base,
        forecast: None,
        value: Value { measure, how: How::Ratio(unit), of, to },
    };
    let columns = vec![column("two_pass", base, to), column("single_pass", cells.number(3, "single_pass")?, of)];
    let keys = words([("experiment", word), ("tasks", cells.word(1))]);
    table.rows.push(Row { keys, columns, note });
    Ok(())
}
