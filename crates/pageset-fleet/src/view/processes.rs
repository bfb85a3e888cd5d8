//! What processes move, and how long they wait for zone locks.

use pageset_record::live::Processes;
use pageset_record::live::processes::PROCESSES_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::movers::{Lost, Mover, sorted, sum};
use pageset_trace::number::grouped;

/// What the threads of one name moved in one process since the previous look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessTraffic {
    /// The name of the threads that moved pages, as the kernel keeps it: the program's, unless threads have names of
    /// their own. Work of an interrupt belongs to the process that it interrupts.
    #[schemars(extend("heading" = "process", "tables" = "movers"))]
    pub name: String,
    /// The number of a process; 0 for work of interrupts on an idle CPU.
    #[schemars(extend("tables" = "movers"))]
    pub pid: u32,
    /// Pages that refills took from the zones for the process since the previous look; in tables per second. Programs
    /// in the kernel count them (as root).
    #[schemars(extend("heading" = "pages in/s", "tables" = "movers", "as" = "refill pages"))]
    pub pages_in: u64,
    /// Pages that drains returned to the zones while the process ran, since the previous look; in tables per second.
    #[schemars(extend("heading" = "pages out/s", "tables" = "movers", "as" = "drain pages"))]
    pub pages_out: u64,
    /// The time for which the threads of the process waited for zone locks since the previous look; null if waits are
    /// not measured. Tables show milliseconds per second: 1,000 are one CPU's whole time. Unit: nanoseconds.
    #[schemars(extend("heading" = "zone-lock wait ms/s", "tables" = "movers", "as" = "wait %"))]
    pub zone_lock_wait_ns: Option<u64>,
}

impl Mover for ProcessTraffic {
    fn pages_in(&self) -> u64 {
        self.pages_in
    }

    fn pages_out(&self) -> u64 {
        self.pages_out
    }

    fn wait_ns(&self) -> Option<u64> {
        self.zone_lock_wait_ns
    }

    fn name(&self) -> (u32, &str, &str) {
        (self.pid, &self.name, "")
    }

    fn add(&mut self, other: &Self) {
        self.pages_in = self.pages_in.saturating_add(other.pages_in);
        self.pages_out = self.pages_out.saturating_add(other.pages_out);
        self.zone_lock_wait_ns = sum(self.zone_lock_wait_ns, other.zone_lock_wait_ns);
    }
}

/// The processes, the most pages first. Adds to `missing` what belongs to none of them.
pub(crate) fn processes(now: &Processes, missing: &mut Vec<String>) -> Vec<ProcessTraffic> {
    let most = format!("{} processes", grouped(PROCESSES_MAX.into()));
    Lost::note(now.lost_pages, now.lost_wait_ns, "process", &most, missing);
    let all: Vec<ProcessTraffic> = now
        .all
        .iter()
        .map(|process| ProcessTraffic {
            name: process.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
            pid: process.pid,
            pages_in: process.refill_pages,
            pages_out: process.drain_pages,
            zone_lock_wait_ns: process.wait_ns,
        })
        .collect();
    sorted(&all)
}
