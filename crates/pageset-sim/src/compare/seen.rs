//! What the model had seen of a published value before it predicted the value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BASE_BATCH;
use super::table::{Key, Keys};

/// How far a published value is from a test of the model, from none to a full one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seen {
    /// The base that changes are relative to: equal by definition.
    Base,
    /// The machine's one number was fitted to this value.
    Fitted,
    /// Costs of all machines were set on this value and those of other machines.
    Shared,
    /// A constant or a part of the model was chosen with this value in sight. `docs/archive/accuracy.md` and the files of the
    /// workloads name the choices.
    Chosen,
    /// Nothing was set or chosen with this value in sight.
    Unseen,
}

/// What had been seen of a value of a built-in table. Values of other tables count as unseen.
pub(super) fn seen(table: &str, keys: &Keys, column: &str) -> Seen {
    let word = |key: &str| keys.get(key).map(Key::to_string).unwrap_or_default();
    match table {
        "page_fault1-batch-sweep.csv" => match (word("batch") == BASE_BATCH.to_string(), column) {
            (true, "score") => Seen::Fitted,
            (true, "change_pct") => Seen::Base,
            (true, _) => Seen::Shared,
            // How much holds and cores vary, and what joining the LRU costs, were chosen with these rows in sight.
            (false, _) => Seen::Chosen,
        },
        "page_fault1-1-to-40-tasks.csv" => match (word("tasks").as_str(), column) {
            ("40", column) if column.starts_with("processes") => Seen::Fitted,
            // The costs of a semaphore, and that this machine has no turbo, were chosen with the table in sight.
            _ => Seen::Chosen,
        },
        "batch-31-63-127.csv" => match (column, word("workload").as_str()) {
            ("batch31", _) => Seen::Base,
            // The same runs as in the sweep.
            (_, "will-it-scale.page_fault1.processes") => Seen::Chosen,
            _ => Seen::Unseen,
        },
        // How strongly costs are held to a guess was chosen with this table in sight. So was what reclaim takes.
        "merge-skip-and-clusters.csv" => match (column, word("metric").as_str()) {
            ("base", "score change, pct") => Seen::Base,
            ("base", metric) if metric.contains("ns per") || metric.contains(" score") || metric.contains("THP") => {
                Seen::Base
            }
            _ => Seen::Chosen,
        },
        "pcp-autotune-patch-by-patch.csv" => match (word("state").as_str(), column) {
            ("base", "zone_lock_pct" | "cache_miss_rate_pct") => Seen::Chosen,
            ("base", _) => Seen::Base,
            // The state of memory, stacks and slabs of builds, and the pairs of AF_UNIX, were chosen with the table in sight.
            _ if word("workload") != "netperf-sctp-stream-many-score" => Seen::Chosen,
            _ => Seen::Unseen,
        },
        "single-pass-bulk-free.csv" if column == "two_pass" => Seen::Base,
        _ => Seen::Unseen,
    }
}
