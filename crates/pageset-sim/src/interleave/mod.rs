//! Random interleavings: at every lock and probe another CPU may run. The allocator's invariants are checked during the
//! run. The settings and the seed define a failure.
//!
//! Virtual time has no meaning here. Each step takes a random time, and the earliest CPU runs next. Most steps are
//! short, so that CPUs race; a few are so long that all other CPUs overtake.

mod operations;
mod search;
mod used_blocks;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pageset::alloc::owned::OwnedMetadata;
use pageset::{Config, NodeId, RegionRule, Tuning};

use crate::engine::{self, Engine, Mode};
use crate::era::Era;
use crate::machine::Machine;
use crate::os::{self, Needs};
use crate::run::RunError;
use crate::sim_lock::built_on;
use crate::time::Time;
use crate::world::{Allocator, MemoryMap, SimMachine};
pub use search::{Search, try_seeds};
use used_blocks::UsedBlocks;

/// The settings of an interleaving.
#[derive(Clone, Copy, Debug)]
pub struct Interleaving {
    /// The allocator's rules.
    pub tuning: Tuning,
    /// The administrator's fraction of a zone that all pagesets may hold, 0 for none.
    pub high_fraction: u32,
    /// CPUs, 1 to [`MAX_CPUS`], on two nodes.
    pub cpus: u32,
    /// Number of rounds. In a round each CPU does [`Self::operations`]; a complete check of the allocator follows.
    pub rounds: u32,
    /// Operations per CPU and round.
    pub operations: u32,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Upper limit of CPUs. More CPUs do not race more closely, and zones are small.
pub const MAX_CPUS: u32 = 64;

/// Pages per node: four pageblocks. Small zones make CPUs collide.
const NODE_PAGES: u64 = 4 * 512;

/// Limit of switches in a round, per operation of a CPU. A round beyond it counts as endless.
const PATIENCE: u64 = 1 << 20;

/// The amount of work done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tried {
    /// Operations of all CPUs.
    pub operations: u64,
    /// Switches between CPUs.
    pub switches: u64,
}

/// A broken invariant of the allocator.
#[derive(Debug, thiserror::Error)]
#[error("round {round}: {what}")]
pub struct Violation {
    /// The round that found it, from 0.
    pub round: u32,
    /// A description.
    pub what: String,
}

/// The failure of an interleaving.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The rules are invalid for such a small machine, or the host has no memory.
    #[error(transparent)]
    Run(RunError),
    /// An invariant of the allocator is broken.
    #[error(transparent)]
    Violation(Violation),
}

impl<E: Into<RunError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Run(error.into())
    }
}

impl Interleaving {
    /// Runs one interleaving. A panic inside the allocator counts as a violation.
    pub fn run(&self) -> Result<Tried, Failure> {
        self.run_on(|_| ())
    }

    fn run_on(&self, prepare: impl Fn(&Engine)) -> Result<Tried, Failure> {
        let round = Cell::new(0);
        // Unwinding drops all else; only the round's number is used afterwards.
        catch_unwind(AssertUnwindSafe(|| self.run_all(&round, prepare))).unwrap_or_else(|panic| {
            Err(Failure::Violation(Violation { round: round.get(), what: format!("a panic: {}", message(&*panic)) }))
        })
    }

    fn run_all(&self, round: &Cell<u32>, prepare: impl Fn(&Engine)) -> Result<Tried, Failure> {
        let machine = self.machine()?;
        let mut machine_config = machine.engine_config(self.seed);
        machine_config.mode = Mode::Interleave;
        let map = MemoryMap::with_memory(&machine, NODE_PAGES);
        let ranges = map.ranges();
        let zones = map.zones(&ranges);
        let topology = machine.topology();
        let nodes: Vec<NodeId> =
            (0..self.cpus).map(|cpu| NodeId(topology.socket_of(topology.core_of(cpu)).0)).collect();
        // The zones are too small for a region per CPU.
        let one = self.tuning.backing.regions() == RegionRule::One;
        let backing = self.tuning.backing.with_regions(if one { RegionRule::One } else { RegionRule::Fixed(2) });
        let tuning = Tuning { backing, ..self.tuning };
        let config = Config { tuning, high_fraction: self.high_fraction, ..Config::new(&zones, &nodes) };
        let regions = config.zone_metadata_size(0)?.regions;
        let locks = os::locks(&machine, Era::default(), Needs::NOTHING, regions);
        let engine = Rc::new(Engine::new(machine_config, &locks));
        prepare(&engine);
        built_on(&engine, || {
            let sim = SimMachine::with_memory(engine.clone(), &machine, NODE_PAGES, regions)?;
            let metadata = OwnedMetadata::new(&config)?;
            let mut zones = metadata.zones();
            let allocator = Allocator::new(sim, &config, metadata.lend(&mut zones))?;
            let used_blocks = UsedBlocks::new(&allocator);
            for number in 0..self.rounds {
                round.set(number);
                self.round(number, &engine, &used_blocks)?;
                used_blocks.audit().map_err(|what| Failure::Violation(Violation { round: number, what }))?;
            }
            let operations = u64::from(self.rounds) * u64::from(self.operations) * u64::from(self.cpus);
            Ok(Tried { operations, switches: engine.switches() })
        })
    }

    /// Every CPU does its operations. At the end no CPU is inside the allocator.
    fn round(&self, number: u32, engine: &Engine, used_blocks: &UsedBlocks<'_>) -> Result<(), Failure> {
        let ended = Cell::new(0);
        let begun = engine.switches();
        let patience = PATIENCE * u64::from(self.operations);
        engine::scope(|fibers| -> Result<(), Failure> {
            for cpu in 0..self.cpus {
                let task = || {
                    for _ in 0..self.operations {
                        operations::random_operation(engine, used_blocks);
                    }
                    ended.set(ended.get() + 1);
                };
                // Each task starts after all tasks of the previous round.
                engine.spawn(fibers, cpu, engine.latest(), task).map_err(RunError::Stack)?;
            }
            engine.run(fibers, Time::NEVER, &|| engine.switches() - begun < patience && !used_blocks.violated());
            let broken = |what| Err(Failure::Violation(Violation { round: number, what }));
            match used_blocks.violation() {
                Some(what) => broken(what),
                None if ended.get() < self.cpus => {
                    broken(format!("{} of {} CPUs never end their operations", self.cpus - ended.get(), self.cpus))
                }
                None => Ok(()),
            }
        })
    }

    /// A machine with two sockets that have half of the CPUs each; one socket for one CPU.
    fn machine(&self) -> Result<Machine, RunError> {
        let sockets = self.cpus.min(2);
        Machine::of_cpus(sockets, self.cpus.div_ceil(sockets))
            .ok_or(RunError::Tasks { tasks: self.cpus, cpus: MAX_CPUS })
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests;
