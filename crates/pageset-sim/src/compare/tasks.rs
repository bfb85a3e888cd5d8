//! The table of page_fault1 over numbers of tasks. A row is a kernel and a number of tasks; the columns are faults a
//! second of processes and of threads.

use pageset::Tuning;
use pageset::policy::Preset;
use serde::Deserialize;

use super::table::{Column, Experiment, Key, Kind, Layout, Row, Table};
use super::{Measure, TableError, Value, cells, records};
use crate::era::Era;

/// The machine of the table: two sockets of ten cores. Its description lists what is published of it.
pub const TASKS_MACHINE: &str = "xeon-2s40";
/// The compared columns and their workloads.
const COLUMNS: [(&str, &str); 2] =
    [("processes_faults_per_s", "page_fault1"), ("threads_faults_per_s", "page_fault1-threads")];

const HEADERS: [&str; 6] = ["kernel", "tasks", COLUMNS[0].0, "processes_stddev", COLUMNS[1].0, "threads_stddev"];

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TasksRow {
    /// The kernel's name in the table.
    pub(crate) kernel: String,
    pub(crate) tuning: Tuning,
    pub(crate) era: Era,
    pub(crate) tasks: u32,
    /// Faults a second, by column.
    pub(crate) published: [f64; COLUMNS.len()],
}

#[derive(Deserialize)]
struct Record {
    kernel: String,
    tasks: u32,
    processes_faults_per_s: f64,
    threads_faults_per_s: f64,
}

/// Whether `heading` is the header line of this kind of table.
pub(super) fn is_one(heading: &str) -> bool {
    heading.split(',').map(str::trim).eq(HEADERS)
}

pub(super) fn heading() -> String {
    HEADERS.join(",")
}

pub(crate) fn rows(file: &str, text: &str) -> Result<Vec<TasksRow>, TableError> {
    let key = |row: &TasksRow| format!("kernel {}, {} tasks", row.kernel, row.tasks);
    let cpus = cells::cpus(TASKS_MACHINE).unwrap_or(0);
    records::read(file, text, HEADERS.into_iter(), |record| TasksRow::new(record, cpus), key)
}

