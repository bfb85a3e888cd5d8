//! The number of the CPU that a thread runs on, from where the kernel keeps it for each thread.
//!
//! glibc 2.35 and later registers a `struct rseq` for each thread and says in `__rseq_offset` where it lies from the
//! thread pointer; the kernel writes the CPU number there whenever it moves the thread. One load is 1 to 2 ns cheaper
//! than `sched_getcpu`. Elsewhere, under valgrind, and with `glibc.pthread.rseq=0`, `sched_getcpu` answers.

use std::num::NonZeroIsize;
use std::sync::OnceLock;

use rustix::thread::sched_getcpu;

/// How a thread learns which CPU it runs on: from its own area where the C library keeps one, else by `sched_getcpu`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuNumber {
    /// Where the number lies from the thread pointer, in bytes; nothing where the kernel does not keep it. Not 0, where the
    /// thread pointer points to itself.
    offset: Option<NonZeroIsize>,
}

/// Where `cpu_id` is in `struct rseq`, in bytes. Source: `linux/rseq.h`, which is fixed for all time.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
const CPU_ID: isize = 4;

impl CpuNumber {
    /// Finds out once for the process.
    #[must_use]
    pub fn find() -> CpuNumber {
        static FOUND: OnceLock<CpuNumber> = OnceLock::new();
        *FOUND.get_or_init(|| CpuNumber { offset: rseq_offset() })
    }

    /// The CPU that the caller runs on: below [`crate::topology::possible_cpus`], and perhaps out of date as soon as it
    /// is known.
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> u32 {
        match self.offset {
            // Negative where the kernel refused this thread's registration.
            Some(offset) => u32::try_from(read(offset.get())).unwrap_or_else(|_| ask()),
            None => ask(),
        }
    }

    /// As [`Self::get`], but a number that is no CPU's where the kernel refused this thread's registration.
    #[inline(always)]
    #[must_use]
    pub fn hint(self) -> u32 {
        self.offset.map_or_else(ask, |offset| read(offset.get()) as u32)
    }

    /// From the thread pointer to where the kernel keeps the number, in bytes; nothing where it does not.
    pub(crate) fn offset(self) -> Option<NonZeroIsize> {
        self.offset
    }
}

/// The number that the kernel keeps for the calling thread.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[inline(always)]
pub(super) fn read(offset: isize) -> i32 {
    let cpu: i32;
    // SAFETY: (1) `offset` came from glibc, which registered the area of each of its threads before any of the thread's
    // code ran, and keeps it until after the last; (2) the word is only read; (3) `fs` is the thread pointer on this
    // target.
    unsafe {
        std::arch::asm!(
            "mov {cpu:e}, dword ptr fs:[{offset}]",
            cpu = out(reg) cpu,
            offset = in(reg) offset,
            options(nostack, preserves_flags, readonly)
        );
    }
    cpu
}

/// There is no offset to read at.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub(super) fn read(_offset: isize) -> i32 {
    -1
}

#[cold]
fn ask() -> u32 {
    sched_getcpu() as u32
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn rseq_offset() -> Option<NonZeroIsize> {
    // Looked up by name, so that a program built here also starts with a C library that has no such symbols.
    let find = |name: &std::ffi::CStr| {
        // SAFETY: (1) the name ends in a zero byte; (2) RTLD_DEFAULT is always allowed.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let (offset, size) = (find(c"__rseq_offset")?, find(c"__rseq_size")?);
    // SAFETY: (1) glibc declares them `const ptrdiff_t` and `const unsigned int`, and the names are reserved to it;
    // (2) they are set before `main` and never change.
    let (offset, size) = unsafe { (*offset.cast::<isize>(), *size.cast::<u32>()) };
    // Size 0: the kernel has no rseq, or it is switched off.
    NonZeroIsize::new(offset + CPU_ID).filter(|_| size > 0)
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
fn rseq_offset() -> Option<NonZeroIsize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn the_number_follows_the_thread() {
        let number = CpuNumber::find();
        println!(
            "{}",
            if number.offset().is_some() { "from rseq" } else { "SKIPPED rseq: the C library keeps no CPU numbers" }
        );
        let allowed = sched_getaffinity(None).expect("own affinity");
        let mut seen = 0;
        for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)) {
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).expect("an allowed CPU");
            assert_eq!((number.get(), number.hint()), (cpu as u32, cpu as u32));
            assert_eq!(CpuNumber { offset: None }.get(), cpu as u32, "sched_getcpu");
            seen += 1;
        }
        assert!(seen > 0);
    }

    #[test]
    fn new_threads_have_one() {
        let number = CpuNumber::find();
        let cpus = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| number.get())).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert!(cpus.iter().all(|&cpu| cpu < crate::topology::possible_cpus()), "{cpus:?}");
    }
}
