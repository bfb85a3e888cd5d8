//! Restartable sequences: a lock of a CPU's own that its threads take without an atomic exchange.
//!
//! A thread that is interrupted or moved within the sequence below goes on where the kernel sends it: not in the
//! middle, but at its failure. So on one CPU no two threads are within it at once, and plain loads and stores decide who
//! has the lock. Another CPU that wants it says so in a second byte and lets the kernel interrupt whoever runs there
//! (`membarrier`): from then on each sequence sees that byte. An exchange is 2 to 8 ns, and an allocation and its free would
//! have two of them; the way from afar is a system call of about a microsecond, for ticks and drains.
//!
//! The technique is that of Paul Turner's and Andrew Hunter's restartable sequences, as in TCMalloc's per-CPU mode. The
//! layout of `struct rseq` and `struct rseq_cs` is the kernel's published interface, `linux/rseq.h`.

use std::mem::offset_of;
use std::num::NonZeroIsize;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use rustix::thread::{Cpuid, MembarrierCommand, membarrier, membarrier_cpu};

use super::cpu::CpuNumber;

/// The two bytes of a lock.
#[derive(Debug, Default)]
pub(crate) struct LockBytes {
    /// True while a thread has it that took it by a sequence.
    pub(crate) local: AtomicBool,
    /// True while a thread has or wants it that took it by an exchange.
    pub(crate) remote: AtomicBool,
}

/// That this process can run sequences: its threads' areas are where `offset` says, and other CPUs can be interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rseq {
    /// From the thread pointer to `rseq.cpu_id`, in bytes.
    offset: NonZeroIsize,
}

impl Rseq {
    /// Finds out once for the process: not on other architectures, before Linux 5.10, where the C library registers no
    /// areas, or where a filter of system calls forbids `membarrier`.
    pub(crate) fn find() -> Option<Rseq> {
        static FOUND: OnceLock<Option<Rseq>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let offset = CpuNumber::find().offset()?;
            membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).ok()?;
            Some(Rseq { offset }).filter(|_| fence_cpu(0))
        })
    }

    /// As a word: 0 for none.
    pub(super) fn word(found: Option<Rseq>) -> isize {
        found.map_or(0, |found| found.offset.get())
    }

    /// Of [`Self::word`], given in this process.
    #[inline(always)]
    pub(super) fn from_word(word: isize) -> Option<Rseq> {
        NonZeroIsize::new(word).map(|offset| Rseq { offset })
    }

    /// The CPU that the caller runs on; a number that is no CPU's where the kernel refused the thread's registration.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        super::cpu::read(self.offset.get()) as u32
    }

    /// Sets `here` if both are false and the caller runs on `cpu`; false else, and where it was interrupted meanwhile.
    #[inline(always)]
    pub(crate) fn try_set_local(self, bytes: &LockBytes, cpu: u32) -> bool {
        try_set_local(self.offset.get(), bytes, cpu)
    }

    /// Whether no sequence on `cpu` is still running that has not seen what the caller wrote before: false where the kernel
    /// refuses to see to it.
    pub(crate) fn fence_cpu(self, cpu: u32) -> bool {
        fence_cpu(cpu)
    }
}

/// Whether the kernel has interrupted each sequence that ran on a CPU.
fn fence_cpu(cpu: u32) -> bool {
    // SAFETY: the kernel compares the number with those of its CPUs; it names no memory.
    let cpu = unsafe { Cpuid::from_raw(cpu) };
    membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu).is_ok()
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[inline(always)]
fn try_set_local(offset: isize, bytes: &LockBytes, cpu: u32) -> bool {
    // SAFETY: (1) `offset` came from glibc, which keeps an area for each of its threads as long as the thread runs; one that
    // the kernel refused to register holds no CPU's number, and the comparison fails; (2) the sequence is described as the
    // kernel wants it: the descriptor is aligned to 32 bytes and is taken out of the area before this code can be
    // unloaded, the signature that glibc registers comes before the label for interruptions, and that label is outside
    // of the sequence; (3) the last instruction of the sequence is its only store to the bytes, so that given up it has
    // done nothing; (4) both bytes are atomics; loads acquire and stores release on this architecture; (5) no stack is
    // used, and no register is written that is not named.
    unsafe {
        std::arch::asm!(
            // struct rseq_cs: version, flags, start, length, where to go on after an interruption.
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "5:",
            ".long 0, 0",
            ".quad 6f, 7f - 6f, 8f",
            ".popsection",
            ".pushsection .text.unlikely.pageset_sequence, \"ax\", @progbits",
            // The signature, as the operand of an instruction that is never run.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "8:",
            "mov qword ptr fs:[{offset} + 4], 0",
            "jmp {failed}",
            ".popsection",
            // rseq.rseq_cs, the word after rseq.cpu_id.
            "lea {descriptor}, [rip + 5b]",
            "mov qword ptr fs:[{offset} + 4], {descriptor}",
            "6:",
            "cmp dword ptr fs:[{offset}], {cpu:e}",
            "jne 8b",
            // Each byte alone: a wider load would wait for the last unlock's store to leave the store buffer.
            "cmp byte ptr [{bytes} + {local}], 0",
            "jne 8b",
            "cmp byte ptr [{bytes} + {remote}], 0",
            "jne 8b",
            "mov byte ptr [{bytes} + {local}], 1",
            "7:",
            // The kernel reads the descriptor whenever it interrupts the thread: none may be left of a library that is
            // unloaded.
            "mov qword ptr fs:[{offset} + 4], 0",
            descriptor = out(reg) _,
            offset = in(reg) offset,
            cpu = in(reg) cpu,
            bytes = in(reg) bytes,
            local = const offset_of!(LockBytes, local),
            remote = const offset_of!(LockBytes, remote),
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
