//! `--timeline`: a recording and its replays as a trace for Perfetto (the JSON form, which its viewer opens).
//!
//! The kernel and each set of rules are processes, and each CPU is a track. Counters show the kernel's count and high.

use std::io::Write;

use pageset_trace::measure::{Mark, Measured};
use serde_json::json;

use crate::error::Failure;
use crate::perfetto::{Writer, micros};

/// The kernel's process number; the sets of rules follow.
const KERNEL: usize = 1;

/// Writes the timeline of a replayed recording.
///
/// # Errors
/// Errors of writing, or a recording whose file has changed since it was opened.
pub(super) fn write(measured: &Measured<'_>, out: impl Write) -> Result<(), Failure> {
    let mut events = Writer::new(out)?;
    let cpus = 0..measured.result.trace.cpus as u32;
    events.process(KERNEL, "kernel, as recorded")?;
    for (i, row) in measured.result.rules.iter().enumerate() {
        events.process(KERNEL + 1 + i, &format!("{}, {}", row.name, row.level.name()))?;
        for cpu in cpus.clone() {
            events.track(KERNEL + 1 + i, cpu)?;
        }
    }
    for cpu in cpus {
        events.track(KERNEL, cpu)?;
    }
    measured.timeline(&mut |mark| -> Result<(), Failure> {
        match mark {
            Mark::Move { row, cpu, what, begin_ns, end_ns, pages, zone } => {
                let process = row.map_or(KERNEL, |row| KERNEL + 1 + row);
                let args = json!({ "pages": pages, "zone": zone.map(|(node, name)| format!("{node} {name}")) });
                events.slice(process, cpu, what, begin_ns, end_ns, &args)?;
            }
            Mark::Pageset { time_ns, cpu, node, zone, count, high } => {
                let name = format!("pageset of CPU {cpu}, {node} {zone}");
                let args = json!({"count": count, "high": high});
                let ts = micros(time_ns);
                events.event(&json!({"ph": "C", "pid": KERNEL, "name": name, "ts": ts, "args": args}))?;
            }
        }
        Ok(())
    })?;
    events.finish()
}
