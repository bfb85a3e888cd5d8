//! A small operating system model above the allocator, for workloads.
//!
//! | module | contents |
//! | --- | --- |
//! | `costs` | costs of operating system code |
//! | `pages` | allocation and freeing of blocks, with counters |
//! | `lru` | LRU lists per node behind locks, and a batch per CPU |
//! | `semaphore` | the semaphore of an address space |
//! | `space`, `scattered` | address spaces: faults and unmapping |
//! | `huge` | huge pages |
//! | `movable` | memory that compaction can move |
//! | `file` | files in the page cache |
//! | `socket` | sockets that carry pages between CPUs |
//! | `channel` | bounded queues between tasks |
//! | `owner` | reclaim and page moves for the allocator's slow paths |
//! | `setting` | the state of memory before virtual time begins |

mod channel;
pub(crate) mod costs;
mod file;
mod huge;
mod lru;
mod movable;
mod owner;
mod pages;
mod scattered;
mod semaphore;
mod setting;
mod socket;
mod space;

use std::cell::Cell;
use std::iter;

use hdrhistogram::Histogram;
use pageset::AllocError;

pub use channel::Channel;
pub use file::File;
pub use pages::Moved;
pub use scattered::Scattered;
pub use socket::{Shape, Socket};
pub use space::{Extent, Region, Space};

use crate::engine::{Durations, Engine, LockId, LockSpec, Socket as EngineSocket, Source};
use crate::era::Era;
use crate::machine::Machine;
use crate::time::Time;
use crate::world::{Allocator, SimMachine};
use costs::LRU_JOIN_ATOMICS;
use lru::Lru;
use movable::Movable;

/// An operating system on a simulated machine.
#[derive(Debug)]
pub struct System<'w> {
    allocator: &'w Allocator<'w>,
    era: Era,
    costs: Costs,
    lru: Lru,
    cpus: Box<[CpuState]>,
    /// The next object lock to hand out, and the range of all object locks.
    next_object: Cell<u32>,
    first_lru: u32,
    objects: std::ops::Range<u32>,
    high_order_drains: Cell<u64>,
    /// Whether requests that find no memory reclaim.
    reclaims: Cell<bool>,
    /// Pages that reclaim has freed since the start.
    reclaimed: Cell<u64>,
    /// Whether requests that find no memory compact.
    compacts: Cell<bool>,
    movable: Movable,
    /// Number and total duration of the timed requests for huge pages.
    huge_requests: Cell<(u64, Time)>,
    /// Counters of moved pages at the start of the measurement.
    moved_before: Cell<Moved>,
    /// Lines by source at the start of the measurement.
    lines_before: Cell<[u64; Source::COUNT]>,
    measuring: Cell<bool>,
    alloc_times: Durations,
    failure: Cell<Option<AllocError>>,
}

/// Costs of operating system code that depend on the machine.
#[derive(Clone, Copy, Debug)]
struct Costs {
    fault: Time,
    unmap_page: Time,
    lru_page: Time,
    /// Additional cost of adding a page to the LRU.
    lru_join: Time,
}

#[derive(Debug)]
struct CpuState {
    /// Operations of the workload since the measurement began.
    operations: Cell<u64>,
    /// Operations of the workload's second kind, if it has one.
    others: Cell<u64>,
    next_tick: Cell<Time>,
}

/// Period of the timer that decays each CPU's pagesets: one second. Specification: `linux-page-allocator.md` 8.2.
const TICK: Time = Time::from_ps(1_000_000_000_000);

/// Locks and groups that a workload needs, in addition to the zone locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Objects with their own lock: shared address spaces, files, sockets.
    pub objects: u32,
    /// Memory control groups of the workload's tasks, at least 1. Each group has its own LRU lists in eras with lists
    /// per group.
    pub groups: u32,
}

impl Needs {
    /// No objects, one group.
    pub const NOTHING: Needs = Needs { objects: 0, groups: 1 };

    /// LRU lists per node.
    fn lists(self, era: Era) -> u32 {
        if era.lru_by_group() { self.groups.max(1) } else { 1 }
    }
}

/// The locks of a machine whose zones have some regions each: first the zones' locks in the order of the nodes, then the LRU
/// locks group by group, then the object locks.
pub fn locks(machine: &Machine, era: Era, needs: Needs, regions: usize) -> Vec<LockSpec> {
    let with = |around: Time| machine.nodes().map(move |node| LockSpec { node, around });
    let zones = with(machine.cycles(machine.guessed.zone_hold_cycles));
    let mut locks: Vec<LockSpec> = zones.flat_map(|lock| iter::repeat_n(lock, regions)).collect();
    (0..needs.lists(era)).for_each(|_| locks.extend(with(machine.cycles(machine.guessed.lru_hold_cycles))));
    let object = LockSpec { node: EngineSocket(0), around: Time::ZERO };
    locks.extend((0..needs.objects).map(|_| object));
    locks
}

