//! Tables of results as Parquet: a row per finished cell, in the order of the cells.
//!
//! The bytes depend on the cells and on the builds that ran them: not on workers, their order, or kills.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use pageset_columns::{Column, Form};
use pageset_sim::era::Era;
use pageset_sim::run::{AllocTimes, RunResult, RunRow, Sample};
use pageset_statistics::Spread;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
pub use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cell::{Cell, Cells, address};
use crate::error::StoreError;
use crate::store::Store;
use crate::work::Outcome;

/// The schema of the tables, in their metadata under `schema`.
pub const SCHEMA: &str = "pageset.study/1";
/// The bytes that a Parquet file begins with.
pub const MAGIC: &[u8; 4] = b"PAR1";
/// Rows of a group, which are in memory together while a table is written: some tens of megabytes.
const GROUP_ROWS: usize = 1 << 14;

/// A row: a finished cell. Each number, word and flag, at any depth, is a column.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Row {
    address: String,
    machine: String,
    workload: String,
    unit: String,
    second_unit: Option<String>,
    rules: String,
    era: Era,
    tasks: u32,
    warm_up_ns: u64,
    measured_ns: u64,
    #[serde(flatten)]
    outcome: Outcome,
    sockets: u64,
    cpus: u32,
    memory_gib: u64,
    machine_about: String,
}

/// The columns of a table: those of a row, and the settings of the study. A setting is a column of integers where all values
/// are integers, else of text.
fn columns<'a, R: JsonSchema>(settings: impl Iterator<Item = (&'a str, bool)>) -> Vec<Column> {
    let setting = |(key, is_integer): (&str, bool)| Column {
        name: format!("set_{key}"),
        path: vec!["set".to_owned(), key.to_owned()],
        form: if is_integer { Form::Count } else { Form::Text },
        ..Column::default()
    };
    let row = pageset_columns::columns::<R>().into_iter().filter(|column| column.form != Form::Nested);
    row.chain(settings.map(setting)).collect()
}

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let physical = match column.form {
            Form::Text | Form::Nested => Physical::BYTE_ARRAY,
            Form::Count | Form::Change => Physical::INT64,
            Form::Real => Physical::DOUBLE,
            Form::Flag => Physical::BOOLEAN,
        };
        let mut field = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL);
        if physical == Physical::BYTE_ARRAY {
            field = field.with_converted_type(ConvertedType::UTF8).with_logical_type(Some(LogicalType::String));
        }
        field.build().map(TypePtr::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("cell").with_fields(fields).build().map(TypePtr::new)
}

/// Cells in a row that cannot be read, from which on the folder is at fault. A guess.
const MOST_UNREAD: u32 = 3;

/// The error of a table that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The folder cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The table cannot be written.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// A cell has no JSON. No study has such a one.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A cell without a row, and why.
pub type Missing = (Cell, String);

/// What a table has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    /// The cells without a row.
    pub missing: Vec<Missing>,
    /// The builds that ran the others, with their numbers of cells. Cells of older versions have no build: an empty name.
    pub builds: BTreeMap<String, usize>,
}

/// Writes the finished cells of a study.
pub fn write(cells: &Cells<'_>, store: &Store, out: impl Write + Send) -> Result<Collected, TableError> {
    let study = cells.study();
    let is_integer = |key: usize| study.rules.iter().all(|rules| rules.settings[key].parse::<i64>().is_ok());
    let settings = study.keys.iter().enumerate().map(|(at, key)| (key.as_str(), is_integer(at)));
    let columns = columns::<Row>(settings);
    let metadata = vec![KeyValue::new("schema".to_owned(), SCHEMA.to_owned())];
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(metadata))
        .build();
    let mut file = SerializedFileWriter::new(out, schema(&columns)?, Arc::new(properties))?;
    let (mut rows, mut missing, mut builds, mut unread) = (Vec::new(), Vec::new(), BTreeMap::new(), 0);
    for &cell in cells.all() {
        let description = cells.description(cell)?;
        match store.load(&description) {
            Ok(Some(outcome)) => {
                let row = match row(cells, cell, &description, outcome) {
                    Ok(row) => row,
                    Err(error) => {
                        missing.push((cell, error.to_string()));
                        continue;
                    }
                };
                *builds.entry(row["build"].as_str().unwrap_or_default().to_owned()).or_insert(0) += 1;
                rows.push(row);
            }
            Ok(None) => {
                let why = store.failure(&description).unwrap_or_else(|| "not finished".to_owned());
                missing.push((cell, why));
            }
            Err(error) => {
                // One file may be bad. A folder that cannot be read must not replace a table by an empty one.
                unread = if let StoreError::Io { .. } = error { unread + 1 } else { 0 };
                if unread == MOST_UNREAD {
                    return Err(error.into());
                }
                missing.push((cell, error.to_string()));
                continue;
            }
        }
        unread = 0;
        if rows.len() == GROUP_ROWS {
            group(&mut file, &columns, &rows)?;
            rows.clear();
        }
    }
    if !rows.is_empty() {
        group(&mut file, &columns, &rows)?;
    }
    file.close()?;
    Ok(Collected { missing, builds })
}

