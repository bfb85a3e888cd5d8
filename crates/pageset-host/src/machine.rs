//! CPU numbers and the lock, as the allocator asks for them.

use pageset::{CpuId, Machine, RawLock, CpuHint};

use crate::lock::HostLock;
use crate::sys::cpu::CpuNumber;
use crate::sys::rseq::Rseq;
use crate::topology::possible_cpus;

/// A process on Linux.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    number: CpuNumber,
    /// How many CPUs the pool has caches for; at least 1.
    cpus: u32,
    /// Where each CPU has a cache of its own: how its threads take the cache's lock.
    sequences: Option<Rseq>,
}

impl Host {
    /// Caches for so many CPUs; their locks without an exchange, if that is wanted and can be had.
    pub(crate) fn new(cpus: u32, sequences: bool) -> Host {
        let sequences = if sequences && cpus >= possible_cpus() { Rseq::find() } else { None };
        Host { number: CpuNumber::find(), cpus: cpus.max(1), sequences }
    }

    /// How threads take the locks of their CPUs' caches without an exchange, where they do.
    pub(crate) fn sequences(&self) -> Option<Rseq> {
        self.sequences
    }
}

/// Where a thread is that runs sequences: the short way of [`Host`], with nothing left to ask but the CPU's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentCpu {
    sequences: Rseq,
    cpu: u32,
}

impl CurrentCpu {
    #[inline(always)]
    pub(crate) fn of(sequences: Rseq) -> CurrentCpu {
        CurrentCpu { sequences, cpu: sequences.cpu() }
    }
}

impl CpuHint<HostLock> for CurrentCpu {
    #[inline(always)]
    fn cpu(self) -> u32 {
        self.cpu
    }

    #[inline(always)]
    fn try_lock(self, lock: &HostLock) -> bool {
        lock.try_lock_local(self.sequences, self.cpu)
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
        let cpu = self.number.get();
        // More CPUs than caches share them: the caches' locks make that harmless.
        CpuId(if cpu < self.cpus { cpu } else { cpu % self.cpus })
    }

    #[inline(always)]
    fn cpu_hint(&self) -> u32 {
        self.number.hint()
    }

    #[inline(always)]
    fn try_lock_pageset(&self, lock: &HostLock, cpu: CpuId) -> bool {
        match self.sequences {
            Some(sequences) => lock.try_lock_local(sequences, cpu.0),
            None => lock.try_lock(),
        }
    }

    fn lock_pageset(&self, lock: &HostLock, cpu: CpuId) {
        match self.sequences {
            Some(sequences) => lock.lock_remote(sequences, cpu.0),
            None => lock.lock(),
        }
    }
}
