//! Interleavings chosen at random: at every lock and probe another CPU may run. What the allocator promises is checked as
//! it goes; a failure is its settings and its seed.
//!
//! Time means nothing here. Each step ends a random time later, and the CPU that is then the earliest runs: most steps are
//! short, so that some CPUs race, and a few are so long that all others overtake.

mod books;
mod operations;
mod search;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pageset::owned::OwnedMetadata;
use pageset::{Config, NodeId, Tuning};

use crate::engine::{self, Engine, Mode};
use crate::era::Era;
use crate::machine::Machine;
use crate::os::{self, Needs};
use crate::run::RunError;
use crate::sim_lock::built_on;
use crate::time::Time;
use crate::world::{Allocator, SimMachine};
use books::Books;
pub use search::{Search, try_seeds};

/// What is to be tried.
#[derive(Clone, Copy, Debug)]
pub struct Interleaving {
    /// The rules.
    pub tuning: Tuning,
    /// The administrator's fraction of a zone that all pagesets may hold, 0 for none.
    pub high_fraction: u32,
    /// CPUs, 1 to [`MOST_CPUS`], on two nodes.
    pub cpus: u32,
    /// Rounds, in each of which every CPU does [`Self::operations`]; the books are checked from end to end after each.
    pub rounds: u32,
    /// Operations of a CPU in a round.
    pub operations: u32,
    /// What all chance comes from.
    pub seed: u64,
}

/// CPUs that an interleaving may have. More CPUs race no more closely, and zones are small.
pub const MOST_CPUS: u32 = 64;

/// Pages of each of the two nodes: four pageblocks. Small, so that CPUs meet.
const NODE_PAGES: u64 = 4 * 512;

/// Steps of a round, as multiples of its operations, after which it counts as one that never ends.
const PATIENCE: u64 = 1 << 20;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tried {
    /// Operations of all CPUs.
    pub operations: u64,
    /// Switches between CPUs.
    pub switches: u64,
}

/// Something that the allocator promises does not hold.
#[derive(Debug, thiserror::Error)]
#[error("round {round}: {what}")]
pub struct Violation {
    /// The round in which it was found, from 0.
    pub round: u32,
    /// What it is.
    pub what: String,
}

/// Why a try did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The rules do not suit so small a machine, or the host has no memory.
    #[error(transparent)]
    Run(RunError),
    /// A promise is broken.
    #[error(transparent)]
    Violation(Violation),
}

impl<E: Into<RunError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Run(error.into())
    }
}

impl Interleaving {
    /// Tries one interleaving; a panic inside of the allocator is a violation as well.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self) -> Result<Tried, Failure> {
        self.run_on(|_| ())
    }

    /// Tries it on an engine that was prepared so.
    fn run_on(&self, prepare: impl Fn(&Engine)) -> Result<Tried, Failure> {
        let round = Cell::new(0);
        // What was built is dropped with the unwinding; only the number of the round is used afterwards.
        catch_unwind(AssertUnwindSafe(|| self.run_all(&round, prepare))).unwrap_or_else(|panic| {
            Err(Failure::Violation(Violation { round: round.get(), what: format!("a panic: {}", message(&*panic)) }))
        })
    }

    fn run_all(&self, round: &Cell<u32>, prepare: impl Fn(&Engine)) -> Result<Tried, Failure> {
        let machine = self.machine()?;
        let mut config = machine.engine_config(self.seed);
        config.mode = Mode::Interleave;
        let engine = Rc::new(Engine::new(config, &os::locks(&machine, Era::default(), Needs::NOTHING)));
        prepare(&engine);
        built_on(&engine, || {
            let sim = SimMachine::with_memory(engine.clone(), &machine, NODE_PAGES)?;
            let ranges = sim.map.ranges();
            let zones = sim.map.zones(&ranges);
            let topology = machine.topology();
            let nodes: Vec<NodeId> =
                (0..self.cpus).map(|cpu| NodeId(topology.socket_of(topology.core_of(cpu)).0)).collect();
            let config =
                Config { tuning: self.tuning, high_fraction: self.high_fraction, ..Config::new(&zones, &nodes) };
            let metadata = OwnedMetadata::new(&config)?;
            let mut zones = metadata.zones();
            let allocator = Allocator::new(sim, &config, metadata.lend(&mut zones))?;
            let books = Books::new(&allocator);
            for number in 0..self.rounds {
                round.set(number);
                self.round(&engine, &books)?;
                books.audit().map_err(|what| Failure::Violation(Violation { round: number, what }))?;
            }
            let operations = u64::from(self.rounds) * u64::from(self.operations) * u64::from(self.cpus);
            Ok(Tried { operations, switches: engine.switches() })
        })
    }

    /// Every CPU does its operations; then none is inside of the allocator.
    fn round(&self, engine: &Engine, books: &Books<'_>) -> Result<(), Failure> {
        let ended = Cell::new(0);
        let begun = engine.switches();
        let patience = PATIENCE * u64::from(self.operations);
        engine::scope(|fibers| -> Result<(), Failure> {
            for cpu in 0..self.cpus {
                let task = || {
                    for _ in 0..self.operations {
                        operations::one(engine, books);
                    }
                    ended.set(ended.get() + 1);
                };
                // Each begins when the last round is over for all.
                engine.spawn(fibers, cpu, engine.latest(), task).map_err(RunError::Stack)?;
            }
            engine.run(fibers, Time::NEVER, || engine.switches() - begun < patience && !books.violated());
            let broken = |what| Err(Failure::Violation(Violation { round: 0, what }));
            match books.violation() {
                Some(what) => broken(what),
                None if ended.get() < self.cpus => {
                    broken(format!("{} of {} CPUs never end their operations", self.cpus - ended.get(), self.cpus))
                }
                None => Ok(()),
            }
        })
    }

    /// Two sockets with half of the CPUs each, or one with one CPU.
    fn machine(&self) -> Result<Machine, RunError> {
        let sockets = self.cpus.min(2);
        Machine::of_cpus(sockets, self.cpus.div_ceil(sockets))
            .ok_or(RunError::Tasks { tasks: self.cpus, cpus: MOST_CPUS })
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests;
