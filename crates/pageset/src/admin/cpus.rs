//! The online CPUs, and CPUs that come and go while the allocator runs.
//!
//! Specification: `linux-page-allocator.md` 2.2, 8.3.

use crate::alloc::Allocator;
use crate::alloc::error::HotplugError;
use crate::frame::CpuId;
use crate::machine::Machine;

impl<M: Machine> Allocator<'_, M> {
    /// Whether a CPU is online. At the start all possible CPUs are. A CPU that is not possible never is.
    #[must_use]
    pub fn is_cpu_online(&self, cpu: CpuId) -> bool {
        (cpu.0 as usize) < self.rules.cpus.len() && self.rules.online.contains(cpu)
    }

    /// Takes a CPU offline: drains its pagesets of all zones, and computes the bounds for the remaining CPUs. Each of
    /// them may then keep more, up to the capacity of its pagesets. Waits for the pagesets' locks. Specification 8.3.
    ///
    /// Threads that read their CPU number before may still allocate and free there at any time. After this call
    /// returns, the CPU's pagesets keep nothing until the CPU is online again: such calls pass through them block by
    /// block, and leave no page there.
    ///
    /// # Errors
    /// The CPU is not possible, not online, or the last online one. Nothing has changed.
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
        // The drain comes last: blocks freed from here on go to the buddy at once.
        self.zones.iter().for_each(|zone| zone.drain_cpu(self.env(), cpu));
        Ok(())
    }

    /// Brings a CPU online: it counts among the CPUs that share the zones, and its pagesets keep pages again. Their
    /// state is as it was before, like that of an idle CPU. Waits for the pagesets' locks. Specification 8.3.
    ///
    /// # Errors
    /// The CPU is not possible, or already online. Nothing has changed.
    pub fn cpu_online(&self, cpu: CpuId) -> Result<(), HotplugError> {
        let changes = self.change();
        if self.check_possible(cpu)? {
            return Err(HotplugError::Online(cpu));
        }
        self.rules.online.change(cpu, true);
        self.recompute_bounds(&changes);
        Ok(())
    }

    /// Whether a possible CPU is online; an error if the CPU is not possible.
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

    /// All possible CPUs.
    pub(crate) fn possible_cpus(&self) -> impl Iterator<Item = CpuId> + use<M> {
        (0..self.rules.cpus.len() as u32).map(CpuId)
    }
}
