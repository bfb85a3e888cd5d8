//! Which CPUs are online, and CPUs that come and go while the allocator runs.
//!
//! Specification: `linux-page-allocator.md` 2.2, 8.3.

use crate::alloc::Allocator;
use crate::alloc::error::HotplugError;
use crate::frame::CpuId;
use crate::machine::Machine;

impl<M: Machine> Allocator<'_, M> {
    /// Whether a CPU is online. All possible ones are at the start; what is not possible never is.
    #[must_use]
    pub fn is_cpu_online(&self, cpu: CpuId) -> bool {
        (cpu.0 as usize) < self.rules.cpus.len() && self.rules.online.contains(cpu)
    }

    /// A CPU goes away: its pages of all zones go back, and bounds are computed anew for the CPUs that are left, each of
    /// which may then keep more, as far as its pagesets have room. Waits for the locks of pagesets. Specification 8.3.
    ///
    /// Threads that looked up their CPU's number before may still allocate and free there, at any time. From the return
    /// of this call to the CPU's return, its pagesets keep nothing: such calls pass through them block by block, and once
    /// they have ended no page is left there.
    ///
    /// # Errors
    /// The CPU is not possible, not online, or the last that is; nothing has changed.
    pub fn cpu_offline(&self, cpu: CpuId) -> Result<(), HotplugError> {
        {
            let changes = self.change();
            if !self.check_possible(cpu)? {
                return Err(HotplugError::Offline(cpu));
            }
            if self.online_cpus().count() == 1 {
                return Err(HotplugError::LastCpu(cpu));
            }
            self.rules.online.change(cpu, false);
            self.recompute_bounds(&changes);
        }
        // Only now: what comes in from here on goes on to the buddy at once.
        self.zones.iter().for_each(|zone| zone.drain_cpu(self.env(), cpu));
        Ok(())
    }

    /// A CPU comes, or comes back: it counts among those that share the zones, and its pagesets keep pages again. They
    /// remember what they did, as those of an idle CPU. Waits for the locks of pagesets. Specification 8.3.
    ///
    /// # Errors
    /// The CPU is not possible, or online already; nothing has changed.
    pub fn cpu_online(&self, cpu: CpuId) -> Result<(), HotplugError> {
        let changes = self.change();
        if self.check_possible(cpu)? {
            return Err(HotplugError::Online(cpu));
        }
        self.rules.online.change(cpu, true);
        self.recompute_bounds(&changes);
        Ok(())
    }

    /// Whether a CPU that the map knows is online.
    fn check_possible(&self, cpu: CpuId) -> Result<bool, HotplugError> {
        let possible = self.rules.cpus.len();
        if cpu.0 as usize >= possible {
            return Err(HotplugError::NoSuchCpu { cpu, possible });
        }
        Ok(self.rules.online.contains(cpu))
    }

    /// The online CPUs.
    pub(crate) fn online_cpus(&self) -> impl Iterator<Item = CpuId> {
        self.possible_cpus().filter(|cpu| self.rules.online.contains(*cpu))
    }

    /// All CPUs that the map knows.
    pub(crate) fn possible_cpus(&self) -> impl Iterator<Item = CpuId> + use<M> {
        (0..self.rules.cpus.len() as u32).map(CpuId)
    }
}
