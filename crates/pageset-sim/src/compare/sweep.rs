//! The table of page_fault1 over batches: a row is a machine and a batch, its columns score and contention.

use pageset::Tuning;
use pageset::tuning::BatchRule;
use pageset::tuning::presets::LINUX_4_17;
use serde::Deserialize;

use super::table::{Column, Experiment, Key, Kind, Layout, Row, Table};
use super::{Measure, SHIPPED, TableError, Value, cells, records};
use crate::era::Era;

/// The batch that all changes are relative to, and that costs are fitted to.
pub const BASE_BATCH: u32 = 31;
/// The largest batch that a table may have: that of the rules.
const MAX_BATCH: u32 = pageset::tuning::sizes::MAX_BATCH;

/// The columns, and what they hold.
pub(super) const COLUMNS: [(&str, Kind); 5] = [
    ("score", Kind::Amount),
    ("change_pct", Kind::Change),
    ("zone_contention_pct", Kind::Share),
    ("lru_contention_pct", Kind::Share),
    ("total_contention_pct", Kind::Share),
];

/// One row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SweepRow {
    /// The machine's name.
    pub(crate) machine: &'static str,
    /// The batch in pages.
    pub(crate) batch: u32,
    /// The other columns.
    pub(crate) values: [f64; COLUMNS.len()],
}

/// The kernel of the table: 4.17 but for its batch. High is six batches.
pub(crate) const fn rules(batch: u32) -> (Tuning, Era) {
    (Tuning { batch: BatchRule::Fixed(batch), ..LINUX_4_17 }, Era::Linux4_16)
}

#[derive(Deserialize)]
struct Record {
    machine: String,
    batch: u32,
    score: f64,
    change_pct: f64,
    zone_contention_pct: f64,
    lru_contention_pct: f64,
    total_contention_pct: f64,
}

fn columns() -> impl Iterator<Item = &'static str> {
    ["machine", "batch"].into_iter().chain(COLUMNS.iter().map(|(name, _)| *name))
}

/// Its first line.
pub(super) fn heading() -> String {
    columns().collect::<Vec<_>>().join(",")
}

/// Reads the rows of a text. Each machine has a base row: one that it lacks is that of the shipped table.
pub(crate) fn rows(file: &str, text: &str) -> Result<Vec<SweepRow>, TableError> {
    let key = |row: &SweepRow| format!("machine {}, batch {}", row.machine, row.batch);
    let mut rows = records::read(file, text, columns(), SweepRow::new, key)?;
    while let Some(place) = rows.iter().position(|row| base_of(&rows, row).is_none()) {
        let machine = rows[place].machine;
        let base = shipped_base(machine).ok_or_else(|| TableError {
            file: file.to_owned(),
            line: None,
            what: format!(
                "machine {machine} has no row of batch {BASE_BATCH}, and the table that is built in has none"
            ),
        })?;
        rows.insert(place, base);
    }
    Ok(rows)
}

/// The row that a row's change is relative to.
fn base_of<'r>(rows: &'r [SweepRow], row: &SweepRow) -> Option<&'r SweepRow> {
    rows.iter().find(|base| base.batch == BASE_BATCH && base.machine == row.machine)
}

/// Adds the rows of a text to a table.
pub(super) fn add(table: &mut Table, text: &str) -> Result<(), TableError> {
    let rows = rows(&table.name, text)?;
    table.layout = Layout::BatchSweep;
    for row in &rows {
        let Some(base) = base_of(&rows, row) else { continue };
        let last = rows.iter().rfind(|other| other.machine == row.machine).unwrap_or(row);
        let mut experiment = |batch| {
            let (tuning, era) = rules(batch);
            table.experiment(Experiment { workload: "page_fault1", machine: row.machine, tuning, era, tasks: None })
        };
        let (of, to) = (experiment(row.batch), experiment(BASE_BATCH));
        let values = [
            Value::Of(Measure::Score, of),
            Value::ChangeOfMeanPct { measure: Measure::Score, of, to },
            Value::Of(Measure::ZonePct, of),
            Value::Of(Measure::LruPct, of),
            Value::Of(Measure::LocksPct, of),
        ];
        let share = line_share(last.batch, row.batch);
        let column = |(place, ((name, kind), value)): (usize, ((&str, Kind), Value))| Column {
            name: name.to_owned(),
            kind,
            published: Some(row.values[place]),
            do_nothing: Some(base.values[place]),
            forecast: Some(base.values[place] + share * (last.values[place] - base.values[place])),
            value,
        };
        let keys = [
            ("machine".to_owned(), Key::Word(row.machine.to_owned())),
            ("batch".to_owned(), Key::Number(row.batch.into())),
        ];
        let columns = COLUMNS.into_iter().zip(values).enumerate().map(column).collect();
        table.rows.push(Row { keys: keys.into(), columns, note: None });
    }
    Ok(())
}

/// How far a batch lies on the line in 1/batch from the base row to the last.
fn line_share(last: u32, batch: u32) -> f64 {
    let at = |batch: u32| 1.0 / f64::from(batch);
    let span = at(last) - at(BASE_BATCH);
    if span == 0.0 { 0.0 } else { (at(batch) - at(BASE_BATCH)) / span }
}

