//! Costs of operating system code, equal on all machines. Unit: nanoseconds of a core of 2.5 GHz, which the engine scales
//! with each machine's clock, estimated from the stated work. None is fitted to a result, but those of semaphores were chosen with published threads in sight; all are guesses to within a factor of two. Machine descriptions hold
//! the costs of faults, unmapping and the LRU. [`LRU_JOIN_ATOMICS`] is a count, because each machine has its own time
//! for atomic operations.

use pageset::Pfn;

use crate::time::Time;

const fn ns(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

/// A system call's entry and exit: 250 cycles.
pub(crate) const SYSCALL: Time = ns(100);
/// Creating or finding a region and linking it: two or three cache misses and a tree operation.
pub(super) const MAP: Time = ns(600);
/// Finding a page in the page cache: a walk of three levels and a reference.
pub(super) const LOOKUP: Time = ns(60);
/// Adding a page to the page cache or removing it, under the lock of its file.
pub(super) const CACHE_PAGE: Time = ns(40);
/// Truncating a page from its file: lock, check for mappings, unaccount, unlock.
pub(super) const TRUNCATE_PAGE: Time = ns(80);
/// Locked operations for adding a page to the LRU beyond those for removing one. Other CPUs may look at the page while
/// its flags are set, and each locked operation waits for earlier stores. A removed page has no other users, because
/// its last reference is gone. Isolation costs the same as removal here, although others know of the page. A guess,
/// chosen with rows of the tables in sight.
pub(super) const LRU_JOIN_ATOMICS: u64 = 5;
/// Reclaiming a page: unmap it from all page tables and remove it from its file.
pub(super) const RECLAIM_PAGE: Time = ns(300);
/// Copying a page to or from a user buffer, without the cost of its cache lines: 13 GB a second, the rate of one core in
/// its caches.
pub(super) const COPY_PAGE: Time = ns(300 * (Pfn::PAGE_BYTES / 4096));
/// Migrating a page: unmap, copy its structures, map again. The copy of its data costs extra.
pub(super) const MIGRATE_PAGE: Time = ns(1000);
/// Queuing or dequeuing a message of a socket without protocol work: headers, accounting, memory control.
pub(super) const MESSAGE: Time = ns(700);
/// Latency from the wake-up of a sleeping task to its first instruction: an interrupt and a switch.
pub(super) const WAKE: Time = ns(2000);
/// Cost to the waker of a task: the lock of the task's run queue, whose line another CPU has, and the interrupt.
pub(super) const WAKE_OTHER: Time = ns(1000);
/// Cost to a task that sleeps and wakes: two switches, to the idle task and back.
pub(super) const SLEEP: Time = ns(1500);
/// TLB shootdown on the other CPUs of an address space: the interrupts and the wait for the last answer.
pub(super) const FLUSH: Time = ns(1500);
/// Additional cost of a shootdown per target CPU.
pub(super) const FLUSH_CPU: Time = ns(50);
/// Creating a process: copy its tables and structures, map an image.
pub(crate) const EXEC: Time = ns(150_000);
/// Ending a process: signals, files, accounting.
pub(crate) const EXIT: Time = ns(40_000);
