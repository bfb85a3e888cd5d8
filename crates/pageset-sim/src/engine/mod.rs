//! The engine: virtual CPUs, each a fiber with a clock, of which always the earliest runs.
//!
//! A CPU that works, or touches memory, only moves its own clock: it runs ahead of the others. Where others could see
//! what it does next (at a lock) it waits until it is the earliest, ties going to the lower number; when it is that
//! already, nothing is switched. So all locks are taken in the order of virtual time.

mod cache;
mod earliest;
mod fiber;
mod interleave;
mod jitter;
mod lengths;
mod lock;
mod running;
mod sleep;
mod topology;

use std::cell::{Cell, RefCell};
use std::io;

pub use cache::{CacheCosts, LINE_BYTES, LineState, Source};
pub(crate) use fiber::{Fibers, scope};
pub use interleave::Mode;
pub(crate) use interleave::Plant;
pub(crate) use lengths::Lengths;
pub use lock::{Held, LockId, LockSpec, LockStats, PATHS, PathStats};
pub use topology::{Core, Socket, Topology};

use cache::Caches;
use earliest::Earliest;
use jitter::{Factor, Random, Variation};
use lock::Lock;
use running::{NOBODY, Running};

use crate::time::Time;

#[cfg(test)]
mod tests;

/// What an engine is built from.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// CPUs, cores, sockets.
    pub topology: Topology,
    /// What touches of memory cost.
    pub cache: CacheCosts,
    /// An atomic operation on a line that the core has.
    pub atomic: Time,
    /// Work takes this many thousandths of its time while another thread of the core works as well.
    pub smt_permille: u64,
    /// Work takes this many thousandths of its time where only one core of a socket has any: it runs at a higher clock.
    pub turbo_permille: u64,
    /// Coefficient of variation of work, 0 to 1.
    pub work_cv: f64,
    /// Coefficient of variation of the times of lines from outside the core, 0 to 1.
    pub line_cv: f64,
    /// Coefficient of variation of each hold of a lock as a whole, 0 to 1.
    pub hold_cv: f64,
    /// What all chance comes from.
    pub seed: u64,
    /// How the next CPU is chosen.
    pub mode: Mode,
}

/// Slot 0 is the end of the present [`Engine::run`]; then come the locks' releases, then the CPUs.
const END: usize = 0;
const FIRST_LOCK: usize = 1;

/// What is known of a CPU; of the one that runs, [`Running`] knows better.
#[derive(Debug)]
struct Cpu {
    clock: Cell<Time>,
    core: Core,
    /// As [`Running::hold`] and [`Running::settled`].
    hold: Cell<Factor>,
    settled: Cell<Time>,
    /// The lock that it has come to, and the path, until it is the earliest and finds it free or held.
    coming: Cell<Option<(LockId, usize)>>,
    /// Since when it sleeps, if it does; how long it has slept before.
    asleep: Cell<Option<Time>>,
    slept: Cell<Time>,
}

/// The virtual machine: clocks, caches, locks. One thread's, and used through shared references.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    #[cfg(test)]
    planted: Cell<Option<Plant>>,
    order: Earliest,
    cpus: Box<[Cpu]>,
    /// Thousandths that work takes on each socket, by how many of its cores have some.
    clocks: Box<[Cell<u64>]>,
    /// Threads of each core that work, rather than wait or have ended.
    working: Box<[Cell<u32>]>,
    locks: Box<[RefCell<Lock>]>,
    caches: Caches,
    random: Random,
    work: Variation,
    lines: Variation,
    holds: Variation,
    running: Running,
    /// In whose name things are done while none runs.
    acting: Cell<u32>,
    switches: Cell<u64>,
    announced: Cell<Option<(LockId, usize)>>,
    /// Holds that are kept, and how many more may be.
    held: RefCell<Vec<Held>>,
    held_room: Cell<usize>,
}

