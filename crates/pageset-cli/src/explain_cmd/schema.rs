//! JSON schemas of results, derived from their types.

use pageset_bench::{Report, report};
use pageset_diff::Diff;
use pageset_sim::calibrate::{self, Calibration, SharedFit};
use pageset_sim::compare::page::{PAGE_SCHEMA, Page};
use pageset_sim::compare::{self, CompareResult};
use pageset_sim::run::{self, RunResult};
use schemars::{Schema, schema_for};

use crate::machine_cmd::measure;
use crate::status_cmd::{self, Status};
use crate::top_cmd;

/// The names of the results that have a schema.
pub(super) const NAMES: [&str; 15] = [
    "status",
    "replay",
    "identify",
    "advise",
    "trace info",
    "diff",
    "run",
    "sweep",
    "compare",
    "compare --all-tables",
    "calibrate",
    "share",
    "bench",
    "machine measure",
    "top",
];

/// The schema of a result, by the command's name or by the value of the result's member `schema`.
pub(super) fn of(name: &str) -> Option<Schema> {
    Some(match name {
        "status" | status_cmd::SCHEMA => schema_for!(Status),
        "diff" | pageset_diff::SCHEMA => schema_for!(Diff),
        "run" | "sweep" | run::SCHEMA => schema_for!(RunResult),
        "compare" | compare::SCHEMA => schema_for!(CompareResult),
        "compare --all-tables" | PAGE_SCHEMA => schema_for!(Page),
        "calibrate" | calibrate::SCHEMA => schema_for!(Calibration),
        "share" | calibrate::SHARED_SCHEMA => schema_for!(SharedFit),
        "bench" | report::SCHEMA => schema_for!(Report),
        "machine measure" => measure::schema().1,
        "top" => top_cmd::schema().1,
        _ => {
            let asked = name.replace(' ', "-");
            let is_asked = |of: &str| {
                of == name || of.strip_prefix("pageset.").and_then(|of| of.split('/').next()) == Some(&asked)
            };
            let own = [measure::schema(), top_cmd::schema()];
            pageset_trace::schemas().into_iter().chain(own).find(|(of, _)| is_asked(of))?.1
        }
    })
}
