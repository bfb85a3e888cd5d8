//! The JSON schemas of the results.

use schemars::{Schema, schema_for};

use crate::advise::{Advice, AdviceSet};
use crate::info::Info;
use crate::measure::ReplayResult;
use crate::measure::identification::Identification;

/// The results that the commands write as JSON: the value of the member `schema`, and the JSON schema (draft 2020-12).
pub fn schemas() -> [(&'static str, Schema); 5] {
    [
        ("pageset.replay/1", schema_for!(ReplayResult)),
        ("pageset.identify/1", schema_for!(Identification)),
        ("pageset.advise/1", schema_for!(Advice)),
        ("pageset.advise-set/1", schema_for!(AdviceSet)),
        ("pageset.trace-info/1", schema_for!(Info)),
    ]
}
