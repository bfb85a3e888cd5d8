//! The lock of zones and pagesets in a process: a waiter spins, then yields, then sleeps.
//!
//! With more threads than CPUs, a holder may be off its CPU for milliseconds, and a spinning waiter may keep it off. So
//! a waiter spins for a while, yields its CPU for a while, and then sleeps. Each sleep is twice as long as the last.
//!
//! Unlock wakes nobody. A wake-up would add an atomic exchange to each unlock, which is half the cost of an allocation,
//! and locks are held briefly.

use std::hint;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pageset::RawLock;
use rustix::thread::{CpuSet, nanosleep, sched_getaffinity, sched_setaffinity, sched_yield};
use rustix::time::Timespec;

use crate::sys::rseq::{LockBytes, Rseq};
use crate::topology::online_cpus;

/// How long a waiter spins before it first yields.
///
/// Most holds take 1 to 20 µs: a refill or drain of some hundred pages. A guess within a factor of two. See "The locks"
/// in the README of this crate.
const SPIN_TIME: Duration = Duration::from_micros(20);
/// How long a waiter spins and yields before it first sleeps.
///
/// The longest drain under the default rules moves 2,048 scattered pages that merge one by one. It takes 800,000
/// instructions, about 300 µs. A waiter that slept during such a drain would be late by about as much again.
const YIELD_TIME: Duration = Duration::from_micros(500);
/// Spins between two reads of the clock. A spin pauses for 40 to 140 cycles, and a read costs as much as a few spins.
const SPINS_PER_CLOCK_READ: u32 = 16;
/// The first sleep: about the shortest that the system's timers offer.
const MIN_SLEEP: Duration = Duration::from_micros(50);
/// The longest sleep. It bounds the delay of a waiter that cannot yield to the holder because its priority is higher.
const MAX_SLEEP: Duration = Duration::from_millis(1);
/// How long a thread tries to fence a CPU while the system refuses all ways to do so.
///
/// A guess. It is long enough that the scheduler moves a sleeping thread between the CPUs of a small machine many times.
const FENCE_TIME: Duration = Duration::from_secs(1);

/// A lock without a queue.
///
/// One atomic exchange takes a free lock, and a plain store releases it. Threads on the lock's own CPU can take it
/// without the exchange, in a restartable sequence, as long as all other threads use `lock_remote`.
#[derive(Debug, Default)]
pub struct HostLock(LockBytes);

impl HostLock {
    /// Takes the lock if it is free and the caller runs on `cpu`, the CPU of the lock.
    #[inline(always)]
    pub(crate) fn try_lock_local(&self, rseq: Rseq, cpu: u32) -> bool {
        rseq.try_set_local(&self.0, cpu)
    }

    /// Releases a lock that [`Self::try_lock_local`] took.
    #[inline(always)]
    pub(crate) fn unlock_local(&self) {
        // Release: pairs with the load of `local` in lock_remote and with the loads of the sequence in try_set_local.
        self.0.local.store(false, Ordering::Release);
    }

    /// Takes the lock of `cpu` from any CPU, and waits for it.
    ///
    /// # Panics
    /// If the kernel refuses all ways to [`fence`] that CPU for a second. A filter of system calls that came after the
    /// pool can cause this. The lock is then released. Callers ask [`can_fence`] first.
    pub(crate) fn lock_remote(&self, rseq: Rseq, cpu: u32) {
        self.lock_fenced(|| fence(rseq, cpu), cpu);
    }

    /// Takes the lock with both bytes. `fence` interrupts the sequences on the lock's CPU, or returns false.
    fn lock_fenced(&self, fence: impl Fn() -> bool, cpu: u32) {
        self.lock();
        if !fence() && !fence_later(fence) {
            // Release: pairs with the swap in try_lock. The panic must not leave the lock taken: `remote` belongs to
            // this thread even while a local thread holds the lock.
            self.0.remote.store(false, Ordering::Release);
            panic!(
                "cannot interrupt the threads on CPU {cpu}: membarrier and sched_setaffinity are refused, and were \
                 allowed when the pool was built; try PoolBuilder::restartable_sequences(false)"
            );
        }
        // After the fence, no sequence sets `local` until this thread clears `remote`.
        // Acquire: pairs with the release in unlock_local and unlock.
        if self.0.local.load(Ordering::Acquire) {
            wait(|| !self.0.local.load(Ordering::Acquire));
        }
    }
}

/// Interrupts the sequences on `cpu`, so that later ones see the caller's earlier exchange. Returns false if the system
/// refuses all ways.
///
/// A caller on that CPU needs no system call. Else `membarrier` takes about 1 µs. If a filter refuses it, the caller moves
/// to that CPU and back. It waits for its turn on both CPUs: 150 to 280 µs with four busy threads for each CPU. No thread
/// runs on a CPU that is offline.
fn fence(rseq: Rseq, cpu: u32) -> bool {
    rseq.is_fenced_by_running_on(cpu) || rseq.fence_cpu(cpu) || fence_without_membarrier(rseq, cpu)
}

