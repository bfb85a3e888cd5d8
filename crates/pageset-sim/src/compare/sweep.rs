//! The table of page_fault1 over batches: a row is a machine and a batch; the columns are score and contention.

use pageset::Tuning;
use pageset::policy::BatchRule;
use pageset::policy::presets::LINUX_4_17;
use serde::Deserialize;

use super::table::{Column, Experiment, Key, Kind, Layout, Row, SWEEP_COLUMNS as COLUMNS, Table};
use super::{How, Measure, SHIPPED, TableError, Value, cells, records};
use crate::era::Era;

/// The base batch of all changes, and of the fit of costs, in pages.
pub const BASE_BATCH: u32 = 31;
/// The largest valid batch in pages, as in the rules.
const MAX_BATCH: u32 = pageset::policy::sizes::MAX_BATCH;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SweepRow {
    pub(crate) machine: &'static str,
    /// The batch in pages.
    pub(crate) batch: u32,
    pub(crate) values: [f64; COLUMNS.len()],
}

/// The rules of a batch: 4.17 except for the batch. `high` is six batches.
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

pub(super) fn heading() -> String {
    columns().collect::<Vec<_>>().join(",")
}

/// Parses the rows of a text. A machine without a base row gets that of the shipped table.
pub(crate) fn rows(file: &str, text: &str) -> Result<Vec<SweepRow>, TableError> {
    let key = |row: &SweepRow| format!("machine {}, batch {}", row.machine, row.batch);
    let mut rows = records::read(file, text, columns(), SweepRow::new, key)?;
    while let Some(place) = rows.iter().position(|row| base_of(&rows, row).is_none()) {
        let machine = rows[place].machine;
        let base = shipped_base(machine).ok_or_else(|| TableError {
            file: file.to_owned(),
            line: None,
            what: format!("machine {machine} has no row of batch {BASE_BATCH}, and the built-in table has none"),
        })?;
        rows.insert(place, base);
    }
    Ok(rows)
}

fn base_of<'r>(rows: &'r [SweepRow], row: &SweepRow) -> Option<&'r SweepRow> {
    rows.iter().find(|base| base.batch == BASE_BATCH && base.machine == row.machine)
}

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
            Value::itself(Measure::Score, of),
            Value { measure: Measure::Score, how: How::ChangeOfMeanPct, of, to },
            Value::itself(Measure::ZonePct, of),
            Value::itself(Measure::LruPct, of),
            Value::itself(Measure::LocksPct, of),
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

/// The position of a batch on the line in 1/batch: 0 at the base row, 1 at the last row.
fn line_share(last: u32, batch: u32) -> f64 {
    let at = |batch: u32| 1.0 / f64::from(batch);
    let span = at(last) - at(BASE_BATCH);
    if span == 0.0 { 0.0 } else { (at(batch) - at(BASE_BATCH)) / span }
}

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
            return Err(format!("change_pct: {change_pct}; allowed: a finite number"));
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
    fn the_shipped_table_is_complete() {
        let rows = rows(SHIPPED[0].0, SHIPPED[0].1).unwrap();
        assert_eq!(rows.len(), 123);
        let row = &rows[1];
        assert_eq!((row.machine, row.batch), ("lkp-skl-4sp1", 53));
        assert_eq!(row.values, [17_903_847.0, 16.67, 32.0, 38.0, 70.0]);
    }

    #[test]
    fn a_missing_base_row_comes_from_the_shipped_table() {
        let head = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
        let rows = "lkp-sb02,63,5,0,0,0,0\nlkp-skl-4sp1,31,7,0,0,0,0\nlkp-sb02,90,6,0,0,0,0\n";
        let rows = super::rows("t.csv", &format!("{head}{rows}")).unwrap();
        let parsed: Vec<_> = rows.iter().map(|row| (row.machine, row.batch, row.values[0])).collect();
        let sb02 = |batch, score| ("lkp-sb02", batch, score);
        assert_eq!(parsed, [sb02(31, 1_744_495.0), sb02(63, 5.0), ("lkp-skl-4sp1", 31, 7.0), sb02(90, 6.0)]);
    }

    #[test]
    fn the_line_goes_through_the_base_row_and_the_last() {
        // 1/62 is two thirds of the way from 1/31 to 1/124.
        for (share, expected) in
            [(line_share(124, 62), 2.0 / 3.0), (line_share(124, 31), 0.0), (line_share(31, 31), 0.0)]
        {
            assert!((share - expected).abs() < 1e-9, "{share}, not {expected}");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let head = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
        for (rows, message) in [
            ("lkp-sb02,31,1,0,0,0,0\nlkp-sb02,x,1,0,0,0,0\n", "t.csv, line 3: batch: invalid digit found in string"),
            ("lkp-sb02,0,1,0,0,0,0\n", "t.csv, line 2: batch: 0; allowed: 1 to 65536 pages"),
            ("lkp-sb02,31,-1,0,0,0,0\n", "t.csv, line 2: score: -1; allowed: above 0"),
            ("lkp-sb02,31,1,0,101,0,0\n", "t.csv, line 2: zone_contention_pct: 101; allowed: 0 to 100 %"),
            ("lkp-sb02,31,1,0,0,0,NaN\n", "t.csv, line 2: total_contention_pct: NaN; allowed: 0 to 100 %"),
            ("vm-8,63,1,0,0,0,0\n", "t.csv: machine vm-8 has no row of batch 31, and the built-in table has none"),
            (
                "lkp-sb02,31,1,0,0,0,0\nlkp-sb02,31,1,0,0,0,0\n",
                "t.csv, line 3: machine lkp-sb02, batch 31: duplicate row",
            ),
            ("", "t.csv: no rows"),
        ] {
            assert_eq!(super::rows("t.csv", &format!("{head}{rows}")).unwrap_err().to_string(), message);
        }
        let error = super::rows("t.csv", &format!("{head}pdp-11,31,1,0,0,0,0\n")).unwrap_err().to_string();
        assert!(
            error.starts_with("t.csv, line 2: machine: unknown machine `pdp-11`; allowed: lkp-skl-4sp1, "),
            "{error}"
        );
        let error = super::rows("t.csv", "a,b\n1,2\n").unwrap_err().to_string();
        assert!(error.starts_with("t.csv, line 1: unknown kind of table; allowed first lines:\n"), "{error}");
        // The message lists the header lines of all shipped tables.
        for (name, text) in SHIPPED {
            let heading = text.lines().next().unwrap();
            assert!(error.lines().any(|line| line.trim() == heading), "{name}: {error}");
        }
    }
}
