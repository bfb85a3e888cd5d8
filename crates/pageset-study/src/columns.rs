//! The columns of a table of results.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

/// The type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Text,
    Integer,
    Real,
}

use Kind::{Integer, Real, Text};

/// A column: its name, its type, and the place of its values in a row's JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) pointer: String,
}

/// The begin of the name of a setting's column.
const SETTING: &str = "set_";

/// The columns of every table, in order. A value may be null where the row does not have it.
const FIXED: [(&str, Kind, &str); 53] = [
    ("address", Text, "/address"),
    ("machine", Text, "/machine"),
    ("workload", Text, "/workload"),
    ("unit", Text, "/unit"),
    ("rules", Text, "/rules"),
    ("era", Text, "/era"),
    ("tasks", Integer, "/tasks"),
    ("seed", Integer, "/sample/seed"),
    ("warm_up_ns", Integer, "/warm_up_ns"),
    ("measured_ns", Integer, "/measured_ns"),
    ("history", Integer, "/history/turnovers"),
    ("time_ns", Integer, "/time_ns"),
    ("busy_ns", Integer, "/busy_ns"),
    ("operations", Integer, "/sample/operations"),
    ("score", Real, "/sample/score"),
    ("second_unit", Text, "/second/unit"),
    ("second_operations", Integer, "/second/operations"),
    ("second_score", Real, "/second/score"),
    ("zone_lock_pct", Real, "/sample/zone_lock_pct"),
    ("lru_lock_pct", Real, "/sample/lru_lock_pct"),
    ("cache_miss_pct", Real, "/sample/cache_miss_pct"),
    ("alloc_p50_ns", Integer, "/alloc_ns/p50"),
    ("alloc_p99_ns", Integer, "/alloc_ns/p99"),
    ("alloc_p999_ns", Integer, "/alloc_ns/p999"),
    ("alloc_max_ns", Integer, "/alloc_ns/max"),
    ("from_zone_pages", Integer, "/sample/from_zone"),
    ("drained_pages", Integer, "/sample/drained"),
    ("high_order_drains", Integer, "/sample/high_order_drains"),
    ("zone_refill_holds", Integer, "/sample/zone_locks/alloc/holds"),
    ("zone_refill_contended", Integer, "/sample/zone_locks/alloc/contended"),
    ("zone_refill_wait_ns", Integer, "/sample/zone_locks/alloc/wait_ns"),
    ("zone_refill_hold_ns", Integer, "/sample/zone_locks/alloc/hold_ns"),
    ("zone_drain_holds", Integer, "/sample/zone_locks/free/holds"),
    ("zone_drain_contended", Integer, "/sample/zone_locks/free/contended"),
    ("zone_drain_wait_ns", Integer, "/sample/zone_locks/free/wait_ns"),
    ("zone_drain_hold_ns", Integer, "/sample/zone_locks/free/hold_ns"),
    ("zone_direct_holds", Integer, "/sample/zone_locks/direct/holds"),
    ("zone_direct_contended", Integer, "/sample/zone_locks/direct/contended"),
    ("zone_direct_wait_ns", Integer, "/sample/zone_locks/direct/wait_ns"),
    ("zone_direct_hold_ns", Integer, "/sample/zone_locks/direct/hold_ns"),
    ("lru_add_holds", Integer, "/sample/lru_locks/alloc/holds"),
    ("lru_add_contended", Integer, "/sample/lru_locks/alloc/contended"),
    ("lru_add_wait_ns", Integer, "/sample/lru_locks/alloc/wait_ns"),
    ("lru_add_hold_ns", Integer, "/sample/lru_locks/alloc/hold_ns"),
    ("lru_remove_holds", Integer, "/sample/lru_locks/free/holds"),
    ("lru_remove_contended", Integer, "/sample/lru_locks/free/contended"),
    ("lru_remove_wait_ns", Integer, "/sample/lru_locks/free/wait_ns"),
    ("lru_remove_hold_ns", Integer, "/sample/lru_locks/free/hold_ns"),
    ("sockets", Integer, "/sockets"),
    ("cpus", Integer, "/cpus"),
    ("memory_gib", Integer, "/memory_gib"),
    ("machine_about", Text, "/about"),
    ("build", Text, "/build"),
];

/// The columns of a study with these settings: a column of integers where all values are integers, else of text.
pub(crate) fn of_settings<'a>(settings: impl Iterator<Item = (&'a str, bool)>) -> Vec<Column> {
    let fixed = FIXED.iter().map(|(name, kind, pointer)| Column {
        name: (*name).to_owned(),
        kind: *kind,
        pointer: (*pointer).to_owned(),
    });
    let settings = settings.map(|(key, is_integer)| Column {
        name: format!("{SETTING}{key}"),
        kind: if is_integer { Integer } else { Text },
        pointer: format!("/set/{key}"),
    });
    fixed.chain(settings).collect()
}

/// The schema of a table.
pub(crate) fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let physical = match column.kind {
            Text => Physical::BYTE_ARRAY,
            Integer => Physical::INT64,
            Real => Physical::DOUBLE,
        };
        let mut field = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL);
        if column.kind == Text {
            field = field.with_converted_type(ConvertedType::UTF8).with_logical_type(Some(LogicalType::String));
        }
        field.build().map(TypePtr::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("cell").with_fields(fields).build().map(TypePtr::new)
}
