//! Pagesets emptied from outside the free path: by time and by request.
//!
//! Specification: `linux-page-allocator.md` 8.1, 8.2.

use crate::allocator::Allocator;
use crate::frame::CpuId;
use crate::machine::Machine;

impl<M: Machine> Allocator<'_, M> {
    /// The caller's CPU, all zones: a second has passed. True when another tick has more to do. Specification 8.2.
    pub fn tick(&self) -> bool {
        let cpu = self.machine.cpu();
        self.zones.iter().fold(false, |more, zone| zone.tick(&self.machine, &self.tuning, cpu) | more)
    }

    /// As [`Self::tick`], for one zone by its number.
    pub fn tick_zone(&self, zone: usize) -> bool {
        self.zones[zone].tick(&self.machine, &self.tuning, self.machine.cpu())
    }

    /// Empties the caller's pagesets of all zones.
    pub fn drain(&self) {
        let cpu = self.machine.cpu();
        self.zones.iter().for_each(|zone| zone.drain_cpu(&self.machine, &self.tuning, cpu));
    }

    /// Empties all pagesets of all zones, each under its lock. Specification 8.1.
    pub fn drain_all(&self) {
        for zone in self.zones {
            for cpu in 0..zone.pagesets.len() {
                zone.drain_cpu(&self.machine, &self.tuning, CpuId(cpu as u32));
            }
        }
    }
}
