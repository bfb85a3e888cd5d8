//! Results as CSV: a line for each row of the table, from the same model as the JSON.

use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};
use serde::Serialize;
use serde_json::Value;

/// A row with its leading columns: name and text.
pub type Line<'r, R> = (Vec<(&'static str, String)>, &'r R);

/// Writes rows: for each, the leading columns and the scalar members of its JSON. The name of a member of a member is
/// `OUTER.INNER`. A row without a member of another row has an empty field.
pub fn write<'r, R: Serialize + 'r>(out: impl Write, rows: impl Iterator<Item = Line<'r, R>>) -> io::Result<()> {
    let mut flat: Vec<IndexMap<String, String>> = Vec::new();
    for (lead, row) in rows {
        let mut fields: IndexMap<String, String> =
            lead.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        flatten("", serde_json::to_value(row)?, &mut fields);
        flat.push(fields);
    }
    let all: IndexSet<&String> = flat.iter().flat_map(IndexMap::keys).collect();
    // A member that is null in one row and has members in another has the columns of its members.
    let has_members =
        |head: &str| all.iter().any(|other| other.strip_prefix(head).is_some_and(|rest| rest.starts_with('.')));
    let heads: Vec<&String> = all.iter().copied().filter(|head| !has_members(head)).collect();
    if heads.is_empty() {
        return Ok(());
    }
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(&heads)?;
    for fields in &flat {
        writer.write_record(heads.iter().map(|head| fields.get(*head).map_or("", String::as_str)))?;
    }
    writer.flush()
}

fn flatten(name: &str, value: Value, fields: &mut IndexMap<String, String>) {
    let text = match value {
        Value::Object(members) => {
            for (member, value) in members {
                let name = if name.is_empty() { member } else { format!("{name}.{member}") };
                flatten(&name, value, fields);
            }
            return;
        }
        // Lists, such as samples, are in the JSON only.
        Value::Array(_) => return,
        Value::Null => String::new(),
        Value::String(text) => text,
        value => value.to_string(),
    };
    fields.insert(name.to_owned(), text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_become_columns_in_their_order() {
        #[derive(Serialize)]
        struct Row {
            zeta: u32,
            inner: Option<Inner>,
            all: Vec<u32>,
            text: &'static str,
        }
        #[derive(Serialize)]
        struct Inner {
            mean: f64,
        }
        let rows = [
            Row { zeta: 1, inner: None, all: vec![1, 2], text: "a, \"b\"" },
            Row { zeta: 2, inner: Some(Inner { mean: 0.5 }), all: vec![], text: "" },
        ];
        let mut out = Vec::new();
        write(&mut out, rows.iter().map(|row| (vec![("lead", "x".to_owned())], row))).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "lead,zeta,text,inner.mean\nx,1,\"a, \"\"b\"\"\",\nx,2,,0.5\n");
        let mut out = Vec::new();
        write(&mut out, std::iter::empty::<(Vec<_>, &Value)>()).unwrap();
        assert!(out.is_empty(), "no rows");
    }
}
