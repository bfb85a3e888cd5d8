//! The table of page_fault1 over batches: a row is a machine and a batch, its columns score and contention.

use serde::Deserialize;

use super::{COLUMNS, SHIPPED, TableError, Values, records};
use crate::era::Era;
use crate::machine;

/// The batch that all changes are relative to, and that costs are fitted to.
pub const BASE_BATCH: u32 = 31;
/// The era of the table's kernel, 4.17.
pub const SWEEP_ERA: Era = Era::Linux4_16;
/// The largest batch that a table may have: that of the rules.
const MOST_BATCH: u32 = pageset::tuning::sizes::MAX_BATCH;

/// One row.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepRow {
    /// The machine's name.
    pub machine: String,
    /// The batch in pages.
    pub batch: u32,
    /// The other columns.
    pub values: Values,
}

impl SweepRow {
    /// Whether this is the row that another's change is relative to.
    #[must_use]
    pub fn is_base_of(&self, other: &SweepRow) -> bool {
        self.batch == BASE_BATCH && self.machine == other.machine
    }
}

/// The table.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepTable {
    /// Its rows, in order.
    pub rows: Vec<SweepRow>,
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

impl SweepTable {
    fn columns() -> impl Iterator<Item = &'static str> {
        ["machine", "batch"].into_iter().chain(COLUMNS)
    }

    /// Its first line.
    pub(super) fn heading() -> String {
        Self::columns().collect::<Vec<_>>().join(",")
    }

    /// Reads a table; `file` is its name in messages.
    ///
    /// # Errors
    /// What is wrong in which line.
    pub fn parse(file: &str, text: &str) -> Result<SweepTable, TableError> {
        let key = |row: &SweepRow| format!("machine {}, batch {}", row.machine, row.batch);
        let rows = records::read(file, text, Self::columns(), SweepRow::new, key)?;
        Self::with_base_rows(rows).map_err(|what| TableError { file: file.to_owned(), line: None, what })
    }

    /// A table with a base row for each machine: one that it lacks is that of the shipped table.
    fn with_base_rows(mut rows: Vec<SweepRow>) -> Result<SweepTable, String> {
        while let Some(place) = rows.iter().position(|row| !rows.iter().any(|base| base.is_base_of(row))) {
            let machine = &rows[place].machine;
            let base = shipped_base(machine).ok_or_else(|| {
                format!("machine {machine} has no row of batch {BASE_BATCH}, and the table that is built in has none")
            })?;
            rows.insert(place, base);
        }
        Ok(SweepTable { rows })
    }
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
        if machine::find(&machine).is_none() {
            let names: Vec<&str> = machine::SHIPPED.iter().map(|(name, _)| *name).collect();
            return Err(format!("machine: there is no machine {machine}; allowed: {}", names.join(", ")));
        }
        if batch == 0 || batch > MOST_BATCH {
            return Err(format!("batch: {batch}; allowed: 1 to {MOST_BATCH} pages"));
        }
        if !(score > 0.0 && score.is_finite()) {
            return Err(format!("score: {score}; allowed: above 0"));
        }
        if !change_pct.is_finite() {
            return Err(format!("change_pct: {change_pct}; allowed: a number of percent"));
        }
        let shares = [record.zone_contention_pct, record.lru_contention_pct, record.total_contention_pct];
        for (column, share) in COLUMNS[2..].iter().zip(shares) {
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
        let table = SweepTable::parse(SHIPPED[0].0, SHIPPED[0].1).unwrap();
        assert_eq!(table.rows.len(), 123);
        let row = &table.rows[1];
        assert_eq!((row.machine.as_str(), row.batch), ("lkp-skl-4sp1", 53));
        assert_eq!(row.values, [17_903_847.0, 16.67, 32.0, 38.0, 70.0]);
    }

    #[test]
    fn a_base_row_that_is_missing_is_the_shipped_one() {
        let head = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
        let rows = "lkp-sb02,63,5,0,0,0,0\nlkp-skl-4sp1,31,7,0,0,0,0\nlkp-sb02,90,6,0,0,0,0\n";
        let table = SweepTable::parse("t.csv", &format!("{head}{rows}")).unwrap();
        let told: Vec<_> = table.rows.iter().map(|row| (row.machine.as_str(), row.batch, row.values[0])).collect();
        let sb02 = |batch, score| ("lkp-sb02", batch, score);
        assert_eq!(told, [sb02(31, 1_744_495.0), sb02(63, 5.0), ("lkp-skl-4sp1", 31, 7.0), sb02(90, 6.0)]);
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
            assert_eq!(SweepTable::parse("t.csv", &format!("{head}{rows}")).unwrap_err().to_string(), message);
        }
        let error = SweepTable::parse("t.csv", &format!("{head}pdp-11,31,1,0,0,0,0\n")).unwrap_err().to_string();
        assert!(
            error.starts_with("t.csv, line 2: machine: there is no machine pdp-11; allowed: lkp-skl-4sp1, "),
            "{error}"
        );
        let error = SweepTable::parse("t.csv", "a,b\n1,2\n").unwrap_err().to_string();
        assert!(error.starts_with("t.csv, line 1: a table of an unknown kind; its first line may be\n"), "{error}");
        // Those of all the tables that are shipped.
        for (name, text) in SHIPPED {
            let heading = text.lines().next().unwrap();
            assert!(error.lines().any(|line| line.trim() == heading), "{name}: {error}");
        }
    }
}