/// The shipped base row of a machine.
fn shipped_base(machine: &str) -> Option<SweepRow> {
    let (_, text) = SHIPPED.iter().find(|(name, _)| *name == "page_fault1-batch-sweep.csv")?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows = reader.deserialize().filter_map(|record| SweepRow::new(record.ok()?).ok());
    rows.into_iter().find(|row| row.machine == machine && row.batch == BASE_BATCH)
}

impl SweepRow {
    fn new(record: Record) -> Result<SweepRow, String> {
        let Record { machine, batch, score, change_pct, .. } = record;
        let machine = cells::machine(&machine)?;
        if batch == 0 || batch > MAX_BATCH {
            return Err(format!("batch: {batch}; allowed: 1 to {MAX_BATCH} pages"));
        }
        if !(score > 0.0 && score.is_finite()) {
            return Err(format!("score: {score}; allowed: above 0"));
        }
        if !change_pct.is_finite() {
            return Err(format!("change_pct: {change_pct}; allowed: a number of percent"));
        }
        let shares = [record.zone_contention_pct, record.lru_contention_pct, record.total_contention_pct];
        for ((column, _), share) in COLUMNS[2..].iter().zip(shares) {
            if !(0.0..=100.0).contains(&share) {
                return Err(format!("{column}: {share}; allowed: 0 to 100 %"));
            }
        }
        let [zone, lru, total] = shares;
        Ok(SweepRow { machine, batch, values: [score, change_pct, zone, lru, total] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_is_whole() {
        let rows = rows(SHIPPED[0].0, SHIPPED[0].1).unwrap();
        assert_eq!(rows.len(), 123);
        let row = &rows[1];
        assert_eq!((row.machine, row.batch), ("lkp-skl-4sp1", 53));
        assert_eq!(row.values, [17_903_847.0, 16.67, 32.0, 38.0, 70.0]);
    }

    #[test]
    fn a_base_row_that_is_missing_is_the_shipped_one() {
        let head = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
        let rows = "lkp-sb02,63,5,0,0,0,0\nlkp-skl-4sp1,31,7,0,0,0,0\nlkp-sb02,90,6,0,0,0,0\n";
        let rows = super::rows("t.csv", &format!("{head}{rows}")).unwrap();
        let told: Vec<_> = rows.iter().map(|row| (row.machine, row.batch, row.values[0])).collect();
        let sb02 = |batch, score| ("lkp-sb02", batch, score);
        assert_eq!(told, [sb02(31, 1_744_495.0), sb02(63, 5.0), ("lkp-skl-4sp1", 31, 7.0), sb02(90, 6.0)]);
    }

    #[test]
    fn the_line_goes_through_the_base_row_and_the_last() {
        // 1/62 lies two thirds of the way from 1/31 to 1/124.
        for (share, expected) in
            [(line_share(124, 62), 2.0 / 3.0), (line_share(124, 31), 0.0), (line_share(31, 31), 0.0)]
        {
            assert!((share - expected).abs() < 1e-9, "{share}, not {expected}");
        }
    }

    #[test]
    fn nonsense_names_the_line_and_the_column() {
        let head = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
        for (rows, message) in [
            ("lkp-sb02,31,1,0,0,0,0\nlkp-sb02,x,1,0,0,0,0\n", "t.csv, line 3: batch: invalid digit found in string"),
            ("lkp-sb02,0,1,0,0,0,0\n", "t.csv, line 2: batch: 0; allowed: 1 to 65536 pages"),
            ("lkp-sb02,31,-1,0,0,0,0\n", "t.csv, line 2: score: -1; allowed: above 0"),
            ("lkp-sb02,31,1,0,101,0,0\n", "t.csv, line 2: zone_contention_pct: 101; allowed: 0 to 100 %"),
            ("lkp-sb02,31,1,0,0,0,NaN\n", "t.csv, line 2: total_contention_pct: NaN; allowed: 0 to 100 %"),
            (
                "vm-8,63,1,0,0,0,0\n",
                "t.csv: machine vm-8 has no row of batch 31, and the table that is built in has none",
            ),
            (
                "lkp-sb02,31,1,0,0,0,0\nlkp-sb02,31,1,0,0,0,0\n",
                "t.csv, line 3: machine lkp-sb02, batch 31: for the second time",
            ),
            ("", "t.csv: no rows"),
        ] {
            assert_eq!(super::rows("t.csv", &format!("{head}{rows}")).unwrap_err().to_string(), message);
        }
        let error = super::rows("t.csv", &format!("{head}pdp-11,31,1,0,0,0,0\n")).unwrap_err().to_string();
        assert!(
            error.starts_with("t.csv, line 2: machine: there is no machine pdp-11; allowed: lkp-skl-4sp1, "),
            "{error}"
        );
        let error = super::rows("t.csv", "a,b\n1,2\n").unwrap_err().to_string();
        assert!(error.starts_with("t.csv, line 1: a table of an unknown kind; its first line may be\n"), "{error}");
        // Those of all the tables that are shipped.
        for (name, text) in SHIPPED {
            let heading = text.lines().next().unwrap();
            assert!(error.lines().any(|line| line.trim() == heading), "{name}: {error}");
        }
    }
}
