//! The engine: virtual CPUs, each a fiber with a clock. The earliest CPU always runs next.
//!
//! Work and memory touches only advance the CPU's own clock, so a CPU runs ahead of the others. Before an action that
//! others can see, such as taking a lock, the CPU waits until it is the earliest. Ties go to the lower CPU number. No
//! switch happens if the CPU is already the earliest. Locks are therefore taken in the order of virtual time.

mod bandwidth;
mod cache;
mod durations;
mod earliest;
mod fiber;
mod interleave;
mod jitter;
mod lock;
mod running;
mod sleep;
mod topology;

use std::cell::{Cell, RefCell};
use std::io;

pub use bandwidth::Memory;
pub use cache::{CacheCosts, LINE_BYTES, LOAD_CORES, LineState, Source};
pub(crate) use durations::Durations;
pub(crate) use fiber::{Fibers, scope};
pub use interleave::Mode;
pub(crate) use interleave::PlantedBug;
pub use lock::{LockId, LockSpec, LockStats, PATHS, PathStats};
pub use topology::{Core, Socket, Topology};

use bandwidth::Bandwidth;
use cache::Caches;
use earliest::Earliest;
use jitter::{Factor, Random, Variation};
use lock::Lock;
use running::{NOBODY, Running};

use crate::time::Time;

#[cfg(test)]
mod tests;

/// The configuration of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// CPUs, cores, sockets.
    pub topology: Topology,
    /// Costs of memory touches.
    pub cache: CacheCosts,
    /// The memory of each node.
    pub memory: Memory,
    /// Duration of an atomic operation on a line in the core's own cache.
    pub atomic: Time,
    /// Duration of work in thousandths of its stated duration.
    pub work_permille: u64,
    /// Duration of work in thousandths of its normal duration, while the other thread of the core works too.
    pub smt_permille: u64,
    /// The same while the other thread of the core waits for a lock: it polls, and keeps its share of the core's buffers.
    pub spin_permille: u64,
    /// Coefficient of variation of work, 0 to 1.
    pub work_cv: f64,
    /// Coefficient of variation of the latency of lines from outside the core, 0 to 1.
    pub line_cv: f64,
    /// Coefficient of variation of a whole lock hold, 0 to 1.
    pub hold_cv: f64,
    /// Coefficient of variation between cores of the duration of work and of lines from outside, 0 to 1. Instructions of lock holds
    /// and lines in a core's own caches take equally long on all cores.
    pub core_cv: f64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// How the next CPU is chosen.
    pub mode: Mode,
}

/// Slot 0 is the end of the current [`Engine::run`]; the lock releases follow, then the CPUs.
const END: usize = 0;
const FIRST_LOCK: usize = 1;

/// The state of a CPU. For the running CPU, [`Running`] has the current values.
#[derive(Debug)]
struct Cpu {
    clock: Cell<Time>,
    core: Core,
    /// See [`Running::hold`] and [`Running::settled`].
    hold: Cell<Factor>,
    settled: Cell<Time>,
    /// The lock and path that the CPU waits to try, until the CPU is the earliest.
    waiting_to_try: Cell<Option<(LockId, usize)>>,
    /// Start of the current sleep, if the CPU sleeps; total of earlier sleeps.
    asleep: Cell<Option<Time>>,
    slept: Cell<Time>,
}

/// The virtual machine: clocks, caches and locks. One thread uses it through shared references.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    #[cfg(test)]
    planted: Cell<Option<PlantedBug>>,
    order: Earliest,
    cpus: Box<[Cpu]>,
    /// Working threads of each core. Waiting, sleeping and finished threads do not count.
    working: Box<[Cell<u32>]>,
    /// Threads of each core that wait for a lock.
    spinning: Box<[Cell<u32>]>,
    locks: Box<[RefCell<Lock>]>,
    caches: Caches,
    bandwidth: Bandwidth,
    random: Random,
    work_variation: Variation,
    line_variation: Variation,
    hold_variation: Variation,
    running: Running,
    /// The CPU in whose name actions run outside of [`Engine::run`].
    acting: Cell<u32>,
    switches: Cell<u64>,
    announced: Cell<Option<(LockId, usize)>>,
}

