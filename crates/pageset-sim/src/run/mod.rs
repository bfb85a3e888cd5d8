//! One run: a workload on a machine under a set of rules.

use std::fmt;
use std::io;
use std::rc::Rc;

use hdrhistogram::Histogram;
use pageset::owned::OwnedMetadata;
use pageset::tuning::presets::LINUX_5_18;
use pageset::{AllocError, Config, MapError, NodeId, Tuning};

use crate::engine::{self, Engine, LockId, LockStats, Source};
use crate::machine::Machine;
use crate::os::{self, Era, Moved, System};
use crate::sim_lock::built_on;
use crate::time::Time;
use crate::workload::{Span, Workload};
use crate::world::{Allocator, NoMemory, SimMachine};

/// What is to be run. The same run has the same outcome, to the last digit.
#[derive(Clone, Debug)]
pub struct Run<'m> {
    /// What the tasks do.
    pub workload: &'m Workload,
    /// Where.
    pub machine: &'m Machine,
    /// Under which rules.
    pub tuning: Tuning,
    /// The administrator's fraction of a zone that all pagesets may hold, 0 for none.
    pub high_fraction: u32,
    /// How many tasks, each on a CPU of its own: 1 to the machine's CPUs. They fill first threads first.
    pub tasks: u32,
    /// Virtual time before the measurement begins.
    pub warm_up: Time,
    /// Virtual time that is measured.
    pub time: Time,
    /// What all chance comes from.
    pub seed: u64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations of all tasks, and those of the workload's second kind.
    pub operations: [u64; 2],
    /// Virtual time of the measurement.
    pub time: Time,
    /// Tasks.
    pub tasks: u32,
    /// Virtual time that the tasks did not sleep, all together.
    pub busy: Time,
    /// How long a request for a huge page took on average, where they were timed.
    pub huge_request_time: Option<Time>,
    /// Pages that moved between pagesets and zones in the measurement.
    pub moved: Moved,
    /// All zones' locks, one a node.
    pub zone_locks: Vec<LockStats>,
    /// All LRU locks: one a node, or as many for each memory control group.
    pub lru_locks: Vec<LockStats>,
    /// Allocations by their length in nanoseconds.
    pub alloc_times: Histogram<u64>,
    /// Lines found at each source in the measurement.
    pub lines: [u64; Source::COUNT],
    /// Pages allocated and freed, from the start of the run.
    pub page_operations: u64,
    /// Times a lock of the engine was taken in the measurement.
    pub lock_events: u64,
    /// Switches between CPUs, from the start of the run.
    pub switches: u64,
}

/// Why there is no outcome.
#[derive(Debug)]
pub enum RunError {
    /// More tasks than CPUs, or none.
    Tasks {
        /// How many were asked for.
        tasks: u32,
        /// CPUs of the machine.
        cpus: u32,
    },
    /// The rules do not suit the machine.
    Map(MapError),
    /// A task found no memory.
    Alloc(AllocError),
    /// The host has no memory for the machine's books.
    NoMemory,
    /// The host has no memory for a CPU's stack.
    Stack(io::Error),
    /// It was told to stop.
    Interrupted,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tasks { tasks, cpus } => write!(f, "{tasks} tasks on {cpus} CPUs; allowed: 1 to {cpus}"),
            Self::Map(error) => error.fmt(f),
            Self::Alloc(error) => write!(f, "a task ended: {error}"),
            Self::NoMemory => write!(f, "this host has not enough memory for the simulated machine"),
            Self::Stack(error) => write!(f, "no stack for a virtual CPU: {error}"),
            Self::Interrupted => write!(f, "interrupted"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<MapError> for RunError {
    fn from(error: MapError) -> Self {
        RunError::Map(error)
    }
}

impl From<NoMemory> for RunError {
    fn from(NoMemory: NoMemory) -> Self {
        RunError::NoMemory
    }
}

impl Run<'_> {
    /// Runs it on this thread; `keep_on` is asked now and then.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run(&self, keep_on: impl Fn() -> bool) -> Result<Outcome, RunError> {
        let cpus = self.machine.topology().cpus();
        if self.tasks == 0 || self.tasks > cpus {
            return Err(RunError::Tasks { tasks: self.tasks, cpus });
        }
        let needs = self.workload.needs(self.tasks);
        let locks = os::locks(self.machine, Era::of(&self.tuning), needs);
        let engine = Rc::new(Engine::new(self.machine.engine_config(self.seed), &locks));
        built_on(&engine, || {
            let sim = SimMachine::new(engine.clone(), self.machine)?;
            let ranges = sim.map.ranges();
            let zones = sim.map.zones(&ranges);
            let topology = self.machine.topology();
            let nodes: Vec<NodeId> = (0..cpus).map(|cpu| NodeId(topology.socket_of(topology.core_of(cpu)).0)).collect();
            let config = Config {
                tuning: self.tuning,
                high_fraction: self.high_fraction,
                cache_slice_pages: self.cache_slice_pages(),
                ..Config::new(&zones, &nodes)
            };
            let metadata = OwnedMetadata::new(&config)?;
            let mut zones = metadata.zones();
            let allocator = Allocator::new(sim, &config, metadata.lend(&mut zones))?;
            let system = System::new(&allocator, self.machine, needs);
            self.measure(&engine, &system, &keep_on)
        })
    }

