//! Workloads: what the tasks of a run do, each short enough to be read beside what it stands for.

mod page_fault1;

use pageset::AllocError;

use crate::os::System;

/// A workload: a name, what it is, and the task that each CPU runs for ever.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What is counted.
    pub unit: &'static str,
    /// One task; ends only by an error.
    pub task: fn(&System<'_>) -> Result<(), AllocError>,
}

/// All workloads.
pub const WORKLOADS: &[Workload] = &[Workload {
    name: "page_fault1",
    about: "will-it-scale page_fault1, process mode: map 128 MiB, write a byte in each page, unmap",
    unit: "pages",
    task: page_fault1::task,
}];

impl Workload {
    /// The workload of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }
}