impl Engine {
    /// A machine whose CPUs have no tasks. Lock `i` of `locks` has the id `i`.
    pub fn new(config: EngineConfig, locks: &[LockSpec]) -> Self {
        let topology = config.topology;
        let cpu = |cpu| Cpu {
            clock: Cell::new(Time::ZERO),
            core: topology.core_of(cpu),
            hold: Cell::new(Factor::ONE),
            settled: Cell::new(Time::ZERO),
            waiting_to_try: Cell::new(None),
            asleep: Cell::new(None),
            slept: Cell::new(Time::ZERO),
        };
        let engine = Engine {
            #[cfg(test)]
            planted: Cell::default(),
            order: Earliest::new(FIRST_LOCK + locks.len() + topology.cpus() as usize),
            cpus: (0..topology.cpus()).map(cpu).collect(),
            working: vec![Cell::new(0); topology.cores() as usize].into(),
            spinning: vec![Cell::new(0); topology.cores() as usize].into(),
            locks: locks.iter().map(|lock| RefCell::new(Lock::new(*lock))).collect(),
            caches: Caches::new(
                topology,
                config.cache,
                &Variation::spread_permille(config.core_cv, topology.cores_per_socket),
            ),
            bandwidth: Bandwidth::new(config.memory, topology.sockets),
            random: Random::new(config.seed),
            work_variation: Variation::exponential(config.work_cv),
            line_variation: Variation::exponential(config.line_cv),
            hold_variation: Variation::lognormal(config.hold_cv),
            running: Running::new(),
            acting: Cell::new(0),
            switches: Cell::new(0),
            announced: Cell::new(None),
            config,
        };
        engine.enter(0, false);
        engine
    }

    /// The configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Makes a CPU the current one: `on` for a running CPU, off for one that acts outside of [`Self::run`].
    fn enter(&self, number: u32, on: bool) {
        let (running, cpu) = (&self.running, &self.cpus[number as usize]);
        running.on.set(on);
        running.cpu.set(number);
        let core = cpu.core;
        running.core.set(core);
        running.clock.set(cpu.clock.get());
        running.tag.set(self.caches.tag(core));
        // In other modes each touch is a step, so no touch may take the fast path.
        let near = on && self.config.mode == Mode::Earliest;
        running.near.set(if near { self.config.cache.l2_lines } else { 0 });
        running.hold.set(cpu.hold.get());
        running.settled.set(cpu.settled.get());
        running.clock_permille.set(self.clock_permille(core));
        self.update_smt_slowdown();
    }

    /// Saves the state of the current CPU.
    fn leave(&self) {
        let running = &self.running;
        let cpu = &self.cpus[running.cpu.replace(NOBODY) as usize];
        running.on.set(false);
        cpu.clock.set(running.clock.get());
        cpu.hold.set(running.hold.get());
        cpu.settled.set(running.settled.get());
        self.caches.set_tag(running.core.get(), running.tag.get());
    }

    /// Updates the slowdown after the number of working threads of the running core may have changed.
    fn update_smt_slowdown(&self) {
        let core = self.running.core.get().0 as usize;
        self.running.smt_permille.set(if self.working[core].get() > 1 {
            self.config.smt_permille
        } else if self.spinning[core].get() > 0 {
            self.config.spin_permille
        } else {
            1000
        });
    }

    /// The running CPU, or the CPU that acts while none runs.
    #[inline(always)]
    pub fn cpu(&self) -> u32 {
        self.running.cpu.get()
    }

