//! Locks with a first-come, first-served queue, and statistics of waits and holds.

use std::collections::VecDeque;

use super::cache::LineState;
use super::jitter::Factor;
use super::{Engine, FIRST_LOCK, Mode, PlantedBug, Socket, fiber};
use crate::time::Time;

/// The number of an engine's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockId(pub u32);

/// The description of a lock for [`Engine::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockSpec {
    /// The node of the lock's memory.
    pub node: Socket,
    /// Time of the instructions around each hold.
    pub around: Time,
}

/// Number of lock paths, each with its own statistics: as many as the allocator has for zone locks.
pub const PATHS: usize = pageset::LockPath::COUNT;

/// Statistics of one path to a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathStats {
    /// Acquisitions.
    pub holds: u64,
    /// Acquisitions after a wait.
    pub contended: u64,
    /// Total wait, from the first try to the acquisition.
    pub wait: Time,
    /// Total hold.
    pub hold: Time,
}

/// Statistics of a lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockStats {
    /// Statistics by path.
    pub paths: [PathStats; PATHS],
}

impl LockStats {
    /// Total wait of all paths.
    pub fn wait(&self) -> Time {
        self.paths.iter().map(|path| path.wait).sum()
    }

    /// Number of holds of all paths.
    pub fn count(&self) -> u64 {
        self.paths.iter().map(|path| path.holds).sum()
    }
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) cpu: u32,
    path: usize,
    since: Time,
}

#[derive(Debug)]
pub(super) struct Hold {
    path: usize,
    since: Time,
}

/// The result of waiting for the turn to try a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// The CPU is the earliest and tries the lock itself.
    Here,
    /// The lock was held; the CPU went through the queue and holds the lock now.
    Queued,
}

#[derive(Debug)]
pub(super) struct Lock {
    pub(super) spec: LockSpec,
    pub(super) line: LineState,
    pub(super) holder: Option<Hold>,
    pub(super) queue: VecDeque<Waiter>,
    stats: LockStats,
}

impl Lock {
    pub(super) fn new(spec: LockSpec) -> Self {
        let (line, queue) = (LineState::default(), VecDeque::new());
        Lock { spec, line, holder: None, queue, stats: LockStats::default() }
    }

    /// Records the acquisition by `waiter` at `now`.
    fn had(&mut self, waiter: &Waiter, now: Time) {
        let path = &mut self.stats.paths[waiter.path];
        path.holds += 1;
        let wait = now - waiter.since;
        path.wait += wait;
        path.contended += u64::from(wait > Time::ZERO);
        self.holder = Some(Hold { path: waiter.path, since: now });
    }
}

impl Engine {
    /// Takes a lock, after all earlier events. Holds must not nest, because only one hold factor is active at a time.
    pub fn acquire(&self, id: LockId, path: usize) {
        if !self.is_running() {
            return;
        }
        if self.wait_to_try(id, path) == Turn::Queued {
            return self.resume_with_lock(id);
        }
        let lock = &self.locks[id.0 as usize];
        let waiter = Waiter { cpu: self.cpu(), path, since: self.now() };
        let mut lock = lock.borrow_mut();
        if lock.holder.is_none() || self.strikes(PlantedBug::ZoneLockShared) {
            self.take(&mut lock, &waiter);
        } else {
            self.enqueue(&mut lock, waiter);
            drop(lock);
            // The previous holder's release makes this CPU due, see `released`.
            fiber::suspend();
            self.resume_with_lock(id);
        }
    }

    /// Waits until this CPU is the earliest and may try a lock. If the lock is held then, the CPU queues without a
    /// switch to it, and returns when it holds the lock.
    fn wait_to_try(&self, id: LockId, path: usize) -> Turn {
        if self.config.mode != Mode::Earliest {
            self.step();
            return Turn::Here;
        }
        if self.is_earliest() {
            return Turn::Here;
        }
        let waiting_to_try = &self.cpus[self.cpu() as usize].waiting_to_try;
        waiting_to_try.set(Some((id, path)));
        self.order.set(self.slot(self.cpu()), self.now());
        fiber::suspend();
        if waiting_to_try.take().is_some() { Turn::Here } else { Turn::Queued }
    }