impl Engine {
    /// A machine whose CPUs have no tasks yet, with these locks, known by their places.
    #[must_use]
    pub fn new(config: EngineConfig, locks: &[LockSpec]) -> Self {
        let topology = config.topology;
        let cpu = |cpu| Cpu {
            clock: Cell::new(Time::ZERO),
            core: topology.core_of(cpu),
            hold: Cell::new(Factor::ONE),
            settled: Cell::new(Time::ZERO),
            coming: Cell::new(None),
            asleep: Cell::new(None),
            slept: Cell::new(Time::ZERO),
        };
        let engine = Engine {
            #[cfg(test)]
            planted: Cell::default(),
            order: Earliest::new(FIRST_LOCK + locks.len() + topology.cpus() as usize),
            cpus: (0..topology.cpus()).map(cpu).collect(),
            clocks: vec![Cell::new(1000); topology.sockets as usize].into(),
            working: vec![Cell::new(0); topology.cores() as usize].into(),
            locks: locks.iter().map(|lock| RefCell::new(Lock::new(*lock))).collect(),
            caches: Caches::new(topology, config.cache),
            random: Random::new(config.seed),
            work: Variation::exponential(config.work_cv),
            lines: Variation::exponential(config.line_cv),
            holds: Variation::lognormal(config.hold_cv),
            running: Running::new(),
            acting: Cell::new(0),
            switches: Cell::new(0),
            announced: Cell::new(None),
            held: RefCell::default(),
            held_room: Cell::new(0),
            config,
        };
        engine.enter(0, false);
        engine
    }

    /// What it was built from.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// A CPU goes on, or acts while none runs.
    fn enter(&self, number: u32, on: bool) {
        let (running, cpu) = (&self.running, &self.cpus[number as usize]);
        running.on.set(on);
        running.cpu.set(number);
        running.core.set(cpu.core);
        running.clock.set(cpu.clock.get());
        running.tag.set(self.caches.tag(cpu.core));
        // In other modes a touch is a step.
        let near = on && self.config.mode == Mode::Earliest;
        running.near.set(if near { self.config.cache.l2_lines } else { 0 });
        running.hold.set(cpu.hold.get());
        running.settled.set(cpu.settled.get());
        running.clock_permille.set(self.clocks[self.config.topology.socket_of(cpu.core).0 as usize].get());
        self.look_at_sibling();
    }

    /// The CPU that runs or acts does so no more.
    fn leave(&self) {
        let running = &self.running;
        let cpu = &self.cpus[running.cpu.replace(NOBODY) as usize];
        running.on.set(false);
        cpu.clock.set(running.clock.get());
        cpu.hold.set(running.hold.get());
        cpu.settled.set(running.settled.get());
        self.caches.set_tag(cpu.core, running.tag.get());
    }

    /// Whether the other thread of the running core works has changed, or may have.
    fn look_at_sibling(&self) {
        let shared = self.working[self.running.core.get().0 as usize].get() > 1;
        self.running.smt_permille.set(if shared { self.config.smt_permille } else { 1000 });
    }

    /// The running CPU; where none runs, the one that acts for it.
    #[inline(always)]
    pub fn cpu(&self) -> u32 {
        self.running.cpu.get()
    }

