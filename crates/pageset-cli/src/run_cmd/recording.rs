//! A recording as a workload.

use std::path::Path;

use pageset::MigrateType;
use pageset_sim::workload::{RecordingBuilder, Workload};
use pageset_trace::{Kind, Trace, TraceError};

/// Reads a recording of any form.
pub(super) fn workload(file: &Path) -> Result<Workload, TraceError> {
    let trace = Trace::open(file)?;
    let mut builder = RecordingBuilder::default();
    for event in trace.events()? {
        let event = event?;
        match event.kind {
            Kind::Alloc { pfn: Some(pfn), order, migratetype, .. } => {
                let migratetype = match migratetype {
                    0 => MigrateType::Unmovable,
                    2 => MigrateType::Reclaimable,
                    _ => MigrateType::Movable,
                };
                builder.alloc(event.time_ns, event.pid, pfn, order, migratetype);
            }
            Kind::Free { pfn, order } => builder.free(event.time_ns, event.pid, pfn, order),
            _ => {}
        }
    }
    Ok(Workload::recorded(builder.build()))
}
