//! `pageset-lab sim --timeline`: waits for locks and holds of them as a trace for Perfetto.
//!
//! Each row is a process and each CPU a track, in virtual time. A wait lasts from the first attempt to the acquisition
//! of the lock, a hold from the acquisition to the release. Holds on one CPU may be nested.

use std::io::{self, Write};

use pageset_sim::engine::Held;
use pageset_sim::run::Outcome;
use serde_json::json;

use crate::error::Failure;
use crate::perfetto::Writer;

/// The largest number of holds of all rows together: some hundred megabytes of text.
pub(super) const MOST: usize = 1_000_000;

/// Names of the paths to a zone lock, in the order of `pageset::LockPath`.
const ZONE_PATHS: [&str; 5] = ["fill", "drain", "direct allocation", "direct free", "map"];
/// Names of the paths to an LRU lock.
const LRU_PATHS: [&str; 2] = ["add", "remove"];

/// Writes the first seed of each row. A row is its name, the seed and the outcome.
pub(super) fn write(rows: &[(String, (u64, Outcome))], out: impl Write) -> Result<(), Failure> {
    let mut events = Writer::new(out)?;
    for (number, (name, (seed, outcome))) in rows.iter().enumerate() {
        let process = number + 1;
        events.process(process, &format!("{name}, seed {seed}"))?;
        let mut cpus: Vec<u32> = outcome.held.iter().map(|held| held.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        for cpu in cpus {
            events.track(process, cpu)?;
        }
        for held in &outcome.held {
            both(process, outcome, held, &mut events)?;
        }
    }
    events.finish()
}

/// Writes the wait, if any, and the hold.
fn both(process: usize, outcome: &Outcome, held: &Held, events: &mut Writer<impl Write>) -> io::Result<()> {
    let (lock, path, node) = named(outcome, held);
    let args = json!({ "path": path, "node": node });
    let [asked, had, released] = [held.asked, held.had, held.released].map(|time| time.whole_ns());
    if had > asked {
        events.slice(process, held.cpu, &format!("wait: {lock}"), asked, had, &args)?;
    }
    events.slice(process, held.cpu, lock, had, released, &args)
}

/// The name of a lock, the path to it, and its node if it has one.
fn named(outcome: &Outcome, held: &Held) -> (&'static str, &'static str, Option<usize>) {
    let (zones, lrus) = (outcome.zone_locks.len(), outcome.lru_locks.len());
    let number = held.lock.0 as usize;
    let path = |paths: &[&'static str]| paths.get(held.path).copied().unwrap_or_default();
    match number {
        zone if zone < zones => ("zone lock", path(&ZONE_PATHS), Some(zone)),
        lru if lru < zones + lrus => ("LRU lock", path(&LRU_PATHS), Some(lru % zones)),
        _ => ("lock of an object", "", None),
    }
}