#[cold]
fn fence_without_membarrier(rseq: Rseq, cpu: u32) -> bool {
    on_cpu(cpu, || rseq.is_fenced_by_running_on(cpu)).unwrap_or(false) || is_offline(cpu)
}

/// Waits until `fence` succeeds, for at most [`FENCE_TIME`]: the scheduler may move the caller to the lock's CPU.
#[cold]
fn fence_later(fence: impl Fn() -> bool) -> bool {
    let (start, mut sleep) = (Instant::now(), MIN_SLEEP);
    while start.elapsed() < FENCE_TIME {
        let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: i64::from(sleep.subsec_nanos()) });
        sleep = (2 * sleep).min(MAX_SLEEP);
        if fence() {
            return true;
        }
    }
    false
}

/// Whether `cpu` is known to be offline.
fn is_offline(cpu: u32) -> bool {
    online_cpus().is_some_and(|online| !online.contains(&cpu))
}

/// Whether the caller can now take the locks of all `cpus` with [`HostLock::lock_remote`].
pub(crate) fn can_fence(rseq: Rseq, cpus: u32) -> bool {
    rseq.fence_cpu(0) || (0..cpus).all(|cpu| fence_without_membarrier(rseq, cpu))
}

/// Moves the caller to `cpu`, runs `body`, and moves the caller back. Returns `None` if the system does not let the caller
/// run there.
///
/// If another thread changes the affinity of the caller meanwhile, that change is lost.
pub(crate) fn on_cpu<T>(cpu: u32, body: impl FnOnce() -> T) -> Option<T> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut one_cpu = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return None;
    }
    one_cpu.set(cpu as usize);
    sched_setaffinity(None, &one_cpu).ok()?;
    let result = body();
    // This fails only if the system has taken all former CPUs from the caller.
    let _ = sched_setaffinity(None, &allowed);
    Some(result)
}

#[cold]
fn wait(is_over: impl Fn() -> bool) {
    // Most waits end before the clock is worth a read.
    let (mut start, mut sleep) = (None, MIN_SLEEP);
    loop {
        for _ in 0..SPINS_PER_CLOCK_READ {
            hint::spin_loop();
            if is_over() {
                return;
            }
        }
        let waited = start.get_or_insert_with(Instant::now).elapsed();
        if waited >= YIELD_TIME {
            // The system call, not the C library's function: that is a cancellation point, and a thread must not be
            // cancelled during a call. An interrupted sleep is harmless.
            let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: i64::from(sleep.subsec_nanos()) });
            sleep = (2 * sleep).min(MAX_SLEEP);
        } else if waited >= SPIN_TIME {
            sched_yield();
        }
    }
}

