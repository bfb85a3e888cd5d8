//! Locks with a queue: whoever comes first gets them first, and how long all waited is known.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use super::cache::LineState;
use super::jitter::Factor;
use super::lengths::Lengths;
use super::{Engine, FIRST_LOCK, Mode, Plant, Socket, fiber};
use crate::time::Time;

/// The number of a lock of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockId(pub u32);

/// A lock that an engine is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockSpec {
    /// The socket of its memory.
    pub home: Socket,
    /// Instructions around each hold.
    pub around: Time,
}

/// Ways that a lock is come to, each accounted for itself. Zone locks have as many as the allocator tells apart.
pub const PATHS: usize = pageset::LockPath::COUNT;

/// One way to a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathStats {
    /// Times it was taken.
    pub holds: u64,
    /// Times it was waited for.
    pub contended: u64,
    /// Waiting, from the first try until it was had.
    pub wait: Time,
    /// Holding.
    pub hold: Time,
}

/// What went on at a lock.
#[derive(Clone, Debug)]
pub struct LockStats {
    /// By path.
    pub paths: [PathStats; PATHS],
    /// Waits in nanoseconds, those of no length included.
    pub waits: Histogram<u64>,
    /// Holds in nanoseconds.
    pub holds: Histogram<u64>,
}

/// The same while it goes on.
#[derive(Debug)]
struct Account {
    paths: [PathStats; PATHS],
    waits: Lengths,
    holds: Lengths,
}

impl Account {
    fn new() -> Self {
        Account { paths: Default::default(), waits: Lengths::new(), holds: Lengths::new() }
    }
}

impl LockStats {
    /// All waiting.
    #[must_use]
    pub fn wait(&self) -> Time {
        self.paths.iter().map(|path| path.wait).sum()
    }

    /// All holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.paths.iter().map(|path| path.holds).sum()
    }
}

#[derive(Debug)]
struct Waiter {
    cpu: u32,
    path: usize,
    since: Time,
}

#[derive(Debug)]
struct Hold {
    cpu: u32,
    path: usize,
    asked: Time,
    since: Time,
}

/// What a CPU finds at a lock when it is its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// It looks for itself.
    Here,
    /// It was held; the CPU has queued, and has it by now.
    Queued,
}

/// One hold of a lock, from the first try to the release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Which lock.
    pub lock: LockId,
    /// On which CPU.
    pub cpu: u32,
    /// The way that it was come to.
    pub path: usize,
    /// When it was asked for.
    pub asked: Time,
    /// When it was had: later, where others held it.
    pub had: Time,
    /// When it was given back.
    pub released: Time,
}

#[derive(Debug)]
pub(super) struct Lock {
    spec: LockSpec,
    line: LineState,
    holder: Option<Hold>,
    queue: VecDeque<Waiter>,
    stats: Account,
}

impl Lock {
    pub(super) fn new(spec: LockSpec) -> Self {
        let (line, queue) = (LineState::default(), VecDeque::new());
        Lock { spec, line, holder: None, queue, stats: Account::new() }
    }

    /// The lock is had after a wait.
    fn had(&mut self, waiter: &Waiter, now: Time) {
        let path = &mut self.stats.paths[waiter.path];
        path.holds += 1;
        let wait = now - waiter.since;
        path.wait += wait;
        path.contended += u64::from(wait > Time::ZERO);
        self.stats.waits.add(wait);
        self.holder = Some(Hold { cpu: waiter.cpu, path: waiter.path, asked: waiter.since, since: now });
    }
}

impl Engine {
    /// Takes a lock, after all that came before. Holds do not nest: how long one takes is known for one at a time.
    pub fn acquire(&self, id: LockId, path: usize) {
        if !self.is_running() {
            return;
        }
        if self.come_to(id, path) == Turn::Queued {
            return self.go_on_with(id);
        }
        let lock = &self.locks[id.0 as usize];
        let waiter = Waiter { cpu: self.cpu(), path, since: self.now() };
        let mut lock = lock.borrow_mut();
        if lock.holder.is_none() || self.strikes(Plant::ZoneLockShared) {
            self.take(&mut lock, &waiter);
        } else {
            self.queue_up(&mut lock, waiter);
            drop(lock);
            // The release before ours makes us due: see `released`.
            fiber::suspend();
            self.go_on_with(id);
        }
    }

    /// Waits until this CPU is the earliest, for a lock: it goes on where that is free then. Where it is held the CPU queues
    /// without running for that, and goes on when it has the lock.
    fn come_to(&self, id: LockId, path: usize) -> Turn {
        if self.config.mode != Mode::Earliest {
            self.step();
            return Turn::Here;
        }
        if self.is_first() {
            return Turn::Here;
        }
        let coming = &self.cpus[self.cpu() as usize].coming;
        coming.set(Some((id, path)));
        self.order.set(self.slot(self.cpu()), self.now());
        fiber::suspend();
        if coming.take().is_some() { Turn::Here } else { Turn::Queued }
    }

    /// A CPU that waits for its turn is the earliest: whether it has come to a lock that is held, and now queues.
    pub(super) fn queues_up(&self, cpu: u32, time: Time) -> bool {
        let coming = &self.cpus[cpu as usize].coming;
        let Some((id, path)) = coming.get() else { return false };
        let mut lock = self.locks[id.0 as usize].borrow_mut();
        let held = lock.holder.is_some();
        if held {
            coming.set(None);
            self.order.set(self.slot(cpu), Time::NEVER);
            self.queue_up(&mut lock, Waiter { cpu, path, since: time });
        }
        held
    }

