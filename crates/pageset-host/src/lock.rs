//! The lock of zones and pagesets in a process: spins, then yields, then sleeps.
//!
//! With more threads than CPUs the holder may be off its CPU for milliseconds, and a waiter that spins keeps it there.
//! So a waiter looks a while, gives its CPU to others a few times, then sleeps for short times that double. There is
//! no wake-up: that would cost each unlock an atomic exchange, which is a third of an allocation, and holds are short.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pageset::RawLock;
use rustix::thread::{nanosleep, sched_yield};
use rustix::time::Timespec;

/// Looks before the first yield, each with a pause. Holds take 1 to 20 µs (a refill or drain of some hundred pages),
/// about this many pauses of 40 to 140 cycles. A guess within a factor of two; see "The lock" in the crate's README.
const SPINS: u32 = 200;
/// Yields before the first sleep: enough for each of some threads that wait on this CPU to have had it.
const YIELDS: u32 = 16;
/// The first and the longest sleep. The shortest that a timer of the system gives is about 50 µs; the longest bounds
/// how late a waiter comes that may not yield to the holder because its priority is higher.
const SLEEPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// One byte, no queue; a free lock is taken with one atomic exchange, and given back with a plain store.
#[derive(Debug, Default)]
pub struct HostLock(AtomicBool);

impl HostLock {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: only waits; try_lock acquires.
        self.0.load(Ordering::Relaxed)
    }

    #[cold]
    fn wait(&self) {
        let mut sleep = SLEEPS.0;
        for round in 0_u32.. {
            match round {
                0..SPINS => hint::spin_loop(),
                _ if round < SPINS + YIELDS => sched_yield(),
                _ => {
                    // The system call itself: the C library's would be a point where a thread may be cancelled, in the
                    // middle of a call. That it was cut short does not matter.
                    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: i64::from(sleep.subsec_nanos()) });
                    sleep = (2 * sleep).min(SLEEPS.1);
                }
            }
            if !self.is_held() && self.try_lock() {
                return;
            }
        }
    }
}

impl RawLock for HostLock {
    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release in unlock.
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with the acquire in try_lock.
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;
    use std::time::Instant;

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
}
