//! The columns of a type of results, from its JSON schema.
//!
//! The fields of a result are its columns. A field's documentation says what the value is. What only people need stands
//! in the attribute `schemars(extend(…))` of the field:
//!
//! | extension | value | without it |
//! | --- | --- | --- |
//! | `heading` | the heading in tables of text | the key with spaces for underscores |
//! | `unit` | `pages`, `ns`, `percent`, … | a count, or words |
//! | `bad`, `todo` | when a value is bad, and what to do | never bad by itself |
//! | `as` | the heading of the column that explains this one as well | |
//! | `better` | `lower`, `higher` or `neither`; `diff` compares the column | not compared |
//! | `per` | what `diff` relates the value to, such as `1000 ops` | compared as it is |
//! | `digits` | the decimals in tables of text | four digits of a real number |
//! | `tables`, `rank` | the tables of text with this column; columns of a large rank leave a narrow terminal first | none, 0 |
//! | `figure` | the name in the card of a report | not in the card |
//! | `metric` | the name of the OpenMetrics family | no family |
//! | `name` | the part of names in Parquet, which are the parts of all outer members | the key |
//!
//! ```
//! use pageset_columns::columns;
//!
//! #[derive(schemars::JsonSchema)]
//! struct Row {
//!     /// Holds of zone locks per 1000 allocations and frees.
//!     #[schemars(extend("heading" = "locks/1000 ops", "better" = "lower"))]
//!     locks_per_1000: f64,
//! }
//!
//! let [locks] = columns::<Row>().try_into().unwrap();
//! assert_eq!((locks.key(), locks.heading.as_str()), ("locks_per_1000", "locks/1000 ops"));
//! assert_eq!(locks.what, "Holds of zone locks per 1000 allocations and frees.");
//! ```

use schemars::{JsonSchema, Schema, schema_for};
use serde_json::Value;

/// The form of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// Words.
    #[default]
    Text,
    /// Whole numbers.
    Count,
    /// Whole numbers with a sign: changes.
    Change,
    /// Real numbers.
    Real,
    /// Yes or no.
    Flag,
    /// Members or a list.
    Nested,
}

/// A column of a type of results. Texts are empty where the module's table says "without it".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the crate's table describes the extensions")]
pub struct Column {
    /// The members that lead to the value. The last is the key.
    pub path: Vec<String>,
    /// What the value is.
    pub what: String,
    pub heading: String,
    pub unit: String,
    pub bad: String,
    pub todo: String,
    pub like: String,
    pub better: String,
    pub per: String,
    pub digits: Option<usize>,
    pub tables: String,
    pub rank: usize,
    pub figure: String,
    pub metric: String,
    pub name: String,
    pub form: Form,
}

impl Column {
    fn new(root: &Value, path: Vec<String>, schema: &Value) -> Column {
        let of = resolved(root, schema);
        let text = |name: &str| schema[name].as_str().unwrap_or_default().to_owned();
        let or = |name: &str, other: String| Some(text(name)).filter(|text| !text.is_empty()).unwrap_or(other);
        let kind = |kind: &Value| match kind.as_str() {
            Some("integer") if of["format"] == "int64" => Some(Form::Change),
            Some("integer") => Some(Form::Count),
            Some("number") => Some(Form::Real),
            Some("boolean") => Some(Form::Flag),
            Some("object" | "array") => Some(Form::Nested),
            Some("null") => None,
            _ => Some(Form::Text),
        };
        let form = of["type"].as_array().map_or_else(|| kind(&of["type"]), |types| types.iter().find_map(kind));
        Column {
            what: or("description", of["description"].as_str().unwrap_or_default().to_owned()),
            heading: or("heading", path.last().map(|key| key.replace('_', " ")).unwrap_or_default()),
            unit: text("unit"),
            bad: text("bad"),
            todo: text("todo"),
            like: text("as"),
            better: text("better"),
            per: text("per"),
            digits: schema["digits"].as_u64().map(|digits| digits as usize),
            tables: text("tables"),
            rank: schema["rank"].as_u64().unwrap_or(0) as usize,
            figure: text("figure"),
            metric: text("metric"),
            name: text("name"),
            form: form.unwrap_or(Form::Text),
            path,
        }
    }

    /// The name of the value in its object.
    #[must_use]
    pub fn key(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// The value of a row; `None` if the row has no such member.
    #[must_use]
    pub fn of<'r>(&self, row: &'r Value) -> Option<&'r Value> {
        self.path.iter().try_fold(row, |at, member| at.get(member))
    }

    /// Whether the column stands in this table of text.
    #[must_use]
    pub fn is_in(&self, table: &str) -> bool {
        self.tables.split(' ').any(|name| name == table)
    }
}

/// The schema that a reference, or a value that may be null, stands for.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let named = schema["$ref"].as_str().and_then(|name| root.pointer(name.trim_start_matches('#')));
    let some = || schema["anyOf"].as_array()?.iter().find(|schema| schema["type"] != "null");
    named.or_else(some).map_or(schema, |inner| resolved(root, inner))
}

/// The columns of the rows of a type, in the order of its fields: also those of members, but not those of lists. A member
/// is a column of its own if it stands in a table or a card.
#[must_use]
pub fn columns<T: JsonSchema>() -> Vec<Column> {
    fn add(root: &Value, schema: &Value, path: &[String], names: &[&str], to: &mut Vec<Column>) {
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = [path, std::slice::from_ref(key)].concat();
            let names = [names, &[schema["name"].as_str().unwrap_or(key)]].concat();
            match resolved(root, schema) {
                inner if inner["properties"].is_object() => {
                    let own = Column::new(root, path.clone(), schema);
                    to.extend(Some(own).filter(|own| !(own.tables.is_empty() && own.figure.is_empty())));
                    add(root, inner, &path, &names, to);
                }
                _ => {
                    let name = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join("_");
                    to.push(Column { name, ..Column::new(root, path, schema) });
                }
            }
        }
    }
    let (schema, mut to) = (schema_for!(T), Vec::new());
    add(schema.as_value(), schema.as_value(), &[], &[], &mut to);
    to
}

/// All members of a schema, at any depth, in the order of their fields. The path of each is its key alone.
#[must_use]
pub fn members(schema: &Schema) -> Vec<Column> {
    fn add(root: &Value, schema: &Value, to: &mut Vec<Column>) {
        let properties = schema["properties"].as_object().into_iter().flatten();
        to.extend(properties.map(|(key, schema)| Column::new(root, vec![key.clone()], schema)));
        match schema {
            Value::Object(all) => all.values().for_each(|inner| add(root, inner, to)),
            Value::Array(all) => all.iter().for_each(|inner| add(root, inner, to)),
            _ => (),
        }
    }
    let mut to = Vec::new();
    add(schema.as_value(), schema.as_value(), &mut to);
    to
}
