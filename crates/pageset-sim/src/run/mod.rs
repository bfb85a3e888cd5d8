//! One run: a workload on a machine under a set of rules.

mod outcome;
mod result;
mod steady;

use std::any::Any;
use std::io;
use std::rc::Rc;

pub use outcome::{Figures, Outcome, Steadiness};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::sizes::WatermarkRule;
use pageset::{AllocError, Config, MapError, NodeId, Tuning};
pub(crate) use result::interval;
pub use result::{AllocTimes, LockWaits, PathSum, Paths, RunResult, RunRow, SCHEMA, Sample, SteadinessOf};

use crate::engine::{self, Engine, LockId};
use crate::era::{CacheSlice, Era};
use crate::machine::Machine;
use crate::os::{self, System};
use crate::sim_lock::built_on;
use crate::time::Time;
use crate::workload::{Span, Workload};
use crate::world::{Allocator, MemoryMap, NoMemory, SimMachine};
use steady::{Next, Rule, Totals, Windows};

/// The settings of a run. The same settings give the same outcome, to the last digit.
#[derive(Clone, Debug)]
pub struct Run<'m> {
    /// The workload.
    pub workload: &'m Workload,
    /// The machine.
    pub machine: &'m Machine,
    /// The allocator's rules.
    pub tuning: Tuning,
    /// The kernel's era, which covers changes outside of the rules.
    pub era: Era,
    /// The administrator's fraction of a zone that all pagesets may hold, 0 for none.
    pub high_fraction: u32,
    /// Number of tasks, each on its own CPU: 1 to the machine's CPUs. First threads of cores fill first.
    pub tasks: u32,
    /// Virtual time before the measurement begins.
    pub warm_up: Time,
    /// Whether the end of the warm-up is detected. `warm_up` is then the shortest: a measurement that drifts is
    /// discarded, and another begins. Needs a precision.
    pub detect_warm_up: bool,
    /// Upper limit of the virtual time after `warm_up`.
    pub time: Time,
    /// Precision at which the measurement ends early: half the width of the 95 % interval of the score in per cent of
    /// the score, and that of contention in percentage points. `None` measures the full time.
    pub precision_pct: Option<f64>,
    /// Whether to simulate all nodes even if one node represents all. One node does when the workload's tasks share
    /// only their node and every node has the same tasks.
    pub whole: bool,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// The error of a run without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The number of tasks is 0 or exceeds the CPUs.
    #[error("{tasks} tasks on {cpus} CPUs; allowed: 1 to {cpus}")]
    Tasks {
        /// The configured tasks.
        tasks: u32,
        /// CPUs of the machine.
        cpus: u32,
    },
    /// The workload fills more memory than the machine has.
    #[error("{title} on a machine of {memory_gib} GiB; allowed: 1 to {most} GiB; try another --size")]
    Size {
        /// The workload and its size.
        title: String,
        /// The machine's memory.
        memory_gib: u64,
        /// The largest size.
        most: u64,
    },
    /// The rules are invalid for the machine.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A fit needs work, and there was none.
    #[error("{machine} finished no operation in the measured time; try a longer --duration")]
    NoWork {
        /// The machine's name.
        machine: String,
    },
    /// A task found no memory.
    #[error("a task failed: {0}")]
    Alloc(AllocError),
    /// The host has no memory for the state of the simulated machine.
    #[error("cannot simulate the machine: this host has too little memory; try a machine with less memory")]
    NoMemory,
    /// The host has no memory for a virtual CPU's stack.
    #[error("cannot create a virtual CPU: no memory for its stack: {0}")]
    Stack(io::Error),
    /// A fault of the simulator.
    #[error("the simulator panicked: {0}")]
    Panicked(String),
    /// The caller stopped the run.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    /// The error of a run that panicked.
    pub fn of_panic(panic: &(dyn Any + Send)) -> RunError {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        RunError::Panicked(text.unwrap_or("no message").to_owned())
    }
}

impl From<NoMemory> for RunError {
    fn from(NoMemory: NoMemory) -> Self {
        RunError::NoMemory
    }
}

/// What a node that represents all nodes of a machine takes from the machine.
#[derive(Clone, Copy)]
struct OneOf {
    /// All have the same work.
    nodes: u32,
    /// The node's part of the reserve, which would follow the formula in a machine of one node.
    reserve_kib: u64,
}

