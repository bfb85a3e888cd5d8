//! Parses tables in which each line is a row of its own and no row occurs twice.

use std::collections::HashSet;

use serde::de::DeserializeOwned;

use super::TableError;

/// Parses a table with these columns. Error messages name `file`. `row` converts a record to a row; `key` describes
/// what must be unique.
pub(super) fn read<'c, R: DeserializeOwned, T>(
    file: &str,
    text: &str,
    columns: impl Iterator<Item = &'c str>,
    row: impl Fn(R) -> Result<T, String>,
    key: impl Fn(&T) -> String,
) -> Result<Vec<T>, TableError> {
    let wrong = |line, what| TableError { file: file.to_owned(), line, what };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| wrong(Some(1), error.to_string()))?.clone();
    if !headers.iter().eq(columns) {
        return Err(TableError::unknown_kind(file));
    }
    let (mut rows, mut keys) = (Vec::new(), HashSet::new());
    let mut record = csv::StringRecord::new();
    loop {
        let line = Some(reader.position().line());
        match reader.read_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {}
            Err(error) => return Err(wrong(line, error.to_string())),
        }
        let read = record.deserialize(Some(&headers)).map_err(|error| wrong(line, reason(&error, &headers)))?;
        let row = row(read).map_err(|what| wrong(line, what))?;
        if !keys.insert(key(&row)) {
            return Err(wrong(line, format!("{}: duplicate row", key(&row))));
        }
        rows.push(row);
    }
    if rows.is_empty() { Err(wrong(None, "no rows".to_owned())) } else { Ok(rows) }
}

/// The parser's message, with the name of the column.
fn reason(error: &csv::Error, headers: &csv::StringRecord) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|field| headers.get(field as usize)).unwrap_or("the row");
            format!("{column}: {}", err.kind())
        }
        _ => error.to_string(),
    }
}