impl<'w> System<'w> {
    /// A system above an allocator. The allocator's engine must have the locks that [`locks`] returns.
    pub fn new(allocator: &'w Allocator<'w>, machine: &Machine, era: Era, needs: Needs) -> Self {
        let (cpus, nodes) = (machine.topology().cpus(), machine.topology().sockets);
        let lists = needs.lists(era);
        let regions = allocator.zones().next().map_or(1, |zone| zone.region_count());
        let first_lru = nodes * regions as u32;
        let first_object = first_lru + nodes * lists;
        // The first ticks are staggered, as CPUs do not tick in step.
        let first_tick = |cpu: u32| Time::from_ps(TICK.ps() * u64::from(cpu + 1) / u64::from(cpus));
        let state =
            |cpu| CpuState { operations: Cell::new(0), others: Cell::new(0), next_tick: Cell::new(first_tick(cpu)) };
        System {
            allocator,
            era,
            costs: Costs {
                fault: machine.fault_work(),
                unmap_page: Machine::work(machine.guessed.unmap_page_cycles),
                lru_page: machine.cycles(machine.shared.lru_page_cycles),
                lru_join: allocator.machine().engine().config().atomic.times(LRU_JOIN_ATOMICS),
            },
            lru: Lru::new(allocator.machine(), LockId(first_lru), lists, cpus),
            cpus: (0..cpus).map(state).collect(),
            next_object: Cell::new(first_object),
            first_lru,
            objects: first_object..first_object + needs.objects,
            high_order_drains: Cell::new(0),
            reclaims: Cell::new(false),
            reclaimed: Cell::new(0),
            compacts: Cell::new(false),
            movable: Movable::default(),
            huge_requests: Cell::default(),
            moved_before: Cell::default(),
            lines_before: Cell::default(),
            measuring: Cell::new(false),
            alloc_times: Durations::new(),
            failure: Cell::new(None),
        }
    }

    /// The machine below the allocator.
    pub fn machine(&self) -> &SimMachine {
        self.allocator.machine()
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.machine().engine()
    }

    fn here(&self) -> &CpuState {
        &self.cpus[self.engine().cpu() as usize]
    }

    /// Starts the measurement and resets all counters of it.
    pub fn measure(&self) {
        self.measuring.set(true);
        self.engine().reset_locks();
        self.moved_before.set(self.moved_so_far());
        self.lines_before.set(self.engine().lines_by_source());
        self.alloc_times.clear();
        self.huge_requests.set(Default::default());
        for cpu in &self.cpus {
            cpu.operations.set(0);
            cpu.others.set(0);
        }
    }

    /// Pages that moved between pagesets and zones since the measurement began.
    pub fn moved(&self) -> Moved {
        self.moved_so_far().since(self.moved_before.get())
    }

    /// Touched lines by source since the measurement began.
    pub fn lines(&self) -> [u64; Source::COUNT] {
        let (now, before) = (self.engine().lines_by_source(), self.lines_before.get());
        std::array::from_fn(|source| now[source] - before[source])
    }

    /// Hands out the lock of a new object.
    ///
    /// # Panics
    /// The workload creates more objects than [`Needs::objects`].
    pub(crate) fn new_lock(&self) -> LockId {
        let lock = self.next_object.replace(self.next_object.get() + 1);
        assert!(self.objects.contains(&lock), "a workload creates more objects than it declares");
        LockId(lock)
    }

    /// The first lock of an LRU; those before are the zones'.
    pub(crate) fn first_lru(&self) -> u32 {
        self.first_lru
    }

    /// The first lock that is neither a zone's nor an LRU's.
    pub(crate) fn first_object(&self) -> u32 {
        self.objects.start
    }

    /// Counts one operation of the workload.
    #[inline]
    pub fn count(&self) {
        self.count_many(1);
    }

    /// Counts `n` operations of the workload.
    #[inline]
    pub fn count_many(&self, n: u64) {
        let operations = &self.here().operations;
        operations.set(operations.get() + n);
    }

    /// Counts `n` operations of the workload's second kind.
    pub fn count_others(&self, n: u64) {
        let others = &self.here().others;
        others.set(others.get() + n);
    }

    /// Operations of all CPUs since the measurement began: first kind, second kind.
    pub fn operations(&self) -> [u64; 2] {
        let sum = |of: fn(&CpuState) -> &Cell<u64>| self.cpus.iter().map(|cpu| of(cpu).get()).sum();
        [sum(|cpu| &cpu.operations), sum(|cpu| &cpu.others)]
    }

    /// Durations of allocations since the measurement began, in nanoseconds.
    pub fn alloc_times(&self) -> Histogram<u64> {
        self.alloc_times.histogram()
    }

    /// The error that ended a task, if any.
    pub fn failure(&self) -> Option<AllocError> {
        self.failure.get()
    }

    /// Runs a task to its end and stores its error.
    pub fn task(&self, task: impl FnOnce() -> Result<(), AllocError>) {
        if let Err(error) = task() {
            self.failure.set(Some(error));
        }
    }

    /// Lets CPUs with earlier clocks run and performs timer work, for tasks that take no lock for long.
    pub(crate) fn yield_now(&self) {
        self.engine().yield_now();
        self.timers();
    }

    /// Performs the timer work that is due on this CPU.
    fn timers(&self) {
        let next = &self.here().next_tick;
        if self.engine().is_running() && self.engine().now() >= next.get() {
            next.set(next.get() + TICK);
            self.allocator.tick();
        }
    }
}