    /// Puts a CPU that waits to try a lock into the lock's queue, if the lock is held. Returns whether it did.
    pub(super) fn queue_if_held(&self, cpu: u32, time: Time) -> bool {
        let waiting_to_try = &self.cpus[cpu as usize].waiting_to_try;
        let Some((id, path)) = waiting_to_try.get() else { return false };
        let mut lock = self.locks[id.0 as usize].borrow_mut();
        let held = lock.holder.is_some();
        if held {
            waiting_to_try.set(None);
            self.order.set(self.slot(cpu), Time::NEVER);
            self.enqueue(&mut lock, Waiter { cpu, path, since: time });
        }
        held
    }

    /// Puts a CPU into a lock's queue.
    fn enqueue(&self, lock: &mut Lock, waiter: Waiter) {
        self.add_spinning(self.cpus[waiter.cpu as usize].core, 1);
        lock.queue.push_back(waiter);
    }

    /// Continues the running CPU after it got a lock from the queue.
    fn resume_with_lock(&self, id: LockId) {
        self.add_spinning(self.running.core.get(), -1);
        self.pass(self.locks[id.0 as usize].borrow().spec.around);
    }

    /// Takes a lock if it is free, after all earlier events. Returns whether it did.
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

    /// The lock is free.
    fn take(&self, lock: &mut Lock, waiter: &Waiter) {
        lock.had(waiter, waiter.since);
        self.running.begin_hold(self.hold_variation.draw(&self.random));
        if self.config.mode == Mode::Earliest {
            self.touch(&lock.line, lock.spec.node);
        }
        self.pass(self.config.atomic + lock.spec.around);
    }

    /// Releases a lock. The caller runs ahead; others see the lock free when they reach the release time.
    pub fn release(&self, id: LockId) {
        self.give_back(id, true);
    }

    /// Ends an operation on a shared word that is not a lock: others wait for its line, but none polls it.
    pub fn release_word(&self, id: LockId) {
        self.give_back(id, false);
    }

    fn give_back(&self, id: LockId, watched: bool) {
        if !self.is_running() {
            return;
        }
        let mut lock = self.locks[id.0 as usize].borrow_mut();
        if watched && !lock.queue.is_empty() && self.config.mode == Mode::Earliest {
            // The first waiter polls the line, so the holder must fetch the line back before it can write.
            let first = self.cpus[lock.queue[0].cpu as usize].core;
            self.caches.locate(&self.running, first, &lock.line, lock.spec.node);
            self.touch(&lock.line, lock.spec.node);
        }
        self.running.settle();
        self.running.hold.set(Factor::ONE);
        let now = self.now();
        if let Some(hold) = &lock.holder
            && self.config.mode == Mode::Earliest
        {
            let (path, time) = (hold.path, now - hold.since);
            lock.stats.paths[path].hold += time;
        }
        self.order.set(FIRST_LOCK + id.0 as usize, now);
    }

    /// Processes a release: the first waiter gets the lock as soon as it has the line.
    pub(super) fn released(&self, id: LockId, time: Time) {
        self.order.set(FIRST_LOCK + id.0 as usize, Time::NEVER);
        let mut lock = self.locks[id.0 as usize].borrow_mut();
        lock.holder = None;
        let Some(next) = lock.queue.pop_front() else { return };
        if self.strikes(PlantedBug::WaiterForgotten) {
            return;
        }
        let cpu = &self.cpus[next.cpu as usize];
        let source = self.caches.locate(&self.running, cpu.core, &lock.line, lock.spec.node);
        let handoff = self.caches.line_time(cpu.core, source);
        let now = time + self.line_variation.apply(handoff, &self.random);
        lock.had(&next, now);
        cpu.clock.set(now);
        cpu.hold.set(self.hold_variation.draw(&self.random));
        cpu.settled.set(now);
        self.order.set(self.slot(next.cpu), now);
    }

    /// Announces the next lock that this CPU takes, and its path.
    pub(crate) fn announce(&self, id: LockId, path: usize) {
        self.announced.set(Some((id, path)));
    }

    /// The announced lock and path. The announcement is cleared.
    pub(crate) fn announced(&self) -> Option<(LockId, usize)> {
        self.announced.take()
    }

    /// Statistics of a lock since the engine was built or since [`Self::reset_locks`].
    pub fn lock_stats(&self, id: LockId) -> LockStats {
        self.locks[id.0 as usize].borrow().stats
    }

    /// Total wait for a lock, as in [`Self::lock_stats`].
    pub(crate) fn lock_wait(&self, id: LockId) -> Time {
        self.locks[id.0 as usize].borrow().stats.wait()
    }

    /// Resets the statistics of all locks.
    pub fn reset_locks(&self) {
        self.locks.iter().for_each(|lock| lock.borrow_mut().stats = LockStats::default());
    }
}
