//! The lock of zones and pagesets in a process: spins, then yields, then sleeps.
//!
//! With more threads than CPUs the holder may be off its CPU for milliseconds, and a waiter that spins keeps it there.
//! So a waiter looks a while, gives its CPU to others for a while, then sleeps for short times that double. There is
//! no wake-up: that would cost each unlock an atomic exchange, which is half of an allocation, and holds are short.

use std::hint;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pageset::RawLock;
use rustix::thread::{nanosleep, sched_yield};
use rustix::time::Timespec;

use crate::sys::rseq::{LockBytes, Rseq};

/// How long a waiter looks before its first yield. Most holds take 1 to 20 µs: a refill or drain of some hundred pages.
/// A guess within a factor of two; see "The locks" in the crate's README.
const LOOKING: Duration = Duration::from_micros(20);
/// And how long before it first sleeps. The longest drain under the default rules is one of 2,048 scattered pages that
/// merge one by one: 800,000 instructions, some 300 µs. A waiter that slept meanwhile would come late by as much again.
const YIELDING: Duration = Duration::from_micros(500);
/// Looks, each with a pause of 40 to 140 cycles, between two of the clock, which is as dear as some of them.
const LOOKS: u32 = 16;
/// The first and the longest sleep. The shortest that a timer of the system gives is about 50 µs; the longest bounds
/// how late a waiter comes that may not yield to the holder because its priority is higher.
const SLEEPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// No queue; a free lock is taken with one atomic exchange, and given back with a plain store. A CPU's own threads may
/// take it without the exchange, if those from afar say so before.
#[derive(Debug, Default)]
pub struct HostLock(LockBytes);

impl HostLock {
    /// Takes the lock if it is free and the caller runs on `cpu`, whose lock it is.
    #[inline(always)]
    pub(crate) fn try_lock_local(&self, sequences: Rseq, cpu: u32) -> bool {
        sequences.try_set_local(&self.0, cpu)
    }

    /// Gives back what [`Self::try_lock_local`] took.
    #[inline(always)]
    pub(crate) fn unlock_local(&self) {
        // Release: as in unlock.
        self.0.local.store(false, Ordering::Release);
    }

    /// Takes the lock of `cpu`, waiting for it, from there or elsewhere.
    ///
    /// # Panics
    /// The kernel allowed this when the pool was built and refuses it now: a filter of system calls that came later.
    pub(crate) fn lock_remote(&self, sequences: Rseq, cpu: u32) {
        self.lock();
        if !sequences.fence_cpu(cpu) {
            // Given back before the panic, for whoever tries next: the byte is ours, whether somebody is here or not.
            self.0.remote.store(false, Ordering::Release);
            panic!("membarrier is refused, which it was not when the pool was built");
        }
        // Acquire: pairs with the release in unlock. From the interruption on nobody sets it.
        if self.0.local.load(Ordering::Acquire) {
            wait(|| !self.0.local.load(Ordering::Acquire));
        }
    }
}

#[cold]
fn wait(is_over: impl Fn() -> bool) {
    // Most waits are over before the clock is worth a look.
    let (mut start, mut sleep) = (None, SLEEPS.0);
    loop {
        for _ in 0..LOOKS {
            hint::spin_loop();
            if is_over() {
                return;
            }
        }
        let waited = start.get_or_insert_with(Instant::now).elapsed();
        if waited >= YIELDING {
            // The system call itself: the C library's would be a point where a thread may be cancelled, in the
            // middle of a call. That it was cut short does not matter.
            let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: i64::from(sleep.subsec_nanos()) });
            sleep = (2 * sleep).min(SLEEPS.1);
        } else if waited >= LOOKING {
            sched_yield();
        }
    }
}

impl RawLock for HostLock {
    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            // Relaxed: only waits; try_lock acquires.
            wait(|| !self.0.remote.load(Ordering::Relaxed) && self.try_lock());
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in unlock.
        !self.0.remote.swap(true, Ordering::Acquire)
    }

    #[inline]
    fn unlock(&self) {
        // Who came from afar has it only while nobody is here. Release: pairs with the acquires above, and with the loads of
        // sequences, each of which acquires on the only architecture that has them.
        let byte = if self.0.local.load(Ordering::Relaxed) { &self.0.local } else { &self.0.remote };
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
                        // Not one atomic addition: a second holder would lose counts.
                        count.store(count.load(Relaxed) + 1, Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), threads * rounds);
    }

    #[test]
    fn a_waiter_sleeps_and_comes_in_the_end() {
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
            let burnt = waiter.join().expect("no panic");
            assert!(burnt < held / 4, "a waiter burnt {burnt:?} of the {held:?} that it waited");
        });
    }

    /// One way to use a lock of sequences for a while, on a thread of its own.
    #[derive(Clone, Copy)]
    enum Use {
        /// Takes it and gives it back, again and again.
        Spins,
        /// Wakes up in the midst of another's sequence, and lets that go on while it has the lock.
        Sleeps,
        /// Moves to another CPU and back between a look and the next.
        Moves,
        /// Comes from another CPU.
        FromAfar,
    }

    /// Each use at once for a second: nobody ever has the lock while another has, and each has it at times.
    fn one_at_a_time(uses: &[Use]) {
        let Some(sequences) = Rseq::find() else {
            println!("SKIPPED: no sequences here");
            return;
        };
        let allowed = sched_getaffinity(None).expect("own affinity");
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let (home, away) = (cpus[0], cpus[cpus.len() - 1]);
        let (lock, inside, end) = &(HostLock::default(), AtomicU64::new(0), Instant::now() + Duration::from_secs(1));
        let enter = |work: &dyn Fn()| {
            if inside.fetch_add(1, Relaxed) > 0 {
                // Not a panic of this thread: others would wait for a lock that is broken.
                eprintln!("two have the lock at once");
                std::process::exit(101);
            }
            work();
            inside.fetch_sub(1, Relaxed);
            lock.unlock();
            1
        };
        let nap = || thread::sleep(Duration::from_micros(1));
        let here = |work: &dyn Fn()| if lock.try_lock_local(sequences, home as u32) { enter(work) } else { 0 };
        let once = |how| -> u64 {
            match how {
                Use::Spins => (0..1000).map(|_| here(&|| ())).sum(),
                Use::Sleeps => {
                    nap();
                    here(&nap)
                }
                Use::Moves => {
                    [away, home].into_iter().map(|cpu| (pin(cpu), (0..100).map(|_| here(&|| ())).sum::<u64>()).1).sum()
                }
                Use::FromAfar => {
                    nap();
                    lock.lock_remote(sequences, home as u32);
                    enter(&|| ())
                }
            }
        };
        let times: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = uses
                .iter()
                .map(|&how| {
                    let once = &once;
                    scope.spawn(move || {
                        pin(if matches!(how, Use::FromAfar) { away } else { home });
                        let mut times = 0;
                        while Instant::now() < *end {
                            times += once(how);
                        }
                        times
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("one at a time")).collect()
        });
        println!("times that each had the lock: {times:?}");
        assert!(times.iter().all(|&times| times > 20), "each had it: {times:?}");
    }

    fn pin(cpu: usize) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).expect("an allowed CPU");
    }

    #[test]
    fn an_interrupted_sequence_takes_nothing() {
        one_at_a_time(&[Use::Spins, Use::Sleeps]);
    }

    #[test]
    fn a_thread_elsewhere_takes_nothing() {
        one_at_a_time(&[Use::Spins, Use::Moves]);
    }

    #[test]
    fn a_remote_holder_keeps_others_out() {
        one_at_a_time(&[Use::Spins, Use::FromAfar]);
    }
}
