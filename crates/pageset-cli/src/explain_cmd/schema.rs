//! JSON schemas of results, made from their types.

use pageset_bench::Report;
use pageset_sim::calibrate::Calibration;
use pageset_sim::compare::CompareResult;
use pageset_sim::run::RunResult;
use schemars::{Schema, schema_for};

/// The commands whose results have a schema: their names, the schema's name, what makes it.
const SCHEMAS: [(&[&str], &str, fn() -> Schema); 4] = [
    (&["run", "sweep"], pageset_sim::run::SCHEMA, || schema_for!(RunResult)),
    (&["compare"], pageset_sim::compare::SCHEMA, || schema_for!(CompareResult)),
    (&["calibrate"], pageset_sim::calibrate::SCHEMA, || schema_for!(Calibration)),
    (&["bench"], pageset_bench::report::SCHEMA, || schema_for!(Report)),
];

/// The schema of a command's result. A result's own `schema` is a name as well.
pub(super) fn of(name: &str) -> Option<Schema> {
    let (_, _, make) = SCHEMAS.into_iter().find(|(commands, id, _)| commands.contains(&name) || *id == name)?;
    Some(make())
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SCHEMAS.into_iter().flat_map(|(commands, _, _)| commands.iter().copied())
}