/// A row: the outcome of a cell with what it is an outcome of.
fn row(cells: &Cells<'_>, cell: Cell, description: &str, outcome: Value) -> serde_json::Result<Value> {
    let (machine, rules, (workload, length)) = (cells.machine(cell), cells.rules(cell), cells.workload(cell));
    let mut row = serde_json::to_value(Row {
        address: address(description),
        machine: machine.name.clone(),
        workload: workload.name.to_owned(),
        unit: workload.unit.to_owned(),
        second_unit: workload.second_unit.map(str::to_owned),
        rules: rules.set.name.clone(),
        era: rules.era,
        tasks: cell.tasks,
        warm_up_ns: length.warm_up.whole_ns(),
        measured_ns: length.time.whole_ns(),
        outcome: serde_json::from_value(outcome)?,
        sockets: machine.cited.sockets.get(),
        cpus: machine.topology().cpus(),
        memory_gib: machine.cited.memory_gib.get(),
        machine_about: machine.about.clone(),
    })?;
    let settings = cells.study().keys.iter().cloned().zip(rules.settings.iter().cloned().map(Value::from));
    row["set"] = Value::Object(settings.collect());
    Ok(row)
}

/// Writes rows as a row group.
fn group(
    file: &mut SerializedFileWriter<impl Write + Send>,
    columns: &[Column],
    rows: &[Value],
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for column in columns {
        let Some(mut writer) = group.next_column()? else { break };
        let all: Vec<Option<&Value>> = rows.iter().map(|row| column.of(row).filter(|value| !value.is_null())).collect();
        let levels: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
        let values = all.into_iter().flatten();
        match writer.untyped() {
            ColumnWriter::Int64ColumnWriter(writer) => {
                // Settings are text in a study. Counts above 2^63 do not occur.
                let integer = |value: &Value| match value {
                    Value::String(text) => text.parse().unwrap_or_default(),
                    value => value.as_i64().unwrap_or_default(),
                };
                writer.write_batch(&values.map(integer).collect::<Vec<i64>>(), Some(&levels), None)?;
            }
            ColumnWriter::DoubleColumnWriter(writer) => {
                let reals: Vec<f64> = values.filter_map(Value::as_f64).collect();
                writer.write_batch(&reals, Some(&levels), None)?;
            }
            ColumnWriter::BoolColumnWriter(writer) => {
                let flags: Vec<bool> = values.filter_map(Value::as_bool).collect();
                writer.write_batch(&flags, Some(&levels), None)?;
            }
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                let texts: Vec<ByteArray> = values.map(|text| text.as_str().unwrap_or_default().into()).collect();
                writer.write_batch(&texts, Some(&levels), None)?;
            }
            _ => return Err(ParquetError::General(format!("column {} has an unknown type", column.name))),
        }
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

/// Reads a table: a result for each workload on each machine.
///
/// # Errors
/// The file is no table of a study.
pub fn read(path: &Path) -> Result<Vec<RunResult>, StoreError> {
    let damaged = |what: &dyn ToString| StoreError::damaged(path, what.to_string());
    let file = File::open(path).map_err(StoreError::io("read", path))?;
    let reader = SerializedFileReader::new(file).map_err(|error| damaged(&error))?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let is_schema = |pair: &KeyValue| pair.key == "schema" && pair.value.as_deref() == Some(SCHEMA);
    if !metadata.is_some_and(|pairs| pairs.iter().any(is_schema)) {
        return Err(damaged(&format!("no table of `pageset-lab study`: the metadata has no schema {SCHEMA}")));
    }
    let columns = columns::<Row>(std::iter::empty());
    let mut results: IndexMap<(String, String, u64), (RunResult, BySet)> = IndexMap::new();
    for row in reader.get_row_iter(None).map_err(|error| damaged(&error))? {
        let row = row.map_err(|error| damaged(&error))?;
        let mut value = Value::Object(Map::new());
        for (name, field) in row.get_column_iter() {
            if let Some(column) = columns.iter().find(|column| column.name == *name) {
                set(&mut value, column, field);
            }
        }
        let row: Row = serde_json::from_value(value).map_err(|error| damaged(&error))?;
        let key = (row.workload.clone(), row.machine.clone(), row.measured_ns);
        let (_, rows) = results.entry(key).or_insert_with(|| (result(&row), BySet::new()));
        rows.entry((row.rules, row.tasks)).or_default().push((row.era, row.outcome));
    }
    let of = |(mut result, rows): (RunResult, BySet)| {
        result.rows = rows.into_iter().map(|((rules, tasks), rows)| joined(rules, tasks, rows)).collect();
        result.seeds = result.rows.iter().map(|row| row.samples.len() as u32).max().unwrap_or(0);
        result
    };
    Ok(results.into_values().map(of).collect())
}

/// The rows of one set of rules and number of tasks, one per seed.
type Rows = Vec<(Era, Outcome)>;

/// The rows of one result, by the name of the rules and the number of tasks.
type BySet = IndexMap<(String, u32), Rows>;

/// The result that a row belongs to, without rows.
fn result(row: &Row) -> RunResult {
    RunResult {
        schema: pageset_sim::run::SCHEMA.to_owned(),
        workload: row.workload.clone(),
        unit: row.unit.clone(),
        second_unit: row.second_unit.clone(),
        machine: row.machine.clone(),
        about: row.machine_about.clone(),
        measured_ns: row.measured_ns,
        warm_up_ns: row.warm_up_ns,
        precision_pct: 0.0,
        seeds: 0,
        rows: Vec::new(),
    }
}

/// The seeds of a row together. The times of allocations are the means of the seeds' quantiles, and the longest of all.
fn joined(rules: String, tasks: u32, rows: Rows) -> RunRow {
    let spread =
        |of: fn(&Sample) -> f64| Spread::of(&rows.iter().map(|(_, of_seed)| of(&of_seed.sample)).collect::<Vec<_>>());
    let times: Option<Vec<AllocTimes>> = rows.iter().map(|(_, of_seed)| of_seed.alloc_ns).collect();
    let second: Option<Vec<f64>> = rows.iter().map(|(_, of_seed)| of_seed.second.score).collect();
    let steady = || rows.iter().filter_map(|(_, of_seed)| of_seed.sample.steadiness.as_ref());
    let settled = steady().next().map(|_| steady().all(|found| found.settled));
    RunRow {
        rules,
        tasks,
        era: rows.first().map_or_else(Era::default, |(era, ..)| *era),
        score: spread(|sample| sample.score),
        second_score: second.and_then(|second| Spread::of(&second)),
        zone_lock_pct: spread(|sample| sample.zone_lock_pct),
        lru_lock_pct: spread(|sample| sample.lru_lock_pct),
        interval: None,
        settled,
        alloc_ns: times.and_then(|times| AllocTimes::mean(&times)),
        samples: rows.into_iter().map(|(_, of_seed)| of_seed.sample).collect(),
    }
}

/// Puts a field where its column has its values. A row without a value has no member.
fn set(row: &mut Value, column: &Column, field: &Field) {
    let value = match field {
        Field::Str(text) => json!(text),
        Field::Long(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::Bool(flag) => json!(flag),
        _ => return,
    };
    *column.path.iter().fold(row, |at, name| &mut at[name.as_str()]) = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its columns are used")]
    struct Small {
        rules: String,
        twice: u64,
        #[schemars(extend("name" = ""))]
        of_seed: Option<Seed>,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its columns are used")]
    struct Seed {
        score: f64,
        settled: Option<bool>,
        all: Vec<u64>,
    }

    #[test]
    fn each_scalar_field_is_a_column() {
        let columns = columns::<Small>([("batch", true)].into_iter());
        let schema = schema(&columns).unwrap();
        let types: Vec<_> = schema.get_fields().iter().map(|of| (of.name(), of.get_physical_type())).collect();
        let wanted = [
            ("rules", Physical::BYTE_ARRAY),
            ("twice", Physical::INT64),
            ("score", Physical::DOUBLE),
            ("settled", Physical::BOOLEAN),
            ("set_batch", Physical::INT64),
        ];
        assert_eq!(types, wanted);
        assert_eq!(columns[2].of(&json!({ "of_seed": { "score": 0.5 } })), Some(&json!(0.5)));
    }
}