impl Run<'_> {
    /// Performs the run on this thread. Polls `keep_on`; `false` interrupts the run.
    pub fn run(&self, keep_on: impl Fn() -> bool) -> Result<Outcome, RunError> {
        self.run_polled(&keep_on)
    }

    /// As [`Self::run`]: what a run is, is compiled once for all callers.
    fn run_polled(&self, keep_on: &dyn Fn() -> bool) -> Result<Outcome, RunError> {
        let cpus = self.machine.topology().cpus();
        if self.tasks == 0 || self.tasks > cpus {
            return Err(RunError::Tasks { tasks: self.tasks, cpus });
        }
        self.check_size()?;
        match self.one_node() {
            Some((machine, nodes)) => {
                let tasks = self.tasks / nodes;
                let run = Run { machine: &machine, tasks, whole: true, ..self.clone() };
                // The watermarks must equal those of the whole machine, whose reserve spreads over the nodes.
                let reserve_kib = self.reserve_kib() / u64::from(nodes);
                Ok(run.simulate(Some(OneOf { nodes, reserve_kib }), keep_on)?.times(nodes))
            }
            None => self.simulate(None, keep_on),
        }
    }

    /// Whether the memory that the workload fills leaves enough for the others' work: a tenth of the machine.
    fn check_size(&self) -> Result<(), RunError> {
        let memory_gib = self.machine.cited.memory_gib.get();
        let most = memory_gib * 9 / 10;
        match self.workload.size() {
            Some(gib) if u64::from(gib) > most => {
                Err(RunError::Size { title: self.workload.title(), memory_gib, most })
            }
            _ => Ok(()),
        }
    }

    /// A machine of one node and the number of nodes, if one node represents all.
    fn one_node(&self) -> Option<(Machine, u32)> {
        let topology = self.machine.topology();
        let alike = self.tasks == topology.cpus() || self.tasks == topology.cores();
        let one = self.machine.one_node().filter(|_| alike && self.workload.apart && !self.whole);
        one.map(|machine| (machine, topology.sockets))
    }

    /// The reserve of the machine's whole memory, in KiB.
    fn reserve_kib(&self) -> u64 {
        let map = MemoryMap::new(self.machine);
        let pages = map.ranges().iter().map(|range| range.pages).sum();
        WatermarkRule::default().reserve_kib(pages, u64::from(map.nodes()))
    }

    /// Simulates the whole machine, which may be one node of a larger one.
    fn simulate(&self, one_of: Option<OneOf>, keep_on: &dyn Fn() -> bool) -> Result<Outcome, RunError> {
        let cpus = self.machine.topology().cpus();
        let needs = self.workload.needs(self.tasks);
        let map = MemoryMap::new(self.machine);
        let ranges = map.ranges();
        let zones = map.zones(&ranges);
        let topology = self.machine.topology();
        let nodes: Vec<NodeId> = (0..cpus).map(|cpu| NodeId(topology.socket_of(topology.core_of(cpu)).0)).collect();
        let config = Config {
            tuning: self.tuning,
            high_fraction: self.high_fraction,
            cache_slice_pages: self.cache_slice_pages(),
            watermarks: WatermarkRule {
                min_free_kbytes: one_of.map(|one| one.reserve_kib),
                ..WatermarkRule::default()
            },
            ..Config::new(&zones, &nodes)
        };
        // All zones are alike.
        let regions = config.zone_metadata_size(0)?.regions;
        let locks = os::locks(self.machine, self.era, needs, regions);
        let engine = Rc::new(Engine::new(self.machine.engine_config(self.seed), &locks));
        built_on(&engine, || {
            let sim = SimMachine::new(engine.clone(), self.machine, regions)?;
            let metadata = OwnedMetadata::new(&config)?;
            let mut zones = metadata.zones();
            let allocator = Allocator::new(sim, &config, metadata.lend(&mut zones))?;
            let system = System::new(&allocator, self.machine, self.era, needs);
            // Only cores with work share the last-level caches, and queue for lines of other cores.
            engine.share(self.tasks, one_of.map_or(1, |one| one.nodes));
            self.measure(&engine, &system, keep_on)
        })
    }

    /// A CPU's slice of the cache, in pages.
    fn cache_slice_pages(&self) -> u64 {
        match self.era.cache_slice() {
            CacheSlice::LastLevel => self.machine.cache_slice_pages(),
            CacheSlice::AllLevels => self.machine.cache_slice_of_all_levels(),
        }
    }

    fn measure(&self, engine: &Engine, system: &System<'_>, keep_on: &dyn Fn() -> bool) -> Result<Outcome, RunError> {
        let job = self.workload.set_up(system, self.tasks).map_err(RunError::Alloc)?;
        let job = &job;
        engine::scope(|fibers| {
            for cpu in 0..self.tasks {
                engine.spawn(fibers, cpu, Time::ZERO, move || system.task(|| job(cpu))).map_err(RunError::Stack)?;
            }
            let begin = match self.workload.span {
                Span::Steady => self.warm_up,
                Span::Once => Time::ZERO,
            };
            engine.run(fibers, begin, keep_on);
            self.begin(engine, system, begin);
            let (begin, time, steadiness) = match self.workload.span {
                Span::Steady => self.measure_steady(engine, system, |end| {
                    engine.run(fibers, end, keep_on);
                    keep_on()
                }),
                Span::Once => {
                    engine.run(fibers, Time::NEVER, keep_on);
                    (begin, (0..self.tasks).map(|cpu| engine.clock(cpu)).max().unwrap_or(Time::ZERO), None)
                }
            };
            match system.failure() {
                Some(error) => Err(RunError::Alloc(error)),
                None if !keep_on() => Err(RunError::Interrupted),
                None => Ok(Outcome { steadiness, ..self.outcome(engine, system, begin, time) }),
            }
        })
    }

    /// Begins a measurement, and discards an earlier one.
    fn begin(&self, engine: &Engine, system: &System<'_>, begin: Time) {
        system.measure();
        engine.reset_sleep(begin);
    }

    /// Runs window after window until the run is steady, as precise as asked for, or over. `run` runs to a time and
    /// returns whether to go on. Returns start and length of the measurement, and how steady it is.
    fn measure_steady(
        &self,
        engine: &Engine,
        system: &System<'_>,
        mut run: impl FnMut(Time) -> bool,
    ) -> (Time, Time, Option<Steadiness>) {
        let waited = |range: std::ops::Range<u32>| range.map(|id| engine.lock_wait(LockId(id))).sum::<Time>().seconds();
        let totals = |now: Time| Totals {
            operations: system.operations()[0] as f64,
            waits: [waited(0..system.first_lru()), waited(system.first_lru()..system.first_object())],
            slept: (0..self.tasks).map(|cpu| engine.slept(cpu, now)).sum::<Time>().seconds(),
        };
        let rule = Rule {
            precision_pct: self.precision_pct,
            detects_warm_up: self.detect_warm_up,
            limit: self.warm_up + self.time,
        };
        let mut begin = self.warm_up;
        let mut windows = Windows::new(self.time, self.tasks);
        loop {
            let end = begin + windows.next_end();
            let keep_on = run(end);
            windows.add(totals(end));
            let (next, steadiness) = windows.decide(&rule, begin);
            match next {
                Next::Window if keep_on => {}
                Next::Restart if keep_on => {
                    begin = end;
                    windows.clear();
                    self.begin(engine, system, begin);
                }
                Next::Window | Next::Restart | Next::End => return (begin, end - begin, steadiness),
            }
        }
    }

    fn outcome(&self, engine: &Engine, system: &System<'_>, begin: Time, time: Time) -> Outcome {
        let busy_of = |cpu| {
            let end = if self.workload.span == Span::Once { engine.clock(cpu) } else { begin + time };
            end - begin - engine.slept(cpu, end)
        };
        let stats = |range: std::ops::Range<u32>| range.map(|id| engine.lock_stats(LockId(id))).collect::<Vec<_>>();
        let (zone_locks, lru_locks) = (stats(0..system.first_lru()), stats(system.first_lru()..system.first_object()));
        Outcome {
            stands_for: 1,
            operations: system.operations(),
            time,
            steadiness: None,
            busy: (0..self.tasks).map(busy_of).sum(),
            huge_request_time: system.huge_request_time(),
            moved: system.moved(),
            tasks: self.tasks,
            zone_locks,
            lru_locks,
            alloc_times: system.alloc_times(),
            lines: system.lines(),
        }
    }
}

#[cfg(test)]
mod page_size_tests;
#[cfg(test)]
mod tests;
