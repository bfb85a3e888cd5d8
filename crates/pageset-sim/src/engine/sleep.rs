//! CPUs that sleep until another wakes them.

use super::{Engine, fiber};
use crate::time::Time;

impl Engine {
    /// The running CPU sleeps until [`Self::wake`]; the other thread of its core has the core to itself meanwhile. Whoever
    /// is to wake it must have been told under a lock before.
    pub fn sleep(&self) {
        if self.is_running() {
            self.sleep_until(self.now());
        }
    }

    /// Sleeps until whoever wakes this CPU has set its clock, which is at least `until` then.
    fn sleep_until(&self, until: Time) {
        self.running.settle();
        let cpu = &self.cpus[self.cpu() as usize];
        cpu.asleep.set(Some(self.now()));
        self.add_working(cpu.core, -1);
        fiber::suspend();
        self.add_working(cpu.core, 1);
        self.running.clock.set(self.now().max(until));
        if let Some(since) = cpu.asleep.take() {
            cpu.slept.set(cpu.slept.get() + (self.now() - since));
        }
    }

    /// The running CPU sleeps for a while.
    pub fn rest(&self, time: Time) {
        if !self.is_running() {
            return;
        }
        let until = self.now() + time;
        self.order.set(self.slot(self.cpu()), until);
        self.sleep_until(until);
    }

    /// Wakes a CPU that sleeps; it goes on so long after the running CPU's present.
    pub fn wake(&self, cpu: u32, latency: Time) {
        self.running.settle();
        let at = self.now().max(self.clock(cpu)) + latency;
        self.set_clock(cpu, at);
        self.order.set(self.slot(cpu), at);
    }

    /// How long a CPU has slept since [`Self::reset_sleep`], up to `now`.
    pub fn slept(&self, cpu: u32, now: Time) -> Time {
        let cpu = &self.cpus[cpu as usize];
        let open = cpu.asleep.get().filter(|since| *since < now).map_or(Time::ZERO, |since| now - since);
        cpu.slept.get() + open
    }

    /// Sleep before `now` does not count.
    pub fn reset_sleep(&self, now: Time) {
        for cpu in &self.cpus {
            cpu.slept.set(Time::ZERO);
            if cpu.asleep.get().is_some_and(|since| since < now) {
                cpu.asleep.set(Some(now));
            }
        }
    }
}
