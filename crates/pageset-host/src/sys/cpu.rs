//! The number of the CPU that a thread runs on.
//!
//! glibc 2.35 and later registers a `struct rseq` for each thread. `__rseq_offset` is its distance from the thread
//! pointer. The kernel stores the CPU number there whenever it moves the thread. A load from there is 1 to 2 ns cheaper
//! than `sched_getcpu`. With another C library, under valgrind, and with `glibc.pthread.rseq=0`, this module calls
//! `sched_getcpu`.

use std::num::NonZeroIsize;
use std::sync::OnceLock;

use rustix::thread::sched_getcpu;

/// A source of the current CPU number: the thread's `struct rseq` if the C library registers one, else `sched_getcpu`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuNumber {
    /// The distance of `rseq.cpu_id` from the thread pointer in bytes, or `None` without rseq. It is not 0: offset 0
    /// stores the thread pointer itself.
    offset: Option<NonZeroIsize>,
}

/// The offset of `cpu_id` in `struct rseq` in bytes. Source: `linux/rseq.h`, a stable interface of the kernel.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
const CPU_ID: isize = 4;

impl CpuNumber {
    /// Finds the source. It is the same for all threads of the process.
    #[must_use]
    pub fn find() -> CpuNumber {
        static FOUND: OnceLock<CpuNumber> = OnceLock::new();
        *FOUND.get_or_init(|| CpuNumber { offset: rseq_offset() })
    }

    /// The CPU that the caller runs on, below [`crate::topology::possible_cpus`]. The kernel may move the caller at any
    /// time, so the number may already be out of date.
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> u32 {
        match self.offset {
            // The number is negative if the kernel refused to register this thread.
            Some(offset) => u32::try_from(read(offset.get())).unwrap_or_else(|_| from_system_call()),
            None => from_system_call(),
        }
    }

    /// A cheaper [`Self::get`]. If the kernel refused to register this thread, the result is no CPU number.
    #[inline(always)]
    #[must_use]
    pub fn hint(self) -> u32 {
        self.offset.map_or_else(from_system_call, |offset| read(offset.get()) as u32)
    }

    /// The distance of `rseq.cpu_id` from the thread pointer in bytes, or `None` without rseq.
    pub(crate) fn offset(self) -> Option<NonZeroIsize> {
        self.offset
    }
}

/// Reads `rseq.cpu_id` of the calling thread. It is negative if the kernel refused to register the thread.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[inline(always)]
pub(super) fn read(offset: isize) -> i32 {
    let cpu: i32;
    // SAFETY: (1) `offset` came from glibc, which keeps the area of each thread registered from before its first code until
    // after its last; (2) the instruction only reads the word; (3) `fs` is the thread pointer
    // on this target.
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

/// Other targets have no offset, so nothing calls this.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub(super) fn read(_offset: isize) -> i32 {
    -1
}

#[cold]
fn from_system_call() -> u32 {
    sched_getcpu() as u32
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn rseq_offset() -> Option<NonZeroIsize> {
    // A lookup by name lets a program also start with a C library that lacks the symbols.
    let find = |name: &std::ffi::CStr| {
        // SAFETY: (1) the name ends in a zero byte; (2) RTLD_DEFAULT is always a valid handle.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let (offset, size) = (find(c"__rseq_offset")?, find(c"__rseq_size")?);
    // SAFETY: (1) glibc declares the symbols as `const ptrdiff_t` and `const unsigned int`, and their names are reserved
    // to it; (2) glibc sets them before `main` and never changes them.
    let (offset, size) = unsafe { (*offset.cast::<isize>(), *size.cast::<u32>()) };
    // Size 0 means that the kernel has no rseq, or that it is switched off.
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
    fn the_number_changes_with_the_cpu() {
        let number = CpuNumber::find();
        println!(
            "{}",
            if number.offset().is_some() {
                "from rseq"
            } else {
                "SKIPPED rseq: the C library registers no struct rseq"
            }
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
    fn new_threads_have_a_number() {
        let number = CpuNumber::find();
        let cpus = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| number.get())).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert!(cpus.iter().all(|&cpu| cpu < crate::topology::possible_cpus()), "{cpus:?}");
    }
}
