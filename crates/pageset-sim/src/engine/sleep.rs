//! Sleep and wake-up of CPUs.

use super::{Engine, fiber};
use crate::time::Time;

impl Engine {
    /// Puts the running CPU to sleep until [`Self::wake`]. The other thread of its core then has the core to itself.
    /// The waker must have learned of the sleeper under a lock before.
    pub fn sleep(&self) {
        if self.is_running() {
            self.sleep_until(self.now());
        }
    }

    /// Sleeps until the waker has set this CPU's clock, to `until` or later.
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

    /// Puts the running CPU to sleep for `time`.
    pub fn rest(&self, time: Time) {
        if !self.is_running() {
            return;
        }
        let until = self.now() + time;
        self.order.set(self.slot(self.cpu()), until);
        self.sleep_until(until);
    }

    /// Wakes a sleeping CPU. It continues `latency` after the running CPU's present time.
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

    /// Discards sleep before `now`.
    pub fn reset_sleep(&self, now: Time) {
        for cpu in &self.cpus {
            cpu.slept.set(Time::ZERO);
            if cpu.asleep.get().is_some_and(|since| since < now) {
                cpu.asleep.set(Some(now));
            }
        }
    }
}
