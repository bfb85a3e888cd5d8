//! What the operating system's own code costs, on every machine. Nanoseconds of a core of about 2.5 GHz, counted from the
//! work that is stated; none is fitted to a result. All are guesses to within a factor of two. Costs of a fault, of an
//! unmapping and of the LRU are the machine's: see its description. One is a count, for the operations of which each
//! machine has its own time.

use crate::time::Time;

const fn ns(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

/// Into the kernel and back: 250 cycles.
pub(crate) const SYSCALL: Time = ns(100);
/// A region made or found, and linked: two or three cache misses and a tree.
pub(super) const MAP: Time = ns(600);
/// A page found in the page cache: a walk of three levels and a reference.
pub(super) const LOOKUP: Time = ns(60);
/// A page put into the page cache or taken out, under the lock of its file.
pub(super) const CACHE_PAGE: Time = ns(40);
/// A page cut off its file: locked, checked for mappings, unaccounted, unlocked.
pub(super) const TRUNCATE_PAGE: Time = ns(80);
/// Locked operations that a page takes to join the LRU beside what both ways take: others may look at it while its
/// flags are set, and each such operation waits for the stores before it. Whoever drops its last reference was the last to
/// know of it; isolation is charged alike, though others know of the page. A guess, chosen with rows of the tables in
/// sight: `docs/research/accuracy.md` has what others give.
pub(super) const LRU_JOIN_ATOMICS: u64 = 5;
/// A page taken off all page tables that map it, and off its file, by reclaim.
pub(super) const RECLAIM_PAGE: Time = ns(300);
/// Copying 4 KiB to or from a user's buffer, beside fetching them: 13 GB a second, as one core copies in its caches.
pub(super) const COPY_PAGE: Time = ns(300);
/// A page moved by compaction: unmapped, its structures copied, mapped again; its data are charged apart.
pub(super) const MIGRATE_PAGE: Time = ns(1000);
/// A message put into a socket's queue or taken out, beside what its protocol does: headers, accounting, memory control.
pub(super) const MESSAGE: Time = ns(700);
/// From the wake-up of a task that sleeps to its first instruction: an interrupt, a switch.
pub(super) const WAKE: Time = ns(2000);
/// What whoever wakes a task pays: its run queue's lock, which lies with another CPU, and the interrupt.
pub(super) const WAKE_OTHER: Time = ns(1000);
/// What a task pays that goes to sleep and is woken: two switches, to the idle task and back.
pub(super) const SLEEP: Time = ns(1500);
/// Telling the other CPUs of an address space to forget mappings: the interrupts and the wait for the last.
pub(super) const FLUSH: Time = ns(1500);
/// The same, for each of these CPUs.
pub(super) const FLUSH_CPU: Time = ns(50);
/// A process made: its tables and structures copied, an image mapped.
pub(crate) const EXEC: Time = ns(150_000);
/// A process gone: signals, files, accounting.
pub(crate) const EXIT: Time = ns(40_000);