    /// Whether a CPU runs and virtual time passes.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.running.on.get()
    }

    /// Calls `act` in the name of `cpu` while no CPU runs. This takes no virtual time.
    pub fn act_as<T>(&self, cpu: u32, act: impl FnOnce() -> T) -> T {
        let before = self.acting.replace(cpu);
        self.leave();
        self.enter(cpu, false);
        let done = act();
        self.acting.set(before);
        self.leave();
        self.enter(before, false);
        done
    }

    /// Lets the CPUs run whose clocks are behind.
    pub fn yield_now(&self) {
        if self.is_running() {
            self.sync();
        }
    }

    /// The running CPU's clock. It is provisional during a lock hold, because the hold's random factor applies later.
    #[inline(always)]
    pub fn now(&self) -> Time {
        self.running.clock.get()
    }

    /// A CPU's clock.
    pub fn clock(&self, cpu: u32) -> Time {
        if cpu == self.cpu() { self.now() } else { self.cpus[cpu as usize].clock.get() }
    }

    /// Sets the clock of a CPU that does not run.
    fn set_clock(&self, cpu: u32, time: Time) {
        if cpu == self.cpu() { self.running.clock.set(time) } else { self.cpus[cpu as usize].clock.set(time) }
    }

    /// A random number below `n`, which is at least 1.
    pub fn random_below(&self, n: u64) -> u64 {
        self.random.below(n)
    }

    /// Switches between CPUs so far.
    pub fn switches(&self) -> u64 {
        self.switches.get()
    }

    /// Lines found at each [`Source`] so far.
    pub fn lines_by_source(&self) -> [u64; Source::COUNT] {
        self.caches.sources()
    }

    fn slot(&self, cpu: u32) -> usize {
        FIRST_LOCK + self.locks.len() + cpu as usize
    }

    /// Gives a CPU a task that starts at `start`. Fiber numbers are CPU numbers: spawn tasks in the order of the CPUs,
    /// from CPU 0.
    pub(crate) fn spawn<'env>(
        &'env self,
        fibers: &mut Fibers<'env>,
        cpu: u32,
        start: Time,
        task: impl FnOnce() + 'env,
    ) -> io::Result<()> {
        let core = self.cpus[cpu as usize].core;
        fibers.spawn(move || {
            task();
            self.add_working(core, -1);
        })?;
        self.set_clock(cpu, start);
        self.order.set(self.slot(cpu), start);
        self.add_working(core, 1);
        Ok(())
    }

    /// Sets how many cores have work, the first of the machine. Those of a last level share it, and lines of other cores queue
    /// behind all of them. `alike` is how many machines like this one, with the same work, form the machine that it represents.
    pub fn share(&self, cores: u32, alike: u32) {
        self.caches.share(cores.min(self.config.topology.cores()), alike);
    }

    /// Duration of work on a core in thousandths, from the machine's clock and the core's own speed.
    fn clock_permille(&self, core: Core) -> u64 {
        self.config.work_permille * self.caches.core_permille(core) / 1000
    }

    /// Runs all CPUs until the earliest is at `end` or all tasks have ended. Polls `keep_on`; `false` stops the run.
    pub(crate) fn run(&self, fibers: &mut Fibers<'_>, end: Time, keep_on: &dyn Fn() -> bool) {
        /// Switches between two polls: some milliseconds.
        const PATIENCE: u64 = 1 << 14;
        self.order.set(END, end);
        self.leave();
        loop {
            let (time, slot) = self.order.first();
            if slot == END || time == Time::NEVER {
                break;
            }
            if self.process_event(slot, time) {
                continue;
            }
            self.order.set(slot, Time::NEVER);
            let cpu = slot - self.slot(0);
            self.enter(cpu as u32, true);
            fibers.resume(cpu);
            self.leave();
            self.switches.set(self.switches.get() + 1);
            if self.switches.get().is_multiple_of(PATIENCE) && !keep_on() {
                break;
            }
        }
        self.order.set(END, Time::NEVER);
        self.enter(self.acting.get(), false);
    }

    /// Performs work that others cannot see. Threads of the core, the clock and random variation scale its duration.
    #[inline]
    pub fn work(&self, time: Time) {
        let running = &self.running;
        let time = time.permille(running.smt_permille.get()).permille(running.clock_permille.get());
        running.pass(self.work_variation.apply(time, &self.random));
    }

    /// Performs work that also brings `lines` lines into the core's caches. `time` includes the latency of these lines.
    pub fn work_through(&self, time: Time, lines: u64) {
        self.work(time);
        if self.is_running() {
            self.running.tag.set(self.running.tag.get() + lines);
        }
    }

    /// Advances the clock by `time`, without variation or slowdown.
    #[inline(always)]
    pub fn pass(&self, time: Time) {
        self.running.pass(time);
    }

    /// Touches a line whose memory is on `node`.
    #[inline(always)]
    pub fn touch(&self, line: &LineState, node: Socket) {
        self.touch_run(line, || node, 1);
    }

    /// Touches `lines` lines that are always touched together and share one state.
    #[inline(always)]
    pub fn touch_run(&self, line: &LineState, node: impl FnOnce() -> Socket, lines: u64) {
        match self.caches.near(&self.running, line, lines) {
            Some(time) => self.running.pass(time.times(lines)),
            None => self.touch_far(line, node(), lines),
        }
    }

    /// Advances the clock by `time`, then touches lines as [`Self::touch_run`] does.
    #[inline(always)]
    pub fn work_on(&self, time: Time, line: &LineState, node: impl FnOnce() -> Socket, lines: u64) {
        match self.caches.near(&self.running, line, lines) {
            Some(near) => self.running.pass(time + near.times(lines)),
            None => {
                self.running.pass(time);
                self.touch_far(line, node(), lines);
            }
        }
    }

    /// Touches lines that are not in the core's own caches.
    #[inline(never)]
    fn touch_far(&self, line: &LineState, node: Socket, lines: u64) {
        let running = &self.running;
        if !running.on.get() {
            return;
        }
        if self.config.mode != Mode::Earliest {
            return self.step();
        }
        let time = self.caches.line_time(running.core.get(), self.caches.bring(running, line, node, lines));
        running.pass(self.line_variation.apply(time, &self.random).times(lines));
    }

    /// Prefetches lines: they belong to the core from now on, at no cost in time.
    #[inline]
    pub fn prefetch(&self, line: &LineState, node: Socket, lines: u64) {
        if self.is_running() {
            self.caches.fetch(&self.running, line, node, lines);
        }
    }

    /// Writes a whole page whose memory is on `node`.
    #[inline]
    pub fn write_page(&self, page: &LineState, node: Socket) {
        let (source, time) = self.caches.fetch_page(&self.running, page, node);
        let in_memory = source.is_memory() && self.is_running();
        self.work(if in_memory { self.bandwidth.clear(node, self.now(), time) } else { time });
    }

    /// One round of polling for something other than an engine lock: advances the clock and lets others run. It counts as a
    /// switch even if no other CPU can run, so that a poll without end is noticed.
    pub fn relax(&self) {
        /// Some rounds of a polling loop. A guess; waits take far longer.
        const ROUND: Time = Time::from_ps(100_000);
        if self.is_running() {
            self.pass(ROUND);
            self.running.settle();
            self.order.set(self.slot(self.cpu()), self.now());
            fiber::suspend();
        }
    }

    pub(crate) fn latest(&self) -> Time {
        (0..self.config.topology.cpus()).map(|cpu| self.clock(cpu)).max().unwrap_or_default()
    }

    /// Waits until this CPU is the earliest.
    fn sync(&self) {
        if !self.is_earliest() {
            self.order.set(self.slot(self.cpu()), self.now());
            fiber::suspend();
        }
    }

    /// Whether the running CPU is the earliest after all earlier events that need no running CPU.
    fn is_earliest(&self) -> bool {
        self.running.settle();
        let own = (self.now(), self.slot(self.cpu()));
        loop {
            let (time, first) = self.order.first();
            if own < (time, first) {
                return true;
            }
            if first == END || !self.process_event(first, time) {
                return false;
            }
        }
    }

    /// Processes the event that is due in a slot other than [`END`]. Returns false if a CPU must run for it.
    fn process_event(&self, slot: usize, time: Time) -> bool {
        match slot.checked_sub(self.slot(0)) {
            None => self.released(LockId((slot - FIRST_LOCK) as u32), time),
            Some(cpu) => return self.queue_if_held(cpu as u32, time),
        }
        true
    }

    /// A working thread of a core begins (1) or ends (-1) to wait for a lock.
    fn add_spinning(&self, core: Core, change: i32) {
        let spinning = &self.spinning[core.0 as usize];
        spinning.set(spinning.get().wrapping_add_signed(change));
        self.add_working(core, -change);
    }

    fn add_working(&self, core: Core, change: i32) {
        let working = &self.working[core.0 as usize];
        working.set(working.get().wrapping_add_signed(change));
        self.update_smt_slowdown();
    }
}
