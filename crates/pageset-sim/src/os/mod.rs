//! The little of an operating system that workloads need, above the allocator.
//!
//! | module | what it does |
//! | --- | --- |
//! | `era` | sizes that kernels have changed over time |
//! | `lru` | the LRU list of each node, behind its lock, and each CPU's batch in front |
//! | `process` | an address space: faults, unmapping |

mod era;
mod lru;
mod process;

use std::cell::{Cell, RefCell};

use hdrhistogram::Histogram;
use pageset::{AllocError, MigrateType, Order, Pfn, Request};

pub use era::Era;
pub use process::Process;

use crate::engine::{Engine, LockId, LockSpec, histogram};
use crate::machine::Machine;
use crate::time::Time;
use crate::world::{Allocator, SimMachine};
use lru::Lru;

/// An operating system on a simulated machine.
#[derive(Debug)]
pub struct System<'w> {
    allocator: &'w Allocator<'w>,
    era: Era,
    costs: Costs,
    lru: Lru,
    cpus: Box<[CpuState]>,
    /// Whether what is seen now counts.
    measuring: Cell<bool>,
    alloc_times: RefCell<Histogram<u64>>,
    failure: Cell<Option<AllocError>>,
}

/// Costs of the operating system's own code.
#[derive(Clone, Copy, Debug)]
struct Costs {
    fault: Time,
    unmap_page: Time,
    lru_page: Time,
}

#[derive(Debug)]
struct CpuState {
    /// Operations of the workload since the measurement began.
    operations: Cell<u64>,
    next_tick: Cell<Time>,
}

/// How often each CPU's pagesets decay. Specification: `linux-page-allocator.md` 8.2.
const TICK: Time = Time::from_ps(1_000_000_000_000);

/// The locks of a machine: those of its zones, which come first and have its nodes' numbers, then its LRUs'.
#[must_use]
pub fn locks(machine: &Machine) -> Vec<LockSpec> {
    let with = |around: Time| machine.nodes().map(move |home| LockSpec { home, around });
    with(machine.model.zone_hold_ns.into()).chain(with(machine.model.lru_hold_ns.into())).collect()
}

impl<'w> System<'w> {
    /// A system above an allocator whose engine has the locks of [`locks`].
    #[must_use]
    pub fn new(allocator: &'w Allocator<'w>, machine: &Machine) -> Self {
        let cpus = machine.topology().cpus();
        let era = Era::of(allocator.tuning());
        // CPUs do not tick in step.
        let first_tick = |cpu: u32| Time::from_ps(TICK.ps() * u64::from(cpu + 1) / u64::from(cpus));
        let state = |cpu| CpuState { operations: Cell::new(0), next_tick: Cell::new(first_tick(cpu)) };
        System {
            allocator,
            era,
            costs: Costs {
                fault: machine.calibrated.fault_ns.into(),
                unmap_page: machine.model.unmap_page_ns.into(),
                lru_page: machine.calibrated.lru_page_ns.into(),
            },
            lru: Lru::new(allocator.machine(), LockId(machine.topology().sockets), cpus as usize),
            cpus: (0..cpus).map(state).collect(),
            measuring: Cell::new(false),
            alloc_times: RefCell::new(histogram()),
            failure: Cell::new(None),
        }
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> &SimMachine {
        self.allocator.machine()
    }

    fn engine(&self) -> &Engine {
        self.machine().engine()
    }

    fn here(&self) -> &CpuState {
        &self.cpus[self.engine().cpu() as usize]
    }

    /// Begins to measure: what came before does not count.
    pub fn measure(&self) {
        self.measuring.set(true);
        self.engine().reset_locks();
        self.cpus.iter().for_each(|cpu| cpu.operations.set(0));
    }

    /// One operation of the workload is done.
    #[inline]
    pub fn count(&self) {
        let operations = &self.here().operations;
        operations.set(operations.get() + 1);
    }

    /// Operations of each CPU since the measurement began.
    pub fn operations(&self) -> impl Iterator<Item = u64> {
        self.cpus.iter().map(|cpu| cpu.operations.get())
    }

    /// Pages allocated and freed, from the start on.
    pub fn page_operations(&self) -> u64 {
        let zones = (0..self.allocator.zone_count()).map(|zone| self.allocator.zone_stats(zone));
        zones.map(|zone| zone.pgalloc() + zone.pgfree()).sum()
    }

    /// How long allocations took, in nanoseconds, since the measurement began.
    pub fn alloc_times(&self) -> Histogram<u64> {
        self.alloc_times.borrow().clone()
    }

    /// Why a task has given up, if one has.
    pub fn failure(&self) -> Option<AllocError> {
        self.failure.get()
    }

    /// Runs a task to its end, and keeps the error that ends it.
    pub fn task(&self, task: impl FnOnce() -> Result<(), AllocError>) {
        if let Err(error) = task() {
            self.failure.set(Some(error));
        }
    }

    /// Takes a page, and notes how long that took.
    #[inline]
    fn alloc(&self, migratetype: MigrateType) -> Result<Pfn, AllocError> {
        let begin = self.engine().now();
        let pfn = self.allocator.alloc(&Request::new(Order::ZERO, migratetype))?;
        if self.measuring.get() {
            self.alloc_times.borrow_mut().saturating_record((self.engine().now() - begin).whole_ns());
        }
        Ok(pfn)
    }

    /// Timer work that has become due on this CPU.
    fn timers(&self) {
        let next = &self.here().next_tick;
        if self.engine().now() >= next.get() {
            next.set(next.get() + TICK);
            self.allocator.tick();
        }
    }
}
