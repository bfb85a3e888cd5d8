//! CPU numbers and the lock, as the allocator asks for them.

use pageset::{CpuId, Machine};

use crate::lock::HostLock;
use crate::sys::cpu::CpuNumber;

/// A process on Linux.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    number: CpuNumber,
    /// How many CPUs the pool has caches for; at least 1.
    cpus: u32,
}

impl Host {
    pub(crate) fn new(cpus: u32) -> Host {
        Host { number: CpuNumber::find(), cpus: cpus.max(1) }
    }
}

impl Machine for Host {
    type Lock = HostLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        let cpu = self.number.get();
        // More CPUs than caches share them: the caches' locks make that harmless.
        CpuId(if cpu < self.cpus { cpu } else { cpu % self.cpus })
    }

    #[inline(always)]
    fn cpu_hint(&self) -> u32 {
        self.number.hint()
    }
}
