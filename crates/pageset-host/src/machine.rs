//! The allocator's view of a process on Linux: CPU numbers, and the locks of pagesets.

use pageset::{CpuHint, CpuId, Machine, RawLock};

use crate::lock::{HostLock, can_fence, on_cpu};
use crate::sys::cpu::CpuNumber;
use crate::sys::rseq::Rseq;
use crate::topology::possible_cpus;

/// A process on Linux.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    cpu_number: CpuNumber,
    /// The number of CPUs that have caches; at least 1.
    cpus: u32,
    /// Present if each CPU has a cache of its own and the process can run restartable sequences.
    rseq: Option<Rseq>,
}

impl Host {
    /// A process whose pool has caches for `cpus` CPUs. `restartable_sequences` allows their use.
    pub(crate) fn new(cpus: u32, restartable_sequences: bool) -> Host {
        // With fewer caches than CPUs, CPUs share caches, and a sequence excludes only threads of one CPU.
        let rseq = if restartable_sequences && cpus >= possible_cpus() { Rseq::find() } else { None };
        Host { cpu_number: CpuNumber::find(), cpus: cpus.max(1), rseq }
    }

    /// The restartable sequences that take the locks of caches, if the pool uses them.
    pub(crate) fn rseq(&self) -> Option<Rseq> {
        self.rseq
    }

    /// Whether the caller can now take the locks of all caches. False only if a filter of system calls that came after the
    /// pool refuses `membarrier`, and the system does not let the caller run on all online CPUs either.
    pub(crate) fn can_lock_all_caches(&self) -> bool {
        self.rseq.is_none_or(|rseq| can_fence(rseq, self.cpus))
    }

    /// Calls `body` on each CPU that the system lets the caller run on, and at least once.
    pub(crate) fn on_each_cpu(&self, mut body: impl FnMut()) {
        let visited = (0..self.cpus).filter(|&cpu| on_cpu(cpu, &mut body).is_some()).count();
        if visited == 0 {
            body();
        }
    }

    /// Whether `membarrier` lets the caller take the lock of a cache from any CPU.
    pub(crate) fn has_fences(&self) -> bool {
        self.rseq.is_none_or(|rseq| rseq.fence_cpu(0))
    }
}

/// The CPU of a thread that runs restartable sequences: the fast path of [`Host`], which needs only the CPU's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentCpu {
    rseq: Rseq,
    cpu: u32,
}

impl CurrentCpu {
    /// Reads the CPU of the calling thread.
    #[inline(always)]
    pub(crate) fn read(rseq: Rseq) -> CurrentCpu {
        CurrentCpu { rseq, cpu: rseq.cpu() }
    }
}

impl CpuHint<HostLock> for CurrentCpu {
    #[inline(always)]
    fn cpu(self) -> u32 {
        self.cpu
    }

    #[inline(always)]
    fn try_lock(self, lock: &HostLock) -> bool {
        lock.try_lock_local(self.rseq, self.cpu)
    }

    #[inline(always)]
    fn unlock(self, lock: &HostLock) {
        lock.unlock_local();
    }
}

impl Machine for Host {
    type Lock = HostLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        let cpu = self.cpu_number.get();
        #[cfg(test)]
        let cpu = pretended_cpu::get().unwrap_or(cpu);
        // With fewer caches than CPUs, CPUs share caches. The caches' locks make that harmless.
        CpuId(if cpu < self.cpus { cpu } else { cpu % self.cpus })
    }

    #[inline(always)]
    fn cpu_hint(&self) -> u32 {
        #[cfg(test)]
        if let Some(cpu) = pretended_cpu::get() {
            return cpu;
        }
        self.cpu_number.hint()
    }

    #[inline(always)]
    fn try_lock_pageset(&self, lock: &HostLock, cpu: CpuId) -> bool {
        match self.rseq {
            Some(rseq) => lock.try_lock_local(rseq, cpu.0),
            None => lock.try_lock(),
        }
    }

    fn lock_pageset(&self, lock: &HostLock, cpu: CpuId) {
        match self.rseq {
            Some(rseq) => lock.lock_remote(rseq, cpu.0),
            None => lock.lock(),
        }
    }
}

/// The CPU that a thread of a test pretends to run on: [`crate::PoolBuilder::pretended_cpus`].
#[cfg(test)]
pub(crate) mod pretended_cpu {
    use std::cell::Cell;

    thread_local! {
        static CPU: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(crate) fn get() -> Option<u32> {
        CPU.get()
    }

    pub(crate) fn set(cpu: u32) {
        CPU.set(Some(cpu));
    }
}
