//! Combining locks: the holder executes the critical sections of waiting CPUs, instead of passing the lock to them.
//!
//! A waiting CPU leaves its request in a line of its own and polls this line. At the end of its own section the holder
//! becomes the combiner. It fetches the line of the oldest request, executes the section, and writes the line, which it
//! must fetch back from the polling CPU. Then it goes on with the next request while the line travels to its owner. So a
//! request costs the combiner two transfers, as many as a handover costs a queue. But the lines that the sections touch
//! stay in the combiner's core.
//!
//! The section's own fiber runs it, on the combiner's core: with its caches, its socket and the slowdown by its other
//! thread. The waiting CPU counts as polling meanwhile.

use std::cell::RefMut;

use super::lock::{Lock, Waiter};
use super::lock_kind::{Combiner, LockKind};
use super::topology::Core;
use super::{Engine, fiber};
use crate::time::Time;

impl Lock {
    /// Whether the lock combines.
    pub(super) fn combines(&self) -> bool {
        self.spec.kind != LockKind::Queue
    }

    /// The combiner that executes the next section, if there are a combiner and a request, and the combiner may go on.
    fn goes_on(&mut self) -> Option<u32> {
        let LockKind::Combining { most } = self.spec.kind else { return None };
        let combiner = self.combiner.as_mut().filter(|combiner| combiner.executed < most && !self.queue.is_empty())?;
        combiner.executed += 1;
        Some(combiner.cpu)
    }
}

impl Engine {
    /// Whether the running CPU's section runs on a combiner's core.
    pub(super) fn is_served(&self) -> bool {
        self.cpus[self.cpu() as usize].served_on.get().is_some()
    }

    /// Writes the request's line at the end of a section on a combiner's core.
    pub(super) fn answer(&self) {
        let cpu = &self.cpus[self.cpu() as usize];
        if cpu.served_on.get().is_some() {
            let node = self.config.topology.socket_of(cpu.core);
            // The waiting CPU polls the line.
            self.caches.locate(&self.running, cpu.core, &cpu.request, node);
            self.touch(&cpu.request, node);
        }
    }

    /// Ends the running CPU's section at `now`. A CPU that had the lock combines until the queue is empty or `most` sections are done; a
    /// CPU that was served continues on its own core when it has its line back.
    pub(super) fn end_section(&self, mut lock: RefMut<'_, Lock>, path: usize, now: Time) {
        let cpu = &self.cpus[self.cpu() as usize];
        if cpu.served_on.take().is_none() {
            lock.combiner = Some(Combiner { cpu: self.cpu(), path, since: now, executed: 1 });
            drop(lock);
            // `end_combining` makes this CPU due.
            fiber::suspend();
            return;
        }
        self.move_to(cpu.core);
        self.touch(&cpu.request, self.config.topology.socket_of(cpu.core));
        lock.add_wait(path, self.now() - now);
        self.add_spinning(cpu.core, -1);
    }

    /// Lets the running CPU's code run on a core from now on.
    fn move_to(&self, core: Core) {
        let running = &self.running;
        self.caches.set_tag(running.core.replace(core), running.tag.get());
        running.tag.set(self.caches.tag(core));
        running.clock_permille.set(self.clock_permille(core));
        self.update_smt_slowdown();
    }

    /// The core on which the next section runs, if a combiner executes it, and the time at which the lock is free for it.
    /// A section ended at `time`.
    pub(super) fn next_core(&self, lock: &mut Lock, time: Time) -> (Option<Core>, Time) {
        match lock.goes_on() {
            Some(combiner) => (Some(self.cpus[combiner as usize].core), time),
            None => (None, self.end_combining(lock, time)),
        }
    }

    /// Ends the work of a lock's combiner, if it has one, at `time`. Returns the time at which the lock is free.
    fn end_combining(&self, lock: &mut Lock, time: Time) -> Time {
        let Some(combiner) = lock.combiner.take() else { return time };
        let cpu = &self.cpus[combiner.cpu as usize];
        let mut free = time;
        if let Some(next) = lock.queue.front() {
            // The first waiter polls the line, so the combiner must fetch the line back before it can write.
            let next = self.cpus[next.cpu as usize].core;
            self.caches.locate(&self.running, next, &lock.line, lock.spec.node);
            let back = self.caches.locate(&self.running, cpu.core, &lock.line, lock.spec.node);
            free += self.line_variation.apply(self.caches.line_time(cpu.core, back), &self.random);
        }
        // The time for others is lost to the lock like a wait.
        lock.add_wait(combiner.path, free - combiner.since);
        cpu.clock.set(free);
        self.order.set(self.slot(combiner.cpu), free);
        free
    }

    /// Hands a waiting CPU's section to a combiner's core. Returns the latency of the request's line.
    pub(super) fn hand_to(&self, core: Core, waiter: &Waiter) -> Time {
        let cpu = &self.cpus[waiter.cpu as usize];
        let node = self.config.topology.socket_of(cpu.core);
        cpu.served_on.set(Some(core));
        self.caches.locate(&self.running, cpu.core, &cpu.request, node);
        self.caches.line_time(core, self.caches.locate(&self.running, core, &cpu.request, node))
    }
}