    /// Whether a CPU runs: virtual time has begun.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.running.on.get()
    }

    /// What is done while no CPU runs, is done in the name of this one. It costs nothing.
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

    /// Lets those CPUs run that are behind in time.
    pub fn yield_now(&self) {
        if self.is_running() {
            self.sync();
        }
    }

    /// The running CPU's clock. Under a hold of a lock it is provisional: how long that takes is known at its end.
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

    /// A number below `n`, which is at least 1, from the seed.
    pub fn random_below(&self, n: u64) -> u64 {
        self.random.below(n)
    }

    /// Switches from one CPU to another so far.
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

    /// Gives a CPU a task, which begins at `start`. The tasks of [`Fibers`] and the CPUs have the same numbers: give CPU 0
    /// its task first.
    ///
    /// # Errors
    /// The system has no memory for its stack.
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

    /// Says how many cores of a socket have work, and so share its last-level cache and its power: the fewer, the higher
    /// their clock.
    pub fn share_socket(&self, socket: Socket, cores: u32) {
        self.caches.share_llc(socket, cores);
        let all = u64::from(self.config.topology.cores_per_socket);
        let idle = all - u64::from(cores.max(1)).min(all);
        let gain = (1000 - self.config.turbo_permille) * idle / (all - 1).max(1);
        self.clocks[socket.0 as usize].set(1000 - gain);
        if self.config.topology.socket_of(self.running.core.get()) == socket {
            self.running.clock_permille.set(1000 - gain);
        }
    }

    /// Runs all CPUs until the earliest is at `end`, or all have ended; `keep_on` is asked now and then.
    pub(crate) fn run(&self, fibers: &mut Fibers<'_>, end: Time, keep_on: impl Fn() -> bool) {
        /// Switches between two questions: some milliseconds.
        const PATIENCE: u64 = 1 << 14;
        self.order.set(END, end);
        self.leave();
        loop {
            let (time, slot) = self.order.first();
            if slot == END || time == Time::NEVER {
                break;
            }
            if self.passes(slot, time) {
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

    /// Work that others do not see.
    #[inline]
    pub fn work(&self, time: Time) {
        let running = &self.running;
        let time = time.permille(running.smt_permille.get()).permille(running.clock_permille.get());
        running.pass(self.work.apply(time, &self.random));
    }

    /// Work that brings so many lines of its own into the core's caches. How long they take is part of the work.
    pub fn work_through(&self, time: Time, lines: u64) {
        self.work(time);
        if self.is_running() {
            self.running.tag.set(self.running.tag.get() + lines);
        }
    }

    /// Time that passes whatever else goes on, without variation.
    #[inline(always)]
    pub fn pass(&self, time: Time) {
        self.running.pass(time);
    }

    /// A touch of a line whose memory is on `home`.
    #[inline(always)]
    pub fn touch(&self, line: &LineState, home: Socket) {
        self.touch_run(line, || home, 1);
    }

    /// A touch of some lines that are always touched together: the state is that of all.
    #[inline(always)]
    pub fn touch_run(&self, line: &LineState, home: impl FnOnce() -> Socket, lines: u64) {
        match self.caches.near(&self.running, line, lines) {
            Some(time) => self.running.pass(time.times(lines)),
            None => self.touch_far(line, home(), lines),
        }
    }

    /// Some instructions, then a touch of lines as [`Self::touch_run`].
    #[inline(always)]
    pub fn work_on(&self, time: Time, line: &LineState, home: impl FnOnce() -> Socket, lines: u64) {
        match self.caches.near(&self.running, line, lines) {
            Some(near) => self.running.pass(time + near.times(lines)),
            None => {
                self.running.pass(time);
                self.touch_far(line, home(), lines);
            }
        }
    }

    /// A touch of lines that are not in the core's own caches.
    #[inline(never)]
    fn touch_far(&self, line: &LineState, home: Socket, lines: u64) {
        let running = &self.running;
        if !running.on.get() {
            return;
        }
        if self.config.mode != Mode::Earliest {
            return self.step();
        }
        let time = self.caches.line_time(self.caches.bring(running, line, home, lines));
        running.pass(self.lines.apply(time, &self.random).times(lines));
    }

    /// Lines fetched ahead of their use: they are the core's from now on, and nobody waits for them.
    #[inline]
    pub fn prefetch(&self, line: &LineState, home: Socket, lines: u64) {
        if self.is_running() {
            self.caches.fetch(&self.running, line, home, lines);
        }
    }

    /// Writes a page whose memory is on `home`.
    #[inline]
    pub fn write_page(&self, page: &LineState, home: Socket) {
        self.work(self.caches.fetch_page(&self.running, page, home));
    }

    /// Lets a little time pass, and others run: a round of waiting for something that is no lock.
    pub fn relax(&self) {
        /// Some rounds of a polling loop. A guess; waits are far longer.
        const ROUND: Time = Time::from_ps(100_000);
        if self.is_running() {
            self.pass(ROUND);
            self.sync();
        }
    }

    /// The time of the CPU that is furthest.
    pub(crate) fn latest(&self) -> Time {
        (0..self.config.topology.cpus()).map(|cpu| self.clock(cpu)).max().unwrap_or_default()
    }

    /// Waits until this CPU is the earliest.
    fn sync(&self) {
        if !self.is_first() {
            self.order.set(self.slot(self.cpu()), self.now());
            fiber::suspend();
        }
    }

    /// Whether the running CPU is the earliest, once all has come to pass that was due before it and needs no CPU to run.
    fn is_first(&self) -> bool {
        self.running.settle();
        let own = (self.now(), self.slot(self.cpu()));
        loop {
            let (time, first) = self.order.first();
            if own < (time, first) {
                return true;
            }
            if first == END || !self.passes(first, time) {
                return false;
            }
        }
    }

    /// Has come to pass what is due in a slot other than [`END`]; false where it takes a CPU to run.
    fn passes(&self, slot: usize, time: Time) -> bool {
        match slot.checked_sub(self.slot(0)) {
            None => self.released(LockId((slot - FIRST_LOCK) as u32), time),
            Some(cpu) => return self.queues_up(cpu as u32, time),
        }
        true
    }

    fn add_working(&self, core: Core, change: i32) {
        let working = &self.working[core.0 as usize];
        working.set(working.get().wrapping_add_signed(change));
        self.look_at_sibling();
    }
}
