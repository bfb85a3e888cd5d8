//! Workloads: what the tasks of a run do, each short enough to be read beside what it stands for.
//!
//! A workload's numbers stand at the top of its file, each with unit, reason and source; where no source is given it is a
//! guess. None is fitted to a published result.

mod anon_r_rand;
mod compile;
mod database;
mod ebizzy;
mod fault_file;
mod highalloc;
mod length;
mod list;
mod lru_file;
mod malloc;
mod page_fault1;
mod parallel_free;
mod pigz;
mod read_write;
mod recorded;
mod streams;
mod thp_mix;
mod truncate;

use std::fmt;
use std::sync::Arc;

use pageset::AllocError;

pub use length::Length;
pub use list::WORKLOADS;
pub use recorded::{Call, Recording, RecordingBuilder, Step};

use crate::os::{Needs, Space, System};

/// What each task runs, by its number, which is also its CPU's.
pub type Job<'s> = Box<dyn Fn(u32) -> Result<(), AllocError> + 's>;

/// Prepares a run before virtual time begins, for so many tasks: what is done here costs nothing.
type Code = for<'s> fn(&'s System<'_>, u32) -> Result<Job<'s>, AllocError>;

/// Where the tasks come from.
#[derive(Clone)]
enum Setup {
    Code(Code),
    Recorded(Arc<Recording>),
}

/// When a run ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// When its time is over: its tasks repeat the same for ever.
    Steady,
    /// When its tasks have done what they have to do. All of it is measured, from the beginning.
    Once,
}

/// A workload: a name, what it is, and the tasks that it consists of.
#[derive(Clone)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What is counted.
    pub unit: &'static str,
    /// A second thing that is counted, where there is one.
    pub second_unit: Option<&'static str>,
    /// When it ends.
    pub span: Span,
    /// How long it is simulated where nobody says otherwise; below that a run of it says little.
    pub length: Length,
    /// Whether its tasks share nothing beside their node's memory and locks: those of one node know nothing of others.
    pub apart: bool,
    needs: fn(u32) -> Needs,
    setup: Setup,
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Workload {
    /// One without objects of its own that repeats the same for ever.
    const fn new(name: &'static str, about: &'static str, unit: &'static str, setup: Code) -> Self {
        let needs = |_| Needs::NOTHING;
        let setup = Setup::Code(setup);
        Workload {
            name,
            about,
            unit,
            second_unit: None,
            span: Span::Steady,
            length: Length::REGIONS,
            apart: false,
            needs,
            setup,
        }
    }

    /// Whose tasks share nothing beside their node.
    const fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// With what it needs of the system.
    const fn needing(mut self, needs: fn(u32) -> Needs) -> Self {
        self.needs = needs;
        self
    }

    /// With a second kind of operations.
    const fn counting(mut self, second_unit: &'static str) -> Self {
        self.second_unit = Some(second_unit);
        self
    }

    /// Simulated for another time than regions of 128 MiB need.
    const fn lasting(mut self, length: Length) -> Self {
        self.length = length;
        self
    }

    /// That ends by itself.
    const fn once(mut self) -> Self {
        self.span = Span::Once;
        self
    }

    /// That of a recording: its processes run once, on as many CPUs as asked.
    #[must_use]
    pub fn recorded(recording: Recording) -> Self {
        let unused: Code = |_, _| Ok(Box::new(|_| Ok(())));
        let about = "a recording's processes, each on a CPU of its own";
        let workload = Workload::new("trace", about, "calls", unused).once();
        Workload { setup: Setup::Recorded(Arc::new(recording)), ..workload }
    }

    /// The workload of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// What it needs of the system, for so many tasks.
    #[must_use]
    pub fn needs(&self, tasks: u32) -> Needs {
        (self.needs)(tasks)
    }

    /// Prepares a run, before virtual time begins.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn set_up<'s>(&self, system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
        match &self.setup {
            Setup::Code(code) => code(system, tasks),
            Setup::Recorded(recording) => recorded::set_up(system, tasks, recording),
        }
    }
}

/// What a task does with its address space.
type InSpace = fn(&System<'_>, &Space, u32) -> Result<(), AllocError>;

/// Each task is a process.
fn processes<'s>(system: &'s System<'_>, task: InSpace) -> Job<'s> {
    Box::new(move |number| task(system, &Space::own(), number))
}

/// All tasks are threads of one process.
fn threads<'s>(system: &'s System<'_>, tasks: u32, task: InSpace) -> Job<'s> {
    let space = Space::shared(system, tasks);
    Box::new(move |number| task(system, &space, number))
}

#[cfg(test)]
mod tests;