pub(super) fn add(table: &mut Table, text: &str) -> Result<(), TableError> {
    let rows = rows(&table.name, text)?;
    table.layout = Layout::Tasks;
    for row in &rows {
        let [do_nothing, amdahl] = baselines(&rows, row);
        let column = |(place, (name, workload)): (usize, (&str, &'static str))| {
            let (machine, tuning, era, tasks) = (TASKS_MACHINE, row.tuning, row.era, Some(row.tasks));
            let of = table.experiment(Experiment { workload, machine, tuning, era, tasks });
            Column {
                name: name.to_owned(),
                kind: Kind::Amount,
                published: Some(row.published[place]),
                do_nothing: Some(do_nothing[place]),
                forecast: Some(amdahl[place]),
                value: Value::itself(Measure::Score, of),
            }
        };
        let columns = COLUMNS.into_iter().enumerate().map(column).collect();
        let keys =
            [("kernel".to_owned(), Key::Word(row.kernel.clone())), ("tasks".to_owned(), Key::Number(row.tasks.into()))];
        table.rows.push(Row { keys: keys.into(), columns, note: None });
    }
    Ok(())
}

impl TasksRow {
    fn new(record: Record, cpus: u32) -> Result<TasksRow, String> {
        let Record { kernel, tasks, processes_faults_per_s, threads_faults_per_s } = record;
        // A release candidate has the rules of its release.
        let release = kernel.split("-rc").next().unwrap_or_default();
        let name = format!("linux-{release}");
        let preset = Preset::find(&name)
            .ok_or_else(|| format!("kernel: no rules for `{kernel}`; allowed: a release such as 4.16 or 4.16-rc5"))?;
        if tasks == 0 || tasks > cpus {
            return Err(format!("tasks: {tasks}; allowed: 1 to {cpus}, the CPUs of {TASKS_MACHINE}"));
        }
        let published = [processes_faults_per_s, threads_faults_per_s];
        for ((column, _), faults) in COLUMNS.iter().zip(published) {
            if !(faults > 0.0 && faults.is_finite()) {
                return Err(format!("{column}: {faults}; allowed: above 0"));
            }
        }
        let era = Era::of_rules(&name);
        Ok(TasksRow { kernel, tuning: preset.tuning, era, tasks, published })
    }
}

/// The baselines of a row among the rows of its kernel: the row with the fewest tasks, and Amdahl's law through that
/// row and the row with the most tasks.
fn baselines(rows: &[TasksRow], row: &TasksRow) -> [[f64; COLUMNS.len()]; 2] {
    let of_kernel = || rows.iter().filter(|other| other.kernel == row.kernel);
    let first = of_kernel().min_by_key(|other| other.tasks).unwrap_or(row);
    let last = of_kernel().max_by_key(|other| other.tasks).unwrap_or(row);
    let amdahl = std::array::from_fn(|column| {
        let (begin, end) = (first.published[column], last.published[column]);
        let times = |tasks: u32| f64::from(tasks) / f64::from(first.tasks);
        // The share of each further unit of load that is lost to waiting.
        let lost = if last.tasks == first.tasks {
            0.0
        } else {
            (times(last.tasks) * begin / end - 1.0) / (times(last.tasks) - 1.0)
        };
        begin * times(row.tasks) / (1.0 + lost * (times(row.tasks) - 1.0))
    });
    [first.published, amdahl]
}

#[cfg(test)]
mod tests {
    use super::super::SHIPPED;
    use super::*;

    #[test]
    fn the_shipped_table_is_complete() {
        let (file, text) = SHIPPED.iter().find(|(name, _)| name.contains("1-to-40")).expect("the table is shipped");
        assert!(is_one(text.lines().next().unwrap()));
        let rows = rows(file, text).unwrap();
        assert_eq!(rows.len(), 9);
        let row = &rows[8];
        assert_eq!((row.tasks, row.published), (40, [10_223_472.0, 2_670_421.0]));
        assert_eq!(row.tuning, pageset::policy::presets::LINUX_4_16);
    }

    #[test]
    fn baselines_go_through_the_first_and_the_last_row() {
        let row = |tasks, faults: f64| TasksRow {
            kernel: "4.16".to_owned(),
            tuning: Tuning::default(),
            era: Era::default(),
            tasks,
            published: [faults, 2.0 * faults],
        };
        let rows = [row(1, 100.0), row(2, 150.0), row(4, 200.0)];
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} instead of {b}");
        let [nothing, amdahl] = baselines(&rows, &rows[2]);
        assert_eq!(nothing, [100.0, 200.0]);
        near(amdahl[0], 200.0);
        // A third is lost to waiting: 2 / (1 + 1/3).
        near(baselines(&rows, &rows[1])[1][1], 300.0);
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let head = HEADERS.join(",");
        for (rows, message) in [
            ("4.16,0,1,0,1,0", "t.csv, line 2: tasks: 0; allowed: 1 to 40, the CPUs of xeon-2s40"),
            ("4.16,x,1,0,1,0", "t.csv, line 2: tasks: invalid digit found in string"),
            ("4.16,1,-1,0,1,0", "t.csv, line 2: processes_faults_per_s: -1; allowed: above 0"),
            ("1.0,1,1,0,1,0", "t.csv, line 2: kernel: no rules for `1.0`; allowed: a release such as 4.16 or 4.16-rc5"),
            ("4.16,1,1,0,1,0\n4.16,1,1,0,1,0", "t.csv, line 3: kernel 4.16, 1 tasks: duplicate row"),
            ("", "t.csv: no rows"),
        ] {
            let error = super::rows("t.csv", &format!("{head}\n{rows}\n")).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