    /// What the rules take as a CPU's share of the cache: as first posted, of all levels. Specification 4.2.
    fn cache_slice_pages(&self) -> u64 {
        if self.tuning.cache_slice_batches > LINUX_5_18.cache_slice_batches {
            self.machine.cache_slice_of_all_levels()
        } else {
            self.machine.cache_slice_pages()
        }
    }

    fn measure(&self, engine: &Engine, system: &System<'_>, keep_on: &impl Fn() -> bool) -> Result<Outcome, RunError> {
        self.share_sockets(engine);
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
            system.measure();
            engine.reset_sleep(begin);
            let end = match self.workload.span {
                Span::Steady => begin + self.time,
                Span::Once => Time::NEVER,
            };
            engine.run(fibers, end, keep_on);
            match system.failure() {
                Some(error) => Err(RunError::Alloc(error)),
                None if !keep_on() => Err(RunError::Interrupted),
                None => Ok(self.outcome(engine, system, begin)),
            }
        })
    }

    /// Only cores with work share the last-level caches and the power.
    fn share_sockets(&self, engine: &Engine) {
        let topology = self.machine.topology();
        for socket in self.machine.nodes() {
            let busy = self.tasks.min(topology.cores());
            let first = socket.0 * topology.cores_per_socket;
            engine.share_socket(socket, busy.saturating_sub(first).min(topology.cores_per_socket));
        }
    }

    fn outcome(&self, engine: &Engine, system: &System<'_>, begin: Time) -> Outcome {
        let sockets = self.machine.topology().sockets;
        let clocks = || (0..self.tasks).map(|cpu| engine.clock(cpu));
        let time = match self.workload.span {
            Span::Steady => self.time,
            Span::Once => clocks().max().unwrap_or(Time::ZERO),
        };
        let busy_of = |cpu| {
            let end = if self.workload.span == Span::Once { engine.clock(cpu) } else { begin + time };
            end - begin - engine.slept(cpu, end)
        };
        let stats = |range: std::ops::Range<u32>| range.map(|id| engine.lock_stats(LockId(id))).collect::<Vec<_>>();
        let (zone_locks, lru_locks) = (stats(0..sockets), stats(sockets..system.first_object()));
        Outcome {
            operations: system.operations(),
            time,
            busy: (0..self.tasks).map(busy_of).sum(),
            huge_request_time: system.huge_request_time(),
            moved: system.moved(),
            tasks: self.tasks,
            lock_events: zone_locks.iter().chain(&lru_locks).map(LockStats::count).sum(),
            zone_locks,
            lru_locks,
            alloc_times: system.alloc_times(),
            lines: system.lines(),
            page_operations: system.page_operations(),
            switches: engine.switches(),
        }
    }
}

impl Outcome {
    /// Operations a second, all tasks together.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.operations[0] as f64 / self.time.seconds()
    }

    /// Operations of the second kind a second, all tasks together.
    #[must_use]
    pub fn second_score(&self) -> f64 {
        self.operations[1] as f64 / self.time.seconds()
    }

    /// Lines that came from memory, in percent of those that were in no cache of their core.
    #[must_use]
    pub fn cache_miss_pct(&self) -> f64 {
        let sum = |sources: &[Source]| sources.iter().map(|source| self.lines[*source as usize]).sum::<u64>() as f64;
        let missed = sum(&[Source::Memory, Source::RemoteMemory, Source::RemoteTransfer]);
        100.0 * missed / (missed + sum(&[Source::Llc, Source::Transfer])).max(1.0)
    }

    /// Which share of the time that the tasks did not sleep went to waiting for some locks, in percent.
    fn share_pct(&self, locks: &[LockStats]) -> f64 {
        let waited: Time = locks.iter().map(LockStats::wait).sum();
        100.0 * waited.seconds() / self.busy.seconds()
    }

    /// Waiting for zone locks on some paths, by their numbers in [`crate::engine::LockStats::paths`]; in percent of the time
    /// that the tasks did not sleep.
    #[must_use]
    pub fn zone_path_pct(&self, paths: &[usize]) -> f64 {
        let of_lock = |lock: &LockStats| paths.iter().map(|path| lock.paths[*path].wait).sum::<Time>();
        let waited: Time = self.zone_locks.iter().map(of_lock).sum();
        100.0 * waited.seconds() / self.busy.seconds()
    }

    /// Waiting for zone locks, in percent of the time that the tasks did not sleep.
    #[must_use]
    pub fn zone_pct(&self) -> f64 {
        self.share_pct(&self.zone_locks)
    }

    /// Waiting for LRU locks, in percent of the time that the tasks did not sleep.
    #[must_use]
    pub fn lru_pct(&self) -> f64 {
        self.share_pct(&self.lru_locks)
    }
}