    /// Whoever waits leaves its core to the other thread.
    fn queue_up(&self, lock: &mut Lock, waiter: Waiter) {
        self.add_working(self.cpus[waiter.cpu as usize].core, -1);
        lock.queue.push_back(waiter);
    }

    /// The running CPU has a lock after a wait.
    fn go_on_with(&self, id: LockId) {
        self.add_working(self.running.core.get(), 1);
        self.pass(self.locks[id.0 as usize].borrow().spec.around);
    }

    /// Takes a lock if nobody holds it.
    pub fn try_acquire(&self, id: LockId, path: usize) -> bool {
        if !self.is_running() {
            return true;
        }
        self.before_lock();
        let mut lock = self.locks[id.0 as usize].borrow_mut();
        let free = lock.holder.is_none();
        if free {
            self.take(&mut lock, &Waiter { cpu: self.cpu(), path, since: self.now() });
        }
        free
    }

    /// A lock that nobody holds is had.
    fn take(&self, lock: &mut Lock, waiter: &Waiter) {
        lock.had(waiter, waiter.since);
        self.running.begin_hold(self.holds.draw(&self.random));
        if self.config.mode == Mode::Earliest {
            self.touch(&lock.line, lock.spec.home);
        }
        self.pass(self.config.atomic + lock.spec.around);
    }

    /// Gives a lock back. The caller runs ahead; others see the lock free when they have come to this time.
    pub fn release(&self, id: LockId) {
        self.give_back(id, true);
    }

    /// Ends an operation on a word that is no lock: each waits for the line until it is there, and nobody watches it.
    pub fn release_word(&self, id: LockId) {
        self.give_back(id, false);
    }

    fn give_back(&self, id: LockId, watched: bool) {
        if !self.is_running() {
            return;
        }
        let mut lock = self.locks[id.0 as usize].borrow_mut();
        if watched && !lock.queue.is_empty() && self.config.mode == Mode::Earliest {
            // The first waiter watches the line, which has to be got back from it to be written.
            let first = self.cpus[lock.queue[0].cpu as usize].core;
            self.caches.locate(&self.running, first, &lock.line, lock.spec.home);
            self.touch(&lock.line, lock.spec.home);
        }
        self.running.settle();
        self.running.hold.set(Factor::ONE);
        let now = self.now();
        if let Some(hold) = &lock.holder
            && self.config.mode == Mode::Earliest
        {
            let (path, time) = (hold.path, now - hold.since);
            self.log(id, hold, now);
            lock.stats.paths[path].hold += time;
            lock.stats.holds.add(time);
        }
        self.order.set(FIRST_LOCK + id.0 as usize, now);
    }

    /// From now on up to so many holds are kept, for [`Self::take_held`].
    pub fn keep_held(&self, most: usize) {
        self.held_room.set(most);
    }

    /// The holds that were kept, in the order of their ends on the host.
    pub fn take_held(&self) -> Vec<Held> {
        self.held_room.set(0);
        self.held.take()
    }

    fn log(&self, lock: LockId, hold: &Hold, released: Time) {
        if let Some(room) = self.held_room.get().checked_sub(1) {
            self.held_room.set(room);
            let Hold { cpu, path, asked, since: had } = *hold;
            self.held.borrow_mut().push(Held { lock, cpu, path, asked, had, released });
        }
    }

    /// The time of a release has come: the first in the queue has the lock once its line is there.
    pub(super) fn released(&self, id: LockId, time: Time) {
        self.order.set(FIRST_LOCK + id.0 as usize, Time::NEVER);
        let mut lock = self.locks[id.0 as usize].borrow_mut();
        lock.holder = None;
        let Some(next) = lock.queue.pop_front() else { return };
        if self.strikes(Plant::WaiterForgotten) {
            return;
        }
        let cpu = &self.cpus[next.cpu as usize];
        let source = self.caches.locate(&self.running, cpu.core, &lock.line, lock.spec.home);
        let handoff = self.caches.line_time(source);
        let now = time + self.lines.apply(handoff, &self.random);
        lock.had(&next, now);
        cpu.clock.set(now);
        cpu.hold.set(self.holds.draw(&self.random));
        cpu.settled.set(now);
        self.order.set(self.slot(next.cpu), now);
    }

    /// The next lock that this CPU takes is this one, on this path.
    pub(crate) fn announce(&self, id: LockId, path: usize) {
        self.announced.set(Some((id, path)));
    }

    /// What was announced, once.
    pub(crate) fn announced(&self) -> Option<(LockId, usize)> {
        self.announced.take()
    }

    /// How many locks there are.
    pub fn lock_count(&self) -> usize {
        self.locks.len()
    }

    /// What went on at a lock since the engine was built or [`Self::reset_locks`].
    pub fn lock_stats(&self, id: LockId) -> LockStats {
        let lock = self.locks[id.0 as usize].borrow();
        let Account { paths, waits, holds } = &lock.stats;
        LockStats { paths: *paths, waits: waits.histogram(), holds: holds.histogram() }
    }

    /// How long all have waited for a lock, as [`Self::lock_stats`] has it.
    pub(crate) fn lock_wait(&self, id: LockId) -> Time {
        self.locks[id.0 as usize].borrow().stats.paths.iter().map(|path| path.wait).sum()
    }

    /// Begins to account anew.
    pub fn reset_locks(&self) {
        self.locks.iter().for_each(|lock| lock.borrow_mut().stats = Account::new());
    }
}
