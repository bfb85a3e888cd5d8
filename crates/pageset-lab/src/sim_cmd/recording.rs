//! A recording as a workload.

use std::path::Path;

use pageset::MigrateType;
use pageset_sim::workload::{RecordingBuilder, Workload};
use pageset_trace::replay::setting::kernel_of;
use pageset_trace::{Kind, Trace, TraceError};

/// The name of the rules of the recorded kernel.
pub(super) fn kernel(file: &Path) -> Result<&'static str, TraceError> {
    let trace = Trace::open(file)?;
    let facts = trace.facts();
    let start = trace.snapshots().zoneinfo.first().map(|(_, info)| info.clone()).unwrap_or_default();
    Ok(kernel_of(facts.kernel_release.as_deref(), facts.kernel_version.as_deref(), &start).0.name)
}

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