impl RawLock for HostLock {
    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            // Relaxed: this load only waits; the swap in try_lock acquires.
            wait(|| !self.0.remote.load(Ordering::Relaxed) && self.try_lock());
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in unlock and lock_remote.
        !self.0.remote.swap(true, Ordering::Acquire)
    }

    #[inline]
    fn unlock(&self) {
        // A remote holder has the lock only while `local` is false, so `local` tells which byte the caller holds.
        // Relaxed: the holder itself set `local`, or saw it false in lock_remote.
        let byte = if self.0.local.load(Ordering::Relaxed) { &self.0.local } else { &self.0.remote };
        // Release: pairs with the acquires in try_lock and lock_remote, and with the loads of sequences. Each load
        // acquires on the only architecture that runs sequences.
        byte.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn one_holder_at_a_time() {
        let (lock, count) = (HostLock::default(), AtomicU64::new(0));
        let (threads, rounds) = (8, 20_000);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        lock.lock();
                        // A load and a store instead of one atomic addition: a second holder would lose counts.
                        count.store(count.load(Relaxed) + 1, Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), threads * rounds);
    }

    #[test]
    fn a_waiter_sleeps_and_gets_the_lock() {
        let lock = HostLock::default();
        lock.lock();
        assert!(!lock.try_lock());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let start = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                lock.lock();
                lock.unlock();
                let end = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                Duration::new((end.tv_sec - start.tv_sec) as u64, 0) + Duration::from_nanos(end.tv_nsec as u64)
                    - Duration::from_nanos(start.tv_nsec as u64)
            });
            let start = Instant::now();
            thread::sleep(Duration::from_millis(100));
            lock.unlock();
            let held = start.elapsed();
            let used = waiter.join().expect("no panic");
            assert!(used < held / 4, "a waiter used {used:?} of CPU time in {held:?} of waiting");
        });
    }

    /// How a thread of the test uses a lock.
    #[derive(Clone, Copy)]
    enum Use {
        /// Takes and releases it in a loop.
        Spins,
        /// Interrupts the sequence of another thread, and sleeps while it holds the lock.
        Sleeps,
        /// Moves to another CPU and back between attempts.
        Moves,
        /// Takes it from another CPU with `membarrier`.
        Remote,
        /// Takes it from another CPU without `membarrier`.
        Visits,
        /// Takes it on its own CPU as [`Use::Remote`] does.
        SameCpu,
    }

    /// Runs all uses in parallel for a second: the lock never has two holders, and each thread holds it at times.
    fn check_exclusion(uses: &[Use]) {
        let Some(rseq) = Rseq::find() else {
            println!("SKIPPED: no restartable sequences on this machine");
            return;
        };
        let allowed = sched_getaffinity(None).expect("own affinity");
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let (own, other) = (cpus[0], cpus[cpus.len() - 1]);
        let (lock, inside, end) = &(HostLock::default(), AtomicU64::new(0), Instant::now() + Duration::from_secs(1));
        let enter = |work: &dyn Fn()| {
            if inside.fetch_add(1, Relaxed) > 0 {
                // A panic would leave the other threads waiting for a broken lock.
                eprintln!("two threads hold the lock");
                std::process::exit(101);
            }
            work();
            inside.fetch_sub(1, Relaxed);
            lock.unlock();
            1
        };
        let nap = || thread::sleep(Duration::from_micros(1));
        // Long enough that a local thread whose sequence was not interrupted enters meanwhile.
        let stay = || (0..50).for_each(|_| hint::spin_loop());
        let try_local = |work: &dyn Fn()| if lock.try_lock_local(rseq, own as u32) { enter(work) } else { 0 };
        let once = |how| -> u64 {
            match how {
                Use::Spins => (0..1000).map(|_| try_local(&|| ())).sum(),
                Use::Sleeps => {
                    nap();
                    try_local(&nap)
                }
                Use::Moves => [other, own]
                    .into_iter()
                    .map(|cpu| (pin(cpu), (0..100).map(|_| try_local(&|| ())).sum::<u64>()).1)
                    .sum(),
                Use::Remote => {
                    nap();
                    lock.lock_remote(rseq, own as u32);
                    enter(&stay)
                }
                Use::SameCpu => {
                    nap();
                    lock.lock_fenced(|| rseq.is_fenced_by_running_on(own as u32), own as u32);
                    enter(&nap)
                }
                Use::Visits => {
                    nap();
                    lock.lock_fenced(|| fence_without_membarrier(rseq, own as u32), own as u32);
                    enter(&stay)
                }
            }
        };
        let times: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = uses
                .iter()
                .map(|&how| {
                    let once = &once;
                    scope.spawn(move || {
                        pin(if matches!(how, Use::Remote | Use::Visits) { other } else { own });
                        let mut times = 0;
                        while Instant::now() < *end {
                            times += once(how);
                        }
                        times
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        println!("acquisitions of each thread: {times:?}");
        assert!(times.iter().all(|&times| times > 20), "a thread starved: {times:?}");
    }

    fn pin(cpu: usize) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).expect("an allowed CPU");
    }

    #[test]
    fn an_interrupted_sequence_does_not_take_the_lock() {
        check_exclusion(&[Use::Spins, Use::Sleeps]);
    }

    #[test]
    fn a_thread_on_another_cpu_does_not_take_the_lock() {
        check_exclusion(&[Use::Spins, Use::Moves]);
    }

    #[test]
    fn a_remote_holder_excludes_local_threads() {
        check_exclusion(&[Use::Spins, Use::Remote]);
    }

    #[test]
    fn a_remote_holder_excludes_local_threads_without_membarrier() {
        check_exclusion(&[Use::Spins, Use::Visits]);
    }

    /// A thread on the lock's CPU excludes the sequences of other threads there, without a system call.
    #[test]
    fn a_holder_on_the_same_cpu_excludes_local_threads() {
        check_exclusion(&[Use::Spins, Use::SameCpu]);
    }

    #[test]
    fn a_refused_fence_releases_the_lock() {
        let lock = HostLock::default();
        let locked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.lock_fenced(|| false, 7)));
        let text = *locked.expect_err("no fence").downcast::<String>().expect("a text");
        assert!(text.starts_with("cannot interrupt the threads on CPU 7: "), "{text}");
        assert!(lock.try_lock(), "the lock is still taken");
    }

    #[test]
    fn a_fence_that_succeeds_later_takes_the_lock() {
        let (lock, tries) = (HostLock::default(), std::cell::Cell::new(0));
        lock.lock_fenced(|| tries.replace(tries.get() + 1) == 20, 0);
        assert!(!lock.try_lock());
        lock.unlock();
        assert!(lock.try_lock());
    }
}
