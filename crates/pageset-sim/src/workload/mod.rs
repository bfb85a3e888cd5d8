//! Workloads: the tasks of a run. Each workload is short enough to compare it with the program that it models.
//!
//! A workload's constants are at the top of its file, each with unit, reason and source. A constant without a source is
//! a guess. None is fitted to a published result; where one was chosen with results in sight, it says so.

mod anon_r_rand;
mod compile;
mod database;
mod ebizzy;
mod exit;
mod fault_file;
mod highalloc;
mod length;
mod list;
mod lru_file;
mod malloc;
mod net_receive;
mod page_fault1;
mod parallel_free;
mod pigz;
mod purge;
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

/// The code of each task. The argument is the task's number, which is also its CPU's number.
pub type Job<'s> = Box<dyn Fn(u32) -> Result<(), AllocError> + 's>;

/// Prepares a run of `tasks` tasks before virtual time begins. The preparation takes no virtual time.
type Code = for<'s> fn(&'s System<'_>, u32) -> Result<Job<'s>, AllocError>;

/// As [`Code`]; the second number is the size in GiB.
type SizedCode = for<'s> fn(&'s System<'_>, u32, u32) -> Result<Job<'s>, AllocError>;

/// A task with an address space.
type InSpace = fn(&System<'_>, &Space, u32) -> Result<(), AllocError>;

/// The source of the tasks.
#[derive(Clone)]
enum Setup {
    Processes(InSpace),
    /// Of one process.
    Threads(InSpace),
    Code(Code),
    Sized(SizedCode, u32),
    Recorded(Arc<Recording>),
}

/// When a run ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// At the end of the configured time: the tasks run endless loops.
    Steady,
    /// When all tasks have ended. The whole run is measured.
    Once,
}

/// A workload: its name, its description and its tasks.
#[derive(Clone)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// A description for users.
    pub about: &'static str,
    /// The unit of the counted operations.
    pub unit: &'static str,
    /// The unit of the second kind of operations, if there is one.
    pub second_unit: Option<&'static str>,
    /// When a run ends.
    pub span: Span,
    /// The default simulated time. Shorter runs give little information.
    pub length: Length,
    /// Whether tasks share only the memory and locks of their node, so that the nodes are independent.
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
    /// A workload of endless loops in which each task is a process.
    const fn processes(name: &'static str, about: &'static str, unit: &'static str, task: InSpace) -> Self {
        Self::of(name, about, unit, Setup::Processes(task))
    }

    const fn threads(name: &'static str, about: &'static str, unit: &'static str, task: InSpace) -> Self {
        Self::of(name, about, unit, Setup::Threads(task))
    }

    /// A workload of endless loops without objects.
    const fn new(name: &'static str, about: &'static str, unit: &'static str, setup: Code) -> Self {
        Self::of(name, about, unit, Setup::Code(setup))
    }

    /// A workload that fills memory before virtual time begins, by default with `gib` GiB.
    const fn sized(name: &'static str, about: &'static str, unit: &'static str, setup: SizedCode, gib: u32) -> Self {
        Self::of(name, about, unit, Setup::Sized(setup, gib))
    }

    const fn of(name: &'static str, about: &'static str, unit: &'static str, setup: Setup) -> Self {
        let needs = |_| Needs::NOTHING;
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

    /// The GiB that the workload fills before virtual time begins, if it has a size.
    pub const fn size(&self) -> Option<u32> {
        match &self.setup {
            Setup::Sized(_, gib) => Some(*gib),
            _ => None,
        }
    }

    /// The workload with another size.
    ///
    /// # Errors
    /// The workload has no size, or the size is not 1 to 4096 GiB.
    pub fn with_size(self, gib: u32) -> Result<Workload, String> {
        match self.setup {
            Setup::Sized(..) if !(1..=4096).contains(&gib) => Err(format!("{gib}; allowed: 1 to 4096, GiB")),
            Setup::Sized(code, _) => Ok(Workload { setup: Setup::Sized(code, gib), ..self }),
            _ => {
                let sized: Vec<&str> = WORKLOADS
                    .iter()
                    .filter(|workload| workload.size().is_some())
                    .map(|workload| workload.name)
                    .collect();
                Err(format!("{} has no size; allowed with: {}", self.name, sized.join(", ")))
            }
        }
    }

    /// The name, with the size if the workload has one.
    pub fn title(&self) -> String {
        match self.size() {
            Some(gib) => format!("{}, {gib} GiB", self.name),
            None => self.name.to_owned(),
        }
    }

    /// Declares that tasks share only their node.
    const fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Sets the needs.
    const fn needing(mut self, needs: fn(u32) -> Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Adds a second kind of operations.
    const fn counting(mut self, second_unit: &'static str) -> Self {
        self.second_unit = Some(second_unit);
        self
    }

    /// Sets a default simulated time other than [`Length::REGIONS`].
    const fn lasting(mut self, length: Length) -> Self {
        self.length = length;
        self
    }

    /// Declares that the workload ends by itself.
    const fn once(mut self) -> Self {
        self.span = Span::Once;
        self
    }

    /// The workload of a recording: its processes run once, on any number of CPUs.
    pub fn recorded(recording: Recording) -> Self {
        let unused: Code = |_, _| Ok(Box::new(|_| Ok(())));
        let about = "a recording's processes, each on a CPU of its own";
        let workload = Workload::new("trace", about, "calls", unused).once();
        Workload { setup: Setup::Recorded(Arc::new(recording)), ..workload }
    }

    /// The workload with this name.
    pub fn find(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// The needs of a run with `tasks` tasks.
    pub fn needs(&self, tasks: u32) -> Needs {
        (self.needs)(tasks)
    }

    /// Prepares a run, before virtual time begins.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn set_up<'s>(&self, system: &'s System<'_>, tasks: u32) -> Result<Job<'s>, AllocError> {
        match &self.setup {
            Setup::Processes(task) => {
                let task = *task;
                Ok(Box::new(move |number| task(system, &Space::own(), number)))
            }
            Setup::Threads(task) => {
                let (task, space) = (*task, Space::shared(system, tasks));
                Ok(Box::new(move |number| task(system, &space, number)))
            }
            Setup::Code(code) => code(system, tasks),
            Setup::Sized(code, gib) => code(system, tasks, *gib),
            Setup::Recorded(recording) => recorded::set_up(system, tasks, recording),
        }
    }
}

#[cfg(test)]
mod tests;
