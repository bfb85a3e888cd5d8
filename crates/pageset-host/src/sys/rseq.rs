//! Restartable sequences (rseq): threads take the lock of their own CPU without an atomic exchange.
//!
//! If the kernel interrupts or moves a thread inside the sequence below, the thread continues at the sequence's failure
//! label. So no two threads of one CPU are inside the sequence at once, and plain loads and stores decide who takes the
//! lock.
//!
//! A thread on another CPU sets a second byte, and makes the kernel interrupt the threads of the lock's CPU
//! (`membarrier`). From then on, each sequence sees that byte.
//!
//! An exchange costs 2 to 8 ns, and an allocation and its free would need two. A remote acquisition costs a system call
//! of about 1 µs, but only drains and changes of settings need it. A thread on the lock's CPU needs no call: when it began
//! to run there, the kernel interrupted the sequences of other threads.
//!
//! Source of the technique: the restartable sequences of Paul Turner and Andrew Hunter, as in TCMalloc's per-CPU mode.
//! Source of the layout of `struct rseq` and `struct rseq_cs`: `linux/rseq.h`, a stable interface of the kernel.

use std::num::NonZeroIsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use rustix::thread::{Cpuid, MembarrierCommand, membarrier, membarrier_cpu};

use super::cpu::CpuNumber;

/// The two bytes of a lock.
#[derive(Debug, Default)]
pub(crate) struct LockBytes {
    /// True while a thread holds the lock that took it in a sequence.
    pub(crate) local: AtomicBool,
    /// True while a thread holds or wants the lock that takes it with an exchange.
    pub(crate) remote: AtomicBool,
}

/// Proof that this process can run restartable sequences, and could interrupt those of other CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rseq {
    /// The distance of `rseq.cpu_id` from the thread pointer in bytes.
    offset: NonZeroIsize,
}

impl Rseq {
    /// Finds out whether the process can. The result is `None` on other architectures than x86-64, before Linux 5.10, and
    /// without a registered `struct rseq`. It is also `None` while a filter of system calls forbids `membarrier`.
    pub(crate) fn find() -> Option<Rseq> {
        static FOUND: OnceLock<Option<Rseq>> = OnceLock::new();
        let found = *FOUND.get_or_init(|| {
            let offset = CpuNumber::find().offset()?;
            membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).ok()?;
            Some(Rseq { offset })
        });
        // A filter may have come since the first call.
        found.filter(|rseq| rseq.fence_cpu(0))
    }

    /// Encodes the value in a word. 0 is `None`.
    pub(super) fn to_word(rseq: Option<Rseq>) -> isize {
        rseq.map_or(0, |rseq| rseq.offset.get())
    }

    /// Decodes a word of [`Self::to_word`] from this process.
    #[inline(always)]
    pub(super) fn from_word(word: isize) -> Option<Rseq> {
        NonZeroIsize::new(word).map(|offset| Rseq { offset })
    }

    /// The CPU that the caller runs on. If the kernel refused to register the thread, the result is no CPU number.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        super::cpu::read(self.offset.get()) as u32
    }

    /// Sets `local` and returns true if both bytes are false and the caller runs on `cpu`. Returns false otherwise, and
    /// if the kernel interrupted the caller meanwhile.
    #[inline(always)]
    pub(crate) fn try_set_local(self, bytes: &LockBytes, cpu: u32) -> bool {
        try_set_local(self.offset.get(), bytes, cpu)
    }

    /// Whether the caller runs on `cpu`. If so, the call has the effect of [`Self::fence_cpu`]: all sequences of other
    /// threads on `cpu` were interrupted when the caller began to run there.
    ///
    /// The caller's earlier writes must include an atomic exchange, so that the CPU number is read after them.
    pub(crate) fn is_fenced_by_running_on(self, cpu: u32) -> bool {
        let here = self.cpu() == cpu;
        // The caller's later loads come after the load of the CPU number. The processor keeps the order of loads.
        compiler_fence(Ordering::SeqCst);
        here
    }

    /// Interrupts the sequences on `cpu`, so that later ones see the caller's earlier writes. Returns false if the kernel
    /// refuses.
    pub(crate) fn fence_cpu(self, cpu: u32) -> bool {
        // SAFETY: the kernel only compares the number with those of its CPUs; it names no memory.
        let cpu = unsafe { Cpuid::from_raw(cpu) };
        membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu).is_ok()
    }
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[inline(always)]
fn try_set_local(offset: isize, bytes: &LockBytes, cpu: u32) -> bool {
    // SAFETY: (1) `offset` came from glibc, which keeps an area for each thread as long as the thread runs. An area that the
    // kernel refused to register holds no CPU number, so the comparison fails. (2) The sequence meets the kernel's rules.
    // The descriptor is aligned to 32 bytes. The code removes it from the area before the library can be unloaded. The
    // signature that glibc registers stands before the abort label. The abort label is outside the sequence. (3) The
    // last instruction of the sequence is its only store to the bytes, so an aborted sequence has changed nothing.
    // (4) Both bytes are atomics. Loads acquire and stores release on this architecture: the loads pair with the stores
    // in `HostLock::unlock` and `unlock_local`. (5) The code uses no stack, and writes only registers that are named.
    unsafe {
        std::arch::asm!(
            // struct rseq_cs: version, flags, start, length, abort label.
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "5:",
            ".long 0, 0",
            ".quad 6f, 7f - 6f, 8f",
            ".popsection",
            ".pushsection .text.unlikely.pageset_sequence, \"ax\", @progbits",
            // The signature is the operand of an instruction that never runs.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "8:",
            "mov qword ptr fs:[{offset} + 4], 0",
            "jmp {failed}",
            ".popsection",
            // Store the descriptor in rseq.rseq_cs, the word after rseq.cpu_id.
            "lea {descriptor}, [rip + 5b]",
            "mov qword ptr fs:[{offset} + 4], {descriptor}",
            "6:",
            "cmp dword ptr fs:[{offset}], {cpu:e}",
            "jne 8b",
            // Two byte loads: one wider load would wait until the last unlock's store leaves the store buffer.
            "cmp byte ptr [{bytes} + {local}], 0",
            "jne 8b",
            "cmp byte ptr [{bytes} + {remote}], 0",
            "jne 8b",
            "mov byte ptr [{bytes} + {local}], 1",
            "7:",
            // The kernel reads the descriptor whenever it interrupts the thread, even after the library is unloaded.
            "mov qword ptr fs:[{offset} + 4], 0",
            descriptor = out(reg) _,
            offset = in(reg) offset,
            cpu = in(reg) cpu,
            bytes = in(reg) bytes,
            local = const std::mem::offset_of!(LockBytes, local),
            remote = const std::mem::offset_of!(LockBytes, remote),
            failed = label { return false },
            options(nostack)
        );
    }
    true
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
fn try_set_local(_offset: isize, _bytes: &LockBytes, _cpu: u32) -> bool {
    false
}
