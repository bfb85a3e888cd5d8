//! Periodic work, by a caller or by a thread: caches shrink, and free memory goes back to the system.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pageset::{CpuId, Machine as _};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::pool::PagePool;
use crate::sys::is_current;
use crate::topology::{online_cpus, possible_cpus};

impl PagePool {
    /// Shrinks the cache of the caller's CPU if it was little used, and gives memory back as [`crate::GiveBack`] says.
    ///
    /// Without a [`Ticker`], call it about once a second from each thread that uses the pool. It does nothing in a
    /// forked child. Specification: `linux-page-allocator.md` 8.2.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// // About once a second, on each thread that uses the pool.
    /// pool.tick()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The system's error if it does not take memory back. The cache has shrunk.
    pub fn tick(&self) -> io::Result<()> {
        if self.is_forked() {
            return Ok(());
        }
        let cpu = self.allocator().machine().cpu();
        if !self.allocator().is_cpu_online(cpu) && self.can_lock_all_caches() {
            // The CPU came online after the last look. Another thread may have reported it first.
            let _ = self.allocator().cpu_online(cpu);
        }
        self.allocator().tick();
        // For callers that a free did not wake: `wait.rs` says which frees.
        self.wake_waiters();
        self.give_back_if_due().map(drop)
    }

    /// Keeps caches for the CPUs in `online` only. The caches of other CPUs return their pages, and the remaining caches
    /// may hold more pages each. Numbers in `online` are below [`possible_cpus`]. Does nothing where this thread cannot
    /// lock the caches of other CPUs.
    pub(crate) fn set_online_cpus(&self, online: &[u32]) {
        if !self.can_lock_all_caches() {
            return;
        }
        let allocator = self.allocator();
        for cpu in (0..possible_cpus()).map(CpuId) {
            // The allocator refuses if another thread was first, or if no CPU would remain.
            let _ = match (online.contains(&cpu.0), allocator.is_cpu_online(cpu)) {
                (true, false) => allocator.cpu_online(cpu),
                (false, true) => allocator.cpu_offline(cpu),
                _ => Ok(()),
            };
        }
    }

    /// Starts a thread that ticks on each CPU that this thread may use, once each `interval`, at least 1 ms. After each round, it calls
    /// `report`, for example to export [`crate::PoolStats::metrics`]; `|_| ()` reports nothing. A `report` that panics ends the thread.
    ///
    /// A tick affects the CPU that it runs on, so the thread moves to each CPU in turn. It ends when the pool or the
    /// returned value is dropped.
    ///
    /// ```
    /// # use pageset_host::*;
    /// # use std::{ptr::NonNull, sync::Arc, time::Duration};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = PagePool::builder(64 << 20).build()?;
    /// let pool = Arc::new(pool);
    /// let ticker = pool.start_ticker(Duration::from_secs(1), |pool| println!("{:?}", pool.stats()))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The system's error if it starts no thread.
    pub fn start_ticker(
        self: &Arc<Self>,
        interval: Duration,
        mut report: impl FnMut(&PagePool) + Send + 'static,
    ) -> io::Result<Ticker> {
        let interval = interval.max(Duration::from_millis(1));
        let stop = Arc::new(StopSignal::default());
        let (pool, stop_of_thread) = (Arc::downgrade(self), Arc::clone(&stop));
        let thread = thread::Builder::new().name("pageset-tick".into()).spawn(move || {
            while !stop_of_thread.wait(interval) && tick_all_cpus(&pool) {
                pool.upgrade().iter().for_each(|pool| report(pool));
            }
        })?;
        Ok(Ticker { stop, thread: Some(thread), owner: std::process::id() })
    }
}

/// Ticks once on each CPU. Returns false if the pool was dropped.
fn tick_all_cpus(pool: &Weak<PagePool>) -> bool {
    if let (Some(pool), Some(online)) = (pool.upgrade(), online_cpus()) {
        pool.set_online_cpus(&online);
    }
    // A failed tick is ignored here and below: the next round tries again.
    let Ok(allowed) = sched_getaffinity(None) else {
        // The machine has more CPUs than a CpuSet can hold.
        return pool.upgrade().map(|pool| pool.tick()).is_some();
    };
    for cpu in (0..possible_cpus() as usize).filter(|&cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu)) {
        let Some(pool) = pool.upgrade() else { return false };
        let mut one_cpu = CpuSet::new();
        one_cpu.set(cpu);
        // This fails if the CPU went offline meanwhile. Its cache returns its pages when the pool runs out of memory.
        if sched_setaffinity(None, &one_cpu).is_ok() {
            let _ = pool.tick();
        }
    }
    let _ = sched_setaffinity(None, &allowed);
    true
}

/// A signal that is sent once or never.
#[derive(Debug, Default)]
struct StopSignal {
    sent: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    fn send(&self) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for the signal for at most `time`. Returns whether it was sent.
    fn wait(&self, time: Duration) -> bool {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(sent, time, |sent| !*sent);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A thread that ticks. Dropping the value ends the thread and waits for it, unless the thread's own report drops it.
#[derive(Debug)]
pub struct Ticker {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
    /// The process that started the thread.
    owner: u32,
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // A forked child does not have the thread, and the thread may have held the signal's lock during the fork.
        if std::process::id() != self.owner {
            return;
        }
        self.stop.send();
        // A report that drops the ticker runs in this thread, which ends after the report.
        if let Some(thread) = self.thread.take().filter(|thread| !is_current(thread)) {
            // An error means that the thread panicked, and the panic has printed its message.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageset::Order;

    #[test]
    fn a_cpu_that_goes_offline_returns_its_pages() {
        let pool = PagePool::builder(64 << 20).build().expect("a pool");
        let cpus: Vec<u32> = (0..possible_cpus()).collect();
        let page = pool.alloc(Order::ZERO).expect("memory");
        let cached = || pool.stats().cached_bytes;
        assert!(cached() > 0, "a refill brought more than one page");
        // The refill happened on an unknown CPU. Its pages return when that CPU goes offline.
        for cpu in cpus.iter().filter(|_| cpus.len() > 1) {
            let others: Vec<u32> = cpus.iter().copied().filter(|other| other != cpu).collect();
            pool.set_online_cpus(&others);
            assert!(!pool.allocator().is_cpu_online(CpuId(*cpu)));
            pool.set_online_cpus(&cpus);
            assert!(pool.allocator().is_cpu_online(CpuId(*cpu)));
        }
        assert!(cpus.len() == 1 || cached() == 0, "caches hold {} bytes", cached());
        // The last CPU stays online.
        pool.set_online_cpus(&[]);
        assert_eq!(cpus.iter().filter(|cpu| pool.allocator().is_cpu_online(CpuId(**cpu))).count(), 1);
        pool.set_online_cpus(&cpus);
        // SAFETY: the page is allocated, and nothing refers to it.
        #[allow(unsafe_code, reason = "a raw free")]
        unsafe {
            pool.free(page.cast(), Order::ZERO).expect("it was taken");
        }
    }
}
